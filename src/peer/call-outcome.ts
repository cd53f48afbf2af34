// call-outcome — what became of a call that failed: whether it was applied on the node that was asked. Several of them
// together are worker/part-outcome.ts.

import type { UpdateOutcome, WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { isMissingThere } from "../wire/failure.ts";

type SentFrame = { readonly sendCount: number };
export type UpdateFunction = Pick<Contract, "effect" | "target" | "name">;

/** Whether it is about parts of a parameter, or a block: a refusal of ours has changed nothing. */
export function isOfParts({ target }: UpdateFunction): boolean {
  return target === "part" || target === "block";
}

/** Whether failures of this function say what became of an update: those about parameters, and users' own. */
export function tellsOutcome(fn: UpdateFunction): boolean {
  return fn.effect === "update" && (isOfParts(fn) || !fn.name.startsWith("wb/"));
}

/** What became of a piece that was sent in these frames and failed with this. */
export function outcomeOf(error: WeighbridgeError, frames: readonly SentFrame[]): UpdateOutcome {
  if (error.outcome !== undefined) return error.outcome;
  return frames.some(({ sendCount }) => sendCount === 0) ? "not-applied" : "unknown";
}

/** The same of a call of `fn`: a user's function that throws may have done something before. */
export function outcomeOfCall(fn: UpdateFunction, error: WeighbridgeError, frames: readonly SentFrame[]): UpdateOutcome {
  const outcome = outcomeOf(error, frames);
  const hasRun = !isOfParts(fn) && frames.every(({ sendCount }) => sendCount > 0) && ![error, error.cause].some(isMissingThere);
  return outcome === "not-applied" && hasRun ? "unknown" : outcome;
}
