// consistency-shape — a consistency read from JSON, as servers find it in requests and checkpoints. How it is written:
// consistency-json.ts.

import { WeighbridgeError } from "../base/errors.ts";
import type { ConsistencyHistory, ConsistencyMode } from "../consistency/consistency-phases.ts";
import { type Check, count, list, object, oneOf } from "../wire/json-body.ts";
import type { JsonObject } from "../wire/json-value.ts";
import { ANY_STALENESS, encodeMode } from "./consistency-json.ts";

/** Throws BAD_REQUEST. */
export const stalenessShape: Check<number> = (value, path) => (value === ANY_STALENESS ? Infinity : count(value, path));

const modeFields = { updates: oneOf("async", "sync"), reduce: oneOf("sum", "mean"), staleness: stalenessShape };
const modeShape: Check<ConsistencyMode> = object(modeFields);

/** Throws BAD_REQUEST. */
export const historyShape: Check<ConsistencyHistory> = object({
  phases: list(object({ ...modeFields, from: count })),
  turn: count,
  turnWorker: count,
});

/** As `historyShape` reads it. */
export function encodeHistory({ phases, turn, turnWorker }: ConsistencyHistory): JsonObject {
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
