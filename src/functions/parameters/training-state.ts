// training-state — what training has made of a parameter beside its rows: its optimizer's settings may change on the way, and its pushes are
// counted. As a checkpoint keeps it.

import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { JsonObject } from "../../store/snapshot/json-value.ts";
import { type ResolvedSchedule, resolveSchedule } from "../../store/updaters/learning-rate-schedule.ts";
import { type Check, count, object } from "../../wire/json-body.ts";

export type TrainingState = {
  /** 0 for optimizers without one. */
  readonly learningRate: number;
  readonly schedule: ResolvedSchedule;
  readonly staleness: number;
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
  staleness: ((value, path) => (value === "any" ? Infinity : count(value, path))) as Check<number>,
  step: count,
});

export function encodeTraining({ learningRate, schedule, staleness, step }: TrainingState): JsonObject {
  return { learningRate, schedule: { ...schedule } as JsonObject, staleness: staleness === Infinity ? "any" : staleness, step };
}

/** Throws CHECKPOINT_FOREIGN, naming the checkpoint. */
export function decodeTraining(value: unknown, name: string, checkpoint: string): TrainingState {
  try {
    return trainingShape(value, `the state of ${name}`);
  } catch (cause) {
    throw new WeighbridgeError("CHECKPOINT_FOREIGN", `${checkpoint} makes no sense: ${reasonOf(cause)}`, { cause });
  }
}
