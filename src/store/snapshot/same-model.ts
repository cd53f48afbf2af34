// same-model — whether a checkpoint fits the model that is to be restored from it. Names, shapes and columns decide.
// The training from here on (learning rate, schedule, consistency) may differ.

import { WeighbridgeError } from "../../base/errors.ts";
import { isOfWorker, ROW_STEPS_COLUMN, STEP_COLUMN } from "./describe-parameter.ts";
import type { ParameterRecord } from "./parameter-record.ts";

/** A sentence for each way in which the saved parameters are not the wanted ones. */
function modelDifferences(saved: readonly ParameterRecord[], wanted: readonly ParameterRecord[], loaded: ReadonlySet<string>): string[] {
  const found = new Map(saved.map((parameter) => [parameter.name, parameter]));
  const wantedNames = new Set(wanted.map(({ name }) => name));
  return [
    ...wanted.flatMap((parameter) => differences(found.get(parameter.name), parameter, loaded.has(parameter.name))),
    ...saved
      .filter(({ name }) => !wantedNames.has(name))
      .map(({ name }) => `${JSON.stringify(name)} is in the checkpoint, but not in the model`),
  ];
}

/**
 * Throws CHECKPOINT_FOREIGN, with every difference. `checkpoint` is its path. Columns of parameters in `loaded` may
 * differ: a plug-in converts them.
 */
export function requireSameModel(
  checkpoint: string,
  saved: readonly ParameterRecord[],
  wanted: readonly ParameterRecord[],
  loaded: ReadonlySet<string> = new Set(),
): void {
  const all = modelDifferences(saved, wanted, loaded);
  if (all.length > 0) throw new WeighbridgeError("CHECKPOINT_FOREIGN", `${checkpoint} is of another model: ${all.join("; ")}`);
}

function differences(saved: ParameterRecord | undefined, wanted: ParameterRecord, isLoaded: boolean): string[] {
  const name = JSON.stringify(wanted.name);
  if (saved === undefined) return [`${name} is in the model, but not in the checkpoint`];
  const found: string[] = [];
  const compare = (what: string, was: string, is: string): void => {
    if (was !== is) found.push(`${name} has ${what} ${was} in the checkpoint, ${is} in the model`);
  };
  compare("kind", saved.kind, wanted.kind);
  if (saved.kind === "tensor" && wanted.kind === "tensor") compare("shape", `[${saved.shape.join(", ")}]`, `[${wanted.shape.join(", ")}]`);
  compare("width", String(saved.width), String(wanted.width));
  compare("optimizer", saved.optimizer.kind, wanted.optimizer.kind);
  if (!isLoaded) compare("columns", columnsText(saved), columnsText(wanted));
  return found;
}

/**
 * Without the columns of DC-ASGD for each worker, which earlier checkpoints have and nobody reads, and without the
 * steps of a tensor, which are read in every form ever written.
 */
function columnsText({ kind, optimizer, columns }: ParameterRecord): string {
  const isCounted = (name: string): boolean => kind === "tensor" && (name === STEP_COLUMN || name === ROW_STEPS_COLUMN);
  return columns
    .filter(({ name }) => !(optimizer.kind === "dcAsgd" && isOfWorker(name)) && !isCounted(name))
    .map(({ name, dtype, width, per }) => `${name} (${dtype} × ${width} per ${per})`)
    .sort()
    .join(", ");
}
