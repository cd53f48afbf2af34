// table-failures — what failed requests of a process table mean, and how its users learn of them.

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { mayBeApplied } from "../../peer/call.ts";

/** Whether a server says that this worker is no member of its clock set: it joins again by itself. */
export function isOutside(error: unknown): boolean {
  return isWeighbridgeError(error, "NOT_JOINED") || isWeighbridgeError(error, "STALE_UPDATE");
}

/**
 * Whether updates that failed with this were not applied, and may be when they are sent again: a server does not count
 * this worker as a member, or could not be reached before they had left.
 */
export function isUnsent(error: WeighbridgeError): boolean {
  return isOutside(error) || (error.code === "NODE_DEAD" && error.retryable && !mayBeApplied(error));
}

/** Says what has failed, with the code of the reason. */
export function errorOf(what: string, reason: unknown): WeighbridgeError {
  const [code, retryable] = isWeighbridgeError(reason) ? [reason.code, reason.retryable] : (["HANDLER_FAILED", false] as const);
  return new WeighbridgeError(code, `${what}: ${reasonOf(reason)}`, { cause: reason, retryable });
}
