// parameter-restore — fills a new parameter with the part of a checkpoint that this server owns, whichever and however
// many servers wrote it.
//
// Invariants:
//   ParameterRestore.R1. It reads exactly the blocks of a tensor, or the rows of a table, that this server owns now.
//   ParameterRestore.R2. What does not fit (other blocks, other columns) is an error before any of it is used.
//   ParameterRestore.R3. What is not saved begins with the values: for DC-ASGD, what workers count as having pulled.
//       Earlier checkpoints have it; it is not read.
//   ParameterRestore.R4. Steps of a tensor's blocks are read in 64 bits, and in 32, as earlier versions wrote them.
//       Rows without steps of their own in the checkpoint have their block's: that was the rule of earlier versions.
//   ParameterRestore.R5. A plug-in converts what another version of it wrote before it is used; columns that the other
//       version lacked begin as those of new rows.

import { bytesOf } from "../../base/bytes.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { FLOAT_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { fillElements, type RowArray } from "../../kernel/row-element.ts";
import type { SavedColumns } from "../../store/row-types/ps-row-type.ts";
import { isOfWorker, isSaved, ROW_STEPS_COLUMN, STEP_COLUMN, slotSpans, storedColumns } from "../../store/snapshot/describe-parameter.ts";
import {
  type ColumnRecord,
  columnBytesPerRow,
  KEYS_COLUMN,
  type ParameterRecord,
  rowBytesOf,
  VALUES_COLUMN,
} from "../../store/snapshot/parameter-record.ts";
import { DTYPE_BYTES } from "../../store/snapshot/safetensors.ts";
import type { Chunk } from "../../store/snapshot/shard-header.ts";
import type { SnapshotSource, SourceBatch } from "../../store/snapshot/snapshot-files.ts";
import type { Ownership } from "../ownership.ts";
import type { ParameterHost } from "../parameters/parameter-host.ts";
import { TableParameter } from "../parameters/table-parameter.ts";
import type { TensorParameter } from "../parameters/tensor-parameter.ts";
import { expectedRows } from "./expected-rows.ts";
import { columnsInHand, type StagedColumn, stagedColumns } from "./staged-columns.ts";

export type Restoring = {
  readonly source: SnapshotSource;
  readonly record: ParameterRecord;
  readonly host: ParameterHost;
  readonly ownership: Ownership;
  /** The parameter's number, which decides the owners of its blocks. */
  readonly number: number;
};

/** Throws CHECKPOINT_TORN, _FOREIGN or _IO, ARENA_FULL; the parameter is then of no use. */
export async function restoreParameter(parameter: TensorParameter | TableParameter, restoring: Restoring): Promise<void> {
  if (parameter instanceof TableParameter) await restoreTable(parameter, restoring);
  else await restoreTensor(parameter, restoring);
}

async function restoreTensor({ spec, store }: TensorParameter, { source, record, host, ownership, number }: Restoring): Promise<void> {
  const { shape } = store;
  const load = host.plugIns.loaderOf(spec, record, source.path);
  const own = host.plugIns.columnsOf(spec);
  const saved = new Set(record.columns.map(({ name }) => name));
  const countsRows = saved.has(ROW_STEPS_COLUMN) && storedColumns(spec).some(({ name }) => name === ROW_STEPS_COLUMN);
  for (const chunk of source.chunks(spec.name)) {
    const block = (chunk.key.from * record.width) / shape.blockFloats;
    // ParameterRestore.R2
    if (!Number.isInteger(block) || chunk.rowCount * record.width !== shape.floatsOf(block)) throw otherBlocks(source, chunk);
    if (!ownership.ownsBlock(number, block)) continue; // ParameterRestore.R1
    const opened = store.openBlock(block, await readStep(source, chunk, record), countsRows);
    await source.readColumn(chunk, VALUES_COLUMN, bytesOf(opened.values));
    if (countsRows) await source.readColumn(chunk, ROW_STEPS_COLUMN, bytesOf(opened.rowSteps));
    const columns: [string, Float32Array<ArrayBufferLike>][] = [[VALUES_COLUMN, opened.values]];
    for (const { name, from, to } of slotSpans(spec, own, chunk.rowCount)) {
      const floats = opened.slots.subarray(from, to);
      const start = own.find((column) => column.name === name)?.start;
      columns.push([name, floats]);
      if (isSaved(name) && saved.has(name)) await source.readColumn(chunk, name, bytesOf(floats));
      else if (start !== undefined)
        floats.fill(start); // ParameterRestore.R5
      else floats.set(opened.values); // ParameterRestore.R3
    }
    load?.({ count: chunk.rowCount, columns: Object.fromEntries(columns) as Record<string, Float32Array> });
    for (const floats of [opened.values, opened.slots])
      store.noteMagnitude(host.optimizers.greatestMagnitude(floats.byteOffset, floats.length));
  }
}

/** ParameterRestore.R4 */
async function readStep(source: SnapshotSource, chunk: Chunk, { columns }: ParameterRecord): Promise<number> {
  const isWide = columns.some(({ name, dtype }) => name === STEP_COLUMN && DTYPE_BYTES[dtype] === BigUint64Array.BYTES_PER_ELEMENT);
  const step = isWide ? new BigUint64Array(1) : new Uint32Array(1);
  await source.readColumn(chunk, STEP_COLUMN, bytesOf(step));
  return Number(step[0] ?? 0);
}

async function restoreTable(table: TableParameter, restoring: Restoring): Promise<void> {
  const { source, ownership } = restoring;
  table.store.expect(expectedRows(source, table.spec.name, ownership));
  for (const chunk of source.chunks(table.spec.name)) {
    const { from, to } = chunk.key;
    if (!ownership.ownsAnyOf({ from, to })) continue; // ParameterRestore.R1
    await source.readRows(chunk, (batch) => restoreRows(table, batch, restoring));
  }
  table.store.settle();
}

/** Copies a batch into the arena, without rows of other servers, and then into the table. */
function restoreRows(table: TableParameter, { rowCount, columns }: SourceBatch, { source, host, record, ownership }: Restoring): void {
  if (rowCount === 0) return;
  const { store, spec } = table;
  const { arena, indexes } = host;
  const keys = columns.get(KEYS_COLUMN) ?? new Uint8Array(0);
  const own = ownRows(new Uint32Array(keys.buffer, keys.byteOffset, rowCount * 2), ownership);
  if (own.length === 0) return;
  // ParameterRestore.R3
  const isLeftOut = (name: string): boolean => spec.optimizer.type === "dcAsgd" && isOfWorker(name);
  const kept = record.columns.filter(({ name }) => !isLeftOut(name));
  const stored = storedColumns(spec, host.plugIns.columnsOf(spec));
  const added = stored.filter(({ name }) => isSaved(name) && !kept.some((column) => column.name === name));
  const rowBytes = rowBytesOf([...record.columns, ...added]);
  const widest = Math.max(...record.columns.map(columnBytesPerRow));
  const spans = [rowCount * rowBytes, rowCount * widest, rowCount * WORD_BYTES];
  // No holes among the rows.
  const [stage = 0, foreign = 0, list = 0] = spans.map((bytes) => arena.allocateBulk(bytes));
  const staged = stagedColumns([...kept, ...added], stage, rowCount);
  arena.words.set(own, list >>> 2);
  for (const column of staged.slice(0, kept.length)) {
    const bytes = columns.get(column.name) ?? new Uint8Array(0);
    const isAll = own.length === rowCount;
    arena.bytes.set(bytes, isAll ? column.address : foreign);
    if (!isAll) indexes.gatherByIndex(foreign, list, own.length, column.byteCount / FLOAT_BYTES, column.address);
  }
  try {
    const read = new Map(staged.map((column) => [column.name, column]));
    const load = host.plugIns.loaderOf(spec, record, source.path);
    if (load !== undefined) loadColumns(table, staged, { count: own.length, added, load });
    const values = read.get(VALUES_COLUMN)?.address ?? 0;
    const payload = stagedColumns(stored, 0, 0)
      .filter(({ name }) => name !== KEYS_COLUMN)
      .map((column) => ({ ...column, address: read.get(column.name)?.address ?? values })); // ParameterRestore.R3
    store.restoreSaved(read.get(KEYS_COLUMN)?.address ?? 0, own.length, payload);
    for (const { name, width, dtype } of kept) {
      if (dtype === "F32") store.noteMagnitude(host.optimizers.greatestMagnitude(read.get(name)?.address ?? 0, own.length * width));
    }
  } finally {
    for (const [i, span] of [stage, foreign, list].entries()) arena.release(span, spans[i] ?? 0);
  }
}

/** ParameterRestore.R5 */
function loadColumns(
  { spec, host }: TableParameter,
  staged: readonly StagedColumn[],
  { count, added, load }: { readonly count: number; readonly added: readonly ColumnRecord[]; readonly load: (saved: SavedColumns) => void },
): void {
  const saved = columnsInHand(host.arena, spec, staged, count);
  for (const { name } of added) {
    const start = host.plugIns.columnsOf(spec).find((column) => column.name === name)?.start ?? 0;
    fillElements(saved.columns[name] as RowArray, start);
  }
  load(saved);
}

/** Which of these keys are this server's. */
function ownRows(halves: Uint32Array, ownership: Ownership): Uint32Array {
  const own = new Uint32Array(halves.length / 2);
  let count = 0;
  for (let i = 0; i < own.length; i++) if (ownership.ownsKey(halves[2 * i]!, halves[2 * i + 1]!)) own[count++] = i;
  return own.subarray(0, count);
}

function otherBlocks({ path }: SnapshotSource, { file, key, rowCount }: Chunk): WeighbridgeError {
  const what = `rows ${key.from} to ${key.from + rowCount - 1} of ${JSON.stringify(key.parameter)} as one chunk`;
  return new WeighbridgeError("CHECKPOINT_FOREIGN", `${path}/${file} has ${what}, which are no block here`);
}
