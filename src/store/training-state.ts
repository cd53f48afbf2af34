// training-state — what training has changed of a parameter beside its rows, as a checkpoint keeps it: its optimizer's
// settings and the count of its pushes. And a consistency read from JSON, as servers find it in requests and
// checkpoints; parameter-spec.ts writes it.

import { badRequest, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { ConsistencyHistory, ConsistencyMode } from "../consistency/consistency-phases.ts";
import { type Check, count, list, object, oneOf, optional } from "../wire/json-body.ts";
import type { JsonObject } from "../wire/json-value.ts";
import { ANY_STALENESS, encodeMode, encodeStaleness } from "./parameter-spec.ts";
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

const stalenessShape: Check<number> = (value, path) => (value === ANY_STALENESS ? Infinity : count(value, path));

const modeFields = { updates: oneOf("async", "sync"), reduce: oneOf("sum", "mean"), staleness: stalenessShape };
const modeShape: Check<ConsistencyMode> = object(modeFields);

const historyShape: Check<ConsistencyHistory> = object({
  phases: list(object({ ...modeFields, from: count })),
  turn: count,
  turnWorker: count,
});

/** Throws BAD_REQUEST. */
export const trainingShape: Check<TrainingState> = object({
  learningRate: ((value, path) => {
    if (typeof value === "number") return value;
    throw badRequest(`${path} must be a number`);
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

/** As `historyShape` reads it. */
function encodeHistory({ phases, turn, turnWorker }: ConsistencyHistory): JsonObject {
  return { phases: phases.map((phase) => ({ from: phase.from, ...encodeMode(phase) })), turn, turnWorker };
}

/** Throws BAD_REQUEST. */
export function decodeMode(json: string): ConsistencyMode {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new WeighbridgeError("BAD_REQUEST", "the consistency of a parameter is no JSON", { cause });
  }
  return modeShape(value, "consistency");
}
