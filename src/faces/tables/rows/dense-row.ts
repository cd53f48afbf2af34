// dense-row — rows with one number for each column, side by side: sums (Petuum: DenseRow), or products, whose columns
// start at 1 and are multiplied by updates; two updates merge into one factor (Petuum: MultiplicativeDenseRow, whose
// rows start at 0 and whose updates add up). Integers wrap around.

import { WeighbridgeError } from "../../../base/errors.ts";
import type { RowArray, RowElement } from "../../../kernel/row-element.ts";
import { factorUpdates, multiplyColumn, TABLE_ROW_TYPES } from "../../../store/row-types/built-in-row-types.ts";
import type { RowPlace, UpdateOf } from "../../../store/row-types/column-updates.ts";
import { checkElement } from "../../../store/row-types/ps-row-type.ts";
import { RowAccessor } from "../row-accessor.ts";
import type { TableRowType } from "../table-row-type.ts";

/** Reads a row whose columns all have a value. */
export class DenseAccessor<E extends RowElement = RowElement> extends RowAccessor<E> {
  /** How many columns a row has. */
  get length(): number {
    return this.place.length;
  }

  /** The value of a column. Throws OUT_OF_RANGE, and CLOSED after `release()`. */
  get(column: number): UpdateOf<E> {
    const { cells, start, length } = this.place;
    if (this.slot < 0) this.checkHeld();
    if (typeof column !== "number" || column >>> 0 !== column || column >= length) this.checkColumn(column, length);
    return cells[start + column] as UpdateOf<E>;
  }

  /**
   * All columns, in `into` if it is given: the row may change while it is read column by column. Throws VALUE_LENGTH.
   */
  toArray(into?: RowArray<E>): RowArray<E> {
    this.checkHeld();
    const { cells, start, length } = this.place;
    if (into === undefined) return cells.slice(start, start + length) as RowArray<E>;
    if (into.length !== length)
      throw new WeighbridgeError("VALUE_LENGTH", `row ${this.rowId} has ${length} columns; the array for them has room for ${into.length}`);
    for (let i = 0; i < length; i++) into[i] = cells[start + i] as never;
    return into;
  }
}

/** What denseRow() and multiplicativeRow() make. */
export type DenseRowType<E extends RowElement> = TableRowType<E, DenseAccessor<E>>;

/** Rows of numbers of this kind. */
export function denseRow<E extends RowElement>(element: E): DenseRowType<E> {
  checkElement("a dense row", element);
  const addTo = (span: RowPlace<E>, column: number, update: UpdateOf<E>): void => {
    const cells = span.cells as Float64Array; // of its own kind
    cells[span.start + column] = (cells[span.start + column] as number) + (update as number);
  };
  const addAll = (span: RowPlace<E>, updates: RowPlace<E>): void => {
    for (let i = 0; i < span.length; i++) addTo(span, i, updates.cells[updates.start + i] as UpdateOf<E>);
  };
  return {
    name: element,
    element,
    plugIn: undefined,
    isDense: true,
    movesColumns: false,
    elements: (capacity) => capacity,
    columnCount: (capacity) => capacity,
    checkRoom: () => {},
    apply: addTo,
    add: addTo,
    merge: addAll,
    lay: addAll,
    importance: (row, updates) => {
      let greatest = 0;
      for (let i = 0; i < row.length; i++) {
        const [value, update] = [Number(row.cells[row.start + i]), Number(updates.cells[updates.start + i])];
        if (update !== 0) greatest = Math.max(greatest, Math.abs(value === 0 ? update : update / value));
      }
      return greatest;
    },
    accessor: (place) => new DenseAccessor(place),
  };
}

/** Rows of products of this kind. Throws BAD_ARGUMENT. */
export function multiplicativeRow<E extends RowElement>(element: E): DenseRowType<E> {
  const updates = factorUpdates(checkElement("a multiplicative row", element));
  const plugIn = TABLE_ROW_TYPES.multiplicative[element];
  return {
    name: plugIn.name,
    element,
    plugIn,
    isDense: false,
    movesColumns: false,
    elements: (capacity) => capacity,
    columnCount: (capacity) => capacity,
    checkRoom: () => {},
    apply: multiplyColumn,
    add: (span, column, update) => updates.addTo(span, column, update),
    merge: (span, more) => updates.add(span, more),
    lay: (row, span) => updates.lay(row, span),
    /** A column that is 0 stays 0; of every other one the relative change. */
    importance: (row, span) => {
      let greatest = 0;
      for (let column = 0; column < span.length; column++)
        if (Number(row.cells[row.start + column]) !== 0) greatest = Math.max(greatest, Math.abs(Number(updates.of(span, column)) - 1));
      return greatest;
    },
    accessor: (place) => new DenseAccessor(place),
  };
}
