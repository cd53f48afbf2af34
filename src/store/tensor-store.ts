// tensor-store — the blocks of one dense tensor that this server owns: values where sockets write them from, and the optimizer's slots.
// Blocks appear with their initial values when they are first touched. Not the placement: whoever asks for a block here owns it here.
//
//   values of a block   contiguous floats, held while a socket writes from them
//   slots of a block    a span of their own, slot k after slot k - 1; never leave the server but in a checkpoint, which holds them
//
// Invariants:
//   T1. What is held of a block never changes: an update writes a fresh span, which takes its place (copy on write).
//   T2. A span that was replaced, or whose tensor was closed, is released with its last hold; an unheld one at once.
//   T3. An update that finds no room changes nothing.
//   T4. Initial values depend on the parameter and the element's index alone, not on the server or the moment; or they were given by `start`.
//   T5. A block is started at most once, and never after an update or a restore.

import { assert } from "../base/assert.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { type Arena, arenaFull } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";
import type { Initializer } from "./initializers/initializer.ts";
import type { TensorShape } from "./tensor-shape.ts";
import type { Updater, UpdateStep } from "./updaters/updater.ts";

const FLOAT_BYTES = 4;

/** A block's values at rest, until `release`. */
export type HeldValues = {
  readonly values: Float32Array<ArrayBufferLike>;
  release(): void;
};

/** All there is of a block at one moment, until `release`. */
export type HeldBlock = HeldValues & {
  /** Slot after slot; empty where the optimizer has none. */
  readonly slots: Float32Array<ArrayBufferLike>;
  readonly step: number;
  /** Whether the block has other values by now: its memory goes with this hold. */
  readonly isReplaced: boolean;
};

/** Where a checkpoint's bytes of a block go. */
export type OpenBlock = { readonly values: Float32Array<ArrayBufferLike>; readonly slots: Float32Array<ArrayBufferLike> };

/** The values or the slots of a block, as long as somebody needs them. */
class Span {
  readonly address: number;
  readonly byteCount: number;
  readonly #arena: Arena;
  #holdCount = 0;
  #isRetired = false;

  constructor(arena: Arena, address: number, byteCount: number) {
    this.#arena = arena;
    this.address = address;
    this.byteCount = byteCount;
    arena.noteState(address, byteCount);
  }

  get isRetired(): boolean {
    return this.#isRetired;
  }

  get isHeld(): boolean {
    return this.#holdCount > 0;
  }

  get floats(): Float32Array<ArrayBufferLike> {
    return this.#arena.floats.subarray(this.address >>> 2, (this.address + this.byteCount) >>> 2);
  }

  hold(): HeldValues {
    this.#holdCount++;
    let held = true;
    return {
      values: this.floats,
      release: () => {
        assert(held, "a block was released twice");
        held = false;
        this.#holdCount--;
        this.#releaseIfDone();
      },
    };
  }

  /** T2 */
  retire(): void {
    this.#isRetired = true;
    this.#releaseIfDone();
  }

  #releaseIfDone(): void {
    if (this.#isRetired && this.#holdCount === 0) this.#arena.releaseState(this.address, this.byteCount);
  }
}

type Block = {
  span: Span;
  /** Undefined when the optimizer has none. */
  slots: Span | undefined;
  readonly rowCount: number;
  /** Updates that were applied. */
  step: number;
  /** Its values were given: by `start`, or by a checkpoint. */
  isStarted: boolean;
};

/** A gradient, and how it is applied. */
export type BlockUpdate = Omit<UpdateStep, "step"> & {
  /** Its address in the arena. */
  readonly gradients: number;
};

/** By row of a block: 1 where it is named, 0 otherwise. */
export type RowMarks = Uint8Array;

export type TensorStoreOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly shape: TensorShape;
  /** Its rows are the tensor's; of a tensor without rows, single elements. */
  readonly updater: Updater;
  readonly initializer: Initializer;
};

export class TensorStore {
  readonly shape: TensorShape;
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #updater: Updater;
  readonly #initializer: Initializer;
  readonly #blocks = new Map<number, Block>();

  constructor({ arena, kernels, shape, updater, initializer }: TensorStoreOptions) {
    this.shape = shape;
    this.#arena = arena;
    this.#kernels = kernels;
    this.#updater = updater;
    this.#initializer = initializer;
  }

  /** The blocks that are here, ascending. */
  get blockIndexes(): readonly number[] {
    return [...this.#blocks.keys()].sort((a, b) => a - b);
  }

  get usedBytes(): number {
    let bytes = 0;
    for (const { span, slots } of this.#blocks.values()) bytes += span.byteCount + (slots?.byteCount ?? 0);
    return bytes;
  }

  /** Updates that were applied to a block. */
  stepOf(index: number): number {
    return this.#blocks.get(index)?.step ?? 0;
  }

  /** Holds a block's values where they lie; initial values that are nobody's where there is no room for the block. Throws OUT_OF_RANGE or ARENA_FULL. */
  hold(index: number): HeldValues {
    return this.#blockIfRoom(index)?.span.hold() ?? this.initialBlock(index);
  }

  /** Holds all of a block that is here, for a checkpoint. */
  holdBlock(index: number): HeldBlock {
    const { span, slots, step } = this.#block(index);
    const values = span.hold();
    const extra = slots?.hold();
    return {
      values: values.values,
      slots: extra?.values ?? new Float32Array(0),
      step,
      get isReplaced() {
        return span.isRetired;
      },
      release: () => {
        values.release();
        extra?.release();
      },
    };
  }

  /** What a block is before anybody touches it (T4), whether it is here or not. Throws ARENA_FULL. */
  initialBlock(index: number): HeldBlock {
    const { span, slots } = this.#makeBlock(index, "work");
    this.#initialise(index, span, slots);
    const release = (): void => {
      span.retire();
      slots?.retire();
    };
    return { values: span.floats, slots: slots?.floats ?? new Float32Array(0), step: 0, isReplaced: false, release };
  }

  /** Makes a block whose values and slots the caller writes before anything else is done with it. Throws ARENA_FULL. */
  openBlock(index: number, step: number): OpenBlock {
    assert(!this.#blocks.has(index), `block ${index} is there already`);
    const block = this.#makeBlock(index, "state");
    block.step = step;
    block.isStarted = true;
    this.#blocks.set(index, block);
    return { values: block.span.floats, slots: block.slots?.floats ?? new Float32Array(0) };
  }

  /**
   * Gives a block the values it begins with, `values` at their address, in place of its initial ones; the optimizer begins with them too. False, and
   * nothing happens, when somebody did so before or the block has learned already (T5). Throws OUT_OF_RANGE or ARENA_FULL.
   */
  start(index: number, values: number): boolean {
    const block = this.#block(index);
    if (block.isStarted || block.step > 0) return false;
    this.#ownSlots(block);
    this.#own(block);
    const { span, slots, rowCount } = block;
    this.#kernels.copy(span.address, values, span.byteCount);
    if (slots !== undefined) this.#updater.startBlock(span.address, slots.address, rowCount);
    block.isStarted = true;
    return true;
  }

  /** Applies one gradient, as long as the block. Throws OUT_OF_RANGE, or ARENA_FULL with nothing changed (T3). */
  update(index: number, push: BlockUpdate): void {
    const block = this.#block(index);
    this.#ownSlots(block);
    const { span } = block;
    const target = span.isHeld ? this.#roomFor(span) : this.#arena.tryMoveBack(span.address, span.byteCount) || span.address; // T1
    this.#apply(block, push, target);
    if (target !== span.address) this.#replace(block, target);
  }

  /** Makes the block, so that what follows finds it. Throws OUT_OF_RANGE or ARENA_FULL. */
  touch(index: number): void {
    this.#block(index);
  }

  /** As `touch`, for who only reads: without room for the block there is none, and `hold` gives its initial values. */
  touchIfRoom(index: number): void {
    this.#blockIfRoom(index);
  }

  /**
   * As `update`, of a block that is there, with a gradient whose memory (as much as the block's) is given away: it is released, or takes the
   * place of values that are held. So it cannot fail: slots are held by checkpoints alone, which give them up when there is no room. Where only some rows are
   * `named`, the others stay as they are, slots included.
   */
  updateOwned(index: number, push: BlockUpdate, named?: RowMarks): void {
    const block = this.#block(index);
    this.#ownSlots(block);
    const { span } = block;
    const target = span.isHeld ? push.gradients : span.address;
    if (named === undefined) this.#apply(block, push, target);
    else this.#applyNamed(block, push, target, named);
    if (target === span.address) this.#arena.release(push.gradients, span.byteCount);
    else this.#replace(block, target);
  }

  /** Applies gradients to rows of one block: `rows` lists u32 indexes within it, each once. As `update` otherwise. */
  updateRows(index: number, { rows, listed, ...push }: BlockUpdate & { readonly rows: number; readonly listed: number }): void {
    const block = this.#block(index);
    this.#ownSlots(block);
    this.#own(block);
    block.step++;
    this.#updater.begin({ ...push, step: block.step });
    const { slots, rowCount } = block;
    this.#updater.updateBlockRows({ values: block.span.address, slots: slots?.address ?? 0, rowCount }, rows, listed, push.gradients);
  }

  /** A worker is about to get this block's values, or those of some of its rows: some optimizers want to know. */
  notePull(index: number, workerRank: number, rows?: Uint32Array): void {
    if (!this.#updater.notesPulls) return;
    const block = this.#blockIfRoom(index);
    if (block === undefined) return; // it begins with the values that are read
    this.#ownSlots(block);
    const { span, slots, rowCount } = block;
    const noted = { values: span.address, slots: slots?.address ?? 0, rowCount };
    if (rows === undefined) this.#updater.notePull(noted, workerRank, { from: 0, to: rowCount });
    else for (const row of rows) this.#updater.notePull(noted, workerRank, { from: row, to: row + 1 });
  }

  /** Frees everything; what is held goes with its last hold. */
  close(): void {
    for (const { span, slots } of this.#blocks.values()) {
      span.retire();
      slots?.retire();
    }
    this.#blocks.clear();
  }

  /** Makes sure that nobody holds the block's values. */
  #own(block: Block): void {
    const { span } = block;
    if (!span.isHeld) return;
    const target = this.#roomFor(span);
    if (target === span.address) return;
    this.#kernels.copy(target, span.address, span.byteCount); // T1
    this.#replace(block, target);
  }

  /** Makes sure that nobody holds the block's slots. */
  #ownSlots(block: Block): void {
    const { slots } = block;
    if (slots === undefined || !slots.isHeld) return;
    const target = this.#roomFor(slots);
    if (target === slots.address) return;
    this.#kernels.copy(target, slots.address, slots.byteCount); // T1
    block.slots = new Span(this.#arena, target, slots.byteCount);
    slots.retire();
  }

  /** Where a held span's successor goes: a place of its own, or the span itself when whoever held it gave it up to make room. */
  #roomFor(span: Span): number {
    const target = this.#arena.tryMove(span.byteCount);
    if (target !== 0) return target;
    if (!this.#arena.onFull("move", span.byteCount))
      throw arenaFull(this.#arena, `${span.byteCount} bytes beside values that are being sent`, { retryable: true }); // T3
    return span.isHeld ? this.#roomFor(span) : span.address;
  }

  #apply(block: Block, push: BlockUpdate, target: number): void {
    const { span, slots, rowCount } = block;
    block.step++;
    this.#updater.begin({ ...push, step: block.step });
    this.#updater.updateBlock({ target, source: span.address, slots: slots?.address ?? 0, rowCount }, push.gradients);
  }

  /** Run by run: what lies between is copied where the values move. */
  #applyNamed(block: Block, push: BlockUpdate, target: number, named: RowMarks): void {
    const { span, slots, rowCount } = block;
    const rowBytes = this.#updater.width * FLOAT_BYTES;
    const whole = { target, source: span.address, slots: slots?.address ?? 0, rowCount };
    block.step++;
    this.#updater.begin({ ...push, step: block.step });
    for (let from = 0, to = 0; from < rowCount; from = to) {
      const isNamed = named[from] === 1;
      to = named.indexOf(isNamed ? 0 : 1, from);
      if (to < 0) to = rowCount;
      if (isNamed) this.#updater.updateBlockRun(whole, { from, to }, push.gradients);
      else if (target !== span.address) {
        this.#kernels.copy(target + from * rowBytes, span.address + from * rowBytes, (to - from) * rowBytes);
      }
    }
  }

  #replace(block: Block, address: number): void {
    const { span } = block;
    block.span = new Span(this.#arena, address, span.byteCount);
    span.retire();
  }

  #block(index: number): Block {
    const known = this.#blocks.get(index);
    if (known !== undefined) return known;
    if (index >= this.shape.blockCount) {
      throw new WeighbridgeError("OUT_OF_RANGE", `the tensor has ${this.shape.blockCount} blocks; there is no block ${index}`);
    }
    const block = this.#makeBlock(index, "state");
    this.#initialise(index, block.span, block.slots);
    this.#blocks.set(index, block);
    return block;
  }

  /** As `#block`, but undefined where it is not there and there is no room for it. */
  #blockIfRoom(index: number): Block | undefined {
    try {
      return this.#block(index);
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "ARENA_FULL")) return undefined;
      throw thrown;
    }
  }

  /** A block with anything in it. */
  #makeBlock(index: number, use: "state" | "work"): Block {
    const floatCount = this.shape.floatsOf(index);
    const rowCount = floatCount / this.#updater.width;
    const byteCount = floatCount * FLOAT_BYTES;
    const slotBytes = this.#updater.blockSlotBytes(rowCount);
    const take = (bytes: number): number => (use === "state" ? this.#arena.allocateState(bytes) : this.#arena.allocate(bytes));
    const address = take(byteCount);
    let slots = 0;
    try {
      if (slotBytes > 0) slots = take(slotBytes);
    } catch (thrown) {
      this.#arena.release(address, byteCount);
      throw thrown; // T3
    }
    const extra = slots === 0 ? undefined : new Span(this.#arena, slots, slotBytes);
    return { span: new Span(this.#arena, address, byteCount), slots: extra, rowCount, step: 0, isStarted: false };
  }

  /** T4 */
  #initialise(index: number, span: Span, slots: Span | undefined): void {
    const floatCount = this.shape.floatsOf(index);
    this.#initializer.fill(span.address, floatCount, this.shape.firstFloat(index));
    if (slots !== undefined) this.#updater.startBlock(span.address, slots.address, floatCount / this.#updater.width);
  }
}
