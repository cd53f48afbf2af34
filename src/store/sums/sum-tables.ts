// sum-tables — where the values of a SumStore lie: the width of each key, and the table of that width. It makes keys,
// in whole batches; the store adds to their values.
//
//   row        [ key u64 | elements × width | padding to whole words ]   narrow values, under 16 KiB: a table per width
//   widths     [ key u64 | width + 1 as u32 ]; 0 while its push is not certain
//
// Wider values are LargeValues. While all keys have one narrow width, its table is all there is. From the second width
// on a further table, `widths`, maps every key to its width.
//
// Invariants:
//   SumTables.W1. A key keeps its width; requests with another are refused with VALUE_LENGTH.
//   SumTables.W2. A batch is prepared whole or not at all: inserted keys are removed if the arena is full.
//   SumTables.W3. Either there is no `widths` and at most one table, or every key is in `widths` and in the table of
//       its width.

import { WeighbridgeError } from "../../base/errors.ts";
import { type Arena, stateFull } from "../../kernel/arena.ts";
import { ElementType, elementBytesOf, KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { DONE, ROW_KEY_BYTES } from "../../kernel/kernels.ts";
import { RowTable } from "../row-table.ts";
import type { LargeValue } from "./large-value.ts";
import { LargeValues } from "./large-values.ts";
import { keyAt, runEnd, type SumBatch, widthAt } from "./sum-batch.ts";
import type { ExpectedSums, SumHost } from "./sum-requests.ts";

/** From this many bytes on a value is large: it has blocks, and can be pushed and held block by block. */
export const LARGE_BYTES_MIN: number = 16 * 1024;

const NO_WIDTH = -1;

type SumTablesOptions = {
  readonly host: SumHost;
  readonly type: ElementType;
  /** Keys the hash of the tables (a u64). */
  readonly secret: bigint;
  /** Called before rows are removed, whose addresses then are void. */
  readonly removing: () => void;
};

export class SumTables {
  readonly type: ElementType;
  readonly elementBytes: number;
  readonly #host: SumHost;
  readonly #removing: () => void;
  #secret: bigint;
  /** Width -> table of narrow values. */
  readonly #tables = new Map<number, RowTable>();
  readonly #fast = { width: NO_WIDTH, table: 0 };
  /**
   * If all keys have one narrow width of floats and no checkpoint is being saved: that width, and the address of their
   * table; otherwise -1 and 0. Only then one kernel call finds, makes and adds. Callers that find -1 call
   * `lookForFast`.
   */
  readonly fast: Readonly<{ width: number; table: number }> = this.#fast;
  /** SumTables.W3 */
  #sole: { readonly width: number; readonly table: RowTable } | undefined;
  #widths: RowTable | undefined;
  #large: LargeValues | undefined;

  constructor({ host, type, secret, removing }: SumTablesOptions) {
    this.type = type;
    this.elementBytes = elementBytesOf(type);
    this.#host = host;
    this.#secret = secret;
    this.#removing = removing;
  }

  /** The table of the narrow values of this width. */
  tableOf(width: number): RowTable | undefined {
    return this.#tables.get(width);
  }

  /** The tables of narrow values, by width. */
  get narrow(): ReadonlyMap<number, RowTable> {
    return this.#tables;
  }

  /** Values in blocks, where there are some. */
  get largeValues(): LargeValues | undefined {
    return this.#large;
  }

  isLarge(width: number): boolean {
    return width * this.elementBytes >= LARGE_BYTES_MIN;
  }

  /** Whether the rows of this width are one after the other as values are in a request. */
  isPacked(width: number): boolean {
    return width > 0 && (width * this.elementBytes) % WORD_BYTES === 0;
  }

  get keyCount(): number {
    return (this.#widths ?? this.#sole?.table)?.rowCount ?? 0;
  }

  countPart(part: number): number {
    return (this.#widths ?? this.#sole?.table)?.parts.countOfPart(part) ?? 0;
  }

  /** Arena bytes of all keys, values and indexes. */
  get usedBytes(): number {
    let bytes = (this.#large?.usedBytes ?? 0) + (this.#widths?.usedBytes ?? 0);
    for (const table of this.#tables.values()) bytes += table.usedBytes;
    return bytes;
  }

  lookForFast(): void {
    const sole = this.type === ElementType.F32 && this.#sole?.table.frozen === undefined ? this.#sole : undefined;
    const isFast = sole !== undefined && sole.width > 0;
    this.#fast.width = isFast ? sole.width : NO_WIDTH;
    this.#fast.table = isFast ? sole.table.address : 0;
  }

  /** The width of a key; undefined when it is unknown. */
  widthOf(key: number): number | undefined {
    const { kernels, arena } = this.#host;
    if (this.#widths === undefined) {
      const row = this.#sole === undefined ? 0 : kernels.findRow(this.#sole.table.address, key);
      return row === 0 ? undefined : this.#sole?.width;
    }
    const row = kernels.findRow(this.#widths.address, key);
    return row === 0 ? undefined : arena.words[(row + ROW_KEY_BYTES) >>> 2]! - 1;
  }

  /** lensOut[i] (i32) = the width of key i, 0 when it is unknown. Returns their sum. */
  lengths(keys: number, keyCount: number, lensOut: number): number {
    const { kernels, arena } = this.#host;
    const { words } = arena;
    if (this.#widths !== undefined) kernels.gatherRows(this.#widths.address, keys, keyCount, lensOut);
    else if (this.#sole !== undefined) kernels.findRows(this.#sole.table.address, keys, keyCount, lensOut);
    else kernels.zero(lensOut, keyCount * WORD_BYTES);
    let sum = 0;
    for (let at = lensOut >>> 2, end = at + keyCount; at < end; at++) {
      if (words[at] === 0) continue;
      words[at] = this.#widths === undefined ? this.#sole!.width : words[at]! - 1; // it was a row's address
      sum += words[at]!;
    }
    return sum;
  }

  /**
   * Makes sure that adding this batch cannot fail: its keys have its widths, new ones get rows and blocks of zeros.
   * Throws VALUE_LENGTH, ARENA_FULL, nothing changed (SumTables.W1, SumTables.W2).
   */
  prepare(batch: SumBatch): void {
    const hasNewKeys = this.#checkWidths(batch);
    if (hasNewKeys) this.#openTables(batch);
    if (this.#widths === undefined) {
      const { kernels, arena } = this.#host;
      if (kernels.insertRows(this.#sole!.table.address, batch.keys, batch.keyCount) !== DONE) throw noRoomFor(arena, batch.keyCount);
      return;
    }
    const fits = (!hasNewKeys || this.#insertKeys(batch)) && this.#reserveBlocks(batch);
    if (!fits) {
      this.#takeBack(batch);
      throw noRoomFor(this.#host.arena, batch.keyCount);
    }
    if (hasNewKeys) this.#confirmWidths(batch);
  }

  /** The large value of a key, undefined when the key is unknown. Throws VALUE_LENGTH (SumTables.W1). */
  large(key: number, width: number): LargeValue | undefined {
    const value = this.#large?.get(key);
    if (value === undefined) this.requireWidth(key, 1, width);
    else if (value.width !== width) throw this.#otherWidth(key, 0, value.width, width);
    return value;
  }

  /** A new large value, with memory for one block if it is said which. Throws ARENA_FULL. */
  createLarge(key: number, width: number, blockIndex?: number): LargeValue {
    const batch = { keys: key, keyCount: 1, lens: 0, width, values: 0 };
    this.#openTables(batch);
    const fits = this.#insertKeys(batch) && (blockIndex === undefined || this.#large!.get(key)!.reserve(blockIndex));
    if (!fits) {
      this.#takeBack(batch);
      throw noRoomFor(this.#host.arena, 1);
    }
    this.#confirmWidths(batch);
    return this.#large!.get(key)!;
  }

  /** Sets a large value to these bytes. Throws VALUE_LENGTH; ARENA_FULL, nothing changed. */
  putLarge(key: number, width: number, bytes: Uint8Array): void {
    const known = this.large(key, width);
    const value = known ?? this.createLarge(key, width);
    if (value.put(bytes)) return;
    if (known === undefined) {
      this.#large!.remove(key);
      this.#host.kernels.removeRows(this.#widths!.address, key, 1);
    }
    throw noRoomFor(this.#host.arena, 1);
  }

  /** Throws VALUE_LENGTH if one of the keys has another width. */
  requireWidth(keys: number, keyCount: number, width: number): void {
    const { kernels, arena } = this.#host;
    if (this.#widths !== undefined) {
      const index = kernels.findOtherWord(this.#widths.address, keys, keyCount, width + 1);
      if (index < 0) return;
      const row = kernels.findRow(this.#widths.address, keys + index * KEY_BYTES);
      throw this.#otherWidth(keys, index, arena.words[(row + ROW_KEY_BYTES) >>> 2]! - 1, width);
    }
    if (this.#sole === undefined || width === this.#sole.width) return;
    const index = kernels.findKnown(this.#sole.table.address, keys, keyCount);
    if (index >= 0) throw this.#otherWidth(keys, index, this.#sole.width, width);
  }

  /** A store without keys is about to get so many of these widths (RowTable.expect). Throws ARENA_FULL. */
  expect(expected: readonly ExpectedSums[]): void {
    const total = new Float64Array(expected[0]?.byPart.length ?? 0);
    for (const { byPart } of expected) for (const [part, count] of byPart.entries()) total[part]! += count;
    if (expected.length > 1 || expected.some(({ width }) => this.isLarge(width))) {
      this.#openWidths();
      this.#widths?.expect(total);
    }
    for (const { width, byPart } of expected) {
      this.#openTables({ keys: 0, keyCount: 1, lens: 0, width, values: 0 });
      this.#tables.get(width)?.expect(byPart);
    }
  }

  /** All expected keys are there. */
  settle(): void {
    this.#widths?.settle();
    for (const table of this.#tables.values()) table.settle();
  }

  /** Removes the keys of a part; returns how many there were. Throws ARENA_FULL. */
  dropPart(part: number): number {
    const count = this.countPart(part);
    if (count === 0) return 0;
    this.#removing();
    this.#large?.dropPart(part);
    for (const table of this.#tables.values()) table.dropPart(part);
    this.#widths?.dropPart(part);
    return count;
  }

  /** Releases everything; held blocks stay readable until their release. */
  close(): void {
    for (const table of this.#tables.values()) table.close();
    this.#widths?.close();
    this.#large?.close();
    this.#tables.clear();
    this.#widths = undefined;
    this.#sole = undefined;
    this.#large = undefined;
    this.lookForFast();
  }

  /** Whether the batch has unknown keys. Throws VALUE_LENGTH for a key of another width (SumTables.W1). */
  #checkWidths(batch: SumBatch): boolean {
    const { arena, kernels } = this.#host;
    if (this.#widths === undefined) {
      for (let from = 0, end = 0; from < batch.keyCount; from = end) {
        end = runEnd(arena, batch, from);
        this.requireWidth(batch.keys + from * KEY_BYTES, end - from, widthAt(arena, batch, from));
      }
      return true;
    }
    const stored = arena.allocate(batch.keyCount * WORD_BYTES);
    let hasNewKeys = false;
    try {
      kernels.gatherRows(this.#widths.address, batch.keys, batch.keyCount, stored);
      for (let i = 0; i < batch.keyCount; i++) {
        const expected = arena.words[(stored >>> 2) + i]!;
        const width = widthAt(arena, batch, i);
        if (expected === 0) hasNewKeys = true;
        else if (expected !== width + 1) throw this.#otherWidth(batch.keys, i, expected - 1, width);
      }
    } finally {
      arena.release(stored, batch.keyCount * WORD_BYTES);
    }
    return hasNewKeys;
  }

  /** Makes the tables that the batch needs, and `widths` if there are several (SumTables.W3). Throws ARENA_FULL. */
  #openTables(batch: SumBatch): void {
    const { arena } = this.#host;
    for (let from = 0; from < batch.keyCount; from = runEnd(arena, batch, from)) {
      const width = widthAt(arena, batch, from);
      const [valueBytes, isLarge] = [width * this.elementBytes, this.isLarge(width)];
      if (valueBytes > arena.bytesMax) throw noRoomFor(arena, 1);
      if (this.#tables.has(width) || (isLarge && this.#large !== undefined)) continue;
      if (this.#sole !== undefined || isLarge) this.#openWidths();
      if (isLarge) this.#large = new LargeValues(this.#host, this.type, this.#nextSecret());
      else this.#tables.set(width, this.#newTable(Math.max(WORD_BYTES, Math.ceil(valueBytes / WORD_BYTES) * WORD_BYTES)));
      if (this.#widths === undefined) this.#sole = { width, table: this.#tables.get(width)! };
      this.lookForFast();
    }
  }

  /** Makes `widths`, and enters the keys of the sole table. Takes some 0.1 µs per key, once for a store. */
  #openWidths(): void {
    if (this.#widths !== undefined) return;
    const { arena, kernels } = this.#host;
    const widths = this.#newTable(WORD_BYTES);
    try {
      this.#sole?.table.parts.eachKeys("all", (keys, keyCount) => {
        if (kernels.insertRows(widths.address, keys, keyCount) !== DONE) throw noRoomFor(arena, this.keyCount);
        kernels.setWords(widths.address, keys, keyCount, this.#sole!.width + 1);
      });
    } catch (thrown) {
      widths.close();
      throw thrown;
    }
    this.#widths = widths;
    this.#sole = undefined;
    this.lookForFast();
  }

  #newTable(payloadBytes: number): RowTable {
    const made = new RowTable(this.#host, { payloadBytes, secret: this.#nextSecret() });
    this.#host.tableMade?.();
    return made;
  }

  /**
   * Gives every key a row in `widths`, 0 until the push is certain, and a value of zeros; false if the arena is full.
   */
  #insertKeys(batch: SumBatch): boolean {
    const { arena, kernels } = this.#host;
    if (kernels.insertRows(this.#widths!.address, batch.keys, batch.keyCount) !== DONE) return false;
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(arena, batch, from);
      const width = widthAt(arena, batch, from);
      const table = this.#tables.get(width);
      if (table !== undefined) {
        if (kernels.insertRows(table.address, batch.keys + from * KEY_BYTES, end - from) !== DONE) return false;
        continue;
      }
      for (let i = from; i < end; i++) if (this.#large!.getOrCreate(batch.keys + i * KEY_BYTES, width) === undefined) return false;
    }
    return true;
  }

  /** Takes memory for all blocks of the batch's large values; false when the arena is full. */
  #reserveBlocks(batch: SumBatch): boolean {
    const { arena } = this.#host;
    for (let i = 0; i < batch.keyCount; i++) {
      if (!this.isLarge(widthAt(arena, batch, i))) continue;
      const value = this.#large!.get(batch.keys + i * KEY_BYTES)!;
      for (let blockIndex = 0; blockIndex < value.blockCount; blockIndex++) if (!value.reserve(blockIndex)) return false;
    }
    return true;
  }

  /** Undoes `#insertKeys` and `#reserveBlocks`, as far as they came: the new keys are those whose word is still 0. */
  #takeBack(batch: SumBatch): void {
    const { arena, kernels } = this.#host;
    this.#removing();
    for (let i = 0; i < batch.keyCount; i++) {
      const key = batch.keys + i * KEY_BYTES;
      const row = kernels.findRow(this.#widths!.address, key);
      const width = widthAt(arena, batch, i);
      if (this.isLarge(width)) this.#large!.get(key)?.unreserve();
      if (row === 0 || arena.words[(row + ROW_KEY_BYTES) >>> 2] !== 0) continue;
      if (this.isLarge(width)) this.#large!.remove(key);
      else kernels.removeRows(this.#tables.get(width)!.address, key, 1);
      kernels.removeRows(this.#widths!.address, key, 1);
    }
  }

  #confirmWidths(batch: SumBatch): void {
    const { arena, kernels } = this.#host;
    for (let from = 0, end = 0; from < batch.keyCount; from = end) {
      end = runEnd(arena, batch, from);
      kernels.setWords(this.#widths!.address, batch.keys + from * KEY_BYTES, end - from, widthAt(arena, batch, from) + 1);
    }
  }

  #otherWidth(keys: number, index: number, expected: number, actual: number): WeighbridgeError {
    const key = keyAt(this.#host.arena, keys, index);
    return new WeighbridgeError("VALUE_LENGTH", `key ${key} has ${expected} values, the request has ${actual}`);
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
