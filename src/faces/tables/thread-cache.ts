// thread-cache — one thread's own copies of rows, and what it added to them alone: nobody else sees that before
// `flush`.

import { elementsAt, ROW_ELEMENTS, type RowArray } from "../../kernel/row-element.ts";
import type { RowPlace, UpdateOf } from "../../store/row-types/column-updates.ts";
import { addToBoth, type RowUpdates } from "../../worker/tables/row-updates.ts";
import type { TableRows } from "../../worker/tables/table-rows.ts";
import type { RowAccessor } from "./row-accessor.ts";
import type { AccessorOfRow, TableRowType } from "./table-row-type.ts";

type Element<T extends TableRowType> = T["element"];

export class ThreadCache<T extends TableRowType> {
  readonly #rowType: T;
  readonly #rows: TableRows<Element<T>>;
  readonly #copies = new Map<number, RowArray<Element<T>>>();
  readonly #added = new Map<number, RowArray<Element<T>>>();

  constructor(rowType: T, rows: TableRows<Element<T>>) {
    this.#rowType = rowType;
    this.#rows = rows;
  }

  /** Of the copy of a row; undefined when there is none. */
  accessor(rowId: number): AccessorOfRow<T> | undefined {
    const cells = this.#copies.get(rowId);
    if (cells === undefined) return undefined;
    const accessor = this.#rowType.accessor(placeOf(cells)) as RowAccessor<Element<T>>;
    accessor.owner = this;
    accessor.hold(0, rowId, this.#rows.clock);
    return accessor as unknown as AccessorOfRow<T>;
  }

  /** Copies the row under an accessor, with what was added to it here. */
  copy(rowId: number, row: RowAccessor): AccessorOfRow<T> {
    const cells = this.#span();
    const { length } = cells;
    const from = row.slot * length;
    const source = this.#rows.held.place.cells;
    for (let i = 0; i < length; i++) cells[i] = source[from + i] as never;
    const added = this.#added.get(rowId);
    if (added !== undefined) this.#rowType.lay(placeOf(cells) as RowPlace<never>, placeOf(added) as RowPlace<never>);
    this.#copies.set(rowId, cells);
    return this.accessor(rowId) as AccessorOfRow<T>;
  }

  takeBack(accessor: RowAccessor): void {
    accessor.slot = -1;
  }

  inc(rowId: number, column: number, update: UpdateOf<Element<T>>): void {
    let added = this.#added.get(rowId);
    if (added === undefined) {
      added = this.#span();
      this.#added.set(rowId, added);
    }
    const copy = this.#copies.get(rowId);
    addToBoth(this.#rowType as RowUpdates as RowUpdates<Element<T>>, placeOf(added), copy && placeOf(copy), column, update);
  }

  /**
   * Throws what the row type throws for the updates of a row, which count for nothing then. Those of the rows behind it
   * wait for the next call.
   */
  flush(): void {
    for (const [rowId, cells] of this.#added) {
      this.#added.delete(rowId);
      this.#copies.delete(rowId);
      this.#rows.lay(rowId, placeOf(cells));
    }
    this.#copies.clear();
  }

  #span(): RowArray<Element<T>> {
    const { element } = this.#rowType;
    const { length } = this.#rows.held.place;
    return elementsAt(element, new ArrayBuffer(length * ROW_ELEMENTS[element].bytes), 0, length) as RowArray<Element<T>>;
  }
}

function placeOf<A extends RowArray>(cells: A): { readonly cells: A; readonly start: number; readonly length: number } {
  return { cells, start: 0, length: cells.length };
}
