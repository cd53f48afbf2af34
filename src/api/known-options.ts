// known-options — refuses options that do not exist: a misspelt one would otherwise be taken for its default, silently.

import { checkWait, type WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nearestName } from "../base/nearest-name.ts";

/** Throws BAD_ARGUMENT for what is no object, and for a name that is none of `known`, with the nearest that is. `what` is "the options of tensor w". */
export function checkOptions(options: unknown, known: readonly string[], what: string): void {
  if (typeof options !== "object" || options === null) {
    throw new WeighbridgeError("BAD_ARGUMENT", `${what} are an object with ${known.join(", ")}, not ${String(options)}`);
  }
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  const nearest = [...new Set(unknown.map((name) => nearestName(name, known)))].join(" and ");
  throw new WeighbridgeError(
    "BAD_ARGUMENT",
    `${what} have no ${unknown.map((name) => JSON.stringify(name)).join(", ")}; there are ${known.join(", ")}; did you mean ${nearest}?`,
  );
}

const WAIT_NAMES: readonly string[] = ["deadlineMs", "signal"];
const CALL_NAMES: readonly string[] = ["priority", "scope", "into", "passing", ...WAIT_NAMES];

/** How a caller waits, before anything is sent. Throws BAD_ARGUMENT, as `checkOptions` and `checkWait` do. */
export function checkWaitOptions(wait: WaitOptions): void {
  checkOptions(wait, WAIT_NAMES, "the options of a wait");
  checkWait(wait);
}

/** How a function is called, and how its caller waits; as above. */
export function checkCallOptions(options: WaitOptions): void {
  checkOptions(options, CALL_NAMES, "the options of a call");
  checkWait(options);
}
