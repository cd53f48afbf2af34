// not-finite — what becomes of a pushed gradient with elements that are not finite, as its optimizer says. The same at a server, which is asked to apply it, and in a
// worker's cache, which keeps it until then.

import { WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import type { OptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import type { ResolvedOptimizer } from "./optimizer-spec.ts";
import type { NonFiniteCounts } from "./updater.ts";

const FLOAT_BYTES = 4;

/** Who looks: what it looks with, what its optimizer says, and what it has counted. */
export type NonFiniteLook = {
  readonly arena: Arena;
  readonly kernels: OptimizerKernels;
  readonly policy: ResolvedOptimizer["nonFinite"];
  readonly counts: NonFiniteCounts;
};

/**
 * Of a gradient at this address that is not finite: throws NOT_FINITE for "refuse", gives undefined for "skip"; for "zero" changes NaN and infinities to 0, and
 * returns the greatest magnitude that is left.
 */
export function admitNotFinite(look: NonFiniteLook, gradients: number, floatCount: number): number | undefined {
  const { arena, kernels, policy, counts } = look;
  if (policy === "zero") {
    counts.zeroedElements += kernels.zeroNonFinite(gradients, floatCount);
    return kernels.greatestMagnitude(gradients, floatCount);
  }
  if (policy === "skip") {
    counts.skippedPushes++;
    return undefined;
  }
  const index = kernels.checkFinite(gradients, floatCount);
  counts.refusedPushes++;
  const value = arena.floats[gradients / FLOAT_BYTES + index]!;
  throw new WeighbridgeError("NOT_FINITE", `element ${index} of ${floatCount} pushed is ${value}: expected finite numbers`);
}
