// ps-row-type — a row type: how a row of a table is laid out, made, added to, encoded and decoded. f32, f64, i32 and
// i64 are ours (built-in-row-types.ts); users write others, which workers import and servers load. Not what a gradient
// does to a row: that is the updater's; `sum` and `assign` ask the row type.
//
// A row, an update for it and what a pull carries of it have the same number of elements, so that rows of every type
// travel, wait and are saved alike.
//
// Invariants:
//   RowType.R1. `add` is associative: (a + b) + c and a + (b + c) are the same update, up to the rounding of floats.
//       Workers and servers add up updates for one row before they apply them.
//   RowType.R2. Applying two updates one after the other does what applying their sum does, up to rounding.
//   RowType.R3. A row begins with what `make` says, or with what the parameter's initializer gives its key: nothing
//       else decides it.

import { badArgument, showValue } from "../../base/errors.ts";
import { ELEMENT_LIST, ELEMENT_NAMES, isRowElement, type RowArray, type RowElement, type RowSpans } from "../../kernel/row-element.ts";
import { checkMembers, checkPlugIn, type PlugInIdentity } from "../plug-in-identity.ts";

/** How a row type is described. */
export type PsRowTypeOptions<E extends RowElement> = {
  /** Names it to the servers. Unique within a server. */
  readonly name: string;
  /** Rises with every change of what it does, or of how a row is laid out. */
  readonly version: number;
  /** Promises that equal rows and updates give equal bits, on every server (PlugIn.P1). */
  readonly deterministic: boolean;
  /** What its rows are made of. */
  readonly dtype: E;
  /** How many of those a row has in a table of this `dim`. Defaults to `dim`. */
  elements?(dim: number): number;
  /** What a new row begins with (RowType.R3). Left out, the initializer says it. */
  make?(dim: number): RowArray<E>;
  /** Makes one update of two for the same row: sums[i] += updates[i], in its own sense (RowType.R1). */
  add(sums: RowSpans<E>, updates: RowSpans<E>): void;
  /** What `sum` does with an update. Defaults to `add`. When it throws, the rows are as they were. */
  apply?(rows: RowSpans<E>, updates: RowSpans<E>): void;
  /** What a pull carries of rows. Defaults to the rows as they are. */
  encode?(rows: RowSpans<E>, out: RowSpans<E>): void;
  /** Makes rows of what a pull would carry of them: what `assign` does. Defaults to a copy. */
  decode?(rows: RowSpans<E>, from: RowSpans<E>): void;
  /** As `save` of an updater, for the column `values`. */
  save?(saved: SavedColumns<E>): void;
  /** Makes rows of this version of what an earlier `version` saved. */
  load?(saved: SavedColumns<E>, version: number): void;
};

/** What psRowType made: the `dtype` of an embedding. */
export type PsRowType<E extends RowElement = RowElement> = PlugInIdentity & {
  readonly kind: "rowType";
  /** What its rows are made of. */
  readonly dtype: E;
  /** @internal */
  elements(dim: number): number;
  /** @internal */
  make?(dim: number): RowArray<E>;
  /** @internal */
  add(sums: RowSpans<E>, updates: RowSpans<E>): void;
  /** @internal */
  apply(rows: RowSpans<E>, updates: RowSpans<E>): void;
  /** @internal */
  encode?(rows: RowSpans<E>, out: RowSpans<E>): void;
  /** @internal */
  decode?(rows: RowSpans<E>, from: RowSpans<E>): void;
  /** @internal */
  save?(saved: SavedColumns<E>): void;
  /** @internal */
  load?(saved: SavedColumns<E>, version: number): void;
};

const OURS = new RegExp(`^((sparse|sorted|multiplicative)\\.)?(${ELEMENT_NAMES.join("|")})$`); // built-in-row-types.ts
const MEMBERS = ["elements", "make", "add", "apply", "encode", "decode", "save", "load"] as const;
const OPTION_NAMES = ["name", "version", "deterministic", "dtype", ...MEMBERS] as const;

/**
 * Makes a row type: how rows of a table are laid out, made, added to, encoded and decoded. Workers and servers load the
 * module that exports it. Throws BAD_ARGUMENT.
 *
 * @example
 * ```ts
 * // Rows of bits: a push sets bits, and none is ever cleared.
 * export const bits = psRowType({
 *   name: "bits",
 *   version: 1,
 *   deterministic: true,
 *   dtype: "i32",
 *   add(sums, updates) {
 *     for (let i = 0; i < sums.count; i++)
 *       for (let j = 0; j < sums.width; j++)
 *         sums.elements[sums.starts[i]! + j]! |= updates.elements[updates.starts[i]! + j]!;
 *   },
 * });
 * const seen = await session.embedding("seen", { dim: 4, dtype: bits, optimizer: "sum" });
 * ```
 */
export function psRowType<const E extends RowElement>(options: PsRowTypeOptions<E>): PsRowType<E> {
  checkPlugIn("a row type", options, OPTION_NAMES);
  const { name, dtype, elements = (dim) => dim, apply = options.add, ...rest } = options;
  checkMembers(name, options, MEMBERS, ["add"]);
  if (OURS.test(name)) throw badArgument(`a row type of one's own is not called ${name}: that is one of ours`);
  checkElement(name, dtype);
  return { ...rest, kind: "rowType", name, dtype, elements, apply };
}

/** Throws BAD_ARGUMENT, about `subject`, unless rows can be made of it. */
export function checkElement<E extends RowElement>(subject: string, element: E): E {
  if (isRowElement(element)) return element;
  throw badArgument(`${subject}: rows must be of ${ELEMENT_LIST}, got ${showValue(element)}`);
}

/** Rows of a parameter with what its updater keeps for each. */
export type RowsInHand<E extends RowElement = RowElement> = RowSpans<E> & {
  /** By the updater's names for its columns: where in `elements` that of each row begins. */
  readonly columns: Readonly<Record<string, Uint32Array>>;
};

/** Columns of rows on their way into a checkpoint or out of it: row i of each is the same row, side by side. */
export type SavedColumns<E extends RowElement = RowElement> = {
  /** How many rows there are. */
  readonly count: number;
  /** `values`, and the updater's columns by their names. */
  readonly columns: Readonly<Record<string, RowArray<E>>>;
};
