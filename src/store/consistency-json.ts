// consistency-json — a consistency as JSON, in requests and checkpoints, with an unbounded staleness as "any"; and
// which parameters may have which. How it is read: consistency-shape.ts.

import { WeighbridgeError } from "../base/errors.ts";
import type { ConsistencyMode } from "../consistency/consistency-phases.ts";
import type { JsonObject } from "../wire/json-value.ts";
import { checkCombination, type ParameterSpec } from "./parameter-spec.ts";
import { checkRowType } from "./row-types/row-type-spec.ts";

export const ANY_STALENESS = "any";

export function encodeStaleness(staleness: number): number | string {
  return staleness === Infinity ? ANY_STALENESS : staleness;
}

export function encodeMode({ updates, reduce, staleness }: ConsistencyMode): JsonObject {
  return { updates, reduce, staleness: encodeStaleness(staleness) };
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
