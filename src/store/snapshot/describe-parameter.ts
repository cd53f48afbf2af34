// describe-parameter — a parameter's spec as a checkpoint records it, and back: which columns its rows have, and the whole spec word for word.
// Columns stand in the order in which they lie in a row: values, slots, words, version.

import { WeighbridgeError } from "../../base/errors.ts";
import type { Described, JsonObject } from "../../wire/json-value.ts";
import { decodeParameterSpec, type ParameterSpec } from "../parameter-spec.ts";
import { TensorShape } from "../tensor-shape.ts";
import { CONSTANT_SCHEDULE } from "../updaters/learning-rate-schedule.ts";
import type { ResolvedOptimizer } from "../updaters/optimizer-spec.ts";
import { slotLayoutOf } from "../updaters/slot-layout.ts";
import { type ColumnRecord, KEYS_COLUMN, type ParameterRecord, VALUES_COLUMN } from "./parameter-record.ts";

/** Updates that all rows of a block of a tensor have had. */
export const STEP_COLUMN = "step";
/** Updates that a row has had, as its optimizer counts them; of a tensor those beside its block's. */
export const ROW_STEPS_COLUMN = "rowSteps";
/** Updates that a row of a table has had, as caches count them. */
const VERSION_COLUMN = "version";

/** DC-ASGD: what a worker that has not pulled counts as having seen. Not saved: after a restore that is what was restored. */
const PULLED = "pulled";
/** What stood in checkpoints before, with a worker's rank behind it: what that worker had pulled last, or earlier its last push. */
const OF_WORKERS: readonly string[] = [PULLED, "backup"];
const SLOT_NAMES: Readonly<Record<string, readonly string[]>> = {
  momentum: ["velocity"],
  nesterov: ["velocity"],
  adagrad: ["squares"],
  rowWiseAdagrad: ["squares"],
  adam: ["moment1", "moment2"],
  adamW: ["moment1", "moment2"],
  lazyAdam: ["moment1", "moment2"],
  rmsprop: ["meanSquare", "velocity"],
  ftrl: ["z", "n"],
  dcAsgd: ["meanSquare", PULLED],
};

/** The names of an optimizer's slots, in their order; `isSaved` says which of them checkpoints have. */
export function slotColumns({ type }: ResolvedOptimizer, slotCount: number): readonly string[] {
  return (SLOT_NAMES[type] ?? []).slice(0, slotCount);
}

/** Whether checkpoints have this column. */
export function isSaved(column: string): boolean {
  return column !== PULLED;
}

/** Whether it is a column of DC-ASGD that earlier checkpoints have for each worker: those are not read. */
export function isOfWorker(column: string): boolean {
  return OF_WORKERS.some((name) => column.startsWith(name));
}

/** A record without rows and state, which are the caller's to know. */
export function describeParameter(spec: ParameterSpec): ParameterRecord {
  const { name, kind, optimizer, initializer, updates, reduce, staleness } = spec;
  const shape = spec.kind === "tensor" ? new TensorShape(spec.shape) : undefined;
  const width = spec.kind === "table" ? spec.width : shape?.hasRows === true ? shape.width : 1;
  const columns = storedColumns(spec).filter((column) => isSaved(column.name));
  return {
    name,
    kind,
    shape: spec.kind === "tensor" ? spec.shape : [],
    rowCount: shape === undefined ? 0 : shape.floatCount / width,
    width,
    columns,
    optimizer: described(optimizer),
    initializer: described(initializer),
    consistency: { kind: updates, reduce, staleness: staleness ?? "any" },
    schedule: described(optimizer.schedule ?? CONSTANT_SCHEDULE),
    settings: { spec: plain(spec) },
    state: {},
  };
}

/** The columns of a row as it lies in the store, those that no checkpoint has included. */
export function storedColumns(spec: ParameterSpec): readonly ColumnRecord[] {
  const { kind, optimizer } = spec;
  const shape = spec.kind === "tensor" ? new TensorShape(spec.shape) : undefined;
  const width = spec.kind === "table" ? spec.width : shape?.hasRows === true ? shape.width : 1;
  const layout = slotLayoutOf(optimizer, { kind, width });
  const floats = (column: string, count: number): ColumnRecord => ({ name: column, dtype: "F32", width: count, per: "row" });
  const word = (column: string, per: "row" | "chunk"): ColumnRecord => ({ name: column, dtype: "U32", width: 1, per });
  const slots = slotColumns(optimizer, layout.starts.length).map((slot) => floats(slot, layout.slotFloats));
  const columns: ColumnRecord[] = [floats(VALUES_COLUMN, width), ...slots];
  if (spec.kind === "tensor") {
    columns.push({ ...word(STEP_COLUMN, "chunk"), dtype: "U64" });
    if (shape?.hasRows === true && (optimizer.type === "adam" || optimizer.type === "adamW")) columns.push(word(ROW_STEPS_COLUMN, "row"));
  } else {
    columns.unshift({ name: KEYS_COLUMN, dtype: "U64", width: 1, per: "row" });
    if (layout.wordsPerRow > 0) columns.push(word(ROW_STEPS_COLUMN, "row"));
    if (spec.versions) columns.push(word(VERSION_COLUMN, "row"));
  }
  return columns;
}

/** The spec that a record was made of. Throws CHECKPOINT_FOREIGN, naming the checkpoint. */
export function specOf({ name, settings }: ParameterRecord, checkpoint: string): ParameterSpec {
  try {
    return decodeParameterSpec(JSON.stringify(settings.spec ?? null));
  } catch (cause) {
    const what = `the spec of ${JSON.stringify(name)}, which this Weighbridge cannot read`;
    throw new WeighbridgeError("CHECKPOINT_FOREIGN", `${checkpoint} has ${what}: ${(cause as Error).message}`, { cause });
  }
}

function described({ type, ...settings }: { readonly type: string }): Described {
  return { kind: type, ...plain(settings) };
}

/** As it is after a way through JSON: without fields that are left out. */
function plain(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
