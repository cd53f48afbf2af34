// cached-rows — copies of servers' rows in a fixed number of slots: key → slot, and for each slot its values and their version. Copies hold
// what a server answered and this worker's acknowledged updates, never pending ones. Which row goes is the policy's to say.
//
//   index     row of the table: [ key u64 | slot u32 ]
//   slot      values f32 × width │ version u32 │ key u64, each in an array of its own
//
// Invariants:
//   R1. A slot is free, reserved (between `reserve` and `fill` or `giveBack`) or in the index; only the latter are known to the policy.
//   R2. No row that was used in the operation in hand is evicted in it.
//   R3. `version` is the server's at the time of the copy plus this worker's updates applied since; VERSION_NONE: the copy counts for nothing.

import { assert } from "../../base/assert.ts";
import type { Arena } from "../../kernel/arena.ts";
import { DONE, type Kernels, ROW_KEY_BYTES } from "../../kernel/kernels.ts";
import { type RowKernels, VERSION_NONE } from "../../kernel/row-kernels.ts";
import { type EvictionPolicy, evictionPolicy, type PolicyName } from "./eviction-policy.ts";
import { findSlots } from "./find-slots.ts";
import type { OperationMemory } from "./operation-memory.ts";
import type { CacheKernels } from "./pending-updates.ts";
import { NO_SLOT } from "./slot-lists.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;
const WORD_BYTES = 4;

export type CachedRowsOptions = {
  readonly rows: number;
  readonly width: number;
  readonly policy: PolicyName;
  /** Keys the hash of the index. */
  readonly secret: bigint;
};

export class CachedRows {
  readonly slotCount: number;
  readonly versions: Uint32Array;
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #rowKernels: RowKernels;
  readonly #policy: EvictionPolicy;
  readonly #valueBytes: number;
  readonly #index: number;
  /** Values of all slots, then their keys. */
  readonly #values: number;
  readonly #keys: number;
  readonly #byteCount: number;
  readonly #free: Uint32Array;
  #freeCount: number;
  /** The operation that used a slot last (R2). */
  readonly #usedIn: Float64Array;
  #operation = 0;

  /** Throws ARENA_FULL. */
  constructor({ arena, kernels, rowKernels }: CacheKernels, { rows, width, policy, secret }: CachedRowsOptions) {
    this.slotCount = rows;
    this.versions = new Uint32Array(rows);
    this.#arena = arena;
    this.#kernels = kernels;
    this.#rowKernels = rowKernels;
    this.#policy = evictionPolicy(policy, rows);
    this.#valueBytes = width * FLOAT_BYTES;
    this.#byteCount = rows * (this.#valueBytes + KEY_BYTES) + KEY_BYTES;
    this.#values = arena.allocate(this.#byteCount);
    this.#keys = Math.ceil((this.#values + rows * this.#valueBytes) / KEY_BYTES) * KEY_BYTES;
    try {
      this.#index = kernels.createTable({ payloadBytes: WORD_BYTES, secret });
    } catch (thrown) {
      arena.release(this.#values, this.#byteCount);
      throw thrown;
    }
    this.#free = Uint32Array.from({ length: rows }, (_, i) => rows - 1 - i);
    this.#freeCount = rows;
    this.#usedIn = new Float64Array(rows);
  }

  get rowCount(): number {
    return this.#kernels.rowCount(this.#index);
  }

  /** Where the values of a slot lie. */
  addressOf(slot: number): number {
    return this.#values + slot * this.#valueBytes;
  }

  /** Begins an operation (R2). */
  begin(): void {
    this.#operation++;
  }

  /** Writes the slot of each key at `slots` (i32), NO_SLOT for those that are not here. Uses nothing. */
  find(keys: number, keyCount: number, slots: number): void {
    findSlots(this.#arena, this.#rowKernels, { index: this.#index, keys, keyCount, slots });
  }

  /** The row in this slot is used in the operation in hand. */
  use(slot: number): void {
    this.#policy.touch(slot);
    this.#usedIn[slot] = this.#operation;
  }

  /** A slot for a new row: a free one, or that of a row which goes, whose key is then written at `victim`. NO_SLOT when no row may go. */
  reserve(victim: number): { readonly slot: number; readonly isEvicted: boolean } {
    if (this.#freeCount > 0) return { slot: this.#free[--this.#freeCount] as number, isEvicted: false };
    const slot = this.#policy.candidate();
    if (slot === NO_SLOT || this.#usedIn[slot] === this.#operation) return { slot: NO_SLOT, isEvicted: false }; // R2
    this.#policy.remove(slot);
    const key = this.#keys + slot * KEY_BYTES;
    this.#kernels.removeRows(this.#index, key, 1);
    this.#kernels.copy(victim, key, KEY_BYTES);
    return { slot, isEvicted: true };
  }

  /**
   * Rows of these keys stand in reserved slots now, their values are there. False when the index has no room for them: the slots are still
   * only reserved.
   */
  fill(keys: number, slots: readonly number[], versions: Uint32Array, memory: OperationMemory): boolean {
    const list = memory.take(slots.length * WORD_BYTES);
    if (this.#kernels.findOrInsertRows(this.#index, keys, slots.length, list) !== DONE) return false;
    const { words } = this.#arena;
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i] as number;
      words[((words[(list >>> 2) + i] as number) + ROW_KEY_BYTES) >>> 2] = slot;
      this.#kernels.copy(this.#keys + slot * KEY_BYTES, keys + i * KEY_BYTES, KEY_BYTES);
      this.versions[slot] = versions[i] as number;
      this.#policy.add(slot);
      this.#usedIn[slot] = this.#operation;
    }
    return true;
  }

  /** A reserved slot is not needed after all. */
  giveBack(slot: number): void {
    assert(this.#freeCount < this.slotCount, "R1: more slots came back than there are");
    this.#free[this.#freeCount++] = slot;
  }

  /** No copy counts any more, though all stay (R3). */
  invalidate(): void {
    this.versions.fill(VERSION_NONE);
  }

  close(): void {
    this.#kernels.destroyTable(this.#index);
    this.#arena.release(this.#values, this.#byteCount);
  }
}
