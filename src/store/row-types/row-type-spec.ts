// row-type-spec — the row type of a table as its spec has it: the name of one of ours, or what a user's own says of
// itself, so that every node knows how long a row is without loading it. Left out, rows are of f32.

import { badArgument, isWeighbridgeError, reasonAndSite, showValue, unsupported, WeighbridgeError } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import { WORD_BYTES } from "../../kernel/elements.ts";
import { ELEMENT_NAMES, isRowElement, ROW_ELEMENTS, type RowElement } from "../../kernel/row-element.ts";
import { type Check, count, object, oneOf, shortText } from "../../wire/json-body.ts";
import type { OptimizerName } from "../updaters/optimizer-spec.ts";
import type { PsRowType } from "./ps-row-type.ts";

/** A row type of a user's own: its name, its version, and what a row is made of. */
export type UserRowType = { readonly name: string; readonly version: number; readonly element: RowElement; readonly elements: number };
/** What the rows of a table are, as servers have it: another element than f32, or a user's row type. */
export type RowTypeSpec = PlainElement | UserRowType;

/** What has rows of some type: the spec of a table. */
type Rows = { readonly width: number; readonly rowType?: RowTypeSpec | undefined };

/** The widest row: 512 KiB. */
const ROW_WORDS_MAX = 131_072;
const NAME_LENGTH_MAX = 64;

/** Whether something that a module exports, or a user hands over, is what psRowType made. */
export function isPsRowType(value: unknown): value is PsRowType {
  return typeof value === "object" && value !== null && "add" in value && "kind" in value && value.kind === "rowType";
}

/** What a user says that rows of an embedding are made of. */
type Dtype = RowElement | PsRowType | undefined;

/** Throws BAD_ARGUMENT. */
export function checkDtype(dtype: Dtype, subject: string): void {
  if (dtype === undefined || isRowElement(dtype) || isPsRowType(dtype)) return;
  const expected = `one of ${ELEMENT_NAMES.join(", ")}, or what psRowType() made`;
  throw badArgument(`${subject}: dtype must be ${expected}, got ${showValue(dtype)}${didYouMean(dtype, ELEMENT_NAMES)}`);
}

/** Of an embedding's option. Throws BAD_ARGUMENT; HANDLER_FAILED where a user's row type throws. */
export function rowTypeSpec(dtype: Dtype, dim: number, subject: string): RowTypeSpec | undefined {
  checkDtype(dtype, subject);
  if (dtype === undefined || dtype === "f32") return undefined;
  return typeof dtype === "string" ? dtype : { ...identityOf(dtype), elements: sizedBy(dtype, dim, subject) };
}

/**
 * Throws SPEC_MISMATCH unless the rows of a table that is there are of this dtype; UNSUPPORTED, without one, for rows
 * of a user's own type, which this process then does not have.
 */
export function checkOpened({ name, ...rows }: Rows & { readonly name: string }, dtype: Dtype): void {
  const what = `embedding ${JSON.stringify(name)} has rows of ${describedRowType(rows.rowType)}`;
  if (dtype === undefined) {
    if (typeof rows.rowType === "object") throw unsupported(`${what}: open it with dtype: what psRowType() made of that name`);
    return;
  }
  const wanted = rowTypeSpec(dtype, rows.width, name);
  if (!isSameRowType(wanted, rows.rowType))
    throw new WeighbridgeError("SPEC_MISMATCH", `${what}, and was opened with dtype ${describedRowType(wanted)}`);
}

function isSameRowType(one: RowTypeSpec | undefined, other: RowTypeSpec | undefined): boolean {
  if (typeof one !== "object" || typeof other !== "object") return one === other;
  return (["name", "version", "element", "elements"] as const).every((field) => one[field] === other[field]);
}

function describedRowType(rowType: RowTypeSpec | undefined): string {
  if (typeof rowType !== "object") return rowType ?? "f32";
  return `${rowType.name} version ${rowType.version} (${rowType.elements} × ${rowType.element})`;
}

/** How many elements a row has. Throws BAD_ARGUMENT for what is no number of elements. */
export function elementsOf(rowType: PsRowType, dim: number, subject: string): number {
  const elements = rowType.elements(dim);
  if (Number.isSafeInteger(elements) && elements >= 1) return elements;
  throw badArgument(`${subject}: ${rowType.name} says that a row has ${showValue(elements)} elements: a whole number from 1 up`);
}

function sizedBy(rowType: PsRowType, dim: number, subject: string): number {
  try {
    return elementsOf(rowType, dim, subject);
  } catch (thrown) {
    if (isWeighbridgeError(thrown)) throw thrown;
    const what = `${subject}: row type ${JSON.stringify(rowType.name)} threw in elements`;
    throw new WeighbridgeError("HANDLER_FAILED", `${what}: ${reasonAndSite(thrown)}`, { cause: thrown });
  }
}

function identityOf({ name, version, dtype }: PsRowType): Omit<UserRowType, "elements"> {
  return { name, version, element: dtype };
}

const ownFields = object({ name: shortText(NAME_LENGTH_MAX), version: count, element: oneOf(...ELEMENT_NAMES), elements: count });

/** Of a spec that came over the wire; f32 is as good as nothing. Throws BAD_REQUEST. */
export const rowTypeShape: Check<RowTypeSpec | undefined> = (value, path) => {
  if (value === undefined || value === null || value === "f32") return undefined;
  return typeof value === "object" ? ownFields(value, path) : (oneOf(...ELEMENT_NAMES)(value, path) as PlainElement);
};

export function elementOf({ rowType }: Pick<Rows, "rowType">): RowElement {
  if (rowType === undefined) return "f32";
  return typeof rowType === "string" ? rowType : rowType.element;
}

/** Elements of a row. */
export function rowElements({ width, rowType }: Rows): number {
  return typeof rowType === "object" ? rowType.elements : width;
}

/** 32-bit words of a row. */
export function rowWords(rows: Rows): number {
  return (rowElements(rows) * ROW_ELEMENTS[elementOf(rows)].bytes) / WORD_BYTES;
}

/** As an error names it. */
export function rowTypeName({ rowType }: Pick<Rows, "rowType">): string {
  return rowType === undefined ? "f32" : typeof rowType === "string" ? rowType : rowType.name;
}

/** Elements of rows that no kernels update. */
type PlainElement = Exclude<RowElement, "f32">;
const PLAIN_ELEMENTS = ELEMENT_NAMES.filter((element) => element !== "f32");

const F64: readonly "f64"[] = ["f64"];
type FloatOptimizer = "sgd" | "momentum" | "nesterov" | "adagrad" | "rmsprop" | "adam" | "adamW" | "ftrl";

/** For which of those there are optimizers beside the row types' own, sum and assign (plain-updaters.ts). */
export const PLAIN_OPTIMIZERS: Readonly<Record<"min" | "max", readonly PlainElement[]> & Record<FloatOptimizer, readonly "f64"[]>> = {
  ...{ min: PLAIN_ELEMENTS, max: PLAIN_ELEMENTS, sgd: F64, momentum: F64, nesterov: F64 },
  ...{ adagrad: F64, rmsprop: F64, adam: F64, adamW: F64, ftrl: F64 },
};

/** Which of our optimizers a table of such rows can have; undefined: all. */
export function tableOptimizers(rowType: RowTypeSpec | undefined): readonly OptimizerName[] | undefined {
  if (rowType === undefined) return undefined;
  const plain = Object.entries<readonly RowTypeSpec[]>(PLAIN_OPTIMIZERS).filter(([, elements]) => elements.includes(rowType));
  return ["sum", "assign", ...plain.map(([type]) => type as OptimizerName)];
}

type CheckedTable = Rows & {
  readonly name: string;
  readonly versions: boolean;
  readonly reduce: "sum" | "mean";
  readonly link?: { readonly push: unknown; readonly pull: unknown } | undefined;
  readonly optimizer: { readonly type: string; readonly clipValue?: number | null; readonly clipNorm?: number | null };
  readonly initializer: { readonly type: string; readonly value?: number };
};

/** What rows of other types than f32 cannot have. Throws BAD_ARGUMENT. */
export function checkRowType(table: CheckedTable): void {
  const { name, rowType, optimizer, link, versions, reduce, initializer } = table;
  const refuse = (what: string): WeighbridgeError => badArgument(`${name}: ${what}`);
  if (!(rowWords(table) <= ROW_WORDS_MAX))
    throw refuse(`a row of ${rowElements(table)} × ${elementOf(table)} is longer than ${ROW_WORDS_MAX * WORD_BYTES} bytes`);
  if (versions && optimizer.type === "custom")
    throw refuse("versions are for caches, which apply the optimizer themselves: not an updater of your own");
  if (rowType === undefined) return;
  const rows = `rows of ${rowTypeName(table)}`;
  const isFloat = ROW_ELEMENTS[elementOf(table)].isFloat;
  if (![link?.push ?? "f32", link?.pull ?? "f32"].every((codec) => codec === "f32" || codec === "packed"))
    throw refuse(`a link encodes f32, and these are ${rows}: they are pushed and pulled as they are, or "packed"`);
  if (versions) throw refuse(`versions are for caches, which hold rows of f32, and these are ${rows}`);
  const known: readonly string[] = tableOptimizers(rowType) ?? [];
  const there = `there are ${known.join(", ")}, or an updater of your own${didYouMean(optimizer.type, known)}`;
  if (!["custom", ...known].includes(optimizer.type)) throw refuse(`optimizer ${optimizer.type} is not for ${rows}; ${there}`);
  for (const clip of ["clipValue", "clipNorm"] as const)
    if ((optimizer[clip] ?? null) !== null) throw refuse(`${clip} is for f32, and these are ${rows}`);
  if (reduce === "mean" && !(isFloat && typeof rowType === "string")) throw refuse(`reduce "mean" is for floats, and these are ${rows}`);
  if (isFloat) return;
  if (initializer.type !== "constant" || !Number.isSafeInteger(initializer.value))
    throw refuse(`${rows} begin with a constant that is a whole number, not with ${initializer.type} ${initializer.value ?? ""}`.trimEnd());
}
