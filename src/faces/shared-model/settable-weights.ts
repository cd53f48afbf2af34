// settable-weights — which weights `setWeight` may replace.

import { WeighbridgeError } from "../../base/errors.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { KeyPlan } from "../../worker/level-one/model-backend.ts";

/** Throws UNSUPPORTED for an updater that would not go on from them; servers refuse the same. */
export function checkSettable({ key }: KeyPlan, { type }: ResolvedOptimizer): void {
  if (type === "ftrl")
    throw new WeighbridgeError("UNSUPPORTED", `the weights of key ${key} cannot be set: ftrl computes them of what it has summed up`);
}
