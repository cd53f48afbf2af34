// checkpoint-text — formats the contents of a checkpoint for people. Pure.

import { consistencyText } from "../store/consistency.ts";
import type { CheckpointManifest, ServerRecord } from "../store/snapshot/checkpoint-manifest.ts";
import { plugInsOf, type SavedPlugIn } from "../store/snapshot/describe-parameter.ts";
import { type ParameterRecord, rowBytesOf, VALUES_COLUMN } from "../store/snapshot/parameter-record.ts";
import { countText, foldLine, type TextRow, type TextTable, textTable } from "./terminal-text.ts";
import { widthOf } from "./text-width.ts";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const UNIT = 1024;
const NOTHING = "-";
const NUMBERS: ReadonlySet<string> = new Set(["rows", "bytes", "server"]);
const PARAMETERS_HEAD: TextRow = ["parameter", "kind", "shape", "rows", "dtype", "bytes", "optimizer", "consistency", "columns"];
/** Left out where lines would not fit, the first of them first: --json has them, and the shape tells the kind. */
const LEFT_OUT = ["columns", "kind"];
const FILES_HEAD: TextRow = ["file", "server", "bytes", "header crc32"];

export function checkpointText(path: string, manifest: CheckpointManifest, columns: number = Infinity): string {
  const { parameters, servers } = manifest;
  const named =
    parameters.length === 0
      ? "no parameters"
      : parametersTable({ head: PARAMETERS_HEAD, rows: parameters.map(parameterRow), rightAligned: NUMBERS, columns });
  const stored = textTable({ head: FILES_HEAD, rows: servers.flatMap(fileRows), rightAligned: NUMBERS, columns });
  const folded = (text: string): string => foldLine(text, { columns, indent: 2 }).join("\n");
  return `${headline(path, manifest).split("\n").map(folded).join("\n")}\n${folded(workersLine(manifest))}\n\n${named}\n\n${stored}`;
}

function parametersTable(table: TextTable, [left, ...others] = LEFT_OUT): string {
  const whole = textTable({ ...table, columns: Infinity });
  const fits = whole.split("\n").every((line) => widthOf(line) <= (table.columns ?? Infinity));
  if (fits || left === undefined) return fits ? whole : textTable({ ...table, mayCut: true });
  const without = (row: TextRow): TextRow => row.toSpliced(table.head.indexOf(left), 1);
  return parametersTable({ ...table, head: without(table.head), rows: table.rows.map(without) }, others);
}

/** The size of all shard files of a checkpoint together. */
function shardBytes({ servers }: CheckpointManifest): number {
  return servers.flatMap(({ files }) => files).reduce((sum, { bytes }) => sum + bytes, 0);
}

function headline(path: string, manifest: CheckpointManifest): string {
  const { job, step, clock, createdAt, serverCount } = manifest;
  return `${path}: step ${step}, clock ${clock}, of job ${job}\nwritten ${createdAt} by ${countText(serverCount, "server")}, ${bytesText(shardBytes(manifest))}`;
}

function workersLine({ workers }: CheckpointManifest): string {
  if (workers.length === 0) return "workers: none";
  return `workers' clocks: ${workers.map(({ rank, clock }) => `${rank}: ${clock}`).join(", ")}`;
}

function parameterRow(parameter: ParameterRecord): TextRow {
  const { name, kind, shape, rowCount, width, consistency, columns } = parameter;
  const kindText = kind === "table" ? "embedding" : kind;
  const shown = kind === "tensor" ? shape.join(" × ") || "scalar" : `keys × ${width}`;
  const rowBytes = rowBytesOf(columns);
  const names = columns.map((column) => column.name).join(", ");
  return [
    ...[name, kindText, shown, String(rowCount), dtypeText(parameter), bytesText(rowCount * rowBytes)],
    ...[optimizerText(parameter), consistencyWords(consistency), names],
  ];
}

/** A built-in type, or the name and version of a user's own. */
function dtypeText(parameter: ParameterRecord): string {
  const values = parameter.columns.find(({ name }) => name === VALUES_COLUMN);
  return plugInText(parameter, "rowType") ?? values?.dtype.toLowerCase() ?? NOTHING;
}

function optimizerText(parameter: ParameterRecord): string {
  return plugInText(parameter, "updater") ?? parameter.optimizer.kind;
}

function plugInText(parameter: ParameterRecord, kind: SavedPlugIn["kind"]): string | undefined {
  const plugIn = plugInsOf(parameter, "the checkpoint").find((saved) => saved.kind === kind);
  return plugIn === undefined ? undefined : `${plugIn.name} v${plugIn.version}`;
}

/** A kind that another writer saved is shown as it is. */
function consistencyWords({ kind, reduce, staleness }: ParameterRecord["consistency"]): string {
  if (kind !== "async" && kind !== "sync") return kind;
  return consistencyText({
    updates: kind,
    reduce: reduce === "mean" ? "mean" : "sum",
    staleness: staleness === "any" ? undefined : Number(staleness),
  });
}

function fileRows({ rank, files }: ServerRecord): TextRow[] {
  if (files.length === 0) return [[NOTHING, String(rank), bytesText(0), NOTHING]];
  return files.map(({ file, bytes, headerCrc32 }) => [file, String(rank), bytesText(bytes), headerCrc32]);
}

export function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= UNIT && unit < UNITS.length - 1) [value, unit] = [value / UNIT, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}
