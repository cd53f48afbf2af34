// cuda-backend — the devices of a shared model on CUDA: keeps results and slots of its keys in the memory of a card,
// and does the tasks of level 1 there. When and what is decided by the engine (worker/level-one), how tasks become
// launches in task-launches.ts.
//
//   the streams of the devices ──► reduce stream: rounds, hand-outs ──► a batch is done
//                                     │        ▲
//                             to host ▼        │ from host          results that level 2 or an updater of the user has
//
// Invariants:
//   CudaBackend.B1. A batch follows the streams of all devices and every stream or event that a push was given since
//       the batch before: what is pushed is complete, and what is pulled into is not in use, when a kernel of it
//       begins.
//   CudaBackend.B2. Nobody waits for the whole card: batches and copies end with an event of their own.
//   CudaBackend.B3. A result is on its way to or from the host only between batches of its key: those before have
//       ended, and those after have not begun. So copies wait for no batch, and run beside those of other keys.

import { assert } from "../base/assert.ts";
import { bytesOf } from "../base/bytes.ts";
import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import { elementsAt, ROW_ELEMENTS, type RowArray, type RowElement } from "../kernel/row-element.ts";
import type { ResolvedOptimizer } from "../store/updaters/optimizer-spec.ts";
import { slotLayoutOf } from "../store/updaters/slot-layout.ts";
import type {
  BatchRunner,
  DataRef,
  KeyPlan,
  ModelBackend,
  ModelTask,
  PreparedTasks,
  PushedData,
  ResultVersion,
} from "../worker/level-one/model-backend.ts";
import type { Cuda } from "./cuda.ts";
import type { CudaCard } from "./cuda-card.ts";
import type { CudaDevice } from "./cuda-device.ts";
import { CudaEvent, CudaStream } from "./cuda-stream.ts";
import { DeviceTensor } from "./device-tensor.ts";
import type { PinnedSpan } from "./pinned-memory.ts";
import { PreparedRounds } from "./prepared-rounds.ts";
import type { TableSpan } from "./round-kernel.ts";
import { TaskLaunches } from "./task-launches.ts";
import type { TensorRefs } from "./tensor-refs.ts";
import { runsOnCard, UpdateSettings } from "./update-settings.ts";

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
  /** Pinned copies of results that somebody has borrowed. */
  readonly borrowed: [PinnedSpan | undefined, PinnedSpan | undefined];
};

type OpenStreams = { readonly reduce: CudaStream; readonly toHost: CudaStream; readonly fromHost: CudaStream };

/** What the driver aligns allocations to. */
const ALIGNMENT = 256;

export class CudaBackend implements ModelBackend<DeviceTensor> {
  readonly name = "cuda";
  readonly dtype: RowElement;
  readonly runner: BatchRunner = {
    kind: "batch",
    runBatch: (tasks, prepared = []) => this.#runBatch(tasks, prepared),
    prepare: (tasks) => this.#launches?.prepare(tasks),
  };
  readonly #options: CudaBackendOptions;
  readonly #keys: OpenKey[] = [];
  /** Streams that pushes named since the last batch. */
  readonly #after = new Set<CudaStream>();
  #cuda: Cuda | undefined;
  #devices: readonly CudaDevice[] = [];
  readonly #cards = new Set<CudaCard>();
  #streams: OpenStreams | undefined;
  #launches: TaskLaunches | undefined;
  #refs: TensorRefs | undefined;

  constructor(options: CudaBackendOptions) {
    this.#options = options;
    this.dtype = options.dtype;
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
    const reduce = new CudaStream(card);
    this.#streams = { reduce, toHost: new CudaStream(card), fromHost: new CudaStream(card) };
    this.#refs = card.refs;
    this.#launches = new TaskLaunches({
      ...{ stream: reduce, refs: card.refs, dtype: this.dtype, deviceCount: devices.length },
      zeros: (length) => this.tensor([length], 0),
    });
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

  runsUpdater(updater: ResolvedOptimizer): boolean {
    return runsOnCard(updater, this.dtype);
  }

  openKey(plan: KeyPlan, updater: ResolvedOptimizer | undefined): void {
    assert(plan.index === this.#keys.length, "keys come in their order");
    const { bytes } = ROW_ELEMENTS[this.dtype];
    const update = updater === undefined ? undefined : new UpdateSettings(updater, this.dtype);
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
    const results = [first, first + resultBytes] as const;
    this.#launches?.addKey({ plan, results, slots: [slotAt(0), slotAt(1)], update });
    this.#keys.push({ plan, memory, results, borrowed: [undefined, undefined] });
  }

  checkData(data: DeviceTensor, what: string): void {
    if (!(data instanceof DeviceTensor)) throw badArgument(`${what} takes a tensor on CUDA (model.tensor), not ${showValue(data)}`);
    if (data.dtype !== this.dtype) throw badArgument(`${what}: the model is of ${this.dtype}, not ${data.title}`);
    if (data.isFree) throw badArgument(`${what}: ${data.title} was freed`);
    if (!this.#cards.has(data.device.card))
      throw badArgument(`${what}: ${data.title} is on ${data.device.card.title}, which the model does not use`);
  }

  /** Tensors change only by being freed. */
  get dataEpoch(): number {
    return this.#refs!.freeCount;
  }

  lengthOf(data: DeviceTensor): number {
    return data.length;
  }

  async valuesOf(data: DeviceTensor): Promise<RowArray> {
    return (await data.toArray()) as RowArray; // of the model's type: `checkData` has seen to it
  }

  refOf(data: DeviceTensor): DataRef {
    return data.ref;
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

  takePush({ data, after }: PushedData<DeviceTensor>, _version: ResultVersion): DataRef {
    if (after instanceof CudaStream) this.#after.add(after);
    else if (after instanceof CudaEvent) this.#stream.reduce.waitFor(after);
    else if (after !== undefined) throw badArgument(`a push goes after a stream or an event of CUDA, not ${showValue(after)}`);
    return data.ref;
  }

  copyOut(): void {
    assert(false, "every tensor on CUDA has a ref");
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
      if (values.buffer !== span.buffer) new Uint8Array(span.buffer).set(bytesOf(values));
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

  /** Also of what `open` has left when it failed. */
  async close(): Promise<void> {
    const streams = Object.values(this.#streams ?? {});
    const [launches, cuda] = [this.#launches, this.#cuda];
    this.#streams = undefined;
    this.#launches = undefined;
    this.#cuda = undefined;
    this.#devices = [];
    try {
      for (const stream of streams) await stream.finish();
      for (const { memory } of this.#keys.splice(0)) memory.free();
      launches?.close();
      for (const stream of streams) stream.close();
    } finally {
      if (this.#options.ownsCuda) cuda?.close();
    }
  }

  get #stream(): OpenStreams {
    if (this.#streams === undefined) throw new WeighbridgeError("CLOSED", "CUDA is not open");
    return this.#streams;
  }

  async #runBatch(tasks: readonly ModelTask[], prepared: readonly PreparedTasks[]): Promise<void> {
    const { reduce } = this.#stream;
    const launches = this.#launches!;
    launches.check(tasks);
    for (const device of this.#devices) this.#after.add(device.stream);
    for (const stream of this.#after) reduce.follow(stream);
    this.#after.clear();
    const tables: TableSpan[] = [];
    try {
      for (const rounds of prepared) {
        assert(rounds instanceof PreparedRounds, "a backend runs what it has prepared");
        rounds.launch(reduce);
      }
      launches.launch(tasks, tables);
      await reduce.finish();
    } finally {
      launches.giveBack(tables);
    }
  }
}

function aligned(byteCount: number): number {
  return Math.ceil(byteCount / ALIGNMENT) * ALIGNMENT;
}
