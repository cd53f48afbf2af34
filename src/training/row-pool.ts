// row-pool — a fixed number of raw rows (values, slots and words of the optimizer) in the arena, by key. Knows which row was
// used when, and which differs from what the servers have. Not a policy: what goes where is row-tiers' to decide.
//
//   index     row of the hash table: [ key u64 | slot u32 ]
//   slot      row f32 × rowFloats │ key u64, each in an array of its own
//
// Invariants:
//   L1. A slot is free, reserved (between `reserve` and `fill` or `giveBack`) or holds the row of one key, which the index knows.
//   L2. Slots are in the order of their last use: if the oldest was used at a stamp, all others were at that or later ones.
//   L3. What finds no room in the arena changes nothing.

import { assert } from "../base/assert.ts";
import type { Arena } from "../kernel/arena.ts";
import { DONE, type Kernels, ROW_KEY_BYTES } from "../kernel/kernels.ts";
import type { RowKernels } from "../kernel/row-kernels.ts";
import { findSlots } from "../worker/cache/find-slots.ts";
import { SlotLists } from "../worker/cache/slot-lists.ts";
import { NO_SLOT } from "./row-source.ts";

const KEY_BYTES = 8;
const WORD_BYTES = 4;
const FLOAT_BYTES = 4;

export type PoolKernels = { readonly arena: Arena; readonly kernels: Kernels; readonly rowKernels: RowKernels };

export type RowPoolOptions = {
  readonly slotCount: number;
  readonly rowFloats: number;
  /** Keys the hash of the index. */
  readonly secret: bigint;
};

export class RowPool {
  readonly slotCount: number;
  readonly rowBytes: number;
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #rowKernels: RowKernels;
  readonly #index: number;
  readonly #rows: number;
  readonly #keys: number;
  readonly #byteCount: number;
  /** Where the index says in which slot a new row is. */
  readonly #found: number;
  readonly #order: SlotLists;
  readonly #usedAt: Float64Array;
  readonly #dirty: Uint8Array;
  readonly #free: Uint32Array;
  #freeCount: number;

  /** Throws ARENA_FULL. */
  constructor({ arena, kernels, rowKernels }: PoolKernels, { slotCount, rowFloats, secret }: RowPoolOptions) {
    this.slotCount = slotCount;
    this.rowBytes = rowFloats * FLOAT_BYTES;
    this.#arena = arena;
    this.#kernels = kernels;
    this.#rowKernels = rowKernels;
    this.#byteCount = KEY_BYTES + slotCount * (KEY_BYTES + this.rowBytes);
    this.#found = arena.allocate(this.#byteCount);
    this.#keys = this.#found + KEY_BYTES;
    this.#rows = this.#keys + slotCount * KEY_BYTES;
    try {
      this.#index = kernels.createTable({ payloadBytes: WORD_BYTES, secret });
    } catch (thrown) {
      arena.release(this.#found, this.#byteCount);
      throw thrown;
    }
    this.#order = new SlotLists(slotCount, 1);
    this.#usedAt = new Float64Array(slotCount);
    this.#dirty = new Uint8Array(slotCount);
    this.#free = Uint32Array.from({ length: slotCount }, (_, i) => slotCount - 1 - i);
    this.#freeCount = slotCount;
  }

  get rowCount(): number {
    return this.#kernels.rowCount(this.#index);
  }

  /** Where the row in a slot lies. */
  addressOf(slot: number): number {
    return this.#rows + slot * this.rowBytes;
  }

  /** The slot of a row that lies at an address; NO_SLOT for addresses elsewhere. */
  slotAt(address: number): number {
    const offset = address - this.#rows;
    return offset >= 0 && offset < this.slotCount * this.rowBytes ? offset / this.rowBytes : NO_SLOT;
  }

  /** Where the key of the row in a slot lies. */
  keyOf(slot: number): number {
    return this.#keys + slot * KEY_BYTES;
  }

  /** Writes the slot of each key at `slots` (i32), NO_SLOT for those that are not here. Uses nothing. */
  find(keys: number, keyCount: number, slots: number): void {
    findSlots(this.#arena, this.#rowKernels, { index: this.#index, keys, keyCount, slots });
  }

  use(slot: number, stamp: number): void {
    if (this.#usedAt[slot] === stamp) return;
    this.#order.take(slot);
    this.#order.append(0, slot);
    this.#usedAt[slot] = stamp;
  }

  /** A free slot, to be filled or given back; NO_SLOT when there is none. */
  reserve(): number {
    return this.#freeCount > 0 ? (this.#free[--this.#freeCount] as number) : NO_SLOT;
  }

  giveBack(slot: number): void {
    assert(this.#freeCount < this.slotCount, "L1: more slots came back than there are");
    this.#free[this.#freeCount++] = slot;
  }

  /** The slot whose last use is longest ago, if that was before `limit`; NO_SLOT otherwise. */
  oldest(limit: number): number {
    const slot = this.#order.oldest(0);
    return slot !== NO_SLOT && (this.#usedAt[slot] as number) < limit ? slot : NO_SLOT; // L2
  }

  /** The row in a reserved slot is that of a key now. False when the index has no room for it (L3). */
  fill(slot: number, key: number, { stamp, isDirty }: { readonly stamp: number; readonly isDirty: boolean }): boolean {
    if (!this.#insert(slot, key)) return false;
    this.#order.append(0, slot);
    this.#usedAt[slot] = stamp;
    this.#dirty[slot] = isDirty ? 1 : 0;
    return true;
  }

  /** Forgets the row in a slot, which is free then. */
  remove(slot: number): void {
    this.#kernels.removeRows(this.#index, this.keyOf(slot), 1);
    this.#order.take(slot);
    this.giveBack(slot);
  }

  isDirty(slot: number): boolean {
    return this.#dirty[slot] === 1;
  }

  setDirty(slot: number, isDirty: boolean): void {
    this.#dirty[slot] = isDirty ? 1 : 0;
  }

  /** The slots that hold rows, the one whose use is longest ago first. No row comes or goes meanwhile. */
  slots(): number[] {
    return this.#order.all(0);
  }

  close(): void {
    this.#kernels.destroyTable(this.#index);
    this.#arena.release(this.#found, this.#byteCount);
  }

  #insert(slot: number, key: number): boolean {
    if (this.#kernels.findOrInsertRows(this.#index, key, 1, this.#found) !== DONE) return false;
    const { words } = this.#arena;
    words[((words[this.#found >>> 2] as number) + ROW_KEY_BYTES) >>> 2] = slot;
    this.#kernels.copy(this.keyOf(slot), key, KEY_BYTES);
    return true;
  }
}
