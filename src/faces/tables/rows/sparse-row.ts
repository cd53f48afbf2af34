// sparse-row — rows that have a value in some columns, and 0 in all others, of at most `rowCapacity` columns at a time
// (Petuum: SparseRow, SortedVectorMapRow, SparseFeatureRow). A column whose value becomes 0 makes room for another.
// Integers wrap around. How they lie in memory: store/row-types/sparse-rows.ts.

import { badArgument, showValue, WeighbridgeError } from "../../../base/errors.ts";
import { checkOptions } from "../../../base/known-options.ts";
import type { RowArray, RowElement } from "../../../kernel/row-element.ts";
import { TABLE_ROW_TYPES } from "../../../store/row-types/built-in-row-types.ts";
import type { RowPlace, UpdateOf } from "../../../store/row-types/column-updates.ts";
import { checkElement } from "../../../store/row-types/ps-row-type.ts";
import { COLUMNS_MAX, SparseRows, sparseElements } from "../../../store/row-types/sparse-rows.ts";
import type { RowUpdates } from "../../../worker/tables/row-updates.ts";
import { RowAccessor } from "../row-accessor.ts";
import type { TableRowType } from "../table-row-type.ts";

/** The columns of a row that are not 0, and their values, in the order of the row. The caller's own. */
export type SparseColumns<E extends RowElement> = { readonly columns: Uint32Array; readonly values: RowArray<E> };

/** Reads the columns that are not 0: by column, or the greatest value first where the row type is sorted. */
export class SparseAccessor<E extends RowElement = RowElement> extends RowAccessor<E> {
  readonly #rows: SparseRows<E>;

  /** @internal */
  constructor(place: RowPlace<E>, rows: SparseRows<E>) {
    super(place);
    this.#rows = rows;
  }

  /** How many columns are not 0. */
  get size(): number {
    if (this.slot < 0) this.checkHeld();
    return this.#rows.count(this.place);
  }

  /** 0 for a column that has no entry. Throws OUT_OF_RANGE for what is no column. */
  get(column: number): UpdateOf<E> {
    if (this.slot < 0) this.checkHeld();
    this.checkColumn(column, COLUMNS_MAX);
    return this.#rows.get(this.place, column) as UpdateOf<E>;
  }

  /** The column of entry i, from 0 to `size`. Throws OUT_OF_RANGE. */
  columnAt(i: number): number {
    this.#checkEntry(i);
    return this.#rows.column(this.place, i);
  }

  /** The value of entry i. Throws OUT_OF_RANGE. */
  valueAt(i: number): UpdateOf<E> {
    this.#checkEntry(i);
    return this.#rows.value(this.place, i) as UpdateOf<E>;
  }

  /**
   * Column and value of every entry. Increments of this process that come meanwhile may move entries: see `toArrays`.
   */
  *[Symbol.iterator](): IterableIterator<[column: number, value: UpdateOf<E>]> {
    for (let i = 0; i < this.size; i++) yield [this.columnAt(i), this.valueAt(i)];
  }

  /** All entries as they are now. */
  toArrays(): SparseColumns<E> {
    const { cells, start, length } = this.place;
    const [count, room] = [this.size, this.#rows.capacity(this.place)];
    const columns = Uint32Array.from({ length: count }, (_, i) => this.#rows.column(this.place, i));
    return { columns, values: cells.slice(start + length - room, start + length - room + count) as RowArray<E> };
  }

  #checkEntry(i: number): void {
    const { size } = this;
    if (Number.isInteger(i) && i >= 0 && i < size) return;
    throw new WeighbridgeError("OUT_OF_RANGE", `row ${this.rowId} has ${size} entries, and no entry ${showValue(i)}`);
  }
}

/** A row of features (Petuum: SparseFeature). */
export type SparseFeature<E extends RowElement> = SparseColumns<E> & {
  /** How many features there are; columns are below it. */
  readonly dim: number;
};

/** Reads a row of features. */
export class SparseFeatureAccessor<E extends RowElement = RowElement> extends SparseAccessor<E> {
  readonly dim: number;

  /** @internal */
  constructor(place: RowPlace<E>, rows: SparseRows<E>, dim: number) {
    super(place, rows);
    this.dim = dim;
  }

  /** The features and their values, as a copy. */
  toSparseFeature(): SparseFeature<E> {
    return { dim: this.dim, ...this.toArrays() };
  }
}

/** What sparseRow() and sortedRow() make. */
export type SparseRowType<E extends RowElement> = TableRowType<E, SparseAccessor<E>>;
/** What sparseFeatureRow() makes. */
export type SparseFeatureRowType<E extends RowElement> = TableRowType<E, SparseFeatureAccessor<E>>;

/** Rows whose entries stand by column. Throws BAD_ARGUMENT. */
export function sparseRow<E extends RowElement>(element: E): SparseRowType<E> {
  const rows = new SparseRows(checkElement("a sparse row", element));
  return { ...sparseType(element, "sparse", rows), columnCount: () => COLUMNS_MAX, accessor: (place) => new SparseAccessor(place, rows) };
}

/**
 * Rows whose entries stand by weight: the greatest value first, of equal ones the lower column. Throws BAD_ARGUMENT.
 */
export function sortedRow<E extends RowElement>(element: E): SparseRowType<E> {
  const rows = new SparseRows(checkElement("a sorted row", element), "weight");
  return { ...sparseType(element, "sorted", rows), columnCount: () => COLUMNS_MAX, accessor: (place) => new SparseAccessor(place, rows) };
}

/** Rows of features: as `sparseRow`, of columns below `dim`. Throws BAD_ARGUMENT. */
export function sparseFeatureRow<E extends RowElement>(element: E, options: { readonly dim: number }): SparseFeatureRowType<E> {
  const rows = new SparseRows(checkElement("a row of features", element));
  checkOptions(options, ["dim"], "the options of a row of features");
  const { dim } = options;
  if (!(Number.isInteger(dim) && dim >= 1 && dim <= COLUMNS_MAX))
    throw badArgument(`a row of features: dim is a whole number from 1 to ${COLUMNS_MAX}, not ${showValue(dim)}`);
  return {
    ...sparseType(element, "sparse", rows),
    columnCount: () => dim,
    accessor: (place) => new SparseFeatureAccessor(place, rows, dim),
  };
}

function sparseType<E extends RowElement>(
  element: E,
  kind: "sparse" | "sorted",
  rows: SparseRows<E>,
): Omit<SparseRowType<E>, "columnCount" | "accessor"> {
  const updates = new SparseRows(element);
  const plugIn = TABLE_ROW_TYPES[kind][element];
  return {
    name: plugIn.name,
    element,
    plugIn,
    isDense: false,
    movesColumns: true,
    elements: (capacity) => sparseElements(element, capacity),
    checkRoom: (span, column, update) => updates.checkRoom(span, column, update),
    apply: (row, column, update) => rows.addTo(row, column, update),
    add: (span, column, update) => updates.addTo(span, column, update),
    merge: (span, more) => updates.add(span, more),
    lay: (row, span) => rows.add(row, span),
    importance: importanceOf(rows, updates),
  };
}

/** The greatest relative change of a column. */
function importanceOf<E extends RowElement>(rows: SparseRows<E>, updates: SparseRows<E>): RowUpdates<E>["importance"] {
  return (row, span) => {
    let greatest = 0;
    for (let i = 0; i < updates.count(span); i++) {
      const [update, value] = [Number(updates.value(span, i)), Number(rows.get(row, updates.column(span, i)))];
      greatest = Math.max(greatest, Math.abs(value === 0 ? update : update / value));
    }
    return greatest;
  };
}
