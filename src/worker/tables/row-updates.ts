// row-updates — what a process cache of rows has to know of their type: how one update changes a row, and how updates
// that have not been sent yet are put together and laid over a row that comes from a server. Rows and updates are spans
// of elements in memory that threads share; nothing here allocates.
//
// Invariants:
//   RowUpdates.U1. A span of updates begins with all bits zero, and such a span changes nothing: a row whose updates
//       have cancelled out is not sent, and of a span only the elements that are not zero travel.
//   RowUpdates.U2. `apply` of one update after another does to a row what `lay` does with a span to which `add` gave
//       the same updates, or `merge` spans that had some of them, up to the rounding of floats.
//   RowUpdates.U3. What throws changes nothing.
//   RowUpdates.U4. An update that a thread adds is in its span of updates and in the row that it has, or in neither.

import type { RowArray, RowElement } from "../../kernel/row-element.ts";
import type { RowPlace, UpdateOf } from "../../store/row-types/column-updates.ts";

/** How a process puts updates for a row together, and applies them to its copy. */
export interface RowUpdates<E extends RowElement = RowElement> {
  readonly element: E;
  /**
   * Whether column i is element i and updates are added to it: numbers side by side, which the cache adds up itself.
   */
  readonly isDense: boolean;
  /** Throws where `add` of this update to a span would throw for want of room. Changes nothing. */
  checkRoom(updates: RowPlace<E>, column: number, update: UpdateOf<E>): void;
  /** Changes a row by one update. Throws OUT_OF_RANGE where a row has no room for another column (RowUpdates.U3). */
  apply(row: RowPlace<E>, column: number, update: UpdateOf<E>): void;
  /** Puts one more update into a span of them (RowUpdates.U1). Throws as `apply`. */
  add(updates: RowPlace<E>, column: number, update: UpdateOf<E>): void;
  /** Puts a span of updates into another one, behind what is there. Throws as `apply`. */
  merge(updates: RowPlace<E>, more: RowPlace<E>): void;
  /** Changes a row by a span of updates. Throws as `apply`. */
  lay(row: RowPlace<E>, updates: RowPlace<E>): void;
  /** How much a span of updates would change a row: what leaves first when not all can. From 0 up. */
  importance(row: RowPlace<E>, updates: RowPlace<E>): number;
}

/** A span that is all of an array. */
export function spanOf<E extends RowElement>(cells: RowArray<E>): RowPlace<E> {
  return { cells, start: 0, length: cells.length };
}

/** Adds one update to a span and to the row, where there is one (RowUpdates.U4). Throws as `apply`. */
export function addToBoth<E extends RowElement>(
  type: RowUpdates<E>,
  span: RowPlace<E>,
  row: RowPlace<E> | undefined,
  column: number,
  update: UpdateOf<E>,
): void {
  if (row !== undefined) {
    type.checkRoom(span, column, update);
    type.apply(row, column, update);
  }
  type.add(span, column, update);
}

/** The same for several columns, by their list or from a first one on: all of them or none (RowUpdates.U3). */
export function addAllToBoth<E extends RowElement>(
  type: RowUpdates<E>,
  span: RowPlace<E>,
  row: RowPlace<E> | undefined,
  columns: readonly number[] | number,
  updates: ArrayLike<UpdateOf<E>>,
): void {
  const before = type.isDense ? [] : [span, ...(row === undefined ? [] : [row])].map(copyOf); // dense ones never throw
  try {
    for (let i = 0; i < updates.length; i++)
      addToBoth(type, span, row, typeof columns === "number" ? columns + i : (columns[i] as number), updates[i] as UpdateOf<E>);
  } catch (thrown) {
    for (const { place, start, cells } of before) place.cells.set(cells as never, start);
    throw thrown;
  }
}

/** What a place has now. The place may move on; `start` stays. */
function copyOf<E extends RowElement>(place: RowPlace<E>): { place: RowPlace<E>; start: number; cells: RowArray<E> } {
  const { cells, start, length } = place;
  return { place, start, cells: cells.slice(start, start + length) as RowArray<E> };
}

/** Adds a span of updates to a span and to the row, where there is one (RowUpdates.U4). Throws as `apply`. */
export function layOnBoth<E extends RowElement>(
  type: RowUpdates<E>,
  span: RowPlace<E>,
  row: RowPlace<E> | undefined,
  added: RowPlace<E>,
): void {
  if (row === undefined) {
    type.merge(span, added);
    return;
  }
  const { cells, start, length } = row;
  const before = cells.slice(start, start + length);
  try {
    type.lay(row, added);
    type.merge(span, added);
  } catch (thrown) {
    cells.set(before as never, start);
    throw thrown;
  }
}
