// table-row-type — a row type as tables know it: the layout of a row in the process cache and on the wire, what an
// update does to it there, and the accessor through which a user reads it. Its other half runs on the servers: a row
// type of the engine (store/row-types/ps-row-type.ts) by the same name, which lays out rows and updates alike.
//
// Invariants:
//   TableRowType.R1. A row in the cache, a span of updates and what servers store have the same elements in the same
//       order: what a pull carries is copied into the cache, what the oplog has is pushed, as they are.
//   TableRowType.R2. `lay` here and `apply` of `plugIn` there do the same to a row; so do `merge` here and `add` there
//       to a span of updates.

import { WeighbridgeError } from "../../base/errors.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import type { PsRowType } from "../../store/row-types/ps-row-type.ts";
import type { RowUpdates } from "../../worker/tables/row-updates.ts";
import type { RowAccessor } from "./row-accessor.ts";

/** What rows of a table are: one of the row functions of this door makes it. */
export interface TableRowType<E extends RowElement = RowElement, A extends RowAccessor<E> = RowAccessor<E>> extends RowUpdates<E> {
  /** As servers know it: the element's name for rows that are numbers side by side. */
  readonly name: string;
  /** What servers have to load (`--functions`); undefined for numbers side by side, which they know. */
  readonly plugIn: PsRowType<E> | undefined;
  /** Elements of a row of a table whose `rowCapacity` this is. */
  elements(capacity: number): number;
  /** Columns are whole numbers below this: `capacity` where every column has an element of its own. */
  columnCount(capacity: number): number;
  /** Whether an update of one column may move others within the row: accessors read a copy then (RowAccessor.A2). */
  readonly movesColumns: boolean;
  /** An accessor that reads the row at `place`. */
  accessor(place: RowPlace<E>): A;
}

/** What the accessors of a row type are. */
export type AccessorOfRow<T> = T extends { accessor(place: never): infer A extends RowAccessor } ? A : never;

/** The row type of a table, by its id. Throws UNKNOWN_PLUG_IN. */
export function rowTypeOf(table: number, typeId: number, rowTypes: ReadonlyMap<number, TableRowType>): TableRowType {
  const found = rowTypes.get(typeId);
  if (found !== undefined) return found;
  const known = [...rowTypes.keys()].join(", ") || "none";
  const text = `table ${table}: no row type ${typeId}; registerRow() named ${known}, and a thread of the system is given the same`;
  throw new WeighbridgeError("UNKNOWN_PLUG_IN", text);
}
