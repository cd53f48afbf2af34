// consistency-json — a consistency as JSON, in requests and checkpoints, with an unbounded staleness as "any"; and
// which parameters may have which.

import { WeighbridgeError } from "../base/errors.ts";
import type { ConsistencyHistory, ConsistencyMode } from "../consistency/consistency-phases.ts";
import { type Check, count, list, object, oneOf } from "../wire/json-body.ts";
import type { JsonObject } from "../wire/json-value.ts";
import { checkCombination, type ParameterSpec } from "./parameter-spec.ts";
import { checkRowType } from "./row-types/row-type-spec.ts";

const ANY = "any";

/** Throws BAD_REQUEST. */
export const stalenessShape: Check<number> = (value, path) => (value === ANY ? Infinity : count(value, path));

const modeFields = { updates: oneOf("async", "sync"), reduce: oneOf("sum", "mean"), staleness: stalenessShape };
const modeShape: Check<ConsistencyMode> = object(modeFields);

/** Throws BAD_REQUEST. */
export const historyShape: Check<ConsistencyHistory> = object({
  phases: list(object({ ...modeFields, from: count })),
  turn: count,
  turnWorker: count,
});

export function encodeStaleness(staleness: number): number | string {
  return staleness === Infinity ? ANY : staleness;
}

export function encodeMode({ updates, reduce, staleness }: ConsistencyMode): JsonObject {
  return { updates, reduce, staleness: encodeStaleness(staleness) };
}

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

/**
 * A table that counts versions stays "asp": caches of its rows, which may hold updates, do not learn of a change.
 * Throws UNSUPPORTED for that, and BAD_ARGUMENT for a mode that the optimizer excludes.
 */
export function checkChange(spec: ParameterSpec, { updates, reduce, staleness }: ConsistencyMode): void {
  checkCombination({ ...spec, reduce });
  if (spec.kind === "table") checkRowType({ ...spec, reduce });
  if (spec.kind !== "table" || !spec.versions || (updates === "async" && staleness === Infinity)) return;
  const text = `${spec.name} counts versions of its rows for caches, which bound staleness by versions, not clocks: its consistency stays "asp"`;
  throw new WeighbridgeError("UNSUPPORTED", text);
}
