// describe-parameter — a parameter's spec as a checkpoint records it, and back: the columns of its rows, and the whole
// spec word for word. Columns have the order in which they lie in a row: values, slots, words, version.

import { WeighbridgeError } from "../../base/errors.ts";
import { ROW_ELEMENTS } from "../../kernel/row-element.ts";
import { type Check, count, list, object, oneOf, optional, text } from "../../wire/json-body.ts";
import type { Described, JsonObject } from "../../wire/json-value.ts";
import { decodeParameterSpec, type ParameterSpec } from "../parameter-spec.ts";
import { elementOf, rowElements } from "../row-types/row-type-spec.ts";
import { TensorShape } from "../tensor-shape.ts";
import { CONSTANT_SCHEDULE } from "../updaters/learning-rate-schedule.ts";
import { PULLED_SLOT, slotLayoutOf } from "../updaters/slot-layout.ts";
import { type ColumnRecord, KEYS, type ParameterRecord, VALUES_COLUMN } from "./parameter-record.ts";

/** Updates that all rows of a block of a tensor have had. */
export const STEP_COLUMN = "step";
/** Updates that a row has had, as its optimizer counts them; of a tensor those beside its block's. */
export const ROW_STEPS_COLUMN = "rowSteps";
/** Updates that a row of a table has had, as caches count them. */
const VERSION_COLUMN = "version";

/** Columns of earlier checkpoints, followed by a worker's rank: what that worker had pulled last, or its last push. */
const OF_WORKERS: readonly string[] = [PULLED_SLOT, "backup"];

/** Whether checkpoints have this column. What workers have pulled they lack: a restore starts it with the values. */
export function isSaved(column: string): boolean {
  return column !== PULLED_SLOT;
}

/** Whether it is a column of DC-ASGD that earlier checkpoints have for each worker: those are not read. */
export function isOfWorker(column: string): boolean {
  return OF_WORKERS.some((name) => column.startsWith(name));
}

/** A column of an updater that is plain TypeScript: so many elements of the row's type. */
type OwnColumn = { readonly name: string; readonly elements: number };

/** A record without rows and state. `own`: the columns of an updater that is no kernel; `plugIns`: those of users. */
export function describeParameter(
  spec: ParameterSpec,
  own: readonly OwnColumn[] = [],
  plugIns: readonly SavedPlugIn[] = [],
): ParameterRecord {
  const { name, kind, optimizer, initializer, updates, reduce, staleness } = spec;
  const shape = spec.kind === "tensor" ? new TensorShape(spec.shape) : undefined;
  const width = recordedWidth(spec);
  const columns = storedColumns(spec, own).filter((column) => isSaved(column.name));
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
    settings: {
      spec: plain(spec),
      ...(plugIns.length === 0
        ? {}
        : { plugIns: plugIns.map(({ kind: of, name: called, version }) => ({ kind: of, name: called, version })) }),
    },
    state: {},
  };
}

/** A plug-in as a record names it. */
export type SavedPlugIn = { readonly kind: "updater" | "rowType"; readonly name: string; readonly version: number };

const savedPlugIns: Check<readonly SavedPlugIn[] | undefined> = optional(
  list(object({ kind: oneOf("updater", "rowType"), name: text, version: count })),
);

/** The users' plug-ins that a saved parameter was made with. Throws CHECKPOINT_FOREIGN, naming the checkpoint. */
export function plugInsOf({ name, settings }: ParameterRecord, checkpoint: string): readonly SavedPlugIn[] {
  try {
    return savedPlugIns(settings.plugIns, "plugIns") ?? [];
  } catch (cause) {
    throw new WeighbridgeError(
      "CHECKPOINT_FOREIGN",
      `${checkpoint} has plug-ins of ${JSON.stringify(name)} that make no sense: ${(cause as Error).message}`,
      { cause },
    );
  }
}

/** Values per row. */
function recordedWidth(spec: ParameterSpec): number {
  if (spec.kind === "table") return rowElements(spec);
  const shape = new TensorShape(spec.shape);
  return shape.hasRows ? shape.width : 1;
}

/** The columns of a row as it lies in the store, also those that are not saved. `own` as of `describeParameter`. */
export function storedColumns(spec: ParameterSpec, own: readonly OwnColumn[] = []): readonly ColumnRecord[] {
  const { kind, optimizer } = spec;
  const shape = spec.kind === "tensor" ? new TensorShape(spec.shape) : undefined;
  const width = recordedWidth(spec);
  const { dtype } = ROW_ELEMENTS[spec.kind === "table" ? elementOf(spec) : "f32"];
  const ownColumns = own.map((column): ColumnRecord => ({ name: column.name, dtype, width: column.elements, per: "row" }));
  if (spec.kind === "table" && spec.rowType !== undefined) return [KEYS, { name: VALUES_COLUMN, dtype, width, per: "row" }, ...ownColumns];
  const layout = slotLayoutOf(optimizer, { kind, width });
  const floats = (column: string, count: number): ColumnRecord => ({ name: column, dtype: "F32", width: count, per: "row" });
  const word = (column: string, per: "row" | "chunk"): ColumnRecord => ({ name: column, dtype: "U32", width: 1, per });
  const slots = layout.slots.map((slot) => floats(slot.name, layout.slotFloats));
  const columns: ColumnRecord[] = [floats(VALUES_COLUMN, width), ...slots, ...ownColumns];
  if (spec.kind === "tensor") {
    columns.push({ ...word(STEP_COLUMN, "chunk"), dtype: "U64" });
    if (shape?.hasRows === true && (optimizer.type === "adam" || optimizer.type === "adamW")) columns.push(word(ROW_STEPS_COLUMN, "row"));
  } else {
    columns.unshift(KEYS);
    if (layout.wordsPerRow > 0) columns.push(word(ROW_STEPS_COLUMN, "row"));
    if (spec.versions) columns.push(word(VERSION_COLUMN, "row"));
  }
  return columns;
}

/** A slot of all rows of a tensor's block: which floats of its slots it is. */
type SlotSpan = { readonly name: string; readonly from: number; readonly to: number };

/** The slots of a block of so many rows, in their order. */
export function slotSpans(spec: ParameterSpec, own: readonly OwnColumn[], rowCount: number): readonly SlotSpan[] {
  const layout = slotLayoutOf(spec.optimizer, { kind: spec.kind, width: recordedWidth(spec) });
  const kernels = layout.slots.map(({ name }) => ({ name, elements: layout.slotFloats }));
  let to = 0;
  return [...kernels, ...own].map(({ name, elements }) => {
    const from = to;
    to += elements * rowCount;
    return { name, from, to };
  });
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
