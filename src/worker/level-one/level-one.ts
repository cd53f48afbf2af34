// level-one — level 1 of a shared model in one thread: takes what its devices push, helps with the tasks that there are
// (key-rounds.ts decides which), and ends their pulls. Every thread of a model has one, over the same words; that of
// the owner also adds keys, brings results to level 2 and hears of devices that end. Knows no face and no Node.
//
// Invariants:
//   LevelOne.L1. `push` and `pull` move no data but those that only this thread can reach: tasks are done later, in a
//       turn of their own or by a thread that waits.
//   LevelOne.L2. A pull ends once: its data are there, then its callback has ended, then `wait` resolves.
//   LevelOne.L3. What a callback throws, or a task, or level 2, is what `wait` rejects with; it ends no thread.
//   LevelOne.L4. A thread does the next share whenever it has nothing else to do, but for TURN_MS at a time.
//   LevelOne.L5. A thread that sleeps is woken by its bell (ModelWords.W3), and looks by itself when it pushes, pulls
//       or waits.
//   LevelOne.L6. After `close`, and when the model is broken, all pulls that are open reject.

import { assert } from "../../base/assert.ts";
import type { Clock } from "../../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import { type Claim, KeyRounds, keyWordsFor, type PullNews, type RoundRules } from "./key-rounds.ts";
import type { LevelTwo } from "./level-two.ts";
import type {
  BatchRunner,
  HandOutTask,
  KeyPlan,
  ModelBackend,
  ModelTask,
  PushOperation,
  ReduceTask,
  ResultVersion,
} from "./model-backend.ts";
import { type MeterMemory, ModelMeter } from "./model-meter.ts";
import { createModelMemory, type ModelMemory, ModelWords, OWNER } from "./model-words.ts";
import { comesBefore } from "./task-heap.ts";

/** How long a thread does shares before it lets its event loop turn. */
const TURN_MS = 4;

export type LevelOneOptions<Data extends object> = {
  readonly memory: ModelMemory;
  readonly meter: MeterMemory;
  /** OWNER, or that of a device's thread. */
  readonly thread: number;
  readonly rules: RoundRules;
  readonly backend: ModelBackend<Data>;
  readonly clock: Clock;
  /** Milliseconds of a clock that all threads of the model share. */
  readonly timeline: () => number;
  /** The owner's: what completes a round. Undefined: the sum does. */
  readonly levelTwo?: LevelTwo | undefined;
  /** Called when the first pull is open, and when none is any more: sleeping on a bell keeps no thread alive. */
  readonly keepAlive?: ((isNeeded: boolean) => void) | undefined;
};

export type PushRequest<Data extends object> = {
  readonly data: Data;
  readonly plan: KeyPlan;
  /** The position of the device. */
  readonly device: number;
  readonly priority: number;
  readonly after: unknown;
};

export type PullRequest<Data extends object> = Omit<PushRequest<Data>, "after"> & {
  /** After the data are there, before `wait` resolves (L2). */
  readonly callback: (() => unknown) | undefined;
};

/** `ended` is there once somebody waits. */
type Pull<Data extends object> = {
  readonly request: PullRequest<Data>;
  ended: Deferred<void> | undefined;
  isOver: boolean;
  failure: unknown;
};
type ClaimedShare = { readonly claim: Claim; readonly task: ModelTask };
type Copy = Extract<PullNews, { readonly kind: "copy" }> & { readonly device: number };

/** The memory of level 1 for so many devices. */
export function levelOneMemory(deviceCount: number, keyCountMax?: number): ModelMemory {
  return createModelMemory(deviceCount, keyWordsFor(deviceCount), keyCountMax);
}

export class LevelOne<Data extends object = object> {
  readonly words: ModelWords;
  readonly meter: ModelMeter;
  readonly #options: LevelOneOptions<Data>;
  readonly #rounds: KeyRounds;
  readonly #plans: KeyPlan[] = [];
  /** The last of every key and device. */
  readonly #pulls: (Pull<Data> | undefined)[] = [];
  /** Results that only this thread can copy to where they are wanted. */
  readonly #copies: Copy[] = [];
  /** When each device's last wait ended: it computes since then. */
  readonly #computesSince = new Map<number, number>();
  #openPulls = 0;
  /** By device: how many of its pulls are open, and who waits for all of them. */
  readonly #openOf: number[] = [];
  readonly #allOver: (Deferred<void> | undefined)[] = [];
  #isListening = false;
  #isScheduled = false;
  #isPumping = false;
  /** Whether other threads may ring. */
  #hasThreads: boolean;

  constructor(options: LevelOneOptions<Data>) {
    this.#options = options;
    this.words = new ModelWords(options.memory, options.thread);
    this.meter = new ModelMeter(options.meter, options.thread);
    this.#rounds = new KeyRounds(this.words, options.rules, (keyIndex, round) => this.#begin(keyIndex, round));
    this.#hasThreads = options.thread !== OWNER;
    if (this.#hasThreads) this.#schedule();
  }

  // Keys

  /** The position that the next key will have. */
  get keyCount(): number {
    return this.words.locked(() => this.words.keyCount);
  }

  /** The owner adds a key, whose memory and weights are there. It adds one at a time. */
  addKey(
    spec: Omit<KeyPlan, "index">,
    { hasWeights, isExchanged }: { readonly hasWeights: boolean; readonly isExchanged: boolean },
  ): KeyPlan {
    assert(this.#options.thread === OWNER, "the owner of a model adds its keys");
    const facts = { isGather: spec.operation === "gather", hasWeights, isExchanged };
    const index = this.words.locked(() => this.#rounds.open(spec.key, spec.length, facts));
    return this.knowKey({ ...spec, index });
  }

  /** A key that the owner has added. */
  knowKey(plan: KeyPlan): KeyPlan {
    this.#plans[plan.index] = plan;
    return plan;
  }

  /** The version of the result that a key has now. Throws QUEUE_FULL, retryable, while another is being made. */
  resultOf(plan: KeyPlan): ResultVersion {
    const { round, isBusy } = this.words.locked(() => this.#rounds.stateOf(plan.index));
    if (isBusy) throw new WeighbridgeError("QUEUE_FULL", `key ${plan.key}: a round is being reduced; try again`, { retryable: true });
    return versionOf(round);
  }

  // Devices

  /** A thread runs this device from now on. For the owner. */
  setHome(device: number, thread: number): void {
    this.#hasThreads = true;
    this.words.locked(() => this.words.setHome(device, thread));
    this.#schedule();
  }

  isLive(device: number): boolean {
    return this.words.isLive(device);
  }

  /**
   * A device has ended; `thread` is the thread of its own that has ended as well, if there was one. Returns whether the
   * model goes on. For the owner.
   */
  loseDevice(device: number, failure: (goesOn: boolean) => WeighbridgeError, thread?: number): boolean {
    const { goesOn } = this.#options.rules;
    if (!this.words.isOpen) return false;
    if (thread !== undefined && !this.words.threadEnded(thread)) return this.#failAll(this.words.brokenError());
    const isWhole = this.words.locked(() => {
      if (!this.words.isLive(device)) return true;
      const number = this.words.keepFailure(failure(goesOn));
      this.#rounds.lose(device, number);
      const claim = thread === undefined ? undefined : this.#rounds.abandon(thread, number);
      const { hasWeights, isExchanged } = claim === undefined ? NO_FACTS : this.#rounds.keyOf(claim.keyIndex);
      return claim === undefined || claim.device >= 0 || !hasWeights || isExchanged;
    });
    for (const pull of this.#pulls) if (pull?.request.device === device) this.#over(pull, failure(goesOn));
    if (!isWhole) {
      this.words.breakModel(); // weights were half updated
      return this.#failAll(this.words.brokenError());
    }
    this.#schedule();
    return goesOn;
  }

  // Pushes and pulls

  /**
   * All of one device. Throws BAD_ARGUMENT for a second push in a round, QUEUE_FULL, NODE_DEAD, CLOSED; then none of
   * them counts.
   */
  push(requests: readonly PushRequest<Data>[]): void {
    this.#checkOpen();
    const { backend, timeline } = this.#options;
    const fromMs = timeline();
    const rounds = this.words.locked(() => requests.map(({ plan, device }) => this.#rounds.checkPush(plan.index, device)));
    const places = requests.map(({ plan, device, data, after }, i) =>
      backend.takePush({ plan, device, version: versionOf(rounds[i] as number), data, after }),
    );
    this.words.locked(() => {
      for (const [i, { plan, device, priority }] of requests.entries())
        this.#rounds.push(plan.index, device, places[i] as number, priority);
      const [first] = requests;
      if (first === undefined) return;
      this.meter.countPushes(first.device, requests.length);
      this.meter.note("push", requests.length === 1 ? first.plan.index : -1, first.device, fromMs, timeline());
    });
    this.#schedule();
  }

  /** All of one device. Throws BAD_ARGUMENT while another pull of the device and key is open, NODE_DEAD, CLOSED. */
  pull(requests: readonly PullRequest<Data>[]): void {
    this.#checkOpen();
    const { backend } = this.#options;
    for (const { plan, device } of requests) {
      if (this.#pulls[this.#numberOf(plan.index, device)]?.isOver !== false) continue;
      const what = `device ${this.#name(device)} has a pull of key ${plan.key} that has not ended: wait for it first`;
      throw new WeighbridgeError("BAD_ARGUMENT", what);
    }
    this.words.locked(() => {
      for (const request of requests) {
        const { plan, device, data, priority } = request;
        this.#rounds.pull(plan.index, device, backend.placeOf(data), priority);
        this.#pulls[this.#numberOf(plan.index, device)] = { request, ended: undefined, isOver: false, failure: undefined };
        this.#openOf[device] = (this.#openOf[device] ?? 0) + 1;
        if (this.#openPulls++ === 0) this.#options.keepAlive?.(true);
      }
      if (requests[0] !== undefined) this.meter.countPulls(requests[0].device, requests.length);
    });
    this.#schedule();
  }

  /** Resolves when the last pull has ended, at once if there is none; rejects with what it failed with. */
  async wait(plan: KeyPlan, device: number, wait: WaitOptions = {}): Promise<void> {
    const pull = this.#pulls[this.#numberOf(plan.index, device)];
    if (pull?.isOver === false) {
      const ended = (): Promise<void> => {
        pull.ended ??= new Deferred<void>();
        return pull.ended.promise;
      };
      await this.#waitUntil(() => pull.isOver, ended, plan.index, device, `the pull of key ${plan.key}`, wait);
    }
    if (pull?.failure !== undefined) throw pull.failure;
  }

  /** Resolves when all pulls of the device have ended; rejects with what the first of them, by its key, failed with. */
  async waitAll(device: number, wait: WaitOptions = {}): Promise<void> {
    const isOver = (): boolean => (this.#openOf[device] ?? 0) === 0;
    const ended = (): Promise<void> => {
      const all = this.#allOver[device] ?? new Deferred<void>();
      this.#allOver[device] = all;
      return all.promise;
    };
    if (!isOver()) await this.#waitUntil(isOver, ended, -1, device, "all pulls", wait);
    for (let number = device; number < this.#pulls.length; number += this.words.deviceCount) {
      const failure = this.#pulls[number]?.failure;
      if (failure !== undefined) throw failure;
    }
  }

  /** Helps first (L4). */
  async #waitUntil(
    isOver: () => boolean,
    ended: () => Promise<void>,
    keyIndex: number,
    device: number,
    what: string,
    wait: WaitOptions,
  ): Promise<void> {
    const { timeline, clock } = this.#options;
    const fromMs = timeline();
    this.#noteComputing(keyIndex, device, fromMs);
    this.#pump();
    try {
      if (!isOver()) await waitFor(ended(), `${what} by device ${this.#name(device)}`, clock, wait);
    } finally {
      const toMs = timeline();
      if (this.words.isOpen) this.words.locked(() => this.meter.note("wait", keyIndex, device, fromMs, toMs));
      this.#computesSince.set(device, toMs);
    }
  }

  /** Between the end of a device's wait and its next wait it computes, as far as can be seen from here. */
  #noteComputing(keyIndex: number, device: number, toMs: number): void {
    const since = this.#computesSince.get(device);
    this.#computesSince.delete(device);
    if (since !== undefined && this.words.isOpen) this.words.locked(() => this.meter.note("compute", keyIndex, device, since, toMs));
  }

  /** All open pulls of this thread reject, those of others as well (L6). */
  close(): void {
    this.words.close();
    this.#failAll(this.#closedError());
  }

  // Tasks

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.clock.afterInput(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  /** Does what there is to do, for a while (L4). */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      const { runner } = this.#options.backend;
      if (!this.words.isOpen) this.#failAll(this.#closedError());
      else if (runner.kind === "batch") this.#runBatch(runner);
      else this.#runShares();
    } catch (thrown) {
      if (!this.words.isBroken) throw thrown;
      this.#failAll(this.words.brokenError());
    } finally {
      this.#isPumping = false;
    }
  }

  #runShares(): void {
    const { clock } = this.#options;
    const untilMs = clock.nowMs() + TURN_MS;
    do {
      this.#hear();
      const step = this.words.locked(() => this.#nextStep());
      if (step === undefined) continue;
      if (typeof step === "number") {
        this.#sleep(step);
        return;
      }
      if ("task" in step) this.#runShare(step);
      else this.#copy(step);
    } while (clock.nowMs() < untilMs);
    this.#hear();
    this.#schedule();
  }

  /**
   * A share, a result that only this thread can copy, whichever goes first; or the bell to sleep on. Undefined if there
   * is news since this thread last looked: under the same lock as the sleep, or it would not be rung (ModelWords.W3).
   */
  #nextStep(): ClaimedShare | Copy | number | undefined {
    const next = this.#rounds.next();
    const copy = this.#copies[0];
    if (copy !== undefined) {
      const isFirst = next === undefined || comesBefore(copy.priority, copy.sequence, next.priority, next.sequence);
      if (isFirst) return this.#copies.shift() as Copy;
    }
    this.words.awake();
    const claim = this.#rounds.claim();
    if (claim !== undefined) return { claim, task: this.#taskOf(claim) };
    return this.#rounds.hasNews ? undefined : this.words.sleep();
  }

  #sleep(heard: number): void {
    if (!this.#hasThreads || this.#isListening) return;
    const rung = this.words.listen(heard);
    if (rung === undefined) {
      this.#schedule();
      return;
    }
    this.#isListening = true;
    void rung.then(() => {
      this.#isListening = false;
      this.#pump();
    });
  }

  #runShare({ claim, task }: ClaimedShare): void {
    const { backend, timeline } = this.#options;
    assert(backend.runner.kind === "shares", "the backend does shares");
    const fromMs = timeline();
    let thrown: unknown;
    let hasFailed = false;
    try {
      backend.runner.runShare(task, claim.share);
    } catch (failure) {
      thrown = failure;
      hasFailed = true;
    }
    this.words.locked(() => this.#finish(claim, fromMs, timeline(), hasFailed ? this.words.keepFailure(thrown) : 0));
  }

  #finish(claim: Claim, fromMs: number, toMs: number, failure: number): void {
    const kind = claim.device < 0 ? "reduce" : "hand out";
    this.meter.note(kind, claim.keyIndex, claim.device, fromMs, toMs);
    if (failure === 0) this.#rounds.finish(claim);
    else this.#rounds.fail(claim, failure);
  }

  /** All that is ready, in one call. */
  #runBatch(runner: BatchRunner): void {
    this.#hear();
    const claims = this.words.locked(() => {
      const all: Claim[] = [];
      for (let claim = this.#rounds.claim(); claim !== undefined; claim = this.#rounds.claim()) all.push(claim);
      return all.map((each) => ({ claim: each, task: this.#taskOf(each) }));
    });
    for (const copy of this.#copies.splice(0)) this.#copy(copy);
    if (claims.length === 0) return;
    const fromMs = this.#options.timeline();
    const end = (failure: unknown, hasFailed: boolean): void => {
      if (!this.words.isOpen) return;
      this.words.locked(() => {
        const number = hasFailed ? this.words.keepFailure(failure) : 0;
        const toMs = this.#options.timeline();
        for (const { claim } of claims) this.#finish(claim, fromMs, toMs, number);
      });
      this.#pump();
    };
    runner.runBatch(claims.map(({ task }) => task)).then(
      () => end(undefined, false),
      (thrown: unknown) => end(thrown, true),
    );
  }

  /** With the lock: a task begins. */
  #begin(keyIndex: number, round: number): number {
    const { runner } = this.#options.backend;
    if (round > 0) this.meter.countRound(keyIndex);
    return runner.kind === "shares" ? runner.begin(this.#planAt(keyIndex), round) : 1;
  }

  #taskOf({ keyIndex, device, round }: Claim): ModelTask {
    const plan = this.#planAt(keyIndex);
    if (device >= 0) {
      const target = this.#rounds.targetOf(keyIndex, device);
      return { kind: "handOut", plan, version: versionOf(round), device, target } satisfies HandOutTask;
    }
    const sources = this.#rounds.sourcesOf(keyIndex, round);
    const targets = this.#rounds.servedTargets(keyIndex);
    return { kind: "reduce", plan, round, version: versionOf(round), sources, targets } satisfies ReduceTask;
  }

  /** A thread may do a share of a key that its own device has not named: the words have all that is needed. */
  #planAt(keyIndex: number): KeyPlan {
    const known = this.#plans[keyIndex];
    if (known !== undefined) return known;
    const { key, length, isGather } = this.#rounds.keyOf(keyIndex);
    const operation: PushOperation = isGather ? "gather" : "sum";
    const resultLength = isGather ? length * this.words.deviceCount : length;
    return this.knowKey({ key, index: keyIndex, shape: [length], length, resultLength, operation });
  }

  // What has ended

  /** Takes note of pulls that have ended, and of results to exchange. */
  #hear(): void {
    const { thread, levelTwo } = this.#options;
    const ended: Pull<Data>[] = [];
    const failed: [Pull<Data>, WeighbridgeError][] = [];
    const exchanges: number[] = [];
    this.words.locked(() => {
      for (let device = 0; device < this.words.deviceCount; device++) {
        if (this.words.homeOf(device) !== thread) continue;
        for (let news = this.#rounds.hear(device); news !== undefined; news = this.#rounds.hear(device)) {
          const pull = this.#pulls[this.#numberOf(news.keyIndex, device)];
          if (news.kind === "copy") this.#addCopy({ ...news, device });
          else if (pull === undefined || pull.isOver) continue;
          else if (news.kind === "ended") ended.push(pull);
          else failed.push([pull, this.words.failure(news.failure)]);
        }
      }
      if (thread !== OWNER || levelTwo === undefined) return;
      for (let keyIndex = this.#rounds.claimExchange(); keyIndex >= 0; keyIndex = this.#rounds.claimExchange()) exchanges.push(keyIndex);
    });
    for (const [pull, failure] of failed) this.#over(pull, failure);
    for (const pull of ended) this.#there(pull);
    for (const keyIndex of exchanges) void this.#exchange(keyIndex, levelTwo as LevelTwo);
  }

  #addCopy(copy: Copy): void {
    const before = this.#copies.findIndex((other) => comesBefore(copy.priority, copy.sequence, other.priority, other.sequence));
    this.#copies.splice(before < 0 ? this.#copies.length : before, 0, copy);
  }

  #copy({ keyIndex, device, round }: Copy): void {
    const { backend, timeline } = this.#options;
    const pull = this.#pulls[this.#numberOf(keyIndex, device)];
    const fromMs = timeline();
    let failure: unknown;
    try {
      if (pull?.isOver === false) backend.copyOut(pull.request.plan, versionOf(round), pull.request.data);
    } catch (thrown) {
      failure = thrown;
    }
    this.words.locked(() => {
      this.meter.note("hand out", keyIndex, device, fromMs, timeline());
      this.#rounds.copied(keyIndex, device);
    });
    if (pull === undefined || pull.isOver) return;
    if (failure !== undefined) this.#over(pull, failure);
    else this.#there(pull);
  }

  /** Its data are there. */
  #there(pull: Pull<Data>): void {
    if (pull.request.callback === undefined) this.#over(pull);
    else void this.#call(pull);
  }

  /** The callback runs, then the wait ends (L2, L3). */
  async #call(pull: Pull<Data>): Promise<void> {
    const { callback, device, plan } = pull.request;
    try {
      await callback?.();
      this.#over(pull);
    } catch (thrown) {
      const what = `the callback of device ${this.#name(device)}'s pull of key ${plan.key} threw: ${reasonOf(thrown)}`;
      this.#over(pull, new WeighbridgeError("HANDLER_FAILED", what, { cause: thrown }));
    }
  }

  #over(pull: Pull<Data>, failure?: unknown): void {
    if (pull.isOver) return;
    pull.isOver = true;
    if (--this.#openPulls === 0) this.#options.keepAlive?.(false);
    pull.failure = failure;
    pull.ended?.resolve();
    const { device } = pull.request;
    const left = (this.#openOf[device] as number) - 1;
    this.#openOf[device] = left;
    if (left > 0) return;
    this.#allOver[device]?.resolve();
    this.#allOver[device] = undefined;
  }

  /** False, for who has to say whether the model goes on. */
  #failAll(failure: WeighbridgeError): false {
    for (const pull of this.#pulls) if (pull !== undefined) this.#over(pull, failure);
    return false;
  }

  async #exchange(keyIndex: number, levelTwo: LevelTwo): Promise<void> {
    const { backend, timeline } = this.#options;
    const plan = this.#planAt(keyIndex);
    const { round, priority, deviceCount } = this.words.locked(() => this.#rounds.roundInHand(keyIndex));
    const version = versionOf(round);
    const fromMs = timeline();
    let failure: unknown;
    let hasFailed = false;
    try {
      const values: RowArray = await backend.borrowResult(plan, version);
      await levelTwo.exchange({ plan, round, priority, values, deviceCount });
      await backend.returnResult(plan, version, values);
    } catch (thrown) {
      failure = isWeighbridgeError(thrown)
        ? thrown
        : new WeighbridgeError("HANDLER_FAILED", `round ${round} of key ${plan.key}: ${reasonOf(thrown)}`, { cause: thrown });
      hasFailed = true;
    }
    if (!this.words.isOpen) return;
    this.words.locked(() => {
      this.meter.note("exchange", keyIndex, -1, fromMs, timeline());
      this.#rounds.exchanged(keyIndex, hasFailed ? this.words.keepFailure(failure) : 0);
    });
    this.#pump();
  }

  #checkOpen(): void {
    if (!this.words.isOpen) throw this.#closedError();
  }

  #closedError(): WeighbridgeError {
    return this.words.isBroken ? this.words.brokenError() : new WeighbridgeError("CLOSED", "the shared model was closed");
  }

  #name(device: number): number {
    return this.#options.rules.devices[device] as number;
  }

  #numberOf(keyIndex: number, device: number): number {
    return keyIndex * this.words.deviceCount + device;
  }
}

const NO_FACTS = { hasWeights: false, isExchanged: false };

function versionOf(round: number): ResultVersion {
  return (round & 1) as ResultVersion;
}
