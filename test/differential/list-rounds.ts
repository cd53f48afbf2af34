// list-rounds — a model whose backend takes batches and computes in plain arrays: what list-rounds.test.ts compares.
// Lists of requests are given either as they are, so that level 1 may fold them, or copied each time, so that it
// cannot.

import { assert } from "../../src/base/assert.ts";
import type { Clock } from "../../src/base/clock.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../src/base/errors.ts";
import { LevelOne, levelOneMemory, type PushRequest } from "../../src/worker/level-one/level-one.ts";
import type { DataRef, KeyPlan, ModelTask, PreparedTasks, ReduceTask, TaskBackend } from "../../src/worker/level-one/model-backend.ts";
import { createMeterMemory } from "../../src/worker/level-one/model-meter.ts";
import { OWNER } from "../../src/worker/level-one/model-words.ts";
import type { PullRequest } from "../../src/worker/level-one/open-pulls.ts";

export const KEY_COUNT = 30;
/** Two that share keys, in different orders. */
export const LISTS: readonly (readonly number[])[] = [
  Array.from({ length: 20 }, (_, i) => i),
  Array.from({ length: 18 }, (_, i) => KEY_COUNT - 1 - i),
];
const LENGTH = 2;

type Data = Float32Array;
type Batch = { readonly resolve: () => void; readonly reject: (reason: unknown) => void };

/** The tasks that a list was prepared with. */
class Prepared implements PreparedTasks {
  readonly tasks: readonly ReduceTask[];
  readonly #isFreed: (ref: DataRef) => boolean;
  isClosed = false;

  constructor(tasks: readonly ReduceTask[], isFreed: (ref: DataRef) => boolean) {
    this.tasks = tasks;
    this.#isFreed = isFreed;
  }

  get isCurrent(): boolean {
    return !this.tasks.some(({ sources, targets }) => sources.some(this.#isFreed) || targets.some(this.#isFreed));
  }

  close(): void {
    assert(!this.isClosed, "it is closed once");
    this.isClosed = true;
  }
}

export class ListModel {
  /** What was done, and how waits ended. */
  readonly log: string[] = [];
  /** Rounds of lists that the backend did at once. */
  preparedRuns = 0;
  /** Of the log, those that `state` gave. */
  #lineCount = 0;
  readonly #isFolding: boolean;
  readonly #level: LevelOne<Data>;
  readonly #plans: readonly KeyPlan[];
  readonly #scheduled: (() => void)[] = [];
  readonly #batches: Batch[] = [];
  readonly #prepared: Prepared[] = [];
  readonly #refs: Data[] = [new Float32Array(0)];
  readonly #refOf = new Map<Data, DataRef>();
  readonly #freed = new Set<DataRef>();
  readonly #results: readonly (readonly [Data, Data])[];
  /** By device, then list; and by device, then key. */
  readonly #pushLists: PushRequest<Data>[][][];
  readonly #pullLists: PullRequest<Data>[][][];
  readonly #pushes: PushRequest<Data>[][];
  readonly #pulls: PullRequest<Data>[][];

  constructor({ deviceCount, isFolding, goesOn }: { readonly deviceCount: number; readonly isFolding: boolean; readonly goesOn: boolean }) {
    this.#isFolding = isFolding;
    const devices = Array.from({ length: deviceCount }, (_, device) => device);
    const later = (run: () => void): void => void this.#scheduled.push(run);
    const clock: Clock = { nowMs: () => 0, after: () => () => {}, soon: later, afterInput: later };
    this.#level = new LevelOne<Data>({
      memory: levelOneMemory(deviceCount, KEY_COUNT + 2),
      meter: createMeterMemory({ deviceCount, keyCountMax: KEY_COUNT + 2, keepsEvents: false }),
      thread: OWNER,
      rules: { threadsMax: 1, goesOn, devices, oneReduceAtATime: false, oneHandOutAtATime: false },
      ...{ clock, timeline: () => 0, backend: this.#backend() },
    });
    this.#results = Array.from({ length: KEY_COUNT }, () => [new Float32Array(LENGTH), new Float32Array(LENGTH)]);
    const spec = { shape: [LENGTH], length: LENGTH, resultLength: LENGTH, operation: "sum" } as const;
    this.#plans = this.#results.map((_, key) => this.#level.addKey({ ...spec, key }, { hasWeights: true, isExchanged: false }));
    const pushOf = (key: number, device: number): PushRequest<Data> => ({
      ...{ data: this.#array(), plan: this.#plans[key]!, device, priority: key % 3, after: undefined },
    });
    const pullOf = (key: number, device: number): PullRequest<Data> => ({
      ...{ data: this.#array(), plan: this.#plans[key]!, device, priority: 0, callback: undefined },
    });
    this.#pushLists = devices.map((device) => LISTS.map((keys) => keys.map((key) => pushOf(key, device))));
    this.#pullLists = devices.map((device) => LISTS.map((keys) => keys.map((key) => pullOf(key, device))));
    this.#pushes = devices.map((device) => this.#plans.map(({ key }) => pushOf(key, device)));
    this.#pulls = devices.map((device) => this.#plans.map(({ key }) => pullOf(key, device)));
  }

  pushList(device: number, list: number, value: number): void {
    const requests = this.#pushLists[device]![list]!;
    for (const [i, { data }] of requests.entries()) data.fill(value + i);
    this.#note(`push list ${list} of ${device}`, () => this.#level.push(this.#given(requests)));
  }

  pullList(device: number, list: number): void {
    this.#note(`pull list ${list} of ${device}`, () => this.#level.pull(this.#given(this.#pullLists[device]![list]!)));
  }

  push(device: number, key: number, value: number): void {
    const request = this.#pushes[device]![key]!;
    request.data.fill(value);
    this.#note(`push ${key} of ${device}`, () => this.#level.push([request]));
  }

  pull(device: number, key: number): void {
    this.#note(`pull ${key} of ${device}`, () => this.#level.pull([this.#pulls[device]![key]!]));
  }

  wait(device: number, key: number): void {
    this.#noteEnd(`wait for ${key} of ${device}`, this.#level.wait(this.#plans[key]!, device));
  }

  waitAll(device: number): void {
    this.#noteEnd(`wait for all of ${device}`, this.#level.waitAll(device));
  }

  resultOf(key: number): void {
    this.#note(`result of ${key}`, () => this.#level.resultOf(this.#plans[key]!));
  }

  lose(device: number): void {
    this.#note(`lose ${device}`, () => this.#level.loseDevice(device, () => new WeighbridgeError("NODE_DEAD", `device ${device} ended`)));
  }

  /** What a device pushes, or pulls into, as an item of a list is freed. */
  free(device: number, list: number, item: number, isPull: boolean): void {
    const lists = isPull ? this.#pullLists : this.#pushLists;
    this.#freed.add(this.#refOf.get(lists[device]![list]![item]!.data)!);
  }

  close(): void {
    this.#note("close", () => this.#level.close());
  }

  /** The turn of the event loop ends: batches begin. */
  turn(): void {
    for (const run of this.#scheduled.splice(0)) run();
  }

  /** The first batch that is under way ends, with this failure if one is given. */
  async endBatch(failure?: WeighbridgeError): Promise<void> {
    const batch = this.#batches.shift();
    if (failure === undefined) batch?.resolve();
    else batch?.reject(failure);
    for (let i = 0; i < 20; i++) await undefined;
  }

  /** All that can be seen from outside; of the log, what is new. */
  state(): unknown {
    const devices = this.#pushes.map((_, device) => ({
      ...{ isPulling: this.#level.isPulling(device), isLive: this.#level.isLive(device), times: this.#level.meter.timesOfDevice(device) },
    }));
    const rounds = this.#plans.map(({ index }) => this.#level.meter.timesOfKey(index).rounds);
    return { devices, rounds, data: this.#refs.map((data) => [...data]), results: this.#results, log: this.#newLines() };
  }

  #newLines(): readonly string[] {
    const lines = this.log.slice(this.#lineCount);
    this.#lineCount = this.log.length;
    return lines;
  }

  /** How often something was prepared. */
  get preparations(): number {
    return this.#prepared.length;
  }

  /** How much is prepared and not closed. */
  get preparedCount(): number {
    return this.#prepared.filter(({ isClosed }) => !isClosed).length;
  }

  #given<Request>(requests: readonly Request[]): readonly Request[] {
    return this.#isFolding ? requests : [...requests];
  }

  #note(what: string, act: () => unknown): void {
    try {
      this.log.push(`${what}: ${String(act())}`);
    } catch (thrown) {
      this.log.push(`${what}: ${shown(thrown)}`);
    }
  }

  #noteEnd(what: string, ended: Promise<void>): void {
    ended.then(
      () => this.log.push(`${what}: over`),
      (thrown: unknown) => this.log.push(`${what}: ${shown(thrown)}`),
    );
  }

  #array(): Data {
    const data = new Float32Array(LENGTH);
    this.#refOf.set(data, this.#refs.push(data) - 1);
    return data;
  }

  #backend(): TaskBackend<Data> {
    const isFreed = (ref: DataRef): boolean => this.#freed.has(ref);
    return {
      runner: {
        kind: "batch",
        runBatch: (tasks, prepared = []) => this.#runBatch(tasks, prepared),
        prepare: (tasks) => {
          const prepared = new Prepared(tasks, isFreed);
          this.#prepared.push(prepared);
          return prepared;
        },
      },
      refOf: (data) => this.#refOf.get(data)!,
      takePush: ({ data }) => this.#refOf.get(data)!,
      copyOut: () => assert(false, "all data have refs"),
      borrowResult: () => new Float32Array(0),
      returnResult: () => {},
    };
  }

  async #runBatch(tasks: readonly ModelTask[], prepared: readonly PreparedTasks[]): Promise<void> {
    const all = [...tasks];
    for (const each of prepared) {
      assert(each instanceof Prepared && !each.isClosed && each.isCurrent, "it was prepared, and is good");
      this.preparedRuns++;
      all.push(...each.tasks);
    }
    const used = all.flatMap((task) => (task.kind === "handOut" ? [task.target] : [...task.sources, ...task.targets]));
    if (used.some((ref) => this.#freed.has(ref))) throw new WeighbridgeError("CLOSED", "freed");
    for (const task of all) this.#run(task);
    await new Promise<void>((resolve, reject) => void this.#batches.push({ resolve, reject }));
  }

  /** A result is that of the round before, and the sum. */
  #run(task: ModelTask): void {
    const results = this.#results[task.plan.index]!;
    const result = results[task.version];
    if (task.kind === "reduce") {
      const before = results[task.version === 0 ? 1 : 0];
      for (let i = 0; i < LENGTH; i++) result[i] = task.sources.reduce((sum, ref) => sum + (this.#refs[ref]![i] ?? 0), before[i]!);
    }
    for (const target of task.kind === "reduce" ? task.targets : [task.target]) this.#refs[target]!.set(result);
  }
}

function shown(thrown: unknown): string {
  return isWeighbridgeError(thrown) ? `${thrown.code} ${thrown.message}` : String(thrown);
}
