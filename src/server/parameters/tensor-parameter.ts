// tensor-parameter — a dense tensor on a server as its functions see it: how its blocks start, are read, and move with
// their parts. tensor-requests.ts has the pushes.

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import type { TensorBlock } from "../../contracts/function-context.ts";
import { partOf } from "../../keys/part.ts";
import type { TensorSpec } from "../../store/parameter-spec.ts";
import type { PartMarks } from "../../store/table-parts.ts";
import { TensorShape } from "../../store/tensor-shape.ts";
import { TensorStore } from "../../store/tensor-store.ts";
import type { ValueShape } from "../../wire/codecs/value-codec.ts";
import { type CallMemory, codedOffset, type Kept, keepRows, roomFor } from "./call-memory.ts";
import { HostedParameter } from "./hosted-parameter.ts";
import { checkSettable, type ParameterHost, type ParameterIds } from "./parameter-host.ts";
import type { TensorPage } from "./part-state.ts";
import { TensorPushes } from "./tensor-requests.ts";

export class TensorParameter extends HostedParameter<TensorSpec> {
  readonly store: TensorStore;
  readonly pushes: TensorPushes;

  constructor(host: ParameterHost, ids: ParameterIds, spec: TensorSpec) {
    const { arena, kernels } = host;
    const { number } = ids;
    const shape = new TensorShape(spec.shape);
    super(host, ids, spec, shape.hasRows ? shape.width : 1);
    const { updater, initializer } = this;
    this.store = new TensorStore({ arena, kernels, shape, updater, initializer, partOf: (block) => partOf(block, number) });
    this.pushes = new TensorPushes(this);
    try {
      this.reserve();
    } catch (thrown) {
      this.free();
      throw thrown;
    }
  }

  /**
   * Reserves memory for the blocks that this server owns now, and none for others (TensorStore.T7). Throws ARENA_FULL.
   */
  reserve(): void {
    const { name, shape } = this.spec;
    this.store.reserve((block) => this.host.ownsBlock(this.number, block), `${JSON.stringify(name)} of shape [${shape.join(", ")}]`);
  }

  /**
   * Sets the first values of a block. False if they were set before, or somebody has pushed to it. Throws OUT_OF_RANGE,
   * VALUE_LENGTH, NOT_FINITE, ARENA_FULL.
   */
  start(block: number, values: Float32Array): boolean {
    const magnitude = this.#magnitudeOf(block, values);
    if (this.pushes.has(block) || !this.store.start(block, values.byteOffset)) return false;
    this.store.noteMagnitude(magnitude);
    return true;
  }

  /**
   * Replaces the values of a block, whatever was pushed before. Throws OUT_OF_RANGE, VALUE_LENGTH, NOT_FINITE,
   * ARENA_FULL, UNSUPPORTED.
   */
  set(block: number, values: Float32Array): void {
    const magnitude = this.#magnitudeOf(block, values);
    checkSettable(this.spec);
    this.store.set(block, values.byteOffset);
    this.store.noteMagnitude(magnitude);
  }

  #magnitudeOf(block: number, values: Float32Array): number {
    this.checkLength(block, values.length);
    const { optimizers } = this.host;
    const magnitude = optimizers.greatestMagnitude(values.byteOffset, values.length);
    if (Number.isFinite(magnitude)) return magnitude;
    const index = optimizers.checkFinite(values.byteOffset, values.length);
    throw new WeighbridgeError("NOT_FINITE", `${this.spec.name} cannot take ${values[index]} as element ${index} of block ${block}`);
  }

  /**
   * The gradients of a request for a block, or some of its rows: where they lie, or decoded in memory that `memory`
   * holds. Throws BAD_REQUEST, OUT_OF_RANGE, ARENA_FULL.
   */
  gradientsIn(payload: ArrayBufferView, block: number, rows: Uint32Array, memory: CallMemory): Float32Array {
    return this.valuesIn(payload, () => (rows.length === 0 ? this.blockShape(block) : this.rowsShape(block, rows)), memory);
  }

  /**
   * Room for the answer with a block or these rows of it, held by `memory`. Throws OUT_OF_RANGE, UNSUPPORTED,
   * ARENA_FULL.
   */
  roomFor(block: number, rows: Uint32Array, memory: CallMemory): number {
    const { arena } = this.host;
    if (rows.length === 0) return roomFor(arena, this.link?.roomBytes(this.blockShape(block)) ?? 0, memory);
    this.checkRows(block, rows);
    this.store.blockIfRoom(block);
    const codedBytes = this.link?.roomBytes(this.rowsShape(block, rows)) ?? 0;
    return roomFor(arena, codedOffset(rows.length * this.store.shape.width) + codedBytes, memory);
  }

  /** The rows in order, encoded for this reader, in `out`, which `roomFor` returned for them. */
  pullRows(
    block: number,
    rows: Uint32Array,
    { out, reader }: { readonly out: number; readonly reader: { readonly worker: number } },
  ): { readonly values: ArrayBufferView } {
    const { arena, indexes } = this.host;
    this.store.notePull(block, reader, rows);
    const { width } = this.store.shape;
    const floatCount = rows.length * width;
    const held = this.store.hold(block);
    indexes.gatherByIndex(held.values.byteOffset, rows.byteOffset, rows.length, width, out);
    held.release();
    const values = arena.floats.subarray(out >>> 2, (out >>> 2) + floatCount);
    if (this.link === undefined) return { values };
    return { values: this.link.encoded(values, this.rowsShape(block, rows), out + codedOffset(floatCount)) };
  }

  /** The shape in which a block's values are encoded. Throws OUT_OF_RANGE. */
  blockShape(block: number): ValueShape {
    this.#checkBlock(block);
    const { shape } = this.store;
    const width = shape.codedWidth(block);
    return { rowCount: shape.floatsOf(block) / width, width };
  }

  /** As `blockShape`, for some rows of it, at least one. Throws also UNSUPPORTED and BAD_REQUEST. */
  rowsShape(block: number, rows: Uint32Array): ValueShape {
    this.checkRows(block, rows);
    if (rows.length > 0 && rows.length <= this.store.shape.rowsPerBlock) return { rowCount: rows.length, width: this.store.shape.width };
    throw badRequest(`${rows.length} rows of a block of ${this.spec.name}, which has ${this.store.shape.rowsPerBlock}`);
  }

  /** All blocks that are here, and untouched ones that `owns` names, with their initial values. Throws ARENA_FULL. */
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
    return keepRows(this.host.arena, rows);
  }

  /** A part: its blocks, and their open rounds (part-state.ts). */
  *savePart(part: number): Iterable<TensorPage> {
    for (const image of this.store.savePart(part)) yield { kind: "block", image };
    yield* this.pushes.save(this.store.blocksOfPart(part));
  }

  /** Marks the parts of which there is something to save. */
  markParts(marks: PartMarks): void {
    this.store.markParts(marks);
  }

  /** Throws ARENA_FULL, OUT_OF_RANGE, and for a round STALE_UPDATE or QUEUE_FULL. */
  loadPage(page: TensorPage): void {
    if (page.kind === "openBlock") {
      this.checkLength(page.block, page.image.gradients.length);
      this.pushes.load(page);
      this.phases.take(page.clock);
      return;
    }
    const { image } = page;
    this.#checkBlock(image.index);
    for (const { byteOffset, length } of this.store.loadBlock(image))
      this.store.noteMagnitude(this.host.optimizers.greatestMagnitude(byteOffset, length));
  }

  /** Removes a part; returns the number of blocks. */
  dropPart(part: number): number {
    for (const block of this.store.blocksOfPart(part)) this.pushes.drop(block);
    return this.store.dropPart(part);
  }

  /** About what a part takes, without its open rounds. */
  weighPart(part: number): number {
    return this.store.bytesOfPart(part);
  }

  countPart(part: number): number {
    return this.store.countOfPart(part);
  }

  protected override forgetRounds(error: WeighbridgeError): void {
    this.pushes.forget(error);
  }

  /** Throws OUT_OF_RANGE, VALUE_LENGTH. */
  checkLength(block: number, length: number): void {
    const { shape } = this.store;
    this.#checkBlock(block);
    if (length !== shape.floatsOf(block)) throw this.wrongLength(length, "values", shape.floatsOf(block));
  }

  #checkBlock(block: number): void {
    const { blockCount } = this.store.shape;
    if (block < blockCount) return;
    throw new WeighbridgeError("OUT_OF_RANGE", `${this.spec.name} has ${blockCount} blocks; there is no block ${block}`);
  }

  /** Throws OUT_OF_RANGE, UNSUPPORTED. */
  checkRows(block: number, rows: Uint32Array): void {
    this.#checkBlock(block);
    const { shape } = this.store;
    if (!shape.hasRows) throw new WeighbridgeError("UNSUPPORTED", `${this.spec.name} has rows that are too long for calls by row`);
    const rowCount = shape.floatsOf(block) / shape.width;
    for (const row of rows) {
      if (row < rowCount) continue;
      throw new WeighbridgeError("OUT_OF_RANGE", `block ${block} of ${this.spec.name} has ${rowCount} rows; there is no row ${row} in it`);
    }
  }
}
