// plain-row-kernels — the reference of RowKernels, on top of any Kernels: a key, then a word at a time. Slow; for
// tests.

import type { Arena } from "./arena.ts";
import { type ElementArray, type ElementType, elementArrayOf, elementBytesOf, KEY_BYTES } from "./elements.ts";
import { DONE, type Kernels, ROW_KEY_BYTES } from "./kernels.ts";
import { partOfKey } from "./plain-kernels.ts";
import { type ElementKernels, FOREIGN_COUNT, NO_ROOM_COUNT, type RowKernels, VERSION_NONE } from "./row-kernels.ts";

export class PlainRowKernels implements RowKernels {
  readonly #arena: Arena;
  readonly #kernels: Kernels;

  constructor(arena: Arena, kernels: Kernels) {
    this.#arena = arena;
    this.#kernels = kernels;
  }

  /** Never sure, so that callers take the careful way. */
  spareRows(): number {
    return 0; // every row takes its own
  }

  hasCertainRoom(): boolean {
    return false;
  }

  #isOwn(keys: number, keyCount: number, owned: number): boolean {
    const { words, bytes } = this.#arena;
    for (let i = 0; i < keyCount && owned !== 0; i++) {
      const at = keys / 4 + 2 * i;
      if (bytes[owned + partOfKey((BigInt(words[at + 1]!) << 32n) | BigInt(words[at]!))] !== 1) return false;
    }
    return true;
  }

  findValues(table: number, keys: number, keyCount: number, _touchBytes: number, rowsOut: number, owned: number): number {
    if (!this.#isOwn(keys, keyCount, owned)) return FOREIGN_COUNT;
    let missing = 0;
    for (let i = 0; i < keyCount; i++) {
      const row = this.#kernels.findRow(table, keys + i * KEY_BYTES);
      this.#arena.words[rowsOut / 4 + i] = row === 0 ? 0 : row + ROW_KEY_BYTES;
      if (row === 0) missing++;
    }
    return missing;
  }

  locateValues(
    table: number,
    keys: number,
    keyCount: number,
    touchBytes: number,
    rowsOut: number,
    freshOut: number,
    owned: number,
  ): number {
    const fresh = this.insertValues(table, keys, keyCount, freshOut, owned);
    if (fresh !== FOREIGN_COUNT) this.findValues(table, keys, keyCount, touchBytes, rowsOut, 0);
    return fresh;
  }

  insertValues(table: number, keys: number, keyCount: number, freshOut: number, owned: number): number {
    if (!this.#isOwn(keys, keyCount, owned)) return FOREIGN_COUNT;
    const missing: number[] = [];
    for (let i = 0; i < keyCount; i++) if (this.#kernels.findRow(table, keys + i * KEY_BYTES) === 0) missing.push(keys + i * KEY_BYTES);
    if (this.#kernels.insertRows(table, keys, keyCount) !== DONE) return NO_ROOM_COUNT;
    const fresh = new Set(missing.map((key) => this.#kernels.findRow(table, key) + ROW_KEY_BYTES));
    for (const [i, row] of [...fresh].entries()) this.#arena.words[freshOut / 4 + i] = row;
    return fresh.size;
  }

  readRows(rows: number, rowCount: number, offset: number, byteCount: number, out: number): void {
    const { words, bytes } = this.#arena;
    for (let i = 0; i < rowCount; i++) {
      const row = words[rows / 4 + i]!;
      for (let j = 0; j < byteCount; j++) bytes[out + i * byteCount + j] = row === 0 ? 0 : bytes[row + offset + j]!;
    }
  }

  writeRows(rows: number, rowCount: number, offset: number, byteCount: number, from: number): void {
    const { words, bytes } = this.#arena;
    for (let i = 0; i < rowCount; i++) {
      for (let j = 0; j < byteCount; j++) bytes[words[rows / 4 + i]! + offset + j] = bytes[from + i * byteCount + j]!;
    }
  }

  addWords(rows: number, rowCount: number, offset: number, amounts: number): void {
    const { words } = this.#arena;
    for (let i = 0; i < rowCount; i++) words[(words[rows / 4 + i]! + offset) / 4]! += amounts === 0 ? 1 : words[amounts / 4 + i]!;
  }

  staleRows(
    rows: number,
    rowCount: number,
    offset: number,
    known: number,
    bound: number,
    first: number,
    indexesOut: number,
    versionsOut: number,
  ): number {
    const { words } = this.#arena;
    let count = 0;
    for (let i = 0; i < rowCount; i++) {
      const row = words[rows / 4 + i]!;
      const version = row === 0 ? 0 : words[(row + offset) / 4]!;
      const have = words[known / 4 + i]!;
      if (have !== VERSION_NONE && (version - have) >>> 0 <= bound) continue;
      words[rows / 4 + count] = row;
      words[indexesOut / 4 + count] = first + i;
      words[versionsOut / 4 + count++] = version;
    }
    return count;
  }

  standIn(rows: number, rowCount: number, keys: number, indexes: number, spares: number, spareBytes: number, sparesOut: number): number {
    const { words } = this.#arena;
    let count = 0;
    for (let i = 0; i < rowCount; i++) {
      if (words[rows / 4 + i] !== 0) continue;
      const spare = spares + count * spareBytes;
      this.#kernels.copy(spare, keys + (indexes === 0 ? i : words[indexes / 4 + i]!) * KEY_BYTES, KEY_BYTES);
      words[rows / 4 + i] = spare + ROW_KEY_BYTES;
      words[sparesOut / 4 + count++] = spare + ROW_KEY_BYTES;
    }
    return count;
  }
}

export class PlainElementKernels implements ElementKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  addElements(type: ElementType, target: number, source: number, count: number): void {
    const [sums, added] = [this.#copy(type, target, count), this.#copy(type, source, count)];
    for (let i = 0; i < count; i++) add(sums, added, i);
    this.#arena.bytes.set(new Uint8Array(sums.buffer), target);
  }

  addRowElements(type: ElementType, rows: number, rowCount: number, offset: number, width: number, values: number): void {
    const rowBytes = width * elementBytesOf(type);
    for (let i = 0; i < rowCount; i++) {
      this.addElements(type, this.#arena.words[rows / 4 + i]! + offset, values + i * rowBytes, width);
    }
  }

  #copy(type: ElementType, address: number, count: number): ElementArray {
    const bytes = this.#arena.bytes.slice(address, address + count * elementBytesOf(type));
    return new (elementArrayOf(type))(bytes.buffer, 0, count);
  }
}

/** Both have one type. */
function add(sums: ElementArray, added: ElementArray, i: number): void {
  if (sums instanceof BigInt64Array || sums instanceof BigUint64Array) sums[i] = (sums[i] as bigint) + (added[i] as bigint);
  else sums[i] = (sums[i] as number) + (added[i] as number);
}
