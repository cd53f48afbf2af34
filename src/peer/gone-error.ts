// gone-error — what calls to a node fail with when the roster says that it is not there any more.

import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";

/** NODE_DEAD: who is dead may be restarted, so the call may be repeated then; who has left does not come back. */
export function goneError(node: number, state: "dead" | "left"): WeighbridgeError {
  return new WeighbridgeError("NODE_DEAD", `${nameOf(node)} ${state === "dead" ? "is dead" : "has left"}`, { retryable: state === "dead" });
}
