// rows-in-hand — what a plug-in is handed of rows: a list of spans in one memory, never a copy and never one row at a
// time. Views of the arena: void when the call that they were handed to returns, and nothing outside of the spans is
// the plug-in's.

import type { RowArray, RowElement, RowSpans } from "../../kernel/row-element.ts";

/** Rows of a parameter with what its updater keeps beside the values. */
export type RowsInHand<E extends RowElement = RowElement> = RowSpans<E> & {
  /** By the updater's names for its columns: where in `elements` that of each row begins. */
  readonly columns: Readonly<Record<string, Uint32Array>>;
};

/** Columns of rows on their way into a checkpoint or out of it: row i of each is the same row, side by side. */
export type SavedColumns<E extends RowElement = RowElement> = {
  readonly count: number;
  /** `values`, and the updater's columns by their names. */
  readonly columns: Readonly<Record<string, RowArray<E>>>;
};
