// level-one-threads — the threads of a shared model in one thread: a LevelOne for each over the same words, and a
// scheduler that decides by a seed who runs next, also while another is in the middle of a share. A thread dies as a
// real one does: what it held stays in the words.
//
//   runs        push and pull of some keys by a device | what a thread has scheduled | a bell that has rung | a death
//   in a share  any of these by threads that are not in one themselves, up to DEPTH_MAX of them

import assert from "node:assert/strict";
import type { Clock } from "../../src/base/clock.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { RoundRules } from "../../src/worker/level-one/key-rounds.ts";
import { LevelOne, levelOneMemory } from "../../src/worker/level-one/level-one.ts";
import type { DataRef, KeyPlan, ModelTask, ReduceTask, TaskBackend } from "../../src/worker/level-one/model-backend.ts";
import { createMeterMemory } from "../../src/worker/level-one/model-meter.ts";

const DEPTH_MAX = 3;
const STEPS_MAX = 200_000;
const LENGTH = 8;

export type Drawn = {
  readonly seed: number;
  readonly deviceCount: number;
  readonly keyCount: number;
  readonly roundCount: number;
  readonly shareCount: number;
  readonly threadsMax: number;
  readonly goesOn: boolean;
  /** Whether a device's thread dies, and after how many runs. */
  readonly diesAfter: number | undefined;
  /** Wakes nobody up: what a model without bells would do. */
  readonly isDeaf?: boolean;
};

/** What a device got of a round, or the code and text of the failure. */
type Outcome = { readonly values: readonly number[] } | { readonly code: string; readonly message: string };

export type Push = { readonly device: number; readonly key: number; readonly values: Float32Array; round: number };

class Death extends Error {}

type Thread = {
  readonly level: LevelOne<Float32Array>;
  readonly scheduled: (() => void)[];
  bell: { readonly heard: number; readonly wake: () => void } | undefined;
  isDead: boolean;
  isDying: boolean;
  isInShare: boolean;
};

export class LevelOneThreads {
  readonly drawn: Drawn;
  /** By the push that a pull is bound to. */
  readonly outcomes: Map<Push, Outcome> = new Map();
  /** What was summed, by key and round, in the order of devices. */
  readonly rounds: Map<string, readonly Push[]> = new Map();
  /** -1 while nobody died. */
  dead = -1;
  runs = 0;
  readonly #random: Random;
  readonly #threads: Thread[];
  readonly #plans: readonly KeyPlan[];
  /** Data that all threads can reach, by their refs. */
  readonly #refs: Float32Array[] = [new Float32Array(0)];
  /** By ref: the last push from there. */
  readonly #pushes = new Map<DataRef, Push>();
  /** By key, then version. */
  readonly #results: readonly (readonly Float32Array[])[];
  /** By device, then key: whether a pull is open, and whether it has no more to push. */
  readonly #states: readonly (readonly { isOpen: boolean; isOver: boolean }[])[];
  /** The pushes of the call that is under way. */
  #taken: Push[] = [];
  #depth = 0;

  constructor(drawn: Drawn) {
    this.drawn = drawn;
    this.#random = new Random(drawn.seed);
    const { deviceCount, keyCount, threadsMax, goesOn } = drawn;
    const devices = Array.from({ length: deviceCount }, (_, device) => device);
    const memory = levelOneMemory(deviceCount, keyCount + 2);
    const meter = createMeterMemory({ deviceCount, keyCountMax: keyCount + 2, keepsEvents: false });
    const rules: RoundRules = {
      threadsMax,
      goesOn,
      devices,
      oneReduceAtATime: drawn.seed % 3 === 0,
      oneHandOutAtATime: drawn.seed % 5 === 0,
    };
    this.#results = Array.from({ length: keyCount }, () => [new Float32Array(LENGTH), new Float32Array(LENGTH)]);
    this.#threads = Array.from({ length: deviceCount + 1 }, (_, thread) => this.#thread({ memory, meter, thread, rules }));
    const { level } = this.#threads[0]!;
    for (const device of devices) level.setHome(device, device + 1);
    const spec = { shape: [LENGTH], length: LENGTH, resultLength: LENGTH, operation: "sum" } as const;
    this.#plans = Array.from({ length: keyCount }, (_, key) => level.addKey({ ...spec, key }, { hasWeights: false, isExchanged: false }));
    this.#states = devices.map(() => this.#plans.map(() => ({ isOpen: false, isOver: false })));
  }

  #thread(given: Pick<ConstructorParameters<typeof LevelOne>[0], "memory" | "meter" | "thread" | "rules">): Thread {
    const scheduled: (() => void)[] = [];
    const later = (run: () => void): void => void scheduled.push(run);
    const clock: Clock = { nowMs: () => this.runs, after: () => () => {}, soon: later, afterInput: later };
    const timeline = (): number => {
      if (thread.isDying) throw new Death("the thread has ended");
      return this.runs;
    };
    const listen = (heard: number, wake: () => void): boolean => {
      thread.bell = { heard, wake };
      return true;
    };
    const level = new LevelOne<Float32Array>({ ...given, clock, timeline, listen, backend: this.#backend(() => thread) });
    const thread: Thread = { level, scheduled, bell: undefined, isDead: false, isDying: false, isInShare: false };
    return thread;
  }

  /** Places are indexes; arrays of half of the pushes and pulls have none. */
  #backend(threadOf: () => Thread): TaskBackend<Float32Array> {
    const refOfData = (data: Float32Array): DataRef => Math.max(0, this.#refs.indexOf(data));
    return {
      runner: {
        kind: "shares",
        begin: () => this.drawn.shareCount,
        runShare: (task, share) => {
          const thread = threadOf();
          thread.isInShare = true;
          this.#runOthers();
          this.#runShare(task, share);
          this.#runOthers();
          thread.isInShare = false;
        },
      },
      refOf: refOfData,
      takePush: ({ data, plan, device }) => {
        const ref = refOfData(data) || this.#ref(data.slice());
        this.#pushes.set(ref, { device, key: plan.key, values: data.slice(), round: 0 });
        this.#taken.push(this.#pushes.get(ref)!);
        return ref;
      },
      copyOut: ({ index }, version, data) => data.set(this.#results[index]![version]!),
      borrowResult: () => new Float32Array(0),
      returnResult: () => {},
    };
  }

  #ref(data: Float32Array): DataRef {
    return this.#refs.push(data) - 1;
  }

  #runShare(task: ModelTask, share: number): void {
    if (task.kind === "reduce") this.#note(task);
    const result = this.#results[task.plan.index]![task.version]!;
    const each = Math.ceil(LENGTH / this.drawn.shareCount);
    for (let i = share * each; i < Math.min(LENGTH, (share + 1) * each); i++) {
      if (task.kind === "handOut") {
        this.#refs[task.target]![i] = result[i]!;
        continue;
      }
      const sources = task.sources.filter((ref) => ref !== 0).map((ref) => this.#refs[ref]![i]!);
      result[i] = sources.reduce((sum, value) => Math.fround(sum + value));
      for (const target of task.targets) this.#refs[target]![i] = result[i]!;
    }
  }

  /** All shares of a round have the same sources, and no source is in two rounds. */
  #note({ plan, round, sources }: ReduceTask): void {
    const pushes = sources.filter((ref) => ref !== 0).map((ref) => this.#pushes.get(ref)!);
    const name = `${plan.key} ${round}`;
    assert.deepEqual(this.rounds.get(name) ?? pushes, pushes, name);
    this.rounds.set(name, pushes);
    for (const push of pushes) {
      assert.ok(push.round === 0 || push.round === round, `${name}: pushed in round ${push.round}`);
      push.round = round;
    }
  }

  /** In the middle of a share: others may do anything, or this thread dies. */
  #runOthers(): void {
    this.#depth++;
    while (this.#depth <= DEPTH_MAX && this.#random.chance(0.5)) if (!this.#runOne()) break;
    this.#depth--;
  }

  /** Until nothing is left to do. Returns whether all devices have done all their rounds, or were told why not. */
  async run(): Promise<boolean> {
    for (let idle = 0; idle < 3; ) {
      assert.ok(this.runs < STEPS_MAX, "it comes to an end");
      idle = this.#runOne() ? 0 : idle + 1;
      // Promises settle.
      if (this.#random.chance(0.3) || idle > 0) await new Promise<void>((resolve) => void setImmediate(resolve));
    }
    const isDone = this.#states.every((states, device) => device === this.dead || states.every(({ isOver, isOpen }) => isOver && !isOpen));
    this.#threads[0]!.level.close();
    return isDone;
  }

  #runOne(): boolean {
    const choices: (() => void)[] = [];
    for (const thread of this.#threads) {
      if (thread.isDead || thread.isInShare) continue;
      if (thread.scheduled.length > 0) choices.push(thread.scheduled[0]!);
      const { bell } = thread;
      if (bell !== undefined && this.drawn.isDeaf !== true && thread.level.words.isRung(bell.heard)) choices.push(bell.wake);
    }
    for (const [device, states] of this.#states.entries()) {
      const thread = this.#threads[device + 1]!;
      if (thread.isDead || thread.isInShare) continue;
      const ready = [...states.keys()].filter((key) => !states[key]!.isOpen && !states[key]!.isOver);
      if (ready.length > 0) choices.push(() => this.#advance(device, ready));
    }
    this.#dieInTime();
    if (choices.length === 0) return false;
    this.runs++;
    const choice = choices[this.#random.below(choices.length)]!;
    for (const thread of this.#threads) {
      if (thread.scheduled[0] === choice) thread.scheduled.shift();
      if (thread.bell?.wake === choice) thread.bell = undefined;
    }
    this.#survive(choice);
    return true;
  }

  /** A thread that dies leaves its code where it is. */
  #survive(run: () => void): void {
    try {
      run();
    } catch (thrown) {
      if (!(thrown instanceof Death)) throw thrown;
    }
    for (const thread of this.#threads) if (thread.isDying && !thread.isDead && !thread.isInShare) this.#bury(thread);
  }

  #dieInTime(): void {
    const { diesAfter, deviceCount } = this.drawn;
    if (diesAfter === undefined || this.runs < diesAfter || this.dead >= 0) return;
    const inShare = this.#threads.findIndex(({ isInShare }, thread) => isInShare && thread > 0);
    this.dead = inShare > 0 ? inShare - 1 : this.#random.below(deviceCount);
    const thread = this.#threads[this.dead + 1]!;
    thread.isDying = true;
    if (!thread.isInShare) this.#bury(thread);
  }

  /** The owner hears of it. */
  #bury(thread: Thread): void {
    thread.isDead = true;
    const device = this.#threads.indexOf(thread) - 1;
    const failure = (): WeighbridgeError => new WeighbridgeError("NODE_DEAD", `device ${device} has ended`);
    this.#threads[0]!.level.loseDevice(device, failure, device + 1);
  }

  /** Pushes some keys in one call, and pulls them. */
  #advance(device: number, ready: readonly number[]): void {
    const { level } = this.#threads[device + 1]!;
    const keys = ready.filter(() => this.#random.chance(0.6));
    const priorities = keys.map(() => this.#random.below(3));
    const data = keys.map(() => Float32Array.from({ length: LENGTH }, () => this.#random.fraction() * 10 ** this.#random.below(6)));
    for (const each of data) if (this.#random.chance(0.5)) this.#ref(each);
    const targets = data.map((each) => (this.#random.chance(0.5) ? each : this.#target()));
    const request = (i: number): { plan: KeyPlan; device: number; priority: number } => ({
      ...{ plan: this.#plans[keys[i]!]!, device, priority: priorities[i]! },
    });
    this.#taken = [];
    try {
      level.push(data.map((each, i) => ({ ...request(i), data: each, after: undefined })));
      const pushes = this.#taken;
      level.pull(targets.map((target, i) => ({ ...request(i), data: target, callback: undefined })));
      for (const [i, push] of pushes.entries()) this.#expect(push, targets[i]!);
    } catch (thrown) {
      const failure = failureOf(thrown);
      if ("code" in failure && failure.code === "QUEUE_FULL") return; // it can push again later
      for (const key of keys) this.#states[device]![key]!.isOver = true;
      for (const push of this.#taken) this.outcomes.set(push, failure);
    }
  }

  #expect(push: Push, target: Float32Array): void {
    const { device, key } = push;
    const state = this.#states[device]![key]!;
    state.isOpen = true;
    const thread = this.#threads[device + 1]!;
    const end = (outcome: () => Outcome): void => {
      if (thread.isDying) return; // nobody is there to hear it
      const told = outcome();
      this.outcomes.set(push, told);
      state.isOpen = false;
      state.isOver = push.round >= this.drawn.roundCount || ("code" in told && !this.drawn.goesOn);
    };
    void thread.level.wait(this.#plans[key]!, device).then(
      () => end(() => ({ values: [...target] })),
      (thrown: unknown) => end(() => failureOf(thrown)),
    );
  }

  #target(): Float32Array {
    const target = new Float32Array(LENGTH);
    if (this.#random.chance(0.5)) this.#ref(target);
    return target;
  }
}

function failureOf(thrown: unknown): Outcome {
  if (!isWeighbridgeError(thrown)) throw thrown;
  return { code: thrown.code, message: thrown.message };
}
