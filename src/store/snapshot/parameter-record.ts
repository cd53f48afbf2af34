// parameter-record — a parameter in a checkpoint's manifest: its name and size, the columns of its rows, and how it is
// trained. Every row has each column: its values, a slot of the optimizer, a version.
//
//   tensor   rows 0 to rowCount − 1; `shape` is the user's, and has rowCount × width elements
//   table    rowCount rows with a u64 key each: the column `keys`; `shape` is empty
//   sums     the same; what workers add up beside the parameters, of any type and of one width (describe-sums.ts)
//
//   ParameterRecord.P1. Every parameter has the column `values`, `width` per row, which may be 0 for sums: F32, for a
//       table its element type, for sums any type. Only tables and sums have `keys`, U64, one per row.
//   ParameterRecord.P2. Column names are unique within a parameter.

import { ELEMENT_NAMES, ROW_ELEMENTS } from "../../kernel/row-element.ts";
import { type Check, count, list, object, oneOf, text } from "../../wire/json-body.ts";
import { type Described, described, type JsonObject, jsonObject } from "../../wire/json-value.ts";
import { DTYPE_BYTES, elementCount } from "./safetensors.ts";
import { type ChunkKey, isColumnName } from "./section-name.ts";

export const KEYS_COLUMN = "keys";
export const VALUES_COLUMN = "values";

const COLUMN_DTYPES = ["F32", "F64", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"] as const;
export type ColumnDtype = (typeof COLUMN_DTYPES)[number];

/** What rows of tables are made of. */
const ROW_DTYPES: readonly ColumnDtype[] = ELEMENT_NAMES.map((element) => ROW_ELEMENTS[element].dtype);

export type ColumnRecord = {
  readonly name: string;
  readonly dtype: ColumnDtype;
  /** Elements per row, or per chunk. */
  readonly width: number;
  /** A column of the chunk has `width` elements in all, such as the step count of a block. */
  readonly per: "row" | "chunk";
};

export type ParameterRecord = {
  readonly name: string;
  readonly kind: "tensor" | "table" | "sums";
  readonly shape: readonly number[];
  readonly rowCount: number;
  /** Values per row. */
  readonly width: number;
  readonly columns: readonly ColumnRecord[];
  readonly optimizer: Described;
  readonly initializer: Described;
  readonly consistency: Described;
  /** Of the learning rate. */
  readonly schedule: Described;
  /** What else belongs to its spec: codec, bounds, clipping. Kept word for word. */
  readonly settings: JsonObject;
  /** What training made of it beyond its columns, such as a step count. Kept word for word. */
  readonly state: JsonObject;
};

/** Every table and all sums have it (ParameterRecord.P1). */
export const KEYS: ColumnRecord = { name: KEYS_COLUMN, dtype: "U64", width: 1, per: "row" };

const columnShape: Check<ColumnRecord> = object({
  name: text,
  dtype: oneOf(...COLUMN_DTYPES),
  width: count,
  per: oneOf("row", "chunk"),
});

export const parameterShape: Check<ParameterRecord> = object({
  name: text,
  kind: oneOf("tensor", "table", "sums"),
  shape: list(count),
  rowCount: count,
  width: count,
  columns: list(columnShape),
  optimizer: described,
  initializer: described,
  consistency: described,
  schedule: described,
  settings: jsonObject,
  state: jsonObject,
});

/** Why this record contradicts itself, or undefined. */
export function parameterProblem({ name, kind, shape, rowCount, width, columns }: ParameterRecord): string | undefined {
  const subject = `parameter ${JSON.stringify(name)}`;
  if (name === "") return "a parameter has no name";
  if (width === 0 && kind !== "sums") return `${subject} has rows without values`;
  if (kind !== "tensor" && shape.length > 0) return `${subject} is a ${kind}, yet has a shape`;
  if (kind === "tensor" && elementCount(shape) !== rowCount * width) {
    return `${subject} has shape [${shape.join(", ")}], which is not ${rowCount} rows of ${width} values`;
  }
  const names = new Set(columns.map((column) => column.name));
  if (names.size < columns.length) return `${subject} has two columns of one name`; // ParameterRecord.P2
  const wrong = columns.find((column) => !isColumnName(column.name) || (column.width === 0 && width > 0));
  if (wrong !== undefined) return `${subject} has a column ${JSON.stringify(wrong.name)} of width ${wrong.width}`;
  const values = columns.find((column) => column.name === VALUES_COLUMN);
  const dtypes = kind === "sums" ? COLUMN_DTYPES : kind === "table" ? ROW_DTYPES : (["F32"] as const);
  if (values?.width !== width || values.per !== "row" || !dtypes.some((dtype) => dtype === values.dtype)) {
    // ParameterRecord.P1
    return `${subject} has no column ${VALUES_COLUMN} of ${kind === "sums" ? "any type" : dtypes.join(", ")}, ${width} per row`;
  }
  const hasKeys = hasColumn(columns, KEYS);
  if (hasKeys !== (kind !== "tensor") || (!hasKeys && names.has(KEYS_COLUMN))) {
    return `${subject} is a ${kind}: only a table has the column ${KEYS_COLUMN}, of one U64 per row`;
  }
  return undefined;
}

function hasColumn(columns: readonly ColumnRecord[], { name, dtype, width, per }: ColumnRecord): boolean {
  return columns.some((column) => column.name === name && column.dtype === dtype && column.width === width && column.per === per);
}

/** A column's shape in a chunk of this many rows. One per row is a plain list; `keys` and versions read better so. */
export function columnShapeIn({ width, per }: ColumnRecord, rowCount: number): readonly number[] {
  if (per === "chunk") return [width];
  return width === 1 ? [rowCount] : [rowCount, width];
}

export function columnBytesPerRow({ dtype, width, per }: ColumnRecord): number {
  return per === "row" ? width * DTYPE_BYTES[dtype] : 0;
}

/** Of all columns together. */
export function rowBytesOf(columns: readonly ColumnRecord[]): number {
  return columns.reduce((sum, column) => sum + columnBytesPerRow(column), 0);
}

/** Tensors are cut by rows, tables and sums by parts. */
export function chunkKindOf({ kind }: ParameterRecord): ChunkKey["kind"] {
  return kind === "tensor" ? "rows" : "parts";
}
