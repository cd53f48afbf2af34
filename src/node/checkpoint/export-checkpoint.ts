// export-checkpoint — writes the parameters of a checkpoint into one plain safetensors file for other programs:
//
//   <tensor>            its values in its own shape
//   <table>/keys        U64 [rows], in no particular order
//   <table>/values      [rows, width] of its dtype, in the order of the keys
//   <name>/<column>     with `allColumns`: the optimizer's slots and the rest. What is kept per chunk, such as the step
//                       count of a block, is repeated for each row of the chunk
//   <name>/step         with `allColumns`, U64 [1]: pushes, where they are counted for the parameter as a whole

import { basename, dirname } from "node:path";
import { assert } from "../../base/assert.ts";
import { badArgument } from "../../base/errors.ts";
import { STEP_COLUMN } from "../../store/snapshot/describe-parameter.ts";
import {
  type ColumnRecord,
  columnShapeIn,
  KEYS_COLUMN,
  type ParameterRecord,
  VALUES_COLUMN,
} from "../../store/snapshot/parameter-record.ts";
import { encodeHeader, layOutTensors, type NamedShape, tensorBytes } from "../../store/snapshot/safetensors.ts";
import type { CheckpointReader } from "./checkpoint-reader.ts";
import { attempt, type FileLayer, realFiles } from "./file-layer.ts";
import { type OpenSection, SectionFile } from "./section-file.ts";

export type ExportOptions = {
  readonly layer?: FileLayer | undefined;
  /** Export all columns, not the values alone. */
  readonly allColumns?: boolean | undefined;
  /** Export only these parameters. */
  readonly parameters?: readonly string[] | undefined;
  /** Replace a file of that name. */
  readonly replace?: boolean | undefined;
};

type ExportedTensor = NamedShape & { readonly parameter: ParameterRecord; readonly column: ColumnRecord };

/** How many pushes the parameter had, as its state counts them. */
const PUSHES: ColumnRecord = { name: STEP_COLUMN, dtype: "U64", width: 1, per: "chunk" };

/** Returns the tensors that were written, and the file's length. */
export async function exportCheckpoint(
  reader: CheckpointReader,
  path: string,
  options: ExportOptions = {},
): Promise<{ readonly tensors: readonly NamedShape[]; readonly bytes: number }> {
  const { layer = realFiles, replace = false } = options;
  const tensors = chosen(reader, options).flatMap((parameter) => tensorsOf(parameter, options.allColumns ?? false));
  requireNames(tensors);
  if (!replace && (await exists(layer, path))) throw badArgument(`the file ${path} exists already; --force replaces it`);
  const { job, step, clock } = reader.manifest;
  // Model loaders expect a "format"; all of them accept PyTorch's.
  const metadata = { format: "pt", weighbridge_job: job, weighbridge_step: String(step), weighbridge_clock: String(clock) };
  const header = encodeHeader(layOutTensors(tensors), { metadata });
  const file = await SectionFile.create({ layer, path, headerBytes: header.byteLength });
  try {
    await copyTensors(reader, file, tensors);
    await file.finish(header);
    await attempt(`cannot sync ${dirname(path)}`, () => layer.syncDirectory(dirname(path)));
  } catch (cause) {
    await file.abandon();
    throw cause;
  }
  return { tensors, bytes: file.bytes };
}

function chosen(reader: CheckpointReader, { parameters }: ExportOptions): readonly ParameterRecord[] {
  const all = reader.manifest.parameters;
  if (parameters === undefined) return all;
  return parameters.map((name) => {
    const found = all.find((parameter) => parameter.name === name);
    if (found !== undefined) return found;
    const there = all.map((parameter) => parameter.name).join(", ");
    throw badArgument(`${reader.path} has no parameter ${JSON.stringify(name)}; it has ${there || "none"}`);
  });
}

function tensorsOf(parameter: ParameterRecord, allColumns: boolean): ExportedTensor[] {
  const tensors = parameter.columns
    .filter(({ name }) => allColumns || name === VALUES_COLUMN || name === KEYS_COLUMN)
    .map((column): ExportedTensor => {
      const isWhole = parameter.kind === "tensor" && column.name === VALUES_COLUMN;
      const name = isWhole ? parameter.name : `${parameter.name}/${column.name}`;
      return { name, dtype: column.dtype, shape: exportedShape(parameter, column), parameter, column };
    });
  if (allColumns && pushesOf(parameter) !== undefined)
    tensors.push({ name: `${parameter.name}/${PUSHES.name}`, dtype: PUSHES.dtype, shape: [1], parameter, column: PUSHES });
  return tensors;
}

/** Undefined if blocks or rows have a count of their own under that name, or nothing is counted. */
function pushesOf({ columns, state }: ParameterRecord): number | undefined {
  const { step } = state;
  return columns.some(({ name }) => name === PUSHES.name) || typeof step !== "number" ? undefined : step;
}

/** A column of a tensor has the shape of its values. A table's values are a matrix even if a row has only one. */
function exportedShape({ kind, shape, rowCount, width }: ParameterRecord, column: ColumnRecord): readonly number[] {
  if (kind === "tensor" && column.width === width) return shape;
  return column.name === VALUES_COLUMN ? [rowCount, width] : columnShapeIn({ ...column, per: "row" }, rowCount);
}

function requireNames(tensors: readonly ExportedTensor[]): void {
  const seen = new Set<string>();
  for (const { name } of tensors) {
    if (seen.has(name)) throw badArgument(`two parameters would both write ${JSON.stringify(name)}; export them one by one`);
    seen.add(name);
  }
}

/** Chunk by chunk, so that each is read once; the chunks of a tensor come by their rows. */
async function copyTensors(reader: CheckpointReader, file: SectionFile, tensors: readonly ExportedTensor[]): Promise<void> {
  const sections = new Map<ParameterRecord, Map<ColumnRecord, OpenSection>>();
  for (const tensor of tensors) {
    const columns = sections.get(tensor.parameter) ?? new Map<ColumnRecord, OpenSection>();
    sections.set(tensor.parameter, columns.set(tensor.column, file.add(tensorBytes(tensor))));
  }
  for (const [parameter, columns] of sections) {
    for (const chunk of reader.chunks(parameter.name)) {
      await reader.readRows(chunk, async ({ rowCount, columns: read }) => {
        for (const [column, section] of columns) {
          if (column === PUSHES) continue;
          const bytes = read.get(column.name) ?? new Uint8Array();
          await file.write(section, column.per === "row" ? bytes : repeated(bytes, rowCount));
        }
      });
    }
    const pushes = columns.get(PUSHES);
    if (pushes !== undefined) await file.write(pushes, new Uint8Array(BigUint64Array.of(BigInt(pushesOf(parameter) ?? 0)).buffer));
    for (const { taken, bytes } of columns.values())
      assert(taken === bytes, `${taken} of ${bytes} bytes of ${parameter.name} were exported`);
  }
}

/** The bytes of a chunk, once for each of its rows. */
function repeated(bytes: Uint8Array, rowCount: number): Uint8Array {
  const all = new Uint8Array(bytes.byteLength * rowCount);
  for (let row = 0; row < rowCount; row++) all.set(bytes, row * bytes.byteLength);
  return all;
}

async function exists(layer: FileLayer, path: string): Promise<boolean> {
  const names = await attempt(`cannot read ${dirname(path)}`, () => layer.list(dirname(path)));
  return names.includes(basename(path));
}
