// cuda-backend — the devices of a shared model on CUDA: keeps results and slots of its keys in the memory of a card,
// and does the tasks of level 1 there. When and what is decided by the engine (worker/level-one).
//
//   the streams of the devices ──► reduce stream: rounds, hand-outs ──► a batch is done
//                                     │        ▲
//                             to host ▼        │ from host          results that level 2 or an updater of the user has
//
// Invariants:
//   CudaBackend.B1. A batch follows the streams of all devices and every stream or event that a push was given since
//       the batch before: what is pushed is complete, and what is pulled into is not in use, when a kernel of it
//       begins.
//   CudaBackend.B2. Tasks of one launch are of different keys; of one key a later task is a later launch. So the tasks
//       are done as if one after the other.
//   CudaBackend.B3. Nobody waits for the whole card: batches and copies end with an event of their own.
//   CudaBackend.B4. Every task of a batch is looked at before the first launch: one that cannot be done fails the
//       batch, and changes nothing.
//   CudaBackend.B5. A result is on its way to or from the host only between batches of its key: those before have
//       ended, and those after have not begun. So copies wait for no batch, and run beside those of other keys.

import { assert } from "../base/assert.ts";
import { showValue, WeighbridgeError } from "../base/errors.ts";
import { elementsAt, ROW_ELEMENTS, type RowArray, type RowElement } from "../kernel/row-element.ts";
import type { ResolvedOptimizer } from "../store/updaters/optimizer-spec.ts";
import { slotLayoutOf } from "../store/updaters/slot-layout.ts";
import type {
  BatchRunner,
  HandOutTask,
  KeyPlan,
  ModelBackend,
  ModelTask,
  Place,
  PreparedTasks,
  PushedData,
  ReduceTask,
  ResultVersion,
} from "../worker/level-one/model-backend.ts";
import type { Cuda } from "./cuda.ts";
import type { CudaCard } from "./cuda-card.ts";
import type { CudaDevice } from "./cuda-device.ts";
import { CudaEvent, CudaStream } from "./cuda-stream.ts";
import { DeviceTensor } from "./device-tensor.ts";
import type { PinnedSpan } from "./pinned-memory.ts";
import { PreparedRounds } from "./prepared-rounds.ts";
import { RoundKernel, type RoundRest, type RoundSpans, type TableSpan } from "./round-kernel.ts";
import type { RoundRule } from "./round-source.ts";
import { TablePool } from "./table-pool.ts";
import type { TensorPlaces } from "./tensor-places.ts";
import { UpdateSettings } from "./update-settings.ts";

export type CudaBackendOptions = {
  /** Opens CUDA. Rejects with NO_DEVICE. */
  readonly openCuda: () => Promise<Cuda>;
  /** Whether `close` closes it, and with it every tensor that users have of it. */
  readonly ownsCuda: boolean;
  readonly dtype: RowElement;
};

/** A key on the card. */
type OpenKey = {
  readonly plan: KeyPlan;
  /** The tensor that has all its memory. */
  readonly memory: DeviceTensor;
  readonly results: readonly [number, number];
  readonly slots: readonly [number, number];
  readonly update: UpdateSettings | undefined;
  readonly rule: RoundRule;
  /** For rounds that all devices have pushed to. */
  readonly kernel: RoundKernel;
  readonly isLarge: boolean;
  /** Pinned copies of results that somebody has borrowed. */
  readonly borrowed: [PinnedSpan | undefined, PinnedSpan | undefined];
  /** By version: what its rounds have in common, if all that is but for what devices push and pull into. */
  rests: readonly [RoundRest, RoundRest] | undefined;
  /** The launch that it was last a part of (CudaBackend.B2). */
  launch: number;
};

/** What a hand-out or the share of one device in a gather reads, and where it goes. */
type CopiedSpan = {
  readonly from: number;
  readonly result: number;
  /** Of the bytes within each target. */
  readonly offset: number;
  readonly length: number;
  readonly targets: readonly Place[];
};

/** A key of at least so many bytes gets a launch of its own. */
const LARGE_BYTES = 2 << 20;
/** What the driver aligns allocations to. */
const ALIGNMENT = 256;

export class CudaBackend implements ModelBackend<DeviceTensor> {
  readonly name = "cuda";
  readonly dtype: RowElement;
  readonly runner: BatchRunner = {
    kind: "batch",
    runBatch: (tasks, prepared = []) => this.#runBatch(tasks, prepared),
    prepare: (tasks) => this.#prepare(tasks),
  };
  readonly #options: CudaBackendOptions;
  readonly #keys: OpenKey[] = [];
  /** By rule and number of sources. */
  readonly #kernels = new Map<RoundRule, RoundKernel[]>();
  /** Streams that pushes named since the last batch. */
  readonly #after = new Set<CudaStream>();
  /** Those that are not closed. */
  readonly #prepared = new Set<PreparedRounds>();
  readonly #spans: RoundSpans;
  #cuda: Cuda | undefined;
  #devices: readonly CudaDevice[] = [];
  readonly #cards = new Set<CudaCard>();
  #streams: { readonly reduce: CudaStream; readonly toHost: CudaStream; readonly fromHost: CudaStream } | undefined;
  #tables: TablePool | undefined;
  #places: TensorPlaces | undefined;
  /** The kernel of hand-outs and gathers. */
  #copies: RoundKernel | undefined;
  #zeroRows: DeviceTensor | undefined;
  #launch = 1;

  constructor(options: CudaBackendOptions) {
    this.#options = options;
    this.dtype = options.dtype;
    this.#spans = {
      ...{ sources: [], targets: [], previous: 0, result: 0, slot0: 0, slot1: 0 },
      ...{ length: 0, settings: undefined, flags: 0 },
    };
  }

  async open(devices: readonly number[]): Promise<void> {
    const cuda = await this.#options.openCuda();
    this.#cuda = cuda;
    this.#devices = devices.map((number) => cuda.device(number));
    const { card } = this;
    for (const device of this.#devices) {
      card.reach(device.card);
      this.#cards.add(device.card);
    }
    this.#streams = { reduce: new CudaStream(card), toHost: new CudaStream(card), fromHost: new CudaStream(card) };
    this.#tables = new TablePool(card);
    this.#places = card.places;
    this.#spans.targets = this.#devices.map(() => 0);
  }

  /** Where rounds and hand-outs run, for those who time them. */
  get stream(): CudaStream {
    return this.#stream.reduce;
  }

  /** The card that reduces. */
  get card(): CudaCard {
    const [device] = this.#devices;
    if (device === undefined) throw new WeighbridgeError("CLOSED", "CUDA is not open");
    return device.card;
  }

  openKey(plan: KeyPlan, updater: ResolvedOptimizer | undefined): void {
    assert(plan.index === this.#keys.length, "keys come in their order");
    const { bytes } = ROW_ELEMENTS[this.dtype];
    const update = updater === undefined ? undefined : new UpdateSettings(updater, this.dtype);
    const rule: RoundRule = plan.operation === "gather" ? "copy" : (update?.rule ?? "none");
    const starts = updater === undefined ? [] : slotLayoutOf(updater, { kind: "tensor", width: plan.length }).slots;
    const resultBytes = aligned(plan.resultLength * bytes);
    const slotBytes = aligned(plan.length * bytes);
    const [device] = this.#devices;
    assert(device !== undefined, "the backend is open");
    const memory = device.allocate([(2 * resultBytes + starts.length * slotBytes) / bytes], { dtype: this.dtype });
    const first = memory.address;
    const slotAt = (slot: number): number => (slot < starts.length ? first + 2 * resultBytes + slot * slotBytes : 0);
    memory.fill(0);
    for (const [slot, { start }] of starts.entries()) {
      assert(typeof start === "number", `slot ${slot} of ${updater?.type} begins with a number`);
      if (start !== 0) memory.view((2 * resultBytes + slot * slotBytes) / bytes, [plan.length]).fill(start);
    }
    for (const stream of Object.values(this.#stream)) stream.follow(device.stream);
    // Compiled now, so that what does not compile is told here and no round waits for it.
    const kernel = this.#kernel(rule, rule === "copy" ? 0 : this.#devices.length);
    this.#copies = this.#kernel("copy", 0);
    const key: OpenKey = {
      ...{ plan, memory, kernel, update, rule, borrowed: [undefined, undefined], launch: 0, rests: undefined },
      isLarge: plan.length * bytes >= LARGE_BYTES,
      results: [first, first + resultBytes],
      slots: [slotAt(0), slotAt(1)],
    };
    key.rests = this.#restsOf(key);
    this.#keys.push(key);
  }

  checkData(data: DeviceTensor, what: string): void {
    if (!(data instanceof DeviceTensor))
      throw new WeighbridgeError("BAD_ARGUMENT", `${what} takes a tensor on CUDA (model.tensor), not ${showValue(data)}`);
    if (data.dtype !== this.dtype) throw new WeighbridgeError("BAD_ARGUMENT", `${what}: the model is of ${this.dtype}, not ${data.title}`);
    if (data.isFree) throw new WeighbridgeError("BAD_ARGUMENT", `${what}: ${data.title} was freed`);
    if (!this.#cards.has(data.device.card))
      throw new WeighbridgeError("BAD_ARGUMENT", `${what}: ${data.title} is on ${data.device.card.title}, which the model does not use`);
  }

  /** Tensors change only by being freed. */
  get dataEpoch(): number {
    return this.#places!.freeCount;
  }

  lengthOf(data: DeviceTensor): number {
    return data.length;
  }

  async valuesOf(data: DeviceTensor): Promise<RowArray> {
    return (await data.toArray()) as RowArray; // of the model's type: `checkData` has seen to it
  }

  placeOf(data: DeviceTensor): Place {
    return data.place;
  }

  tensor(shape: readonly number[], position: number): DeviceTensor {
    const device = this.#devices[position];
    assert(device !== undefined, `there is no device at position ${position}`);
    const tensor = device.allocate(shape, { dtype: this.dtype });
    tensor.fill(0);
    return tensor;
  }

  free(data: DeviceTensor): void {
    data.free();
  }

  takePush({ data, after }: PushedData<DeviceTensor>, _version: ResultVersion): Place {
    if (after instanceof CudaStream) this.#after.add(after);
    else if (after instanceof CudaEvent) this.#stream.reduce.waitFor(after);
    else if (after !== undefined)
      throw new WeighbridgeError("BAD_ARGUMENT", `a push goes after a stream or an event of CUDA, not ${showValue(after)}`);
    return data.place;
  }

  copyOut(): void {
    assert(false, "every tensor on CUDA has a place");
  }

  async borrowResult({ index }: KeyPlan, version: ResultVersion): Promise<RowArray> {
    const key = this.#keys[index]!;
    const byteCount = key.plan.resultLength * ROW_ELEMENTS[this.dtype].bytes;
    const { card } = this;
    const { toHost } = this.#stream;
    const span = card.pinned.take(byteCount);
    key.borrowed[version] = span;
    card.enter();
    card.check(
      card.driver.functions.cuMemcpyDtoHAsync(span.address, key.results[version], byteCount, toHost.handle),
      "a copy of a result from the card",
    );
    await toHost.finish();
    return elementsAt(this.dtype, span.buffer, 0, key.plan.resultLength);
  }

  async returnResult({ index }: KeyPlan, version: ResultVersion, values: RowArray): Promise<void> {
    const key = this.#keys[index]!;
    const { card } = this;
    const { fromHost } = this.#stream;
    const span = key.borrowed[version] ?? card.pinned.take(values.byteLength);
    key.borrowed[version] = undefined;
    try {
      if (values.buffer !== span.buffer)
        new Uint8Array(span.buffer).set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
      card.enter();
      card.check(
        card.driver.functions.cuMemcpyHtoDAsync(key.results[version], span.address, values.byteLength, fromHost.handle),
        "a copy of a result to the card",
      );
      await fromHost.finish();
    } finally {
      card.pinned.giveBack(span);
    }
  }

  /** Where a pull's callback may go on: the data are there, and the device's own kernels come after it. */
  streamOf(device: number): CudaStream | undefined {
    return this.#devices[device]?.stream;
  }

  async close(): Promise<void> {
    if (this.#streams === undefined) return;
    const streams = Object.values(this.#streams);
    this.#streams = undefined;
    this.#devices = [];
    try {
      for (const stream of streams) await stream.finish();
      for (const { memory } of this.#keys.splice(0)) memory.free();
      this.#zeroRows?.free();
      for (const prepared of this.#prepared) prepared.close();
      this.#tables?.close();
      for (const stream of streams) stream.close();
    } finally {
      if (this.#options.ownsCuda) this.#cuda?.close();
    }
  }

  get #stream(): { readonly reduce: CudaStream; readonly toHost: CudaStream; readonly fromHost: CudaStream } {
    if (this.#streams === undefined) throw new WeighbridgeError("CLOSED", "CUDA is not open");
    return this.#streams;
  }

  async #runBatch(tasks: readonly ModelTask[], prepared: readonly PreparedTasks[]): Promise<void> {
    const { reduce } = this.#stream;
    const tables: TableSpan[] = [];
    this.#checkTasks(tasks);
    for (const device of this.#devices) this.#after.add(device.stream);
    for (const stream of this.#after) reduce.follow(stream);
    this.#after.clear();
    try {
      for (const rounds of prepared) {
        assert(rounds instanceof PreparedRounds, "a backend runs what it has prepared");
        rounds.launch(reduce);
      }
      for (let from = 0; from < tasks.length; ) from = this.#launchFrom(tasks, from, tables);
      await reduce.finish();
    } finally {
      for (const table of tables) this.#tables?.giveBack(table);
    }
  }

  /** Rounds of small keys whose settings never change, which every device has pushed to. */
  #prepare(tasks: readonly ReduceTask[]): PreparedRounds | undefined {
    const kernel = this.#keys[tasks[0]!.plan.index]!.kernel;
    for (const { plan, version, sources } of tasks) {
      const key = this.#keys[plan.index]!;
      if (key.kernel !== kernel || key.rests?.[version] === undefined || sources.includes(0)) return undefined;
    }
    this.#checkTasks(tasks);
    const places = this.#places!;
    try {
      for (const task of tasks) kernel.appendWith(this.#keys[task.plan.index]!.rests![task.version], task, places);
      const span = this.#tables!.take(kernel.tableBytes);
      const table = kernel.writeTable(span, this.#stream.reduce);
      const prepared = new PreparedRounds({ kernel, tasks, places, table, release: (rounds) => this.#release(rounds, span) });
      this.#prepared.add(prepared);
      return prepared;
    } finally {
      kernel.clear();
    }
  }

  #release(rounds: PreparedRounds, table: TableSpan): void {
    if (this.#prepared.delete(rounds)) this.#tables?.giveBack(table);
  }

  /** CudaBackend.B4 */
  #checkTasks(tasks: readonly ModelTask[]): void {
    const places = this.#places!;
    for (const task of tasks) {
      if (task.kind === "handOut") places.check(task.target);
      else {
        for (const source of task.sources) if (source !== 0) places.check(source);
        for (const target of task.targets) places.check(target);
      }
    }
  }

  /**
   * Launches tasks from this one on, up to the second one of a key (CudaBackend.B2), and returns where it stopped. The
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

  #add(key: OpenKey, task: ModelTask): void {
    if (task.kind === "handOut") this.#handOut(key, task);
    else if (key.plan.operation === "gather") this.#gather(key, task);
    else this.#reduce(key, task);
  }

  #reduce(key: OpenKey, task: ReduceTask): void {
    const { sources, targets } = task;
    const spans = this.#spans;
    const places = this.#places!;
    const rest = key.rests?.[task.version];
    if (rest !== undefined && !sources.includes(0)) {
      key.kernel.appendWith(rest, task, places);
      return;
    }
    let sourceCount = 0;
    for (let i = 0; i < sources.length; i++) if (sources[i] !== 0) spans.sources[sourceCount++] = places.addressOf(sources[i]!);
    for (let i = 0; i < spans.targets.length; i++) spans.targets[i] = i < targets.length ? places.addressOf(targets[i]!) : 0;
    this.#setRest(key, task);
    this.#dispatch(key, sourceCount === this.#devices.length ? key.kernel : this.#kernel(key.rule, sourceCount));
  }

  /** What a round of a key has beside its sources and targets. */
  #setRest(key: OpenKey, { round, version }: Pick<ReduceTask, "round" | "version">): void {
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
  #restsOf(key: OpenKey): readonly [RoundRest, RoundRest] | undefined {
    if (key.isLarge || key.rule === "copy" || key.update?.isConstant === false) return undefined;
    const restOf = (version: ResultVersion): RoundRest => {
      this.#setRest(key, { round: 1, version });
      return key.kernel.keepRest(this.#spans);
    };
    return [restOf(0), restOf(1)];
  }

  #handOut(key: OpenKey, { version, target }: HandOutTask): void {
    this.#copy(key, { from: key.results[version], result: 0, offset: 0, length: key.plan.resultLength, targets: [target] });
  }

  /**
   * What each device pushed goes to its rows of the result and of all targets: it is read once. The rows of a device
   * that has ended are zeros.
   */
  #gather(key: OpenKey, { version, sources, targets }: ReduceTask): void {
    const { length } = key.plan;
    for (let i = 0; i < sources.length; i++) {
      const offset = i * length * ROW_ELEMENTS[this.dtype].bytes;
      const from = sources[i] === 0 ? this.#zeros(length) : this.#places!.addressOf(sources[i]!);
      this.#copy(key, { from, result: key.results[version] + offset, offset, length, targets });
    }
  }

  /** Memory of so many zeros, for rows that nobody has pushed. */
  #zeros(length: number): number {
    if ((this.#zeroRows?.length ?? 0) < length) {
      this.#zeroRows?.free();
      this.#zeroRows = this.tensor([length], 0);
      this.#stream.reduce.follow(this.#zeroRows.device.stream);
    }
    return this.#zeroRows!.address;
  }

  #copy(key: OpenKey, { from, result, offset, length, targets }: CopiedSpan): void {
    const spans = this.#spans;
    const places = this.#places!;
    for (let i = 0; i < spans.targets.length; i++) spans.targets[i] = i < targets.length ? places.addressOf(targets[i]!) + offset : 0;
    spans.previous = from;
    spans.result = result;
    spans.slot0 = 0;
    spans.slot1 = 0;
    spans.length = length;
    spans.settings = undefined;
    spans.flags = 0;
    this.#dispatch(key, this.#copies!);
  }

  #dispatch({ isLarge }: OpenKey, kernel: RoundKernel): void {
    if (isLarge) kernel.launchOne(this.#spans, this.#stream.reduce);
    else kernel.append(this.#spans);
  }

  #launchAppended(tables: TableSpan[]): void {
    for (const kernels of this.#kernels.values()) {
      for (const kernel of kernels) {
        if (kernel === undefined || kernel.roundCount === 0) continue;
        try {
          const table = this.#tables!.take(kernel.tableBytes);
          tables.push(table);
          kernel.launchTable(kernel.writeTable(table, this.#stream.reduce), this.#stream.reduce);
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
      const targetCount = this.#devices.length;
      kernel = new RoundKernel(this.#stream.reduce, { element: this.dtype, rule, sourceCount, targetCount });
      kernels[sourceCount] = kernel;
    }
    return kernel;
  }
}

function aligned(byteCount: number): number {
  return Math.ceil(byteCount / ALIGNMENT) * ALIGNMENT;
}
