// task-loop — what a thread of a model does when it has nothing else to do: it claims shares of the tasks that there
// are (task-queue.ts), has its backend do them, makes the copies that it alone can make, and sleeps on its bell. It
// knows neither keys nor pulls: who made it hears what has ended.
//
// Invariants:
//   TaskLoop.L1. A thread does the next run of shares whenever it has nothing else to do, but for TURN_MS at a time.
//   TaskLoop.L2. A thread that sleeps is woken by its bell (ModelWords.W3), and looks by itself when it is scheduled.
//   TaskLoop.L3. What a task throws fails its round; it ends no thread.
//   TaskLoop.L4. One turn takes the lock once for a run: what was done is finished, news are heard and the next is
//       claimed under the same lock. It claims nothing while there are news to act on.

import { assert } from "../../base/assert.ts";
import type { Clock } from "../../base/clock.ts";
import type { PullNews } from "./key-pulls.ts";
import type { KeyRounds } from "./key-rounds.ts";
import type { ListRounds } from "./list-rounds.ts";
import type { BatchRunner, ModelTask, ShareRunner } from "./model-backend.ts";
import type { ModelMeter } from "./model-meter.ts";
import type { ModelWords } from "./model-words.ts";
import { comesBefore } from "./task-heap.ts";
import type { Claim } from "./task-queue.ts";

/** How long a thread does shares before it lets its event loop turn. */
const TURN_MS = 4;

const NEWS = Symbol("news");
const LATE = Symbol("late");

export type Copy = Extract<PullNews, { readonly kind: "copy" }> & { readonly device: number };

type TaskLoopParts = {
  readonly words: ModelWords;
  readonly rounds: KeyRounds;
  readonly runner: ShareRunner | BatchRunner;
  readonly meter: ModelMeter;
  readonly clock: Clock;
  readonly timeline: () => number;
  /** With the lock. */
  readonly taskOf: (claim: Claim) => ModelTask;
  /** With the lock: takes note of what has ended. Returns whether there is anything to act on. */
  readonly hear: () => boolean;
  /** Acts on what was heard. */
  readonly act: () => void;
  readonly copy: (copy: Copy) => void;
  /** Rounds of whole lists, which batches have beside tasks. */
  readonly lists: Pick<ListRounds<object>, "begin" | "end"> | undefined;
  /** ModelWords.listen. */
  readonly listen: (heard: number, rung: () => void) => boolean;
  /** The model is closed, or broken. */
  readonly over: () => void;
};

/** How a thread that waits without its event loop does so. */
export type HelpOptions = {
  /** Whether it has something else to do. */
  readonly isCalled: () => boolean;
  /** How long it looks for something to do before it sleeps: to be woken takes about as long. */
  readonly lookMs: number;
  /** Whether it then sleeps until it is called; if not, `help` returns. */
  readonly sleeps: boolean;
};

type Share = { readonly claim: Claim; readonly task: ModelTask; fromMs: number; toMs: number; thrown: unknown; hasFailed: boolean };

export class TaskLoop {
  readonly #parts: TaskLoopParts;
  /** Results that only this thread can copy to where they are wanted. */
  readonly #copies: Copy[] = [];
  #isListening = false;
  #isScheduled = false;
  #isPumping = false;
  /** Whether other threads may ring. */
  #hasThreads: boolean;

  constructor(parts: TaskLoopParts, hasThreads: boolean) {
    this.#parts = parts;
    this.#hasThreads = hasThreads;
    if (hasThreads) this.schedule();
  }

  /** Other threads may ring from now on. */
  expectThreads(): void {
    this.#hasThreads = true;
    this.schedule();
  }

  /** Looks for tasks when the input of this turn of the event loop has been handled. */
  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.clock.afterInput(() => {
      this.#isScheduled = false;
      this.pump();
    });
  }

  addCopy(copy: Copy): void {
    const before = this.#copies.findIndex((other) => comesBefore(copy.priority, copy.sequence, other.priority, other.sequence));
    this.#copies.splice(before < 0 ? this.#copies.length : before, 0, copy);
  }

  /** Does what there is to do, for a while (TaskLoop.L1). */
  pump(): void {
    const { runner, clock } = this.#parts;
    this.#guarded(() => {
      if (runner.kind === "batch") {
        this.#runBatch(runner);
        return;
      }
      const untilMs = clock.nowMs() + TURN_MS;
      const bell = this.#runShares(runner, () => clock.nowMs() >= untilMs);
      if (bell === undefined) this.schedule();
      else this.#sleep(bell);
    });
  }

  /**
   * Blocks the thread: does what there is to do until it is called or the model is over or, unless it sleeps, it has
   * found nothing for a while.
   */
  help({ isCalled, lookMs, sleeps }: HelpOptions): void {
    const { words, runner, clock } = this.#parts;
    assert(runner.kind === "shares", "a thread helps a backend that does shares");
    this.#guarded(() => {
      while (words.isOpen) {
        const bell = this.#runShares(runner, isCalled);
        if (bell === undefined) break;
        if (lookUntil(() => isCalled() || words.isRung(bell), lookMs, clock.nowMs)) {
          if (isCalled()) break;
          continue;
        }
        if (!sleeps) break;
        words.waitForBell(bell);
      }
      words.locked(() => words.awake()); // others do not count on it any more (ModelWords.W3)
    });
  }

  #guarded(act: () => void): void {
    if (this.#isPumping) return;
    const { words, over } = this.#parts;
    this.#isPumping = true;
    try {
      if (words.isOpen) act();
      if (!words.isOpen) over();
    } catch (thrown) {
      if (!words.isBroken) throw thrown;
      over();
    } finally {
      this.#isPumping = false;
    }
  }

  /** Returns the bell to sleep on once there is nothing to do; undefined if it is late, or the model is over. */
  #runShares(runner: ShareRunner, isLate: () => boolean): number | undefined {
    const { words, act, copy } = this.#parts;
    for (let done: Share[] = []; ; ) {
      const step = words.locked(() => this.#nextStep(done, isLate));
      done = [];
      if (step === LATE) return undefined;
      if (typeof step === "number") return step;
      if (step === NEWS) act();
      else if ("kind" in step) copy(step);
      else {
        for (const share of step) this.#runShare(runner, share);
        done = step;
      }
    }
  }

  /** With the lock (TaskLoop.L4): a run of shares, a copy that goes before them, or the bell to sleep on. */
  #nextStep(done: readonly Share[], isLate: () => boolean): Share[] | Copy | number | typeof NEWS | typeof LATE {
    const { rounds, words, hear, taskOf } = this.#parts;
    this.#finish(done);
    if (hear()) return NEWS;
    if (!words.isOpen || isLate()) return LATE;
    const [copy] = this.#copies;
    if (copy !== undefined) {
      const next = rounds.tasks.next();
      if (next === undefined || comesBefore(copy.priority, copy.sequence, next.priority, next.sequence)) {
        this.#copies.shift();
        return copy;
      }
    }
    words.awake();
    const claims = rounds.tasks.claim();
    if (claims.length === 0) return words.sleep();
    return claims.map((claim) => shareOf(claim, taskOf(claim)));
  }

  #runShare(runner: ShareRunner, share: Share): void {
    const { timeline } = this.#parts;
    share.fromMs = timeline();
    try {
      runner.runShare(share.task, share.claim.share);
    } catch (thrown) {
      share.thrown = thrown;
      share.hasFailed = true;
    }
    share.toMs = timeline();
  }

  /** With the lock (TaskLoop.L3). */
  #finish(shares: readonly Share[]): void {
    const { meter, words, rounds } = this.#parts;
    for (const { claim, fromMs, toMs, thrown, hasFailed } of shares) {
      meter.note(claim.device < 0 ? "reduce" : "hand out", claim.keyIndex, claim.device, fromMs, toMs);
      claim.failure = hasFailed ? words.keepFailure(thrown) : 0;
    }
    rounds.tasks.finish(shares.map(({ claim }) => claim));
  }

  #sleep(heard: number): void {
    if (!this.#hasThreads || this.#isListening) return;
    this.#isListening = this.#parts.listen(heard, () => {
      this.#isListening = false;
      this.pump();
    });
    if (!this.#isListening) this.schedule();
  }

  /** All that is ready, in one call. */
  #runBatch(runner: BatchRunner): void {
    const { words, rounds, hear, act, copy, taskOf, timeline, lists } = this.#parts;
    if (words.locked(hear)) act();
    const fromMs = timeline();
    const runs = lists?.begin() ?? [];
    const { claims, tasks } = words.locked(() => {
      const all = rounds.tasks.claimAll();
      return { claims: all, tasks: all.map(taskOf) };
    });
    for (const each of this.#copies.splice(0)) copy(each);
    if (claims.length + runs.length === 0) return;
    const end = (thrown: unknown, hasFailed: boolean): void => {
      if (!words.isOpen) return;
      const failure = words.locked(() => {
        const kept = hasFailed ? words.keepFailure(thrown) : 0;
        this.#finishBatch(claims, fromMs, kept);
        return kept;
      });
      for (const run of runs) lists?.end(run, failure, fromMs, timeline());
      this.pump();
    };
    const prepared = runs.map((run) => run.prepared);
    runner.runBatch(tasks, prepared).then(
      () => end(undefined, false),
      (thrown: unknown) => end(thrown, true),
    );
  }

  /** With the lock (TaskLoop.L3). `failure`: what all of them failed with; 0: none did. */
  #finishBatch(claims: readonly Claim[], fromMs: number, failure: number): void {
    const { meter, rounds, timeline } = this.#parts;
    const toMs = timeline();
    for (const claim of claims) {
      meter.note(claim.device < 0 ? "reduce" : "hand out", claim.keyIndex, claim.device, fromMs, toMs);
      claim.failure = failure;
    }
    rounds.tasks.finish(claims);
  }
}

function shareOf(claim: Claim, task: ModelTask): Share {
  return { claim, task, fromMs: 0, toMs: 0, thrown: undefined, hasFailed: false };
}

/** Looks between two looks at the clock. */
const LOOKS = 64;

/** Between two looks. */
const pauseCore: () => void = (Atomics as { readonly pause?: () => void }).pause ?? (() => {});

/**
 * Looks for so long at most at a word that another thread is about to change, without sleeping: to be woken takes 50 to
 * 100 µs. A core that looks leaves its means to the other thread of the same core, where the engine can say so. Returns
 * whether it is there.
 */
export function lookUntil(isThere: () => boolean, lookMs: number, nowMs: () => number): boolean {
  const untilMs = nowMs() + lookMs;
  do
    for (let look = 0; look < LOOKS; look++) {
      if (isThere()) return true;
      pauseCore();
    }
  while (nowMs() < untilMs);
  return false;
}
