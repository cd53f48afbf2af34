// thread-cache — one thread's own copies of rows, and what it added to them alone: nobody else sees that before
// `flush`.

import { elementsAt, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { RowPlace, UpdateOf } from "../../store/row-types/column-updates.ts";
import { addAllToBoth, addToBoth, type RowUpdates, spanOf } from "./row-updates.ts";
import type { TableRows } from "./table-rows.ts";

export class ThreadCache<E extends RowElement = RowElement> {
  readonly #updates: RowUpdates<E>;
  readonly #rows: TableRows<E>;
  readonly #copies = new Map<number, RowArray<E>>();
  readonly #added = new Map<number, RowArray<E>>();

  constructor(updates: RowUpdates<E>, rows: TableRows<E>) {
    this.#updates = updates;
    this.#rows = rows;
  }

  /** Whether something was added that others do not see. */
  get hasAdded(): boolean {
    return this.#added.size > 0;
  }

  /** The copy of a row; undefined when there is none. */
  copyOf(rowId: number): RowArray<E> | undefined {
    return this.#copies.get(rowId);
  }

  /** Copies the row in a slot that this thread holds, with what was added to it here. */
  copy(rowId: number, slot: number): RowArray<E> {
    const cells = this.#span();
    const from = slot * cells.length;
    const source = this.#rows.held.place.cells;
    for (let i = 0; i < cells.length; i++) cells[i] = source[from + i] as never;
    const added = this.#added.get(rowId);
    if (added !== undefined) this.#updates.lay(spanOf(cells), spanOf(added));
    this.#copies.set(rowId, cells);
    return cells;
  }

  /** Throws what the row type throws. */
  inc(rowId: number, column: number, update: UpdateOf<E>): void {
    const { span, row } = this.#spansOf(rowId);
    addToBoth(this.#updates, span, row, column, update);
  }

  /** Updates of several columns, by their list or from a first one on: all of them or none. */
  incAll(rowId: number, columns: readonly number[] | number, updates: ArrayLike<UpdateOf<E>>): void {
    const { span, row } = this.#spansOf(rowId);
    addAllToBoth(this.#updates, span, row, columns, updates);
  }

  #spansOf(rowId: number): { readonly span: RowPlace<E>; readonly row: RowPlace<E> | undefined } {
    let added = this.#added.get(rowId);
    if (added === undefined) {
      added = this.#span();
      this.#added.set(rowId, added);
    }
    const copy = this.#copies.get(rowId);
    return { span: spanOf(added), row: copy && spanOf(copy) };
  }

  /**
   * Throws what the row type throws for the updates of a row, which count for nothing then. Those of the rows behind it
   * wait for the next call.
   */
  flush(): void {
    for (const [rowId, cells] of this.#added) {
      this.#added.delete(rowId);
      this.#copies.delete(rowId);
      this.#rows.lay(rowId, spanOf(cells));
    }
    this.#copies.clear();
  }

  #span(): RowArray<E> {
    const { element } = this.#updates;
    const { length } = this.#rows.held.place;
    return elementsAt(element, new ArrayBuffer(length * ROW_ELEMENTS[element].bytes), 0, length);
  }
}
