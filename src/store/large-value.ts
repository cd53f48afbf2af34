// large-value — one value of many floats, in blocks of 512 KiB that appear when they are first pushed. A block can be held while a socket
// writes straight from it. Not a table: LargeValues finds the value of a key.
//
//   block 0 | block 1 | … | the rest          a block without memory reads as zeros
//
// Invariants:
//   B1. The bytes of a held block never change: a push to it goes to a fresh copy, which takes its place (copy on write).
//   B2. A block that was replaced, or whose value was closed, is released with its last hold; an unheld one at once.
//   B3. `add` cannot fail: `reserve` took the memory that it needs before.

import { assert } from "../base/assert.ts";
import type { Arena } from "../kernel/arena.ts";
import type { Kernels } from "../kernel/kernels.ts";

/** Floats of every block but the last. */
export const BLOCK_FLOATS = 131_072;
const FLOAT_BYTES = 4;

/** A block's bytes at rest. */
export type BlockHold = {
  /** The block's bytes in the arena; unchanged until `release`. */
  readonly address: number;
  readonly byteCount: number;
  /** To be called exactly once; the address is void afterwards. */
  release(): void;
};

type Block = { readonly address: number; readonly byteCount: number; holdCount: number; retired: boolean };

export function blockCountOf(width: number): number {
  return Math.ceil(width / BLOCK_FLOATS);
}

/** Floats of one block of a value of `width` floats. */
export function blockFloatsOf(width: number, blockIndex: number): number {
  return Math.min(BLOCK_FLOATS, width - blockIndex * BLOCK_FLOATS);
}

export class LargeValue {
  readonly width: number;
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly blockCount: number;
  /** By index. Only those that were pushed: a peer may say any width, and push one block of it. */
  readonly #blocks = new Map<number, Block>();
  /** By index, the address of memory reserved for the next `add`. */
  readonly #reserved = new Map<number, number>();

  constructor(arena: Arena, kernels: Kernels, width: number) {
    this.width = width;
    this.#arena = arena;
    this.#kernels = kernels;
    this.blockCount = blockCountOf(width);
  }

  /** Arena bytes of the current blocks; replaced ones that are still held do not count. */
  get usedBytes(): number {
    let bytes = 0;
    for (const { byteCount } of this.#blocks.values()) bytes += byteCount;
    return bytes;
  }

  /** Makes sure that the next `add` to this block has memory; false when the arena is full. */
  reserve(blockIndex: number): boolean {
    const block = this.#blocks.get(blockIndex);
    if (block?.holdCount === 0 || this.#reserved.has(blockIndex)) return true;
    const byteCount = this.#byteCount(blockIndex);
    const address = block === undefined ? this.#arena.tryAllocateState(byteCount) : this.#arena.tryMove(byteCount);
    if (address === 0) return false;
    this.#arena.noteState(address, byteCount);
    this.#reserved.set(blockIndex, address);
    return true;
  }

  /** Gives back what `reserve` took and no `add` used. */
  unreserve(): void {
    for (const [blockIndex, address] of this.#reserved) this.#arena.releaseState(address, this.#byteCount(blockIndex));
    this.#reserved.clear();
  }

  /** Adds a block's floats at `values`, after `reserve` of the same block. */
  add(blockIndex: number, values: number): void {
    const block = this.#blocks.get(blockIndex);
    const byteCount = this.#byteCount(blockIndex);
    const floatCount = byteCount / FLOAT_BYTES;
    const back = block?.holdCount === 0 ? this.#arena.tryMoveBack(block.address, byteCount) : 0;
    if (block?.holdCount === 0 && back === 0) {
      this.#kernels.add(block.address, values, floatCount);
      return;
    }
    const address = back === 0 ? this.#reserved.get(blockIndex) : back;
    assert(address !== undefined, `B3: block ${blockIndex} was not reserved`);
    if (back === 0) this.#reserved.delete(blockIndex);
    else this.#arena.noteState(back, byteCount);
    if (block === undefined) {
      this.#kernels.zero(address, byteCount);
      this.#kernels.add(address, values, floatCount);
    } else {
      this.#kernels.sum(address, block.address, values, floatCount); // B1
      block.retired = true;
      if (block.holdCount === 0) this.#release(block);
    }
    this.#blocks.set(blockIndex, { address, byteCount, holdCount: 0, retired: false });
  }

  /** Holds a block's bytes; undefined when it was never pushed and so is all zeros. */
  hold(blockIndex: number): BlockHold | undefined {
    const block = this.#blocks.get(blockIndex);
    if (block === undefined) return undefined;
    block.holdCount++;
    let held = true;
    return {
      address: block.address,
      byteCount: block.byteCount,
      release: () => {
        assert(held, "a block hold was released twice");
        held = false;
        block.holdCount--;
        if (block.retired && block.holdCount === 0) this.#release(block); // B2
      },
    };
  }

  /** Writes all floats to `out`. */
  copyTo(out: number): void {
    for (let blockIndex = 0; blockIndex < this.blockCount; blockIndex++) {
      const target = out + blockIndex * BLOCK_FLOATS * FLOAT_BYTES;
      const block = this.#blocks.get(blockIndex);
      if (block === undefined) this.#kernels.zero(target, this.#byteCount(blockIndex));
      else this.#kernels.copy(target, block.address, block.byteCount);
    }
  }

  /** Frees all blocks, the held ones with their last hold. */
  close(): void {
    this.unreserve();
    for (const block of this.#blocks.values()) {
      block.retired = true;
      if (block.holdCount === 0) this.#release(block);
    }
    this.#blocks.clear();
  }

  #byteCount(blockIndex: number): number {
    return blockFloatsOf(this.width, blockIndex) * FLOAT_BYTES;
  }

  #release(block: Block): void {
    this.#arena.releaseState(block.address, block.byteCount);
  }
}
