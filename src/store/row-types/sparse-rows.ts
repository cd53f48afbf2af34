// sparse-rows — rows that have a value in some columns, and 0 in all others: how they lie in memory, and how they are
// read and added up (docs/decisions/0057-table-rows.md). An update of such a row is one itself, by column.
//
//   count u32 │ columns u32 × capacity │ zeros to a whole element │ values × capacity
//
// Invariants:
//   SparseRows.S1. A column is in a row once, and below COLUMNS_MAX: so no bits of columns read as a float that is not
//       finite. No value is 0.
//   SparseRows.S2. Behind the last column and the last value everything is 0: rows of equal entries have equal bits,
//       and a row of few entries has few words that are not 0, which are those that travel.
//   SparseRows.S3. A row has at most as many entries as it has room for. What would have more changes nothing and is
//       told: OUT_OF_RANGE.
//   SparseRows.S4. Entries stand in the order of their columns, or by weight: the greatest value first, of equal ones
//       the lower column.

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import { WORD_BYTES } from "../../kernel/elements.ts";
import { ROW_ELEMENTS, type RowArray, type RowElement, type RowNumber, rowNumber } from "../../kernel/row-element.ts";
import type { RowPlace } from "./column-updates.ts";

/** Columns of sparse rows are below this (SparseRows.S1): the exponent of an f32 of these bits is not all ones. */
export const COLUMNS_MAX: number = 2 ** 31 - 2 ** 23;

type Entries<E extends RowElement> = { readonly columns: Uint32Array; readonly values: RowArray<E> };

/** Elements of a row with room for so many entries. */
export function sparseElements(element: RowElement, capacity: number): number {
  const wordsPerElement = ROW_ELEMENTS[element].bytes / WORD_BYTES;
  return Math.ceil((1 + capacity) / wordsPerElement) + capacity;
}

/** For how many entries a row of so many elements has room. */
function capacityOf(wordsPerElement: number, elements: number): number {
  return wordsPerElement === 1 ? (elements - 1) >>> 1 : Math.floor((2 * elements - 1) / 3);
}

/** Reads and changes rows of one element and order, in any memory. */
export class SparseRows<E extends RowElement = RowElement> {
  readonly element: E;
  readonly #isByWeight: boolean;
  readonly #wordsPerElement: number;
  readonly #zero: RowNumber<E>;
  readonly #views = new WeakMap<RowArray, Uint32Array>();
  #lastCells: RowArray | undefined;
  #lastWords: Uint32Array = new Uint32Array(0);
  /** Where a sum is put together before it takes the place of a row. */
  #sums: Entries<E> | undefined;

  constructor(element: E, order: "column" | "weight" = "column") {
    this.element = element;
    this.#isByWeight = order === "weight";
    this.#wordsPerElement = ROW_ELEMENTS[element].bytes / WORD_BYTES;
    this.#zero = rowNumber(element, 0);
  }

  capacity({ length }: RowPlace<E>): number {
    return capacityOf(this.#wordsPerElement, length);
  }

  count(row: RowPlace<E>): number {
    return this.#words(row.cells)[row.start * this.#wordsPerElement] as number;
  }

  /** Of entry i. */
  column(row: RowPlace<E>, i: number): number {
    return this.#words(row.cells)[row.start * this.#wordsPerElement + 1 + i] as number;
  }

  /** Of entry i. */
  value(row: RowPlace<E>, i: number): RowNumber<E> {
    return row.cells[this.#firstValue(row) + i] as RowNumber<E>;
  }

  /** 0 where the row has no such column. */
  get(row: RowPlace<E>, column: number): RowNumber<E> {
    const i = this.#find(row, column);
    return i < 0 ? this.#zero : this.value(row, i);
  }

  /** Throws OUT_OF_RANGE where `addTo` of the same would (SparseRows.S3). */
  checkRoom(row: RowPlace<E>, column: number, update: RowNumber<E>): void {
    const capacity = this.capacity(row);
    if (this.count(row) === capacity && update !== this.#zero && this.#find(row, column) < 0) throw rowFull(capacity);
  }

  /** Adds to one column, which wraps around; one that becomes 0 goes. Throws OUT_OF_RANGE (SparseRows.S3). */
  addTo(row: RowPlace<E>, column: number, update: RowNumber<E>): void {
    const found = this.#find(row, column);
    const i = found < 0 ? -1 - found : found;
    if (found >= 0) {
      const at = this.#firstValue(row) + i;
      row.cells[at] = ((row.cells[at] as number) + (update as number)) as never;
      if (row.cells[at] === this.#zero) this.#remove(row, i);
      else if (this.#isByWeight) this.#settle(row, i);
    } else if (update !== this.#zero) {
      if (this.count(row) === this.capacity(row)) throw rowFull(this.capacity(row));
      this.#insert(row, i, column, update);
      if (this.#isByWeight) this.#settle(row, i);
    }
  }

  /**
   * Adds the entries of an update, which stand by column, to those of a row. Throws OUT_OF_RANGE (SparseRows.S3), and
   * BAD_REQUEST for an update that is none (SparseRows.S1, SparseRows.S2).
   */
  add(row: RowPlace<E>, update: RowPlace<E>): void {
    this.checkUpdate(update);
    if (this.#words(update.cells)[update.start * this.#wordsPerElement] === 0) return;
    const [capacity, count] = [this.capacity(row), this.count(row)];
    const sums = this.#room(capacity + this.capacity(update));
    const sumCount = this.#isByWeight ? this.#joinByWeight(row, update, sums) : this.#joinByColumn(row, update, sums);
    if (sumCount > capacity) throw rowFull(capacity);
    const words = this.#words(row.cells);
    const [columns, values] = [row.start * this.#wordsPerElement + 1, this.#firstValue(row)];
    words[columns - 1] = sumCount;
    words.set(sums.columns.subarray(0, sumCount), columns);
    row.cells.set(sums.values.subarray(0, sumCount) as never, values);
    if (sumCount >= count) return;
    words.fill(0, columns + sumCount, columns + count); // SparseRows.S2
    row.cells.fill(this.#zero as never, values + sumCount, values + count);
  }

  /** Throws BAD_REQUEST for a span that no writer of updates makes (SparseRows.S1, SparseRows.S2). */
  checkUpdate(update: RowPlace<E>): void {
    const words = this.#words(update.cells);
    const [columns, values, capacity] = [update.start * this.#wordsPerElement + 1, this.#firstValue(update), this.capacity(update)];
    const count = words[columns - 1] as number;
    if (count > capacity) throw malformed(`${count} entries where there is room for ${capacity}`);
    for (let i = 0, last = -1; i < count; i++) {
      const column = words[columns + i] as number;
      if (column <= last || column >= COLUMNS_MAX) throw malformed(`column ${column} behind column ${last}`);
      if (update.cells[values + i] === this.#zero) throw malformed(`0 for column ${column}`);
      last = column;
    }
    for (let i = count; i < capacity; i++)
      if (words[columns + i] !== 0 || update.cells[values + i] !== this.#zero)
        throw malformed(`more than the ${count} entries it tells of`);
  }

  /** Both stand by column. */
  #joinByColumn(row: RowPlace<E>, update: RowPlace<E>, { columns, values }: Entries<E>): number {
    const [words, other] = [this.#words(row.cells), this.#words(update.cells)];
    const [mine, theirs] = [row.start * this.#wordsPerElement + 1, update.start * this.#wordsPerElement + 1];
    const [myValues, theirValues] = [this.#firstValue(row), this.#firstValue(update)];
    const [count, otherCount] = [words[mine - 1] as number, other[theirs - 1] as number];
    let [sumCount, i, j] = [0, 0, 0];
    while (i < count || j < otherCount) {
      const column = i < count ? (words[mine + i] as number) : COLUMNS_MAX;
      const given = j < otherCount ? (other[theirs + j] as number) : COLUMNS_MAX;
      columns[sumCount] = Math.min(column, given);
      if (column < given) values[sumCount] = row.cells[myValues + i] as never;
      else if (given < column) values[sumCount] = update.cells[theirValues + j] as never;
      else values[sumCount] = ((row.cells[myValues + i] as number) + (update.cells[theirValues + j] as number)) as never;
      if (column <= given) i++;
      if (given <= column) j++;
      if (values[sumCount] !== this.#zero) sumCount++;
    }
    return sumCount;
  }

  /** The row stands by weight. */
  #joinByWeight(row: RowPlace<E>, update: RowPlace<E>, { columns, values }: Entries<E>): number {
    const other = this.#words(update.cells);
    const theirs = update.start * this.#wordsPerElement + 1;
    const count = this.count(row);
    let joined = count;
    for (let i = 0; i < count; i++) {
      columns[i] = this.column(row, i);
      values[i] = this.value(row, i) as never;
    }
    for (let j = 0; j < (other[theirs - 1] as number); j++) {
      const [column, given] = [other[theirs + j] as number, update.cells[this.#firstValue(update) + j] as number];
      let i = 0;
      while (i < count && columns[i] !== column) i++;
      const at = i < count ? i : joined++;
      columns[at] = column;
      values[at] = (i < count ? (values[at] as number) + given : given) as never;
    }
    let sumCount = 0;
    for (let i = 0; i < joined; i++) {
      if (values[i] === this.#zero) continue;
      const [column, value] = [columns[i] as number, values[i] as RowNumber<E>];
      let at = sumCount++;
      for (; at > 0 && isHeavier(value, column, values[at - 1] as RowNumber<E>, columns[at - 1] as number); at--) {
        columns[at] = columns[at - 1] as number;
        values[at] = values[at - 1] as never;
      }
      columns[at] = column;
      values[at] = value as never;
    }
    return sumCount;
  }

  /** Which entry has this column, or −1 − i where entry i would be it. */
  #find(row: RowPlace<E>, column: number): number {
    const words = this.#words(row.cells);
    const columns = row.start * this.#wordsPerElement + 1;
    const count = words[columns - 1] as number;
    if (this.#isByWeight) {
      for (let i = 0; i < count; i++) if (words[columns + i] === column) return i;
      return -1 - count;
    }
    let [from, to] = [0, count];
    while (from < to) {
      const middle = (from + to) >>> 1;
      const there = words[columns + middle] as number;
      if (there === column) return middle;
      if (there < column) from = middle + 1;
      else to = middle;
    }
    return -1 - from;
  }

  #insert(row: RowPlace<E>, i: number, column: number, value: RowNumber<E>): void {
    const words = this.#words(row.cells);
    const [columns, values] = [row.start * this.#wordsPerElement + 1, this.#firstValue(row)];
    const count = words[columns - 1] as number;
    words.copyWithin(columns + i + 1, columns + i, columns + count);
    row.cells.copyWithin(values + i + 1, values + i, values + count);
    words[columns + i] = column;
    row.cells[values + i] = value as never;
    words[columns - 1] = count + 1;
  }

  /** SparseRows.S2 */
  #remove(row: RowPlace<E>, i: number): void {
    const words = this.#words(row.cells);
    const [columns, values] = [row.start * this.#wordsPerElement + 1, this.#firstValue(row)];
    const last = (words[columns - 1] as number) - 1;
    words.copyWithin(columns + i, columns + i + 1, columns + last + 1);
    row.cells.copyWithin(values + i, values + i + 1, values + last + 1);
    words[columns + last] = 0;
    row.cells[values + last] = this.#zero as never;
    words[columns - 1] = last;
  }

  /** Moves entry i, whose value has changed, to where its weight belongs (SparseRows.S4). */
  #settle(row: RowPlace<E>, i: number): void {
    const words = this.#words(row.cells);
    const cells = row.cells as Float64Array; // of its own kind
    const [columns, values] = [row.start * this.#wordsPerElement + 1, this.#firstValue(row)];
    const last = (words[columns - 1] as number) - 1;
    const [column, value] = [words[columns + i] as number, cells[values + i] as number];
    let at = i;
    for (; at > 0 && isHeavier(value, column, cells[values + at - 1] as number, words[columns + at - 1] as number); at--) {
      words[columns + at] = words[columns + at - 1] as number;
      cells[values + at] = cells[values + at - 1] as number;
    }
    for (; at < last && isHeavier(cells[values + at + 1] as number, words[columns + at + 1] as number, value, column); at++) {
      words[columns + at] = words[columns + at + 1] as number;
      cells[values + at] = cells[values + at + 1] as number;
    }
    words[columns + at] = column;
    cells[values + at] = value;
  }

  #firstValue(row: RowPlace<E>): number {
    return row.start + row.length - this.capacity(row);
  }

  /** The same memory by words. */
  #words(cells: RowArray<E>): Uint32Array {
    if (cells === this.#lastCells) return this.#lastWords;
    let words = this.#views.get(cells);
    if (words === undefined) {
      words = new Uint32Array(cells.buffer, cells.byteOffset, cells.byteLength / WORD_BYTES);
      this.#views.set(cells, words);
    }
    this.#lastCells = cells;
    this.#lastWords = words;
    return words;
  }

  #room(length: number): Entries<E> {
    if (this.#sums === undefined || this.#sums.columns.length < length) {
      const { Array: Elements, bytes } = ROW_ELEMENTS[this.element];
      this.#sums = { columns: new Uint32Array(length), values: new Elements(new ArrayBuffer(length * bytes)) as RowArray<E> };
    }
    return this.#sums;
  }
}

/** SparseRows.S4 */
function isHeavier(value: number | bigint, column: number, other: number | bigint, otherColumn: number): boolean {
  return value > other || (value === other && column < otherColumn);
}

function rowFull(capacity: number): WeighbridgeError {
  return new WeighbridgeError(
    "OUT_OF_RANGE",
    `a sparse row has room for ${capacity} columns other than 0, and not for one more: raise rowCapacity`,
  );
}

function malformed(what: string): WeighbridgeError {
  return badRequest(`malformed sparse row: ${what}`);
}
