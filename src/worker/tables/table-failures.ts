// table-failures — what failed requests of a process table mean, and how its users are told of them.

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";

/** Whether a server says that this worker is no member of its clock set: it joins again by itself. */
export function isOutside(error: unknown): boolean {
  return isWeighbridgeError(error, "NOT_JOINED") || isWeighbridgeError(error, "STALE_UPDATE");
}

/** Says what has failed, with the code of the reason. */
export function errorOf(what: string, reason: unknown): WeighbridgeError {
  const [code, retryable] = isWeighbridgeError(reason) ? [reason.code, reason.retryable] : (["HANDLER_FAILED", false] as const);
  return new WeighbridgeError(code, `${what}: ${reasonOf(reason)}`, { cause: reason, retryable });
}
