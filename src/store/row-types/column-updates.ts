// column-updates — row types whose updates are one number for each column, told by what one such number does: users'
// own rows of tables, and rows of products. A span of updates has the number of column i in element i.
//
// Invariants:
//   ColumnUpdates.C1. An update whose bits are all 0 changes nothing: in a span 0 is written as the neutral number is
//       meant, and the neutral number as 0.

import { ROW_ELEMENTS, type RowArray, type RowElement, type RowNumber, type RowSpans, rowNumber } from "../../kernel/row-element.ts";
import type { PlugInIdentity } from "../plug-in-identity.ts";
import type { PsRowType, SavedColumns } from "./ps-row-type.ts";

/** An update of one column. */
export type UpdateOf<E extends RowElement> = RowNumber<E>;

/** Where a row, or a span of updates for one, lies. The caller reuses it: it holds until the call returns. */
export type RowPlace<E extends RowElement = RowElement> = {
  /** The memory that it lies in. */
  readonly cells: RowArray<E>;
  /** Where in `cells` it begins. */
  readonly start: number;
  /** Its elements. */
  readonly length: number;
};

export type ColumnUpdatesOptions<E extends RowElement> = {
  readonly element: E;
  /** The update that changes nothing. */
  readonly neutral: UpdateOf<E>;
  /** Changes a row by an update of one of its columns. */
  apply(row: RowPlace<E>, column: number, update: UpdateOf<E>): void;
  /** Makes one update of two for the same column: associative. */
  addUpdates(a: UpdateOf<E>, b: UpdateOf<E>): UpdateOf<E>;
};

export class ColumnUpdates<E extends RowElement> {
  readonly #options: ColumnUpdatesOptions<E>;
  readonly #zero: UpdateOf<E>;

  constructor(options: ColumnUpdatesOptions<E>) {
    this.#options = options;
    this.#zero = rowNumber(options.element, 0);
  }

  /** The update of a column in a span (ColumnUpdates.C1). */
  of({ cells, start }: RowPlace<E>, column: number): UpdateOf<E> {
    return this.#swapped(cells[start + column] as UpdateOf<E>);
  }

  /** Puts one more update into a span. */
  addTo(updates: RowPlace<E>, column: number, update: UpdateOf<E>): void {
    const sum = this.#options.addUpdates(this.of(updates, column), update);
    updates.cells[updates.start + column] = this.#swapped(this.#rounded(sum)) as never;
  }

  add(sums: RowPlace<E>, updates: RowPlace<E>): void {
    for (let column = 0; column < updates.length; column++)
      if (updates.cells[updates.start + column] !== this.#zero) this.addTo(sums, column, this.of(updates, column));
  }

  /** Changes a row by a span of updates. */
  lay(row: RowPlace<E>, updates: RowPlace<E>): void {
    for (let column = 0; column < updates.length; column++)
      if (updates.cells[updates.start + column] !== this.#zero) this.#options.apply(row, column, this.of(updates, column));
  }

  #swapped(update: UpdateOf<E>): UpdateOf<E> {
    const { neutral } = this.#options;
    return update === this.#zero ? neutral : update === neutral ? this.#zero : update;
  }

  /** As a column keeps it: whether that is the neutral number is asked of what is kept. */
  #rounded(update: UpdateOf<E>): UpdateOf<E> {
    const { element } = this.#options;
    if (element === "i64") return BigInt.asIntN(64, update as bigint) as UpdateOf<E>;
    if (element === "i32") return ((update as number) | 0) as UpdateOf<E>;
    return (element === "f32" ? Math.fround(update as number) : update) as UpdateOf<E>;
  }
}

export type ColumnRowTypeOptions<E extends RowElement> = PlugInIdentity & {
  readonly updates: ColumnUpdates<E>;
  readonly dtype: E;
  elements(dim: number): number;
  /** Writes what a new row begins with over zeros. */
  zero?: ((row: RowPlace<E>) => void) | undefined;
  save?: ((saved: SavedColumns<E>) => void) | undefined;
  load?: ((saved: SavedColumns<E>, version: number) => void) | undefined;
};

/** As servers have it. */
export function columnRowType<E extends RowElement>({ updates, zero, save, load, ...rest }: ColumnRowTypeOptions<E>): PsRowType<E> {
  const { dtype, elements } = rest;
  const { Array: Elements, bytes } = ROW_ELEMENTS[dtype];
  const make = (dim: number): RowArray<E> => {
    const cells = new Elements(new ArrayBuffer(elements(dim) * bytes)) as RowArray<E>;
    zero?.({ cells, start: 0, length: cells.length });
    return cells;
  };
  return {
    ...rest,
    kind: "rowType",
    make,
    add: (sums, more) => eachSpan(sums, more, (sum, update) => updates.add(sum, update)),
    apply: (rows, pushed) => eachSpan(rows, pushed, (row, update) => updates.lay(row, update)),
    ...(save === undefined ? {} : { save }),
    ...(load === undefined ? {} : { load }),
  };
}

/** Calls `use` with each row and what is pushed for it. */
export function eachSpan<E extends RowElement>(
  rows: RowSpans<E>,
  pushed: RowSpans<E>,
  use: (row: RowPlace<E>, update: RowPlace<E>) => void,
): void {
  for (let i = 0; i < rows.count; i++) {
    const row = { cells: rows.elements, start: rows.starts[i] as number, length: rows.width };
    use(row, { cells: pushed.elements, start: pushed.starts[i] as number, length: pushed.width });
  }
}
