// tensor-blocks — the blocks of one dense tensor on a server: how they are made, restored from a checkpoint, and saved,
// loaded and dropped with their part. TensorStore updates and reads them.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Arena } from "../kernel/arena.ts";
import { FLOAT_BYTES } from "../kernel/elements.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { type BlockRoom, BlockRooms } from "./block-rooms.ts";
import { type Block, type BlockImage, type BlockSnapshot, type OpenBlock, Span } from "./block-span.ts";
import type { Initializer } from "./initializers/initializer.ts";
import { PartBlocks } from "./part-blocks.ts";
import { PulledBlock } from "./pulled-block.ts";
import type { PartMarks } from "./table-parts.ts";
import type { TensorShape } from "./tensor-shape.ts";
import type { ParameterUpdater } from "./updaters/parameter-updater.ts";

type TensorBlocksOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly shape: TensorShape;
  /** Its rows are the tensor's; of a tensor without rows, single elements. */
  readonly updater: ParameterUpdater;
  readonly initializer: Initializer;
  /** The part of a block (keys/part.ts). */
  readonly partOf: (block: number) => number;
};

export class TensorBlocks {
  readonly shape: TensorShape;
  /** The blocks that are here, by index; read-only. */
  readonly blocks: ReadonlyMap<number, Block>;
  protected readonly arena: Arena;
  protected readonly kernels: Kernels;
  protected readonly updater: ParameterUpdater;
  readonly #initializer: Initializer;
  readonly #blocks: PartBlocks;
  readonly #rooms: BlockRooms;

  constructor({ arena, kernels, shape, updater, initializer, partOf }: TensorBlocksOptions) {
    this.shape = shape;
    this.arena = arena;
    this.kernels = kernels;
    this.updater = updater;
    this.#initializer = initializer;
    this.#blocks = new PartBlocks(partOf);
    this.blocks = this.#blocks.blocks;
    this.#rooms = new BlockRooms(arena, shape, updater);
  }

  /** Reserves memory for the blocks that `owns` names alone (TensorStore.T7). Throws ARENA_FULL, naming `what`. */
  reserve(owns: (block: number) => boolean, what: string): void {
    this.#rooms.reserve((block) => owns(block) && this.blocks.get(block) === undefined, what);
  }

  /** The blocks that are here, ascending. */
  get blockIndexes(): readonly number[] {
    return this.#blocks.indexes;
  }

  get usedBytes(): number {
    let bytes = this.#rooms.reservedBytes;
    for (const { span, slots, rowSteps, stepsRoom, pulled } of this.blocks.values())
      bytes += span.byteCount + (slots?.byteCount ?? 0) + ((rowSteps ?? stepsRoom)?.byteCount ?? 0) + pulled.usedBytes;
    return bytes;
  }

  /** A block before its first use (TensorStore.T4), whether or not it is here. Throws ARENA_FULL. */
  initialBlock(index: number): BlockSnapshot {
    const { span, slots } = this.#blockOf(index, this.#rooms.takeWork(index));
    this.#initialise(index, span, slots);
    const release = (): void => {
      span.retire();
      slots?.retire();
    };
    return { values: span.floats, slots: slots?.floats ?? new Float32Array(0), step: 0, rowSteps: undefined, isReplaced: false, release };
  }

  /** Makes a block, whose values, slots and, if `countsRows`, row steps the caller then writes. Throws ARENA_FULL. */
  openBlock(index: number, step: number, countsRows = false): OpenBlock {
    assert(this.blocks.get(index) === undefined, `block ${index} is there already`);
    const block = this.#blockOf(index, this.#rooms.take(index));
    block.step = step;
    block.isStarted = true;
    this.#blocks.put(index, block);
    if (countsRows) this.countRows(block);
    const { span, slots, rowSteps } = block;
    return { values: span.floats, slots: slots?.floats ?? new Float32Array(0), rowSteps: rowSteps?.words ?? new Uint32Array(0) };
  }

  /** The blocks of a part that are here, ascending. */
  blocksOfPart(part: number): readonly number[] {
    return this.#blocks.indexesOf(part);
  }

  /** What the blocks of a part take. */
  bytesOfPart(part: number): number {
    let bytes = 0;
    for (const index of this.blocksOfPart(part)) {
      const { span, slots } = this.blocks.get(index)!;
      bytes += span.byteCount + (slots?.byteCount ?? 0);
    }
    return bytes;
  }

  countOfPart(part: number): number {
    return this.#blocks.indexesOf(part).length;
  }

  /** Marks the parts that have blocks. */
  markParts(marks: PartMarks): void {
    for (const part of this.#blocks.parts) marks[part] = 1;
  }

  /** Copies the blocks of a part, for `loadBlock`. */
  *savePart(part: number): Iterable<BlockImage> {
    for (const index of this.blocksOfPart(part)) {
      const { span, slots, step, rowSteps, isStarted, pulled } = this.blocks.get(index)!;
      const copies = { values: new Float32Array(span.floats), slots: new Float32Array(slots?.floats ?? []) };
      yield { index, ...copies, step, rowSteps: rowSteps && new Uint32Array(rowSteps.words), isStarted, pulled: pulled.save() };
    }
  }

  /** Replaces a block by a saved one; idempotent. Returns its values and slots. Throws ARENA_FULL, nothing changed. */
  loadBlock({ index, values, slots, step, rowSteps, isStarted, pulled }: BlockImage): readonly Float32Array[] {
    const block = this.#blockOf(index, this.#rooms.take(index));
    assert(values.length === block.span.floats.length, "a block is one of a tensor of this shape");
    assert(slots.length === (block.slots?.floats.length ?? 0), "a block has the slots of this optimizer");
    block.span.floats.set(values);
    block.slots?.floats.set(slots);
    if (rowSteps !== undefined) {
      this.countRows(block);
      block.rowSteps?.words.set(rowSteps);
    }
    block.step = step;
    block.isStarted = isStarted;
    block.pulled.load(pulled, this.seenOf(block));
    this.#blocks.put(index, block);
    return block.slots === undefined ? [block.span.floats] : [block.span.floats, block.slots.floats];
  }

  /** Removes the blocks of a part; returns how many. Held memory goes with its last hold (TensorStore.T2). */
  dropPart(part: number): number {
    const indexes = this.blocksOfPart(part);
    for (const index of indexes) this.#blocks.drop(index);
    return indexes.length;
  }

  /** Restored values and slots have magnitudes up to this. */
  noteMagnitude(magnitude: number): void {
    this.updater.noteMagnitude(magnitude);
  }

  /** The worker's pulls are of no use any more. */
  forgetPulls(workerRank: number): void {
    for (const { pulled } of this.blocks.values()) pulled.forget(workerRank);
  }

  /** Releases everything; held memory goes with its last hold. */
  close(): void {
    this.#blocks.dropAll();
    this.#rooms.releaseAll();
  }

  /** A new block with its initial values. Throws OUT_OF_RANGE, ARENA_FULL. */
  protected makeBlock(index: number): Block {
    if (index >= this.shape.blockCount) {
      throw new WeighbridgeError("OUT_OF_RANGE", `the tensor has ${this.shape.blockCount} blocks; there is no block ${index}`);
    }
    const block = this.#blockOf(index, this.#rooms.take(index));
    this.#initialise(index, block.span, block.slots);
    this.#blocks.put(index, block);
    return block;
  }

  protected seenOf({ span, slots, rowCount }: Block): { readonly values: number; readonly began: number; readonly byteCount: number } {
    const began = (slots?.address ?? 0) + this.updater.slotStride(rowCount); // the slot behind the optimizer's own
    return { values: span.address, began, byteCount: span.byteCount };
  }

  /** From now on rows count by themselves. */
  protected countRows(block: Block): void {
    this.updater.countRows();
    const { stepsRoom } = block;
    if (block.rowSteps !== undefined) return;
    assert(stepsRoom !== undefined, "a block of state has room for the steps of its rows"); // TensorStore.T7
    this.kernels.zero(stepsRoom.address, stepsRoom.byteCount);
    block.rowSteps = stepsRoom;
    block.stepsRoom = undefined;
  }

  /** A block with arbitrary values. */
  #blockOf(index: number, { values, slots, steps }: BlockRoom): Block {
    const bytes = this.#rooms.bytesOf(index);
    const spanOf = (address: number, byteCount: number): Span | undefined =>
      address === 0 ? undefined : new Span(this.arena, address, byteCount);
    return {
      span: new Span(this.arena, values, bytes.values),
      slots: spanOf(slots, bytes.slots),
      rowSteps: undefined,
      stepsRoom: spanOf(steps, bytes.steps),
      pulled: new PulledBlock(this.arena, this.kernels),
      floatCount: bytes.values / FLOAT_BYTES,
      rowCount: this.shape.floatsOf(index) / this.updater.width,
      ownedEpoch: -1,
      step: 0,
      isStarted: false,
    };
  }

  /** TensorStore.T4 */
  #initialise(index: number, span: Span, slots: Span | undefined): void {
    const floatCount = this.shape.floatsOf(index);
    this.#initializer.fill(span.address, floatCount, this.shape.firstFloat(index));
    if (slots !== undefined) this.updater.startBlock(span.address, slots.address, floatCount / this.updater.width);
  }
}
