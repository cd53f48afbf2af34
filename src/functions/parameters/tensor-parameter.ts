// tensor-parameter — a dense tensor on a server as its functions see it: pushes that apply at once (async) or wait for everybody's (sync),
// and reads that wait until they are fresh enough.
//
// Invariants:
//   T1. A push that makes no sense, or is refused for a NaN, changes nothing.
//   T2. Sync pushes of one clock are added in the order of the workers' ranks, whatever the order of arrival: the same bits in every run.
//   T3. Applying a round cannot fail: what it needs was taken when its updates came.
//   T4. Rows that nobody has named stay as they are, whatever the optimizer does to the others; also in a round to which all pushed rows.

import { WeighbridgeError } from "../../base/errors.ts";
import type { ConsistencyChange } from "../../consistency/consistency-phases.ts";
import type { Contribution } from "../../consistency/update-rounds.ts";
import type { WorkerLife } from "../../consistency/worker-lives.ts";
import type { Initializer } from "../../store/initializers/initializer.ts";
import type { TensorSpec } from "../../store/parameter-spec.ts";
import { TensorShape } from "../../store/tensor-shape.ts";
import { type BlockUpdate, type RowMarks, TensorStore } from "../../store/tensor-store.ts";
import type { NonFiniteCounts, Updater } from "../../store/updaters/updater.ts";
import type { ValueShape } from "../../wire/codecs/value-codec.ts";
import { rankOf } from "../../wire/node-id.ts";
import { checkScale, type Holder, type Kept, keepRows, type ParameterHost, roomFor } from "./parameter-host.ts";
import { noLink, ParameterLink } from "./parameter-link.ts";
import { ParameterPace, type Reading } from "./parameter-pace.ts";
import type { DecodedSettings } from "./parameter-settings.ts";
import type { GatheredUpdate } from "./server-pacer.ts";
import type { TrainingState } from "./training-state.ts";

const FLOAT_BYTES = 4;

/** A gradient for one block. */
export type BlockPush = {
  readonly life: WorkerLife;
  readonly clock: number;
  readonly block: number;
  /** In the arena. */
  readonly gradients: Float32Array;
  readonly scale: number;
};

/** A block of a tensor, copied: where it begins among all elements, and its values. */
export type TensorBlock = { readonly first: number; readonly values: Float32Array };

export class TensorParameter {
  readonly spec: TensorSpec;
  readonly store: TensorStore;
  readonly pace: ParameterPace;
  readonly #id: number;
  readonly #host: ParameterHost;
  readonly #updater: Updater;
  readonly #initializer: Initializer;
  readonly #link: ParameterLink | undefined;
  /** By block: its number among all that is reduced as one. */
  readonly #units = new Map<number, number>();
  #isRestored = false;

  constructor(host: ParameterHost, id: number, spec: TensorSpec) {
    const { arena, kernels, pacer } = host;
    this.spec = spec;
    this.#id = id;
    this.#host = host;
    this.pace = new ParameterPace(pacer, id, spec);
    const shape = new TensorShape(spec.shape);
    this.#link = ParameterLink.of(host, spec);
    this.#initializer = host.initializer(spec);
    try {
      this.#updater = host.updater(spec, shape.hasRows ? shape.width : 1);
    } catch (thrown) {
      this.#initializer.close();
      throw thrown;
    }
    this.store = new TensorStore({ arena, kernels, shape, updater: this.#updater, initializer: this.#initializer });
  }

  /**
   * Gives a block the values that it begins with, unless they were given before or somebody has pushed to it: whether it took them. Throws
   * OUT_OF_RANGE, VALUE_LENGTH, NOT_FINITE, ARENA_FULL.
   */
  start(block: number, values: Float32Array): boolean {
    this.#checkLength(block, values.length);
    const index = this.#host.optimizers.checkFinite(values.byteOffset, values.length);
    if (index >= 0) {
      throw new WeighbridgeError("NOT_FINITE", `${this.spec.name} cannot begin with ${values[index]}, element ${index} of block ${block}`);
    }
    return !this.#units.has(block) && this.store.start(block, values.byteOffset);
  }

  /** Throws OUT_OF_RANGE, VALUE_LENGTH, NOT_FINITE, ARENA_FULL, and for who may not push now STALE_UPDATE, NOT_JOINED, FENCED or QUEUE_FULL. */
  push(push: BlockPush): void {
    const { life, clock, block, gradients, scale } = push;
    this.#checkLength(block, gradients.length);
    checkScale(scale, this.spec.name);
    this.pace.take(life, clock);
    if (!this.#updater.admit(gradients.byteOffset, gradients.length)) return;
    if (this.pace.isSyncAt(clock)) this.#gather(push);
    else this.store.update(block, updateOf(push));
  }

  /** As `push`, for some rows of a block, each named once. Without any it is no step. */
  pushRows(push: BlockPush & { readonly rows: Uint32Array }): void {
    const { life, clock, block, rows, gradients, scale } = push;
    const { width } = this.store.shape;
    this.#checkRows(block, rows);
    if (gradients.length !== rows.length * width) throw this.#wrongLength(gradients.length, rows.length * width);
    checkScale(scale, this.spec.name);
    this.pace.take(life, clock);
    if (rows.length === 0) return;
    if (!this.#updater.admit(gradients.byteOffset, gradients.length)) return;
    if (!this.pace.isSyncAt(clock)) {
      this.store.updateRows(block, { ...updateOf(push), rows: rows.byteOffset, listed: rows.length });
      return;
    }
    const { arena, kernels, indexes } = this.#host;
    const byteCount = this.store.shape.floatsOf(block) * FLOAT_BYTES;
    const whole = arena.allocate(byteCount); // a sparse gradient joins the round of its block as one that is 0 elsewhere
    try {
      kernels.zero(whole, byteCount);
      indexes.scatterByIndex(gradients.byteOffset, rows.byteOffset, rows.length, width, whole);
      this.#gather({ ...push, gradients: arena.floats.subarray(whole >>> 2, (whole + byteCount) >>> 2) as Float32Array }, rows);
    } finally {
      arena.release(whole, byteCount);
    }
  }

  /** Room for these rows of a block, which is made if it is not there; `holder` holds it. Throws OUT_OF_RANGE, UNSUPPORTED, ARENA_FULL. */
  roomFor(block: number, rows: Uint32Array, holder: Holder): number {
    this.#checkRows(block, rows);
    this.store.touchIfRoom(block);
    return roomFor(this.#host.arena, rows.length * this.store.shape.width * FLOAT_BYTES, holder);
  }

  /** The rows one after the other, for the worker of this rank, in `out`: what `roomFor` gave for them. */
  pullRows(
    block: number,
    rows: Uint32Array,
    { out, worker }: { readonly out: number; readonly worker: number },
  ): { readonly values: Float32Array } {
    const { arena, indexes } = this.#host;
    this.store.notePull(block, worker, rows);
    const { width } = this.store.shape;
    const byteCount = rows.length * width * FLOAT_BYTES;
    const held = this.store.hold(block);
    indexes.gatherByIndex(held.values.byteOffset, rows.byteOffset, rows.length, width, out);
    held.release();
    return { values: arena.floats.subarray(out >>> 2, (out + byteCount) >>> 2) as Float32Array };
  }

  /** How values travel. Throws UNSUPPORTED when they do as they are. */
  get link(): ParameterLink {
    if (this.#link === undefined) throw noLink(this.spec.name);
    return this.#link;
  }

  /** The shape in which the values of a block are encoded. Throws OUT_OF_RANGE. */
  blockShape(block: number): ValueShape {
    this.#checkBlock(block);
    const { shape } = this.store;
    const width = shape.codedWidth(block);
    return { rowCount: shape.floatsOf(block) / width, width };
  }

  /** As `blockShape`, for some rows of it, at least one. Throws also UNSUPPORTED and BAD_REQUEST. */
  rowsShape(block: number, rows: Uint32Array): ValueShape {
    this.#checkRows(block, rows);
    if (rows.length > 0 && rows.length <= this.store.shape.rowsPerBlock) return { rowCount: rows.length, width: this.store.shape.width };
    throw new WeighbridgeError(
      "BAD_REQUEST",
      `${rows.length} rows of a block of ${this.spec.name}, which has ${this.store.shape.rowsPerBlock}`,
    );
  }

  isFresh(clock: number): boolean {
    return this.pace.admits(clock);
  }

  whenFresh<T>(reading: Reading, read: () => T): T | Promise<T> {
    return this.pace.when(reading, read);
  }

  /** All blocks that are here, and those that `owns` says are this server's and nobody has touched: they have their initial values. Throws ARENA_FULL. */
  *blocks(owns: (block: number) => boolean): Iterable<TensorBlock> {
    const { store } = this;
    const here = new Set(store.blockIndexes);
    for (let block = 0; block < store.shape.blockCount; block++) {
      if (!here.has(block) && !owns(block)) continue;
      const held = here.has(block) ? store.hold(block) : store.initialBlock(block);
      const values = new Float32Array(held.values);
      held.release();
      yield { first: store.shape.firstFloat(block), values };
    }
  }

  /** A copy that outlives its frame. */
  keep(rows: Uint32Array): Kept<Uint32Array> {
    return keepRows(this.#host.arena, rows);
  }

  /** What was pushed here and not finite. */
  get nonFinite(): Readonly<NonFiniteCounts> {
    return this.#updater.counts;
  }

  /** Throws BAD_ARGUMENT. */
  configure({ learningRate, schedule, staleness }: DecodedSettings): void {
    if (learningRate !== undefined) this.#updater.setLearningRate(learningRate);
    if (schedule !== undefined) this.#updater.setSchedule(schedule);
    if (staleness !== undefined) this.pace.changeStaleness(staleness);
  }

  /** Another consistency, from the clock on that is returned. Throws QUEUE_FULL. */
  change(change: ConsistencyChange): number {
    return this.pace.change(change);
  }

  /** What a checkpoint keeps beside the rows. */
  get training(): TrainingState {
    const { learningRate, schedule } = this.#updater;
    return { learningRate, schedule, ...this.pace.training, step: 0 };
  }

  /** Whether it is from a checkpoint, or from what was saved of it alone. */
  get isRestored(): boolean {
    return this.#isRestored;
  }

  /** Takes it up again where a checkpoint left it. */
  resume({ learningRate, schedule, staleness, consistency }: TrainingState): void {
    this.#isRestored = true;
    this.configure({ learningRate: this.spec.optimizer.learningRate === undefined ? undefined : learningRate, schedule, staleness });
    if (consistency !== undefined) this.pace.resume(consistency);
  }

  close(): void {
    this.endRounds();
    this.free();
  }

  /** Nobody asks for it any more: reads that wait fail, and rounds that are open are dropped. */
  endRounds(): void {
    this.#host.pacer.forget(this.#id, new WeighbridgeError("UNKNOWN_PARAMETER", `${this.spec.name} was cleared`));
    for (const unit of this.#units.values())
      this.#host.pacer.forget(unit, new WeighbridgeError("UNKNOWN_PARAMETER", `${this.spec.name} was cleared`));
  }

  /** Gives its memory back, after `endRounds`. */
  free(): void {
    this.store.close();
    this.#updater.close();
    this.#initializer.close();
    this.#link?.close();
  }

  /** `rows`: those that the push names; left out, all. */
  #gather({ life, clock, block, gradients, scale }: BlockPush, rows?: Uint32Array): void {
    const { pacer, arena, kernels } = this.#host;
    const stamp = { ...life, parameter: this.#unitOf(block), clock };
    const byteCount = gradients.length * FLOAT_BYTES;
    const known = pacer.gathered(stamp);
    if (known instanceof GatheredBlock) {
      kernels.axpy(known.address, gradients.byteOffset, scale, gradients.length);
      known.isSum = true;
      known.name(rows);
      return;
    }
    pacer.checkRoom(stamp, byteCount);
    this.store.touch(block); // T3
    const address = arena.allocate(byteCount);
    if (scale === 1) kernels.copy(address, gradients.byteOffset, byteCount);
    else {
      kernels.zero(address, byteCount);
      kernels.axpy(address, gradients.byteOffset, scale, gradients.length);
    }
    pacer.gather(stamp, new GatheredBlock(this, this.#host, { block, clock, address, byteCount, rows }), byteCount);
  }

  /** A round: one step, with a gradient whose memory is given away. A sum that is not finite is none. */
  applyRound(
    block: number,
    update: BlockUpdate,
    { isSum, named }: { readonly isSum: boolean; readonly named: RowMarks | undefined },
  ): void {
    const floatCount = this.store.shape.floatsOf(block);
    if (!isSum || this.#updater.admitSum(update.gradients, floatCount)) this.store.updateOwned(block, update, named);
    else this.#host.arena.release(update.gradients, floatCount * FLOAT_BYTES);
  }

  #unitOf(block: number): number {
    const known = this.#units.get(block);
    if (known !== undefined) return known;
    const unit = this.#host.nextUnit();
    this.#units.set(block, unit);
    return unit;
  }

  #checkLength(block: number, length: number): void {
    const { shape } = this.store;
    this.#checkBlock(block);
    if (length !== shape.floatsOf(block)) throw this.#wrongLength(length, shape.floatsOf(block));
  }

  #checkBlock(block: number): void {
    const { blockCount } = this.store.shape;
    if (block < blockCount) return;
    throw new WeighbridgeError("OUT_OF_RANGE", `${this.spec.name} has ${blockCount} blocks; there is no block ${block}`);
  }

  /** T1 */
  #checkRows(block: number, rows: Uint32Array): void {
    this.#checkBlock(block);
    const { shape } = this.store;
    if (!shape.hasRows) throw new WeighbridgeError("UNSUPPORTED", `${this.spec.name} has rows that are too long for calls by row`);
    const rowCount = shape.floatsOf(block) / shape.width;
    for (const row of rows) {
      if (row < rowCount) continue;
      throw new WeighbridgeError("OUT_OF_RANGE", `block ${block} of ${this.spec.name} has ${rowCount} rows; there is no row ${row} in it`);
    }
  }

  #wrongLength(length: number, expected: number): WeighbridgeError {
    return new WeighbridgeError("VALUE_LENGTH", `${length} values came for ${this.spec.name}; ${expected} were expected`);
  }
}

function updateOf({ life, clock, gradients, scale }: BlockPush): BlockUpdate {
  return { gradients: gradients.byteOffset, gradientScale: scale, scheduleStep: clock, workerRank: rankOf(life.worker) };
}

type GatheredPlace = {
  readonly block: number;
  readonly clock: number;
  readonly address: number;
  readonly byteCount: number;
  /** Of a push by rows. */
  readonly rows: Uint32Array | undefined;
};

/** One worker's gradient for a block, at one clock. */
class GatheredBlock implements GatheredUpdate {
  readonly address: number;
  /** Whether more than one push went into it. */
  isSum = false;
  /** T4: of pushes by rows, those that they name; undefined once all rows are. */
  #named: RowMarks | undefined;
  readonly #tensor: TensorParameter;
  readonly #host: ParameterHost;
  readonly #block: number;
  readonly #clock: number;
  readonly #byteCount: number;

  constructor(tensor: TensorParameter, host: ParameterHost, at: GatheredPlace) {
    this.#tensor = tensor;
    this.#host = host;
    this.#block = at.block;
    this.#clock = at.clock;
    this.address = at.address;
    this.#byteCount = at.byteCount;
    const { shape } = tensor.store;
    this.#named = at.rows && new Uint8Array(shape.floatsOf(at.block) / shape.width);
    this.name(at.rows);
  }

  /** A push names these rows; all, when they are left out. */
  name(rows: Uint32Array | undefined): void {
    if (rows === undefined) this.#named = undefined;
    else if (this.#named !== undefined) for (const row of rows) this.#named[row] = 1;
  }

  /** T2 */
  applyRound(contributions: readonly Contribution<GatheredUpdate>[]): void {
    const { kernels } = this.#host;
    for (const { handle } of contributions) {
      if (handle === this || !(handle instanceof GatheredBlock)) continue;
      kernels.add(this.address, handle.address, this.#byteCount / FLOAT_BYTES);
      this.#nameAlso(handle);
      handle.free();
    }
    const gradientScale = this.#tensor.pace.reduceAt(this.#clock) === "mean" ? 1 / contributions.length : 1;
    const update = { gradients: this.address, gradientScale, scheduleStep: this.#clock, workerRank: 0 };
    this.#tensor.applyRound(this.#block, update, { isSum: this.isSum || contributions.length > 1, named: this.#named });
  }

  free(): void {
    this.#host.arena.release(this.address, this.#byteCount);
  }

  #nameAlso(other: GatheredBlock): void {
    const others = other.#named;
    if (others === undefined) this.#named = undefined;
    else if (this.#named !== undefined) for (let row = others.indexOf(1); row >= 0; row = others.indexOf(1, row + 1)) this.#named[row] = 1;
  }
}
