// tensor-store — the blocks of one dense tensor that this server owns: values, which sockets send from where they lie,
// and the optimizer's slots. A block appears with its initial values at its first use. Not the placement: callers use
// only blocks of this server.
//
//   values          contiguous floats, held while a socket sends them
//   slots           a span of their own, slot after slot; only checkpoints hold them
//   row steps       if rows count their updates (adam, adamW) and some rows were updated alone: a u32 for each row, in
//                   addition to the block's own count
//   pulled values   if the optimizer compares with them (pulled-block.ts)
//
// Invariants:
//   TensorStore.T1. A held block never changes: an update writes a fresh span, which replaces it (copy on write).
//   TensorStore.T2. A span that was replaced, or whose tensor was closed, is released with its last hold, perhaps now.
//   TensorStore.T3. An update that finds no room changes nothing.
//   TensorStore.T4. Initial values depend on the parameter and the element's index alone, unless `start` has set them.
//   TensorStore.T5. A block is started at most once, and never after an update or a restore.
//   TensorStore.T6. An update whose outcome is not finite changes nothing.
//   TensorStore.T7. A block of this server has its memory from the creation of the tensor (block-rooms.ts). Only an
//       update of values that are being sent may lack memory; the caller retries.

import { AssertionError } from "../base/assert.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { FLOAT_BYTES } from "../kernel/elements.ts";
import { type Block, type BlockSnapshot, type RowMarks, runsOf, Span, type ValuesHold } from "./block-span.ts";
import { TensorBlocks } from "./tensor-blocks.ts";
import { type Trial, triedRun } from "./updaters/trial.ts";
import type { UpdateStep } from "./updaters/updater.ts";

/** A gradient, and how it is applied. */
export type BlockUpdate = Omit<UpdateStep, "step" | "rowSteps"> & {
  /** The address of the gradient. */
  readonly gradients: number;
  /** lazyAdam: pushes to the tensor, with this one. */
  readonly pushCount: number;
};

type BlockStep = Pick<UpdateStep, "step" | "rowSteps">;

export class TensorStore extends TensorBlocks {
  /** Holds a block's values; initial ones if there is no room for the block. Throws OUT_OF_RANGE or ARENA_FULL. */
  hold(index: number): ValuesHold {
    const span = (this.blocks.get(index) ?? this.blockIfRoom(index))?.span;
    return span === undefined ? this.initialBlock(index) : this.#hold(span);
  }

  /** Holds a whole block that is here, for a checkpoint. */
  holdBlock(index: number): BlockSnapshot {
    const { span, slots, step, rowSteps } = this.block(index);
    const values = this.#hold(span);
    const extra = slots && this.#hold(slots);
    const counted = rowSteps && this.#hold(rowSteps);
    return {
      values: values.values,
      slots: extra?.values ?? new Float32Array(0),
      step,
      get isReplaced() {
        return span.isRetired;
      },
      rowSteps: rowSteps?.words,
      release: () => {
        values.release();
        extra?.release();
        counted?.release();
      },
    };
  }

  /**
   * Sets the first values of a block, from an address, for the optimizer as well. False, and nothing changed, if the
   * block was started or updated before (TensorStore.T5). Throws OUT_OF_RANGE or ARENA_FULL.
   */
  start(index: number, values: number): boolean {
    const block = this.block(index);
    if (block.isStarted) return false;
    this.#ownSlots(block);
    this.set(index, values);
    const { span, slots, rowCount } = block;
    if (slots !== undefined) this.updater.startBlock(span.address, slots.address, rowCount);
    return true;
  }

  /** Replaces the values of a block, from an address; its slots stay. Throws OUT_OF_RANGE or ARENA_FULL. */
  set(index: number, values: number): void {
    const block = this.block(index);
    this.#own(block);
    this.kernels.copy(block.span.address, values, block.span.byteCount);
    block.pulled.forgetAll();
    block.isStarted = true;
  }

  /** Applies one gradient, as long as the block. Throws OUT_OF_RANGE, ARENA_FULL (TensorStore.T3) or NOT_FINITE. */
  update(index: number, push: BlockUpdate): void {
    const block = this.block(index);
    this.#ownSlots(block);
    const { span } = block;
    // TensorStore.T1
    const target = span.holdCount > 0 ? span.roomForNext() : this.arena.tryMoveBack(span.address, span.byteCount) || span.address;
    let isApplied = false;
    try {
      isApplied = this.#apply(block, push, target);
    } finally {
      if (!isApplied && target !== span.address) this.arena.release(target, span.byteCount); // TensorStore.T6
    }
    if (isApplied && target !== span.address) this.#replace(block, target);
  }

  /** Makes the block, with row steps if `byRows`. Throws OUT_OF_RANGE; ARENA_FULL for a block of another server. */
  touch(index: number, byRows = false): void {
    const block = this.block(index);
    if (byRows && this.updater.countsRows) this.countRows(block);
  }

  /**
   * As `update`, for an existing block, and takes over the gradient's memory, as long as the block: it is released, or
   * replaces held values. So it cannot fail: only checkpoints hold slots, and they release them if there is no room.
   * Rows that are not `named` stay as they are. An update that the policy refuses is dropped, since no caller waits.
   */
  updateOwned(index: number, push: BlockUpdate, named?: RowMarks): void {
    const block = this.block(index);
    this.#ownSlots(block);
    const { span } = block;
    const target = this.#targetOf(span, push.gradients);
    const isApplied = this.updater.inRound(() => {
      if (named === undefined) return this.#apply(block, push, target);
      this.touch(index, true); // allocates nothing: pushes by rows, which made `named`, have made room
      return this.#applyNamed(block, push, target, named);
    });
    const [moved, spare] = isApplied === true ? [target, span.address] : [span.address, target];
    if (spare !== span.address && spare !== push.gradients) this.arena.release(spare, span.byteCount);
    if (moved !== push.gradients) this.arena.release(push.gradients, span.byteCount);
    if (moved !== span.address) this.#replace(block, moved);
  }

  /** Applies gradients to rows of one block: `rows` lists u32 indexes within it, each once. As `update` otherwise. */
  updateRows(index: number, { rows, listed, ...push }: BlockUpdate & { readonly rows: number; readonly listed: number }): void {
    this.touch(index, true);
    const block = this.block(index);
    this.#ownSlots(block);
    this.#own(block);
    this.updater.begin({ ...push, ...this.#stepOf(block, push.pushCount, false) });
    const { span, slots, rowCount } = block;
    const [values, slotsAt] = [span.address, slots?.address ?? 0];
    const whole = { values, slots: slotsAt, rowCount, pulled: this.#compared(block) };
    const apply = (): void => this.updater.updateBlockRows(whole, rows, listed, push.gradients);
    const isApplied = this.#attempt(apply, (trial) => {
      const rowBytes = this.updater.width * FLOAT_BYTES;
      const target = { target: values, slots: slotsAt, rowCount };
      for (let i = 0; i < listed; i++) {
        const from = this.arena.words[(rows >>> 2) + i] as number;
        trial.save(triedRun(this.updater, target, { from, to: from + 1, gradient: push.gradients + i * rowBytes }));
      }
    });
    if (isApplied) this.#count(block, !this.updater.countsRows && !this.updater.countsPushes);
  }

  /** A worker pulls this block, or some of its rows: some optimizers compare with them. */
  notePull(index: number, reader: { readonly worker: number }, rows?: Uint32Array): void {
    if (!this.updater.notesPulls) return;
    const block = this.blockIfRoom(index);
    if (block === undefined) return; // it begins with the values that are read
    block.pulled.note(reader.worker, this.seenOf(block), rows && { indexes: rows, width: this.updater.width });
  }

  /** TensorStore.T2 */
  #hold(span: Span): ValuesHold {
    span.holdCount++;
    let isHeld = true;
    return {
      values: this.arena.floats.subarray(span.address >>> 2, (span.address + span.byteCount) >>> 2),
      release: () => {
        if (!isHeld) throw new AssertionError("a block was released twice");
        isHeld = false;
        span.holdCount--;
        if (span.isRetired) span.retire();
      },
    };
  }

  /** Makes sure that nobody holds the block's values. */
  #own(block: Block): void {
    if (block.span.holdCount > 0) block.span = block.span.copied(this.kernels);
  }

  /** Makes sure that nobody holds the block's slots. */
  #ownSlots(block: Block): void {
    const { slots, rowSteps } = block;
    if (slots !== undefined && slots.holdCount > 0) block.slots = slots.copied(this.kernels);
    if (rowSteps !== undefined && rowSteps.holdCount > 0) block.rowSteps = rowSteps.copied(this.kernels);
  }

  /** Where the next values of a block go while the old may be held: the same span, a fresh one, or the gradient's. */
  #targetOf(span: Span, gradients: number): number {
    if (span.holdCount === 0) return this.arena.tryMoveBack(span.address, span.byteCount) || span.address;
    // TensorStore.T1; state does not stay in the reserve
    return (this.arena.isInReserve(gradients) && this.arena.tryAllocateState(span.byteCount)) || gradients;
  }

  /** Whether the update counts (TensorStore.T6). */
  #apply(block: Block, push: BlockUpdate, target: number): boolean {
    const { span, slots, rowCount } = block;
    this.updater.begin({ ...push, ...this.#stepOf(block, push.pushCount, true) });
    const whole = { target, source: span.address, slots: slots?.address ?? 0, rowCount, pulled: this.#compared(block) };
    const isApplied = this.#attempt(
      () => this.updater.updateBlock(whole, push.gradients),
      (trial) => trial.save(triedRun(this.updater, whole, { from: 0, to: rowCount, gradient: push.gradients })),
    );
    if (isApplied) this.#count(block, !this.updater.countsPushes);
    return isApplied;
  }

  /** Run by run; copies what lies between if the values move. */
  #applyNamed(block: Block, push: BlockUpdate, target: number, named: RowMarks): boolean {
    const { span, slots, rowCount } = block;
    const rowBytes = this.updater.width * FLOAT_BYTES;
    const whole = { target, source: span.address, slots: slots?.address ?? 0, rowCount };
    this.updater.begin({ ...push, ...this.#stepOf(block, push.pushCount, false) });
    const isApplied = this.#attempt(
      () => {
        for (const run of runsOf(named, 1)) this.updater.updateBlockRun(whole, run, push.gradients);
      },
      (trial) => {
        for (const run of runsOf(named, 1))
          trial.save(triedRun(this.updater, whole, { ...run, gradient: push.gradients + run.from * rowBytes }));
      },
    );
    if (!isApplied) return false;
    this.#count(block, !this.updater.countsRows && !this.updater.countsPushes);
    if (target === span.address) return true;
    for (const { from, to } of runsOf(named, 0)) {
      this.kernels.copy(target + from * rowBytes, span.address + from * rowBytes, (to - from) * rowBytes);
    }
    return true;
  }

  /** Applies an update; undoes a tried one whose outcome is not finite (TensorStore.T6). */
  #attempt(apply: () => void, save: (trial: Trial) => void): boolean {
    if (!this.updater.isTried) {
      apply();
      return true;
    }
    return this.updater.attempt((trial) => {
      if (trial !== undefined) save(trial);
      apply();
    });
  }

  /** The address of what the pushing worker pulled, for an optimizer that compares with it. */
  #compared({ pulled, span }: Block): number | undefined {
    const { comparedRank } = this.updater;
    return comparedRank === undefined ? undefined : pulled.find(comparedRank, span.address);
  }

  /**
   * The step that an update of all rows of a block, or of some, is for Adam's bias correction. `pushCount`: pushes to
   * the tensor, with this one.
   *
   *   adam, adamW   each row counts its own updates: the block those of all rows, each row the others
   *   lazyAdam      pushes to the tensor, and what blocks in checkpoints of earlier versions have counted
   *   others        the block counts, unused
   */
  #stepOf({ step, rowSteps }: Block, pushCount: number, ofAll: boolean): BlockStep {
    const { countsRows, countsPushes } = this.updater;
    if (countsRows && !ofAll && rowSteps === undefined) throw new AssertionError("rows were made ready to count");
    if (countsRows && rowSteps !== undefined)
      return { step: ofAll ? step + 1 : step, rowSteps: { address: rowSteps.address, counts: !ofAll } };
    return { step: countsPushes ? Math.max(1, step + pushCount) : step + 1 };
  }

  #count(block: Block, isCounted: boolean): void {
    if (isCounted) block.step++;
    block.isStarted = true;
  }

  #replace(block: Block, address: number): void {
    const { span } = block;
    block.span = new Span(this.arena, address, span.byteCount);
    span.retire();
  }

  /** Made if it is not here. Throws OUT_OF_RANGE, ARENA_FULL. */
  block(index: number): Block {
    return this.blocks.get(index) ?? this.makeBlock(index);
  }

  /** As `block`, for reads: undefined if it is not here and there is no room for it. */
  blockIfRoom(index: number): Block | undefined {
    try {
      return this.block(index);
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "ARENA_FULL")) return undefined;
      throw thrown;
    }
  }
}
