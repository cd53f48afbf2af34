// gone-error — what calls to a node fail with when the roster says that it is not there any more, and which of them may have been applied all the same.

import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";

/** NODE_DEAD: who is dead may be restarted, so the call may be repeated then; who has left does not come back. */
export function goneError(node: number, state: "dead" | "left"): WeighbridgeError {
  return new WeighbridgeError("NODE_DEAD", `${nameOf(node)} ${state === "dead" ? "is dead" : "has left"}`, { retryable: state === "dead" });
}

/**
 * Whether this is of an update that a node which lives may have applied: it must not be sent again (channel.ts, N6). So is the NODE_DEAD of a node that could not be
 * reached while the scheduler was away: it has the LINK_LOST as its cause.
 */
export function mayBeApplied(error: WeighbridgeError): boolean {
  return [error, error.cause].some((each) => isWeighbridgeError(each, "LINK_LOST") && !each.retryable);
}

/** For the calls to a node that could not be reached: updates that had left, and all others (channel.ts, N6). */
export function lostErrors(
  code: "LINK_LOST" | "NODE_DEAD",
  reason: string,
): { readonly lost: WeighbridgeError; readonly unsent: WeighbridgeError } {
  const applied = "the update had left and may have been applied, once at most; it is not sent again";
  const mayCount = new WeighbridgeError("LINK_LOST", `${reason}: ${applied}`);
  // Nobody can say whether the node is dead: a step may be repeated, but nobody sends the update itself again (mayBeApplied).
  const lost = code === "LINK_LOST" ? mayCount : new WeighbridgeError(code, mayCount.message, { retryable: true, cause: mayCount });
  return { lost, unsent: new WeighbridgeError(code, `${reason}: nothing was applied`, { retryable: true }) };
}
