// multiplicative-row — rows of products, one for each column: a column begins with 1, an update multiplies it, and two
// updates are one factor (Petuum: MultiplicativeDenseRow, whose rows begin with 0 and whose updates add up). Integers
// wrap around.

import type { RowElement } from "../../../kernel/row-element.ts";
import { factorUpdates, multiplyColumn, TABLE_ROW_TYPES } from "../../../store/row-types/built-in-row-types.ts";
import { checkElement } from "../../../store/row-types/ps-row-type.ts";
import { DenseAccessor, type DenseRowType } from "./dense-row.ts";

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
