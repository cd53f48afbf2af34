// plain-kernels — the reference of Kernels, in TypeScript that a reader can check. Slow; for tests. A Map holds each
// table, every row is a span of its own; only the arena's allocator is the real one.

import { assert } from "../base/assert.ts";
import { type Arena, stateFull } from "./arena.ts";
import { KEY_BYTES } from "./elements.ts";
import { DONE, KEY_MISSING, type Kernels, LIST_ROWS_MAX, NO_ROOM, ROW_KEY_BYTES, type Status, type TableOptions } from "./kernels.ts";

/** What a table's own address stands for: nothing is kept there. */
const HEADER_BYTES = 64;

type PlainTable = { readonly payloadBytes: number; readonly isAside: boolean; readonly rows: Map<bigint, number> };

export class PlainKernels implements Kernels {
  readonly #arena: Arena;
  readonly #tables = new Map<number, PlainTable>();

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  add(target: number, source: number, floatCount: number): void {
    this.sum(target, target, source, floatCount);
  }

  sum(target: number, left: number, right: number, floatCount: number): void {
    const { floats } = this.#arena;
    for (let i = 0; i < floatCount; i++) floats[target / 4 + i] = floats[left / 4 + i]! + floats[right / 4 + i]!;
  }

  axpy(target: number, source: number, scale: number, floatCount: number): void {
    const { floats } = this.#arena;
    for (let i = 0; i < floatCount; i++) floats[target / 4 + i]! += Math.fround(Math.fround(scale) * floats[source / 4 + i]!);
  }

  copy(target: number, source: number, byteCount: number): void {
    this.#arena.bytes.copyWithin(target, source, source + byteCount);
  }

  zero(target: number, byteCount: number): void {
    this.#arena.bytes.fill(0, target, target + byteCount);
  }

  checkAscending(keys: number, keyCount: number): number {
    for (let i = 1; i < keyCount; i++) if (this.#key(keys, i) <= this.#key(keys, i - 1)) return i;
    return -1;
  }

  createTable(options: TableOptions): number {
    const { payloadBytes, isAside = false } = options;
    assert(payloadBytes >= 4 && payloadBytes % 4 === 0, `a payload is a multiple of 4 bytes, not ${payloadBytes}`);
    const table = this.#take(HEADER_BYTES, isAside);
    if (table === 0) throw stateFull(this.#arena, "an empty table");
    this.#tables.set(table, { payloadBytes, isAside, rows: new Map() });
    return table;
  }

  destroyTable(table: number): void {
    const { payloadBytes, rows } = this.#table(table);
    for (const row of rows.values()) this.#arena.release(row, ROW_KEY_BYTES + payloadBytes);
    this.#arena.release(table, HEADER_BYTES);
    this.#tables.delete(table);
  }

  rowCount(table: number): number {
    return this.#table(table).rows.size;
  }

  tableBytes(table: number): number {
    const { payloadBytes, rows } = this.#table(table);
    return HEADER_BYTES + rows.size * (ROW_KEY_BYTES + payloadBytes);
  }

  findRow(table: number, key: number): number {
    return this.#table(table).rows.get(this.#key(key, 0)) ?? 0;
  }

  findRows(table: number, keys: number, keyCount: number, rowsOut: number): number {
    let missing = 0;
    for (let i = 0; i < keyCount; i++) {
      const row = this.findRow(table, keys + i * KEY_BYTES);
      this.#arena.words[rowsOut / 4 + i] = row;
      if (row === 0) missing++;
    }
    return missing;
  }

  findKnown(table: number, keys: number, keyCount: number): number {
    for (let i = 0; i < keyCount; i++) if (this.findRow(table, keys + i * KEY_BYTES) !== 0) return i;
    return -1;
  }

  insertRows(table: number, keys: number, keyCount: number): Status {
    const { payloadBytes, isAside, rows } = this.#table(table);
    const fresh: bigint[] = [];
    for (let i = 0; i < keyCount; i++) {
      const key = this.#key(keys, i);
      if (rows.has(key)) continue;
      const row = this.#take(ROW_KEY_BYTES + payloadBytes, isAside);
      if (row === 0) {
        for (const taken of fresh) this.#remove(table, taken); // Kernels.K3
        return NO_ROOM;
      }
      this.copy(row, keys + i * KEY_BYTES, KEY_BYTES);
      this.zero(row + ROW_KEY_BYTES, payloadBytes);
      rows.set(key, row);
      fresh.push(key);
    }
    return DONE;
  }

  findOrInsertRows(table: number, keys: number, keyCount: number, rowsOut: number): Status {
    const status = this.insertRows(table, keys, keyCount);
    if (status === DONE) this.findRows(table, keys, keyCount, rowsOut);
    return status;
  }

  addRows(table: number, keys: number, keyCount: number, values: number): Status {
    const status = this.insertRows(table, keys, keyCount);
    if (status === DONE) this.#addPayloads(table, keys, keyCount, values);
    return status;
  }

  addKnownRows(table: number, keys: number, keyCount: number, values: number): Status {
    for (let i = 0; i < keyCount; i++) if (this.findRow(table, keys + i * KEY_BYTES) === 0) return KEY_MISSING;
    this.#addPayloads(table, keys, keyCount, values);
    return DONE;
  }

  gatherRows(table: number, keys: number, keyCount: number, out: number): number {
    const { payloadBytes } = this.#table(table);
    let missing = 0;
    for (let i = 0; i < keyCount; i++) {
      const row = this.findRow(table, keys + i * KEY_BYTES);
      if (row !== 0) this.copy(out + i * payloadBytes, row + ROW_KEY_BYTES, payloadBytes);
      else {
        this.zero(out + i * payloadBytes, payloadBytes);
        missing++;
      }
    }
    return missing;
  }

  gatherListedRows(rows: number, keys: number, keyCount: number, payloadBytes: number, out: number): number {
    for (let i = 0; i < keyCount; i++) {
      const row = this.#arena.words[rows / 4 + i]!;
      if (this.#key(row, 0) !== this.#key(keys, i)) return i;
      this.copy(out + i * payloadBytes, row + ROW_KEY_BYTES, payloadBytes);
    }
    return -1;
  }

  addListedRows(rows: number, keys: number, keyCount: number, payloadBytes: number, values: number): number {
    const rowAt = (i: number): number => this.#arena.words[rows / 4 + i]!;
    for (let i = 0; i < keyCount; i++) if (this.#key(rowAt(i), 0) !== this.#key(keys, i)) return i;
    for (let i = 0; i < keyCount; i++) this.add(rowAt(i) + ROW_KEY_BYTES, values + i * payloadBytes, payloadBytes / 4);
    return -1;
  }

  setWords(table: number, keys: number, keyCount: number, word: number): void {
    for (let i = 0; i < keyCount; i++) {
      const row = this.findRow(table, keys + i * KEY_BYTES);
      if (row !== 0) this.#arena.words[(row + ROW_KEY_BYTES) / 4] = word;
    }
  }

  findOtherWord(table: number, keys: number, keyCount: number, word: number): number {
    for (let i = 0; i < keyCount; i++) {
      const row = this.findRow(table, keys + i * KEY_BYTES);
      if (row !== 0 && this.#arena.words[(row + ROW_KEY_BYTES) / 4] !== word) return i;
    }
    return -1;
  }

  removeRows(table: number, keys: number, keyCount: number): number {
    let removed = 0;
    for (let i = 0; i < keyCount; i++) if (this.#remove(table, this.#key(keys, i))) removed++;
    return removed;
  }

  /** In the order of keys. The cursor is [ next key u64 | 1 once the last key was listed ]. */
  listRows(table: number, cursor: number, rowsOut: number): number {
    const { words } = this.#arena;
    const { rows } = this.#table(table);
    if (words[cursor / 4 + 2] === 1) return -1;
    const from = this.#key(cursor, 0);
    const ahead = [...rows.keys()].filter((key) => key >= from).sort((a, b) => (a < b ? -1 : 1));
    const listed = ahead.slice(0, LIST_ROWS_MAX);
    for (const [i, key] of listed.entries()) words[rowsOut / 4 + i] = rows.get(key)!;
    const next = ahead[LIST_ROWS_MAX];
    if (next === undefined) words[cursor / 4 + 2] = 1;
    else this.copy(cursor, rows.get(next)!, KEY_BYTES);
    return listed.length;
  }

  listPart(table: number, part: number, cursor: number, rowsOut: number): number {
    const rows = this.#partRows(table, part);
    const from = this.#arena.words[cursor / 4] as number;
    if (from > 0 && from >= rows.length) return -1;
    const listed = rows.slice(from, from + LIST_ROWS_MAX);
    for (const [i, [, row]] of listed.entries()) this.#arena.words[rowsOut / 4 + i] = row;
    this.#arena.words[cursor / 4] = from + LIST_ROWS_MAX;
    return listed.length;
  }

  countPart(table: number, part: number): number {
    return this.#partRows(table, part).length;
  }

  dropPart(table: number, part: number): number {
    const rows = this.#partRows(table, part);
    for (const [key] of rows) this.#remove(table, key);
    return rows.length;
  }

  /** Rows lie in no order here: there is nothing to be prepared. */
  expectRows(): void {}

  segmentRowsMax(): number {
    return Infinity;
  }

  splitTo(): boolean {
    return true;
  }

  settleRows(): void {}

  #partRows(table: number, part: number): readonly (readonly [bigint, number])[] {
    return [...this.#table(table).rows].filter(([key]) => partOfKey(key) === part);
  }

  keysAhead(_table: number, cursor: number, keys: number, keyCount: number, out: number): number {
    const from = this.#key(cursor, 0);
    let count = 0;
    for (let i = 0; i < keyCount; i++) {
      if (this.#arena.words[cursor / 4 + 2] === 1 || this.#key(keys, i) < from) continue;
      this.copy(out + count * KEY_BYTES, keys + i * KEY_BYTES, KEY_BYTES);
      count++;
    }
    return count;
  }

  #take(byteCount: number, isAside: boolean): number {
    return isAside ? this.#arena.tryAllocate(byteCount) : this.#arena.tryAllocateState(byteCount);
  }

  #table(address: number): PlainTable {
    const table = this.#tables.get(address);
    assert(table !== undefined, `no table at ${address}`);
    return table;
  }

  #key(keys: number, index: number): bigint {
    const at = keys / 4 + index * 2;
    return (BigInt(this.#arena.words[at + 1]!) << 32n) | BigInt(this.#arena.words[at]!);
  }

  #addPayloads(table: number, keys: number, keyCount: number, values: number): void {
    const { payloadBytes } = this.#table(table);
    for (let i = 0; i < keyCount; i++) {
      this.add(this.findRow(table, keys + i * KEY_BYTES) + ROW_KEY_BYTES, values + i * payloadBytes, payloadBytes / 4);
    }
  }

  #remove(table: number, key: bigint): boolean {
    const { payloadBytes, rows } = this.#table(table);
    const row = rows.get(key);
    if (row === undefined) return false;
    this.#arena.release(row, ROW_KEY_BYTES + payloadBytes);
    return rows.delete(key);
  }
}

/** The top 12 bits of the fixed mix, as src/keys has it. */
export function partOfKey(key: bigint): number {
  const factor = 0xd6e8_feb8_6659_fd93n;
  let mixed = BigInt.asUintN(64, (key ^ (key >> 32n)) * factor);
  mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 32n)) * factor);
  return Number((mixed ^ (mixed >> 32n)) >> 52n);
}
