// training-state — what training has changed of a parameter beside its rows, as a checkpoint keeps it: its optimizer's
// settings and the count of its pushes.

import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { ConsistencyHistory } from "../consistency/consistency-phases.ts";
import { type Check, count, object, optional } from "../wire/json-body.ts";
import type { JsonObject } from "../wire/json-value.ts";
import { encodeStaleness } from "./consistency-json.ts";
import { encodeHistory, historyShape, stalenessShape } from "./consistency-shape.ts";
import { type ResolvedSchedule, resolveSchedule } from "./updaters/learning-rate-schedule.ts";

export type TrainingState = {
  /** 0 for optimizers without one. */
  readonly learningRate: number;
  readonly schedule: ResolvedSchedule;
  readonly staleness: number;
  /** Default: as the parameter was created, but for the bound. */
  readonly consistency?: ConsistencyHistory | undefined;
  /** Of a table: pushes that were applied on this server. Blocks of tensors count their own. */
  readonly step: number;
};

/** Throws BAD_REQUEST. */
export const trainingShape: Check<TrainingState> = object({
  learningRate: ((value, path) => {
    if (typeof value === "number") return value;
    throw new WeighbridgeError("BAD_REQUEST", `${path} must be a number`);
  }) as Check<number>,
  schedule: (value, path) => resolveSchedule(value, path),
  staleness: stalenessShape,
  consistency: optional(historyShape),
  step: count,
});

export function encodeTraining({ learningRate, schedule, staleness, consistency, step }: TrainingState): JsonObject {
  const changed: JsonObject = consistency === undefined ? {} : { consistency: encodeHistory(consistency) };
  return { learningRate, schedule: { ...schedule } as JsonObject, staleness: encodeStaleness(staleness), ...changed, step };
}

/** Throws CHECKPOINT_FOREIGN, naming the checkpoint. */
export function decodeTraining(value: unknown, name: string, checkpoint: string): TrainingState {
  try {
    return trainingShape(value, `the state of ${name}`);
  } catch (cause) {
    throw new WeighbridgeError("CHECKPOINT_FOREIGN", `${checkpoint} makes no sense: ${reasonOf(cause)}`, { cause });
  }
}
