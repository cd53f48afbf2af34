// value-tables — where the values of a ValueStore lie: which width each key has, and the table of that width. Keys come in whole batches, and
// are made here; what is added to their values is the store's.
//
// Narrow values (under 16 KiB) are rows of one table per width; wider ones are LargeValues. While all keys have one narrow width that table
// is all there is. From the second width on a further table, `widths`, maps every key to its width.
//
// Invariants:
//   W1. A key has one width for life; every other one is refused with VALUE_LENGTH.
//   W2. A batch is prepared whole or not at all; what was inserted before it met a full arena is taken back.
//   W3. Either `widths` is 0 and at most one table exists, the sole one, or every key is in `widths` and in the table of its width.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { type Arena, stateFull } from "../kernel/arena.ts";
import { DONE, type Kernels, ROW_KEY_BYTES } from "../kernel/kernels.ts";
import { copyKeys } from "./copy-keys.ts";
import type { LargeValue } from "./large-value.ts";
import { LargeValues } from "./large-values.ts";
import { FLOAT_BYTES, KEY_BYTES, keyText, runEnd, type ValueBatch, widthAt } from "./value-batch.ts";

/** From this many floats on a value is large: it has blocks, and can be pushed and held block by block. */
export const LARGE_WIDTH_MIN = 4096;

const NO_WIDTH = -1;
const WIDTH_BYTES = 4;

export type ValueTablesOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  /** Keys the hash of the tables (a u64). */
  readonly secret: bigint;
  /** Called before rows are removed: whoever knows where they lie has to forget it. */
  readonly removing: () => void;
};

export class ValueTables {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #removing: () => void;
  #secret: bigint;
  /** Width -> table of narrow values. */
  readonly #tables = new Map<number, number>();
  readonly #sole = { width: NO_WIDTH, table: 0 };
  /** While all keys have one narrow width: that width, and their table (W3); otherwise -1 and 0. */
  readonly sole: Readonly<{ width: number; table: number }> = this.#sole;
  #widths = 0;
  #large: LargeValues | undefined;
  #closed = false;

  constructor({ arena, kernels, secret, removing }: ValueTablesOptions) {
    this.#arena = arena;
    this.#kernels = kernels;
    this.#secret = secret;
    this.#removing = removing;
  }

  /** The table of the narrow values of this width. */
  tableOf(width: number): number | undefined {
    return this.#tables.get(width);
  }

  /** Whether there may be values of this width in blocks. */
  hasLarge(width: number): boolean {
    return width >= LARGE_WIDTH_MIN && this.#large !== undefined;
  }

  get keyCount(): number {
    if (this.#widths !== 0) return this.#kernels.rowCount(this.#widths);
    return this.#sole.table === 0 ? 0 : this.#kernels.rowCount(this.#sole.table);
  }

  /** Arena bytes of all keys, values and indexes. */
  get usedBytes(): number {
    let bytes = this.#large?.usedBytes ?? 0;
    for (const table of this.#tables.values()) bytes += this.#kernels.tableBytes(table);
    return this.#widths === 0 ? bytes : bytes + this.#kernels.tableBytes(this.#widths);
  }

  /** lensOut[i] (i32) = the width of key i, 0 when it is unknown. Returns their sum. */
  lengths(keys: number, keyCount: number, lensOut: number): number {
    const { words } = this.#arena;
    if (this.#widths !== 0) this.#kernels.gatherRows(this.#widths, keys, keyCount, lensOut);
    else if (this.#sole.table !== 0) this.#kernels.findRows(this.#sole.table, keys, keyCount, lensOut);
    else this.#kernels.zero(lensOut, keyCount * WIDTH_BYTES);
    let sum = 0;
    for (let at = lensOut >>> 2, end = at + keyCount; at < end; at++) {
      if (this.#widths === 0 && words[at] !== 0) words[at] = this.#sole.width; // it was a row's address
      sum += words[at]!;
    }
    return sum;
  }

  /**
   * Makes certain that adding this batch cannot fail: its keys have its widths, and rows and blocks of zeros where they are new. While there is a sole
   * table its rows are not made here: adding makes them, or says that it cannot. Throws VALUE_LENGTH, ARENA_FULL, nothing changed (W1, W2).
   */
  prepare(batch: ValueBatch): void {
    const hasNewKeys = this.#checkWidths(batch);
    if (hasNewKeys) this.#openTables(batch);
    if (this.#widths === 0) return;
    const fits = (!hasNewKeys || this.#insertKeys(batch)) && this.#reserveBlocks(batch);
    if (!fits) {
      this.#takeBack(batch);
      throw noRoomFor(this.#arena, batch.keyCount);
    }
    if (hasNewKeys) this.#confirmWidths(batch);
  }

  /** The large value of a key, undefined when the key is unknown. Throws VALUE_LENGTH (W1). */
  large(key: number, width: number): LargeValue | undefined {
    const value = this.#large?.get(key);
    if (value === undefined) this.requireWidth(key, 1, width);
    else if (value.width !== width) throw this.#otherWidth(key, 0, value.width, width);
    return value;
  }

  /** A new large value with memory for one block. Throws ARENA_FULL. */
  createLarge(key: number, width: number, blockIndex: number): LargeValue {
    const batch = { keys: key, keyCount: 1, lens: 0, width, values: 0 };
    this.#openTables(batch);
    if (this.#insertKeys(batch) && this.#large!.get(key)!.reserve(blockIndex)) {
      this.#confirmWidths(batch);
      return this.#large!.get(key)!;
    }
    this.#takeBack(batch);
    throw noRoomFor(this.#arena, 1);
  }

  /** Throws VALUE_LENGTH when one of the keys has another width than this. */
  requireWidth(keys: number, keyCount: number, width: number): void {
    if (this.#widths !== 0) {
      const index = this.#kernels.findOtherWord(this.#widths, keys, keyCount, width);
      if (index < 0) return;
      const row = this.#kernels.findRow(this.#widths, keys + index * KEY_BYTES);
      throw this.#otherWidth(keys, index, this.#arena.words[(row + ROW_KEY_BYTES) >>> 2]!, width);
    }
    if (this.#sole.table === 0 || width === this.#sole.width) return;
    const index = this.#kernels.findKnown(this.#sole.table, keys, keyCount);
    if (index >= 0) throw this.#otherWidth(keys, index, this.#sole.width, width);
  }

  /** Frees everything; blocks that are held stay readable until their release. No keys are taken afterwards. */
  close(): void {
    for (const table of this.#tables.values()) this.#kernels.destroyTable(table);
    if (this.#widths !== 0) this.#kernels.destroyTable(this.#widths);
    this.#large?.close();
    this.#tables.clear();
    this.#widths = 0;
    this.#sole.table = 0;
    this.#sole.width = NO_WIDTH;
    this.#large = undefined;
    this.#closed = true;
  }

  /** Whether the batch has unknown keys. Throws VALUE_LENGTH for a key of another width (W1). */
  #checkWidths(batch: ValueBatch): boolean {
    if (this.#widths === 0) {
      for (let from = 0, end = 0; from < batch.keyCount; from = end) {
        end = runEnd(this.#arena, batch, from);
        this.requireWidth(batch.keys + from * KEY_BYTES, end - from, widthAt(this.#arena, batch, from));
      }
      return true;
    }
    const stored = this.#arena.allocate(batch.keyCount * WIDTH_BYTES);
    let hasNewKeys = false;
    try {
      this.#kernels.gatherRows(this.#widths, batch.keys, batch.keyCount, stored);
      for (let i = 0; i < batch.keyCount; i++) {
        const expected = this.#arena.words[(stored >>> 2) + i]!;
        const width = widthAt(this.#arena, batch, i);
        if (expected === 0) hasNewKeys = true;
        else if (expected !== width) throw this.#otherWidth(batch.keys, i, expected, width);
      }
    } finally {
      this.#arena.release(stored, batch.keyCount * WIDTH_BYTES);
    }
    return hasNewKeys;
  }

  /** Makes the tables that the batch needs, empty, and `widths` when there is more than a sole one (W3). Throws ARENA_FULL. */
  #openTables(batch: ValueBatch): void {
    assert(!this.#closed, "the store is closed");
    for (let from = 0; from < batch.keyCount; from = runEnd(this.#arena, batch, from)) {
      const width = widthAt(this.#arena, batch, from);
      if (width * FLOAT_BYTES > this.#arena.bytesMax) throw noRoomFor(this.#arena, 1);
      if (this.#tables.has(width) || (width >= LARGE_WIDTH_MIN && this.#large !== undefined)) continue;
      if (this.#widths === 0 && (this.#sole.table !== 0 || width >= LARGE_WIDTH_MIN)) this.#openWidths();
      if (width >= LARGE_WIDTH_MIN) this.#large = new LargeValues(this.#arena, this.#kernels, this.#nextSecret());
      else this.#tables.set(width, this.#kernels.createTable({ payloadBytes: width * FLOAT_BYTES, secret: this.#nextSecret() }));
      if (this.#widths !== 0) continue;
      this.#sole.width = width;
      this.#sole.table = this.#tables.get(width)!;
    }
  }

  /** Makes `widths` and enters the keys of the sole table. A pause of some 0.1 µs per key, once in a store's life. */
  #openWidths(): void {
    const widths = this.#kernels.createTable({ payloadBytes: WIDTH_BYTES, secret: this.#nextSecret() });
    if (
      this.#sole.table !== 0 &&
      !copyKeys(this.#arena, this.#kernels, { source: this.#sole.table, target: widths, word: this.#sole.width })
    ) {
      this.#kernels.destroyTable(widths);
      throw noRoomFor(this.#arena, this.keyCount);
    }
    this.#widths = widths;
    this.#sole.table = 0;
    this.#sole.width = NO_WIDTH;
  }

  /** Gives every key a row in `widths`, with width 0 until the push is certain, and a value of zeros; false when the arena is full. */
  #insertKeys(batch: ValueBatch): boolean {
    if (this.#kernels.insertRows(this.#widths, batch.keys, batch.keyCount) !== DONE) return false;
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(this.#arena, batch, from);
      const width = widthAt(this.#arena, batch, from);
      const table = this.#tables.get(width);
      if (table !== undefined) {
        if (this.#kernels.insertRows(table, batch.keys + from * KEY_BYTES, end - from) !== DONE) return false;
        continue;
      }
      for (let i = from; i < end; i++) if (this.#large!.getOrCreate(batch.keys + i * KEY_BYTES, width) === undefined) return false;
    }
    return true;
  }

  /** Takes memory for all blocks of the batch's large values; false when the arena is full. */
  #reserveBlocks(batch: ValueBatch): boolean {
    for (let i = 0; i < batch.keyCount; i++) {
      const width = widthAt(this.#arena, batch, i);
      if (width < LARGE_WIDTH_MIN) continue;
      const value = this.#large!.get(batch.keys + i * KEY_BYTES)!;
      for (let blockIndex = 0; blockIndex < value.blockCount; blockIndex++) if (!value.reserve(blockIndex)) return false;
    }
    return true;
  }

  /** Undoes `#insertKeys` and `#reserveBlocks`, as far as they came: the new keys are those whose width is still 0. */
  #takeBack(batch: ValueBatch): void {
    this.#removing();
    for (let i = 0; i < batch.keyCount; i++) {
      const key = batch.keys + i * KEY_BYTES;
      const row = this.#kernels.findRow(this.#widths, key);
      const width = widthAt(this.#arena, batch, i);
      if (width >= LARGE_WIDTH_MIN) this.#large!.get(key)?.unreserve();
      if (row === 0 || this.#arena.words[(row + ROW_KEY_BYTES) >>> 2] !== 0) continue;
      if (width >= LARGE_WIDTH_MIN) this.#large!.remove(key);
      else this.#kernels.removeRows(this.#tables.get(width)!, key, 1);
      this.#kernels.removeRows(this.#widths, key, 1);
    }
  }

  #confirmWidths(batch: ValueBatch): void {
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(this.#arena, batch, from);
      this.#kernels.setWords(this.#widths, batch.keys + from * KEY_BYTES, end - from, widthAt(this.#arena, batch, from));
    }
  }

  #otherWidth(keys: number, index: number, expected: number, actual: number): WeighbridgeError {
    const key = keyText(this.#arena, keys, index);
    return new WeighbridgeError("VALUE_LENGTH", `key ${key} has ${expected} floats, the request has ${actual}`);
  }

  /** Each table has its own, so that keys listed by one do not come to another in the order of its hashes. */
  #nextSecret(): bigint {
    this.#secret = BigInt.asUintN(64, this.#secret + 1n);
    return this.#secret;
  }
}

/** The error of a push that a full arena refuses. */
export function noRoomFor(arena: Arena, keyCount: number): WeighbridgeError {
  return stateFull(arena, `a push of ${keyCount} keys`);
}
