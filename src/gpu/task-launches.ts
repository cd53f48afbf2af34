// task-launches — makes launches of the tasks of level 1 on a card: a large key has one of its own, small ones share
// one, and rounds that come again are prepared. Not whose stream they wait for, nor when they have ended:
// cuda-backend.ts.
//
// Invariants:
//   TaskLaunches.L1. Tasks of one launch are of different keys; of one key a later task is a later launch. So the tasks
//       are done as if one after the other.
//   TaskLaunches.L2. Every task of a batch is looked at before the first launch: one that cannot be done fails the
//       batch, and changes nothing.

import { ROW_ELEMENTS, type RowElement } from "../kernel/row-element.ts";
import type { DataRef, HandOutTask, KeyPlan, ModelTask, ReduceTask, ResultVersion } from "../worker/level-one/model-backend.ts";
import type { CudaCard } from "./cuda-card.ts";
import type { CudaStream } from "./cuda-stream.ts";
import type { DeviceTensor } from "./device-tensor.ts";
import { PreparedRounds } from "./prepared-rounds.ts";
import { RoundKernel, type RoundRest, type RoundSpans, type TableSpan } from "./round-kernel.ts";
import type { RoundRule } from "./round-source.ts";
import type { TensorRefs } from "./tensor-refs.ts";
import type { UpdateSettings } from "./update-settings.ts";

export type TaskLaunchesParts = {
  /** Where all launches go. */
  readonly stream: CudaStream;
  readonly refs: TensorRefs;
  readonly dtype: RowElement;
  readonly deviceCount: number;
  /** A tensor of so many zeros. */
  readonly zeros: (length: number) => DeviceTensor;
};

/** Addresses of a key on the card: by version, and those of its slots. */
type KeyAddresses = {
  readonly plan: KeyPlan;
  readonly results: readonly [number, number];
  readonly slots: readonly [number, number];
  readonly update: UpdateSettings | undefined;
};

type LaunchedKey = KeyAddresses & {
  readonly rule: RoundRule;
  /** For rounds that all devices have pushed to. */
  readonly kernel: RoundKernel;
  readonly isLarge: boolean;
  /** By version: what its rounds have in common, if all that is but for what devices push and pull into. */
  rests: readonly [RoundRest, RoundRest] | undefined;
  /** The launch that it was last a part of (TaskLaunches.L1). */
  launch: number;
};

/** What a hand-out or the share of one device in a gather reads, and where it goes. */
type CopiedSpan = {
  readonly from: number;
  readonly result: number;
  /** Of the bytes within each target. */
  readonly offset: number;
  readonly length: number;
  readonly targets: readonly DataRef[];
};

/** A key of at least so many bytes gets a launch of its own. */
const LARGE_BYTES = 2 << 20;

export class TaskLaunches {
  readonly #parts: TaskLaunchesParts;
  readonly #keys: LaunchedKey[] = [];
  /** By rule and number of sources. */
  readonly #kernels = new Map<RoundRule, RoundKernel[]>();
  /** Those that are not closed. */
  readonly #prepared = new Set<PreparedRounds>();
  readonly #spans: RoundSpans;
  readonly #tables: TablePool;
  /** The kernel of hand-outs and gathers. */
  #copies: RoundKernel | undefined;
  #zeroRows: DeviceTensor | undefined;
  #launch = 1;

  constructor(parts: TaskLaunchesParts) {
    this.#parts = parts;
    this.#tables = new TablePool(parts.stream.card);
    this.#spans = {
      ...{ sources: [], targets: Array.from({ length: parts.deviceCount }, () => 0), previous: 0, result: 0, slot0: 0, slot1: 0 },
      ...{ length: 0, settings: undefined, flags: 0 },
    };
  }

  /**
   * Keys come in their order. Compiles what they need, so that what does not compile is told here, and no round waits.
   */
  addKey(addresses: KeyAddresses): void {
    const { plan, update } = addresses;
    const rule: RoundRule = plan.operation === "gather" ? "copy" : (update?.rule ?? "none");
    const kernel = this.#kernel(rule, rule === "copy" ? 0 : this.#parts.deviceCount);
    this.#copies = this.#kernel("copy", 0);
    const isLarge = plan.length * ROW_ELEMENTS[this.#parts.dtype].bytes >= LARGE_BYTES;
    const key: LaunchedKey = { ...addresses, rule, kernel, isLarge, rests: undefined, launch: 0 };
    key.rests = this.#restsOf(key);
    this.#keys.push(key);
  }

  /** TaskLaunches.L2 */
  check(tasks: readonly ModelTask[]): void {
    const refs = this.#parts.refs;
    for (const task of tasks) {
      if (task.kind === "handOut") refs.check(task.target);
      else {
        for (const source of task.sources) if (source !== 0) refs.check(source);
        for (const target of task.targets) refs.check(target);
      }
    }
  }

  /** Launches tasks that were checked, in their order. `tables` gets those to give back once the tasks are done. */
  launch(tasks: readonly ModelTask[], tables: TableSpan[]): void {
    for (let from = 0; from < tasks.length; ) from = this.#launchFrom(tasks, from, tables);
  }

  giveBack(tables: readonly TableSpan[]): void {
    for (const table of tables) this.#tables.giveBack(table);
  }

  /** Rounds of small keys whose settings never change, which every device has pushed to. */
  prepare(tasks: readonly ReduceTask[]): PreparedRounds | undefined {
    const kernel = this.#keys[tasks[0]!.plan.index]!.kernel;
    for (const { plan, version, sources } of tasks) {
      const key = this.#keys[plan.index]!;
      if (key.kernel !== kernel || key.rests?.[version] === undefined || sources.includes(0)) return undefined;
    }
    this.check(tasks);
    const refs = this.#parts.refs;
    try {
      for (const task of tasks) kernel.appendWith(this.#keys[task.plan.index]!.rests![task.version], task, refs);
      const span = this.#tables.take(kernel.tableBytes);
      const table = kernel.writeTable(span, this.#parts.stream);
      const prepared = new PreparedRounds({ kernel, tasks, refs, table, release: (rounds) => this.#release(rounds, span) });
      this.#prepared.add(prepared);
      return prepared;
    } finally {
      kernel.clear();
    }
  }

  #release(rounds: PreparedRounds, table: TableSpan): void {
    if (this.#prepared.delete(rounds)) this.#tables.giveBack(table);
  }

  /** When nothing runs any more. */
  close(): void {
    this.#zeroRows?.free();
    for (const prepared of this.#prepared) prepared.close();
    this.#tables.close();
  }

  /**
   * Launches tasks from this one on, up to the second one of a key (TaskLaunches.L1), and returns where it stopped. The
   * small ones, which take a few microseconds together, come first, then the large ones in their order.
   */
  #launchFrom(tasks: readonly ModelTask[], from: number, tables: TableSpan[]): number {
    this.#launch++;
    let to = from;
    for (; to < tasks.length; to++) {
      const key = this.#keys[tasks[to]!.plan.index]!;
      if (key.launch === this.#launch) break;
      key.launch = this.#launch;
      if (!key.isLarge) this.#add(key, tasks[to]!);
    }
    this.#launchAppended(tables);
    for (let i = from; i < to; i++) {
      const key = this.#keys[tasks[i]!.plan.index]!;
      if (key.isLarge) this.#add(key, tasks[i]!);
    }
    return to;
  }

  #add(key: LaunchedKey, task: ModelTask): void {
    if (task.kind === "handOut") this.#handOut(key, task);
    else if (key.plan.operation === "gather") this.#gather(key, task);
    else this.#reduce(key, task);
  }

  #reduce(key: LaunchedKey, task: ReduceTask): void {
    const { sources, targets } = task;
    const spans = this.#spans;
    const refs = this.#parts.refs;
    const rest = key.rests?.[task.version];
    if (rest !== undefined && !sources.includes(0)) {
      key.kernel.appendWith(rest, task, refs);
      return;
    }
    let sourceCount = 0;
    for (let i = 0; i < sources.length; i++) if (sources[i] !== 0) spans.sources[sourceCount++] = refs.addressOf(sources[i]!);
    for (let i = 0; i < spans.targets.length; i++) spans.targets[i] = i < targets.length ? refs.addressOf(targets[i]!) : 0;
    this.#setRest(key, task);
    this.#dispatch(key, sourceCount === this.#parts.deviceCount ? key.kernel : this.#kernel(key.rule, sourceCount));
  }

  /** What a round of a key has beside its sources and targets. */
  #setRest(key: LaunchedKey, { round, version }: Pick<ReduceTask, "round" | "version">): void {
    const spans = this.#spans;
    spans.previous = key.update === undefined ? 0 : key.results[version === 0 ? 1 : 0];
    spans.result = key.results[version];
    spans.slot0 = key.slots[0];
    spans.slot1 = key.slots[1];
    spans.length = key.plan.length;
    key.update?.prepare(round);
    spans.settings = key.update?.numbers;
    spans.flags = key.update?.flags ?? 0;
  }

  /** Of both versions, if that never changes and the key shares launches with others. */
  #restsOf(key: LaunchedKey): readonly [RoundRest, RoundRest] | undefined {
    if (key.isLarge || key.rule === "copy" || key.update?.isConstant === false) return undefined;
    const restOf = (version: ResultVersion): RoundRest => {
      this.#setRest(key, { round: 1, version });
      return key.kernel.keepRest(this.#spans);
    };
    return [restOf(0), restOf(1)];
  }

  #handOut(key: LaunchedKey, { version, target }: HandOutTask): void {
    this.#copy(key, { from: key.results[version], result: 0, offset: 0, length: key.plan.resultLength, targets: [target] });
  }

  /**
   * What each device pushed goes to its rows of the result and of all targets: it is read once. The rows of a device
   * that has ended are zeros.
   */
  #gather(key: LaunchedKey, { version, sources, targets }: ReduceTask): void {
    const { length } = key.plan;
    for (let i = 0; i < sources.length; i++) {
      const offset = i * length * ROW_ELEMENTS[this.#parts.dtype].bytes;
      const from = sources[i] === 0 ? this.#zeros(length) : this.#parts.refs.addressOf(sources[i]!);
      this.#copy(key, { from, result: key.results[version] + offset, offset, length, targets });
    }
  }

  /** Memory of so many zeros, for rows that nobody has pushed. */
  #zeros(length: number): number {
    if ((this.#zeroRows?.length ?? 0) < length) {
      this.#zeroRows?.free();
      this.#zeroRows = this.#parts.zeros(length);
      this.#parts.stream.follow(this.#zeroRows.device.stream);
    }
    return this.#zeroRows!.address;
  }

  #copy(key: LaunchedKey, { from, result, offset, length, targets }: CopiedSpan): void {
    const spans = this.#spans;
    const refs = this.#parts.refs;
    for (let i = 0; i < spans.targets.length; i++) spans.targets[i] = i < targets.length ? refs.addressOf(targets[i]!) + offset : 0;
    spans.previous = from;
    spans.result = result;
    spans.slot0 = 0;
    spans.slot1 = 0;
    spans.length = length;
    spans.settings = undefined;
    spans.flags = 0;
    this.#dispatch(key, this.#copies!);
  }

  #dispatch({ isLarge }: LaunchedKey, kernel: RoundKernel): void {
    if (isLarge) kernel.launchOne(this.#spans, this.#parts.stream);
    else kernel.append(this.#spans);
  }

  #launchAppended(tables: TableSpan[]): void {
    for (const kernels of this.#kernels.values()) {
      for (const kernel of kernels) {
        if (kernel === undefined || kernel.roundCount === 0) continue;
        try {
          const table = this.#tables.take(kernel.tableBytes);
          tables.push(table);
          kernel.launchTable(kernel.writeTable(table, this.#parts.stream), this.#parts.stream);
        } finally {
          kernel.clear();
        }
      }
    }
  }

  /** Fewer sources than devices: one has ended, and the others go on. */
  #kernel(rule: RoundRule, sourceCount: number): RoundKernel {
    let kernels = this.#kernels.get(rule);
    if (kernels === undefined) {
      kernels = [];
      this.#kernels.set(rule, kernels);
    }
    let kernel = kernels[sourceCount];
    if (kernel === undefined) {
      const targetCount = this.#parts.deviceCount;
      kernel = new RoundKernel(this.#parts.stream, { element: this.#parts.dtype, rule, sourceCount, targetCount });
      kernels[sourceCount] = kernel;
    }
    return kernel;
  }
}

export class TablePool {
  readonly #card: CudaCard;
  readonly #free: TableSpan[] = [];

  constructor(card: CudaCard) {
    this.#card = card;
  }

  /** At least so many bytes. Throws DEVICE_MEMORY_FULL. */
  take(byteCount: number): TableSpan {
    const index = this.#free.findIndex(({ pinned }) => pinned.byteCount >= byteCount);
    if (index >= 0) return this.#free.splice(index, 1)[0]!;
    const pinned = this.#card.pinned.take(byteCount);
    return { pinned, address: this.#card.allocate(pinned.byteCount) };
  }

  /** The launch is done. */
  giveBack(table: TableSpan): void {
    this.#free.push(table);
  }

  close(): void {
    for (const { pinned, address } of this.#free.splice(0)) {
      this.#card.pinned.giveBack(pinned);
      this.#card.release(address);
    }
  }
}
