// gone-error — what calls to a node fail with when the roster says that it is not there any more, and which of them may have been applied all the same.

import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";

/** NODE_DEAD: who is dead may be restarted, so the call may be repeated then; who has left does not come back. */
export function goneError(node: number, state: "dead" | "left"): WeighbridgeError {
  return new WeighbridgeError("NODE_DEAD", `${nameOf(node)} ${state === "dead" ? "is dead" : "has left"}`, { retryable: state === "dead" });
}

/** Whether this is of an update that a node which lives may have applied: it must not be sent again (channel.ts, N6). */
export function mayBeApplied({ code, retryable }: WeighbridgeError): boolean {
  return code === "LINK_LOST" && !retryable;
}
