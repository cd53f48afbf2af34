// custom-row — a row type of a user's own, from what one update does to a column of a row. One object is both halves:
// the process caches rows and puts updates together with it, and a server that loads the module which exports it
// (`--functions`) applies them. Not for rows whose updates are something else than one number for a column: psRowType.
//
// Invariants:
//   CustomRow.C1. Column i of an update is element i of a span as long as a row: so a row has at least as many elements
//       as columns.

import { badArgument, showValue } from "../../../base/errors.ts";
import { type RowElement, rowNumber } from "../../../kernel/row-element.ts";
import { checkMembers, checkPlugIn, type PlugInIdentity } from "../../../store/plug-in-identity.ts";
import { ColumnUpdates, columnRowType, type RowPlace, type UpdateOf } from "../../../store/row-types/column-updates.ts";
import { checkElement, type PsRowType, psRowType, type SavedColumns } from "../../../store/row-types/ps-row-type.ts";
import type { RowAccessor } from "../row-accessor.ts";
import type { TableRowType } from "../table-row-type.ts";
import { DenseAccessor } from "./dense-row.ts";

/** How a row type of a user's own is described. */
export type CustomRowOptions<E extends RowElement, A extends RowAccessor<E> = DenseAccessor<E>> = PlugInIdentity & {
  /** What its rows are made of. */
  readonly dtype: E;
  /**
   * Elements of a row of a table with this `rowCapacity`. Defaults to that, and is never less than `columnCount`
   * (CustomRow.C1).
   */
  elements?(capacity: number): number;
  /** Columns are below this. Defaults to `rowCapacity`. */
  columnCount?(capacity: number): number;
  /** Writes what a new row begins with over zeros. */
  zero?(row: RowPlace<E>): void;
  /** Changes a row by an update of one column. One that throws should have changed nothing. */
  apply(row: RowPlace<E>, column: number, update: UpdateOf<E>): void;
  /** Makes one update of two for the same column: associative. Defaults to their sum. */
  addUpdates?(a: UpdateOf<E>, b: UpdateOf<E>): UpdateOf<E>;
  /** The update that changes nothing, which is never sent. Defaults to 0. */
  readonly neutral?: UpdateOf<E> | undefined;
  /** How much an update would change a row, from 0 up: what leaves first when not all can. Defaults to |update|. */
  importance?(row: RowPlace<E>, column: number, update: UpdateOf<E>): number;
  /** How a user reads a row. Defaults to its elements by column. */
  accessor?(place: RowPlace<E>): A;
  /** As of psRowType. */
  save?(saved: SavedColumns<E>): void;
  /** Makes rows of this version of what an earlier `version` saved. */
  load?(saved: SavedColumns<E>, version: number): void;
};

const MEMBERS = ["elements", "columnCount", "zero", "apply", "addUpdates", "importance", "accessor", "save", "load"] as const;
const OPTION_NAMES = ["name", "version", "deterministic", "dtype", "neutral", ...MEMBERS] as const;

/**
 * Makes a row type of your own, from what one update does to a column of a row. Servers have it if a module that they
 * load (`--functions`) exports it. Throws BAD_ARGUMENT.
 */
export function customRow<const E extends RowElement, A extends RowAccessor<E> = DenseAccessor<E>>(
  options: CustomRowOptions<E, A>,
): TableRowType<E, A> & { readonly plugIn: PsRowType<E> } {
  checkPlugIn("a row type", options, OPTION_NAMES);
  const { name, version, deterministic, dtype: element, apply, zero, save, load } = options;
  checkMembers(name, options, MEMBERS, ["apply"]);
  checkElement(name, element);
  const { elements = (capacity) => capacity, columnCount = (capacity) => capacity } = options;
  const none = rowNumber(element, 0);
  const neutral = options.neutral ?? none;
  if (typeof neutral !== typeof none || Number.isNaN(neutral))
    throw badArgument(`${name}: neutral is an update of ${element}, not ${showValue(neutral)}`);
  const addUpdates = options.addUpdates ?? ((a, b) => ((a as number) + (b as number)) as UpdateOf<E>);
  const updates = new ColumnUpdates<E>({ element, neutral, apply, addUpdates });
  const room = (capacity: number): number => Math.max(elements(capacity), columnCount(capacity));
  const { kind: _, ...made } = columnRowType<E>({
    name,
    version,
    deterministic,
    updates,
    dtype: element,
    elements: room,
    zero,
    save,
    load,
  });
  const importance = options.importance ?? ((_row, _column, update) => Math.abs(Number(update)));
  return {
    name,
    element,
    plugIn: psRowType<E>(made),
    isDense: false,
    movesColumns: true, // `apply` may change all of a row
    elements: room,
    columnCount,
    checkRoom: () => {},
    apply,
    add: (span, column, update) => updates.addTo(span, column, update),
    merge: (span, more) => updates.add(span, more),
    lay: (row, span) => updates.lay(row, span),
    importance: (row, span) => {
      let greatest = 0;
      for (let column = 0; column < span.length; column++) {
        const update = updates.of(span, column);
        if (update !== neutral) greatest = Math.max(greatest, importance(row, column, update));
      }
      return greatest;
    },
    accessor: options.accessor ?? ((place) => new DenseAccessor(place) as RowAccessor<E> as A),
  };
}
