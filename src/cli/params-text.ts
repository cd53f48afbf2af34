// params-text — the parameters of a job, what one of them is and where it lies, and some of its values, as
// `weighbridge params` shows them: for people, and as the fields of its JSON. Pure.

import type { RowArray } from "../kernel/row-element.ts";
import { outputName } from "../node/output-name.ts";
import { consistencyText } from "../store/consistency.ts";
import type { ParameterSpec } from "../store/parameter-spec.ts";
import { bytesText } from "./checkpoint-text.ts";
import { barText, countText, foldLine, number, percent, type TextRow, textTable } from "./terminal-text.ts";
import { padStart, widthOf } from "./text-width.ts";

/** A parameter as its makers described it. */
export type ParameterFields = {
  readonly name: string;
  readonly kind: "tensor" | "embedding";
  /** Of a tensor. */
  readonly shape?: readonly number[];
  /** Elements of a row of an embedding. */
  readonly dim?: number;
  readonly dtype: string;
  /** Its type and its settings. */
  readonly optimizer: Readonly<Record<string, unknown>>;
  readonly consistency: string;
  /** Its type and its settings. */
  readonly init: Readonly<Record<string, unknown>>;
};

/** How much a server has of a parameter: rows of an embedding, or elements of a tensor. */
export type ServerShare = { readonly server: number; readonly count: number; readonly bytes: number };

/** Values under their key or the number of their row. `isMissing`: an embedding has no row of this key yet. */
export type ShownRow = { readonly label: string; readonly values: RowArray; readonly isMissing?: boolean };

const LIST_HEAD: TextRow = ["name", "kind", "shape", "dtype", "optimizer", "consistency"];
const BAR_COLUMNS = 20;
const DIGITS = 6;
const CUT = "…";
const MISSING = "*";

export function parameterFields(spec: ParameterSpec): ParameterFields {
  const { name, optimizer, initializer } = spec;
  const sizes =
    spec.kind === "tensor" ? ({ kind: "tensor", shape: spec.shape } as const) : ({ kind: "embedding", dim: spec.width } as const);
  return { name, ...sizes, dtype: dtypeOf(spec), optimizer, consistency: consistencyText(spec), init: initializer };
}

function dtypeOf(spec: ParameterSpec): string {
  const { rowType = "f32" } = spec.kind === "table" ? spec : {};
  return typeof rowType === "string" ? rowType : rowType.name;
}

/** Lines have at most so many columns. */
export function listText(job: string, parameters: readonly ParameterFields[], columns: number = Infinity): string {
  if (parameters.length === 0) return `job ${job} has no parameters`;
  const rows = parameters.map((one): TextRow => [one.name, one.kind, shapeText(one), one.dtype, optimizerName(one), one.consistency]);
  const table = textTable({ head: LIST_HEAD, rows, rightAligned: new Set(), columns, mayCut: true });
  return `job ${job}: ${countText(parameters.length, "parameter")}\n\n${table}`;
}

/** "10 × 4", and of an embedding "keys × 16". */
function shapeText({ shape, dim }: ParameterFields): string {
  if (shape === undefined) return `keys × ${dim}`;
  return shape.join(" × ") || "scalar";
}

/** A user's own by its name. */
function optimizerName({ optimizer: { type, updater } }: ParameterFields): string {
  return typeof updater === "string" ? updater : String(type);
}

/** What it is, and where it lies. Wraps lines at so many columns. */
export function parameterText(fields: ParameterFields, servers: readonly ServerShare[], columns: number = Infinity): string {
  const { name, kind, dtype, consistency, optimizer, init } = fields;
  const [counted, bytes] = [sumOf(servers, "count"), sumOf(servers, "bytes")];
  const lines = [
    `${name}: ${kind} of ${dtype}, ${shapeText(fields)}`,
    "",
    line(kind === "tensor" ? "elements" : "rows", number(counted)),
    line("memory", bytesText(bytes)),
    line("optimizer", settingsText(optimizer)),
    line("consistency", consistency),
    line("init", settingsText(init)),
  ];
  const folded = lines.flatMap((text) => foldLine(text, { columns, indent: LABEL_COLUMNS }));
  return `${folded.join("\n")}\n\n${sharesText(fields, servers, counted)}`;
}

const LABEL_COLUMNS = 13;

function line(label: string, text: string): string {
  return `${label.padEnd(LABEL_COLUMNS)}${text}`;
}

function sumOf(servers: readonly ServerShare[], field: "count" | "bytes"): number {
  return servers.reduce((sum, share) => sum + share[field], 0);
}

/** "adagrad, learningRate 0.1, epsilon 1e-10": without settings that are off, or those of most parameters. */
function settingsText({ type, ...settings }: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(settings).filter(([name, value]) => value !== null && value !== undefined && !isUsual(name, value));
  return [String(type), ...given.map(([name, value]) => `${name} ${settingText(value)}`)].join(", ");
}

function isUsual(name: string, value: unknown): boolean {
  return (name === "nonFinite" && value === "refuse") || (name === "schedule" && JSON.stringify(value) === '{"type":"constant"}');
}

function settingText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function sharesText({ kind }: ParameterFields, servers: readonly ServerShare[], counted: number): string {
  const head = ["server", kind === "tensor" ? "elements" : "rows", "share", "", "memory"];
  const rows = servers.map(({ server, count, bytes }): TextRow => {
    const share = counted === 0 ? undefined : count / counted;
    return [outputName("server", server), number(count), percent(share), barText(share ?? 0, BAR_COLUMNS), bytesText(bytes)];
  });
  return textTable({ head, rows, rightAligned: new Set(["elements", "rows", "share", "memory"]) });
}

/** Rows below each other, their values cut where the line is full; `more`: so many further rows. */
export function valuesText(fields: ParameterFields, rows: readonly ShownRow[], more = 0, columns: number = Infinity): string {
  const { name, kind, dtype } = fields;
  const labels = rows.map(({ label, isMissing = false }) => `${label}${isMissing ? MISSING : ""}`);
  const width = Math.max(...labels.map(widthOf), 0);
  const isLine = width === 0;
  const lines = rows.map(({ values }, i) => cutLine(isLine ? "" : `${padStart(labels[i]!, width)}  `, values, columns));
  const rest = more === 0 ? [] : [`${CUT} ${countText(more, isLine ? "more element" : "more row")}`];
  const note = rows.some(({ isMissing }) => isMissing === true) ? ["", `${MISSING} no row yet: what its first update would find`] : [];
  return [`${name}: ${kind} of ${dtype}, ${shapeText(fields)}`, "", ...lines, ...rest, ...note].join("\n");
}

function cutLine(begin: string, values: RowArray, columns: number): string {
  let text = begin;
  const wide = widthOf(begin) - begin.length; // values are plain
  for (let i = 0; i < values.length; i++) {
    const value = `${i === 0 ? "" : " "}${valueText(values[i]!)}`;
    const room = columns - wide - (i === values.length - 1 ? 0 : CUT.length + 1);
    if (i > 0 && text.length + value.length > room) return `${text} ${CUT}`;
    text += value;
  }
  return text;
}

/** As C's %g, without zeros at the end: six digits. Whole numbers of rows of integers in full. */
export function valueText(value: number | bigint): string {
  if (typeof value === "bigint" || Number.isInteger(value) || !Number.isFinite(value)) return String(value);
  const [digits = "", exponent = "0"] = value.toExponential(DIGITS - 1).split("e");
  const power = Number(exponent);
  return power < -4 || power >= DIGITS ? `${Number(digits)}e${exponent}` : String(Number(value.toPrecision(DIGITS)));
}

/** For JSON, which has no numbers of 64 bits, no NaN and no infinities: those as strings. */
export function jsonValues(values: RowArray): (number | string)[] {
  return Array.from(values as ArrayLike<number | bigint>, (value) => (Number.isFinite(value) ? (value as number) : String(value)));
}

/** The JSON of those rows; of a vector as a whole, of its elements. */
export function valuesDocument({ name, kind, shape, dim, dtype }: ParameterFields, rows: readonly ShownRow[]): object {
  const sizes = kind === "tensor" ? { shape } : { dim };
  const [only] = rows;
  if (only?.label === "") return { name, kind, ...sizes, dtype, values: jsonValues(only.values) };
  const shown = rows.map(({ label, values, isMissing = false }) =>
    kind === "tensor" ? { row: Number(label), values: jsonValues(values) } : { key: label, exists: !isMissing, values: jsonValues(values) },
  );
  return { name, kind, ...sizes, dtype, rows: shown };
}
