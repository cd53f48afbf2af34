// large-value — one sum of many elements, in blocks of 512 KiB that appear with their first push. A socket or a
// checkpoint can hold a block and read from it. Not a table: LargeValues finds the value of a key.
//
//   block 0 | block 1 | … | the rest          a block without memory reads as zeros
//
// Invariants:
//   LargeValue.B1. The bytes of a held block never change: a push writes a fresh copy, which replaces it (copy on
//       write).
//   LargeValue.B2. A block that was replaced, or whose value was closed, is released with its last hold, perhaps now.
//   LargeValue.B3. `add` cannot fail: `reserve` has allocated its memory.

import { assert } from "../../base/assert.ts";
import { ElementType, elementBytesOf } from "../../kernel/elements.ts";
import type { SumHost } from "./sum-requests.ts";

/** Bytes of every block but the last. */
export const BLOCK_BYTES: number = 512 * 1024;

/** A block's bytes, unchanged until `release`. */
export type BlockHold = {
  /** The block's address. */
  readonly address: number;
  readonly byteCount: number;
  /** Call it exactly once; the address is void afterwards. */
  release(): void;
};

type Block = { readonly address: number; readonly byteCount: number; holdCount: number; retired: boolean };

/** Bytes of one block of a value of so many bytes. */
export function blockBytesOf(valueBytes: number, blockIndex: number): number {
  return Math.min(BLOCK_BYTES, valueBytes - blockIndex * BLOCK_BYTES);
}

/** What the large values of a store share. */
export type LargeHost = SumHost & {
  readonly type: ElementType;
  /** Bytes of blocks that were replaced and are still held. */
  retiredBytes: number;
};

export class LargeValue {
  readonly key: bigint;
  /** In elements. */
  readonly width: number;
  readonly byteCount: number;
  readonly blockCount: number;
  readonly #host: LargeHost;
  /** By index. Only pushed ones: a peer may name any width, and push one block of it. */
  readonly #blocks = new Map<number, Block>();
  /** By index, the address of memory reserved for the next `add`. */
  readonly #reserved = new Map<number, number>();

  constructor(host: LargeHost, key: bigint, width: number) {
    this.#host = host;
    this.key = key;
    this.width = width;
    this.byteCount = width * elementBytesOf(host.type);
    this.blockCount = Math.ceil(this.byteCount / BLOCK_BYTES);
  }

  /** Arena bytes of the current blocks; replaced ones that are still held do not count. */
  get usedBytes(): number {
    let bytes = 0;
    for (const { byteCount } of this.#blocks.values()) bytes += byteCount;
    return bytes;
  }

  /** Makes sure that the next `add` to this block has memory; false if the arena is full. */
  reserve(blockIndex: number): boolean {
    const { arena } = this.#host;
    const block = this.#blocks.get(blockIndex);
    if (block?.holdCount === 0 || this.#reserved.has(blockIndex)) return true;
    const byteCount = this.#blockBytes(blockIndex);
    const address = block === undefined ? arena.tryAllocateState(byteCount) : arena.tryMove(byteCount);
    if (address === 0) return false;
    arena.noteState(address, byteCount);
    this.#reserved.set(blockIndex, address);
    return true;
  }

  /** Releases what `reserve` allocated and no `add` used. */
  unreserve(): void {
    for (const [blockIndex, address] of this.#reserved) this.#host.arena.releaseState(address, this.#blockBytes(blockIndex));
    this.#reserved.clear();
  }

  /** Adds a block's elements at `values`, after `reserve` of the same block. */
  add(blockIndex: number, values: number): void {
    const { arena, kernels } = this.#host;
    const block = this.#blocks.get(blockIndex);
    const byteCount = this.#blockBytes(blockIndex);
    const back = block?.holdCount === 0 ? arena.tryMoveBack(block.address, byteCount) : 0;
    if (block?.holdCount === 0 && back === 0) {
      this.#sum(block.address, block.address, values, byteCount);
      return;
    }
    const address = back === 0 ? this.#reserved.get(blockIndex) : back;
    assert(address !== undefined, `LargeValue.B3: block ${blockIndex} was not reserved`);
    if (back === 0) this.#reserved.delete(blockIndex);
    else arena.noteState(back, byteCount);
    if (block === undefined) {
      kernels.zero(address, byteCount);
      this.#sum(address, address, values, byteCount);
    } else {
      this.#sum(address, block.address, values, byteCount); // LargeValue.B1
      this.#retire(block);
    }
    this.#blocks.set(blockIndex, { address, byteCount, holdCount: 0, retired: false });
  }

  /**
   * Replaces the whole value; false, nothing changed, if the arena is full. Blocks that are all zero take no memory.
   */
  put(bytes: Uint8Array): boolean {
    assert(bytes.length === this.byteCount, `${bytes.length} bytes for a value of ${this.byteCount}`);
    const { arena } = this.#host;
    const made = new Map<number, Block>();
    for (let blockIndex = 0; blockIndex < this.blockCount; blockIndex++) {
      const byteCount = this.#blockBytes(blockIndex);
      const part = bytes.subarray(blockIndex * BLOCK_BYTES, blockIndex * BLOCK_BYTES + byteCount);
      if (part.every((byte) => byte === 0)) continue;
      const address = arena.tryAllocateState(byteCount);
      if (address === 0) {
        for (const block of made.values()) this.#release(block);
        return false;
      }
      arena.bytes.set(part, address);
      made.set(blockIndex, { address, byteCount, holdCount: 0, retired: false });
    }
    this.close();
    for (const [blockIndex, block] of made) this.#blocks.set(blockIndex, block);
    return true;
  }

  /** Holds a block's bytes; undefined if it was never pushed and is all zeros. */
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
        if (!block.retired || block.holdCount > 0) return;
        this.#host.retiredBytes -= block.byteCount;
        this.#release(block); // LargeValue.B2
      },
    };
  }

  /** Writes all elements to `out`. */
  copyTo(out: number): void {
    const { kernels } = this.#host;
    for (let blockIndex = 0; blockIndex < this.blockCount; blockIndex++) {
      const target = out + blockIndex * BLOCK_BYTES;
      const block = this.#blocks.get(blockIndex);
      if (block === undefined) kernels.zero(target, this.#blockBytes(blockIndex));
      else kernels.copy(target, block.address, block.byteCount);
    }
  }

  /** A copy of all of it, not in the arena. */
  bytes(): Uint8Array {
    const { arena } = this.#host;
    const bytes = new Uint8Array(this.byteCount);
    for (const [index, { address, byteCount }] of this.#blocks)
      bytes.set(arena.bytes.subarray(address, address + byteCount), index * BLOCK_BYTES);
    return bytes;
  }

  /** Frees all blocks, the held ones with their last hold. */
  close(): void {
    this.unreserve();
    for (const block of this.#blocks.values()) this.#retire(block);
    this.#blocks.clear();
  }

  #blockBytes(blockIndex: number): number {
    return blockBytesOf(this.byteCount, blockIndex);
  }

  /** target = left + right; the target is `left`, or overlaps neither. */
  #sum(target: number, left: number, right: number, byteCount: number): void {
    const { kernels, elements, type } = this.#host;
    if (type === ElementType.F32) {
      kernels.sum(target, left, right, byteCount / Float32Array.BYTES_PER_ELEMENT);
      return;
    }
    if (target !== left) kernels.copy(target, left, byteCount);
    elements.addElements(type, target, right, byteCount / elementBytesOf(type));
  }

  /** LargeValue.B2 */
  #retire(block: Block): void {
    block.retired = true;
    if (block.holdCount === 0) this.#release(block);
    else this.#host.retiredBytes += block.byteCount;
  }

  #release(block: Block): void {
    this.#host.arena.releaseState(block.address, block.byteCount);
  }
}
