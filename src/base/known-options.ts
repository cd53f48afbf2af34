// known-options — refuses options that do not exist: a misspelt one would silently get its default. Allocates nothing
// if all are known: calls of the data plane are checked too.

import { checkWait, type WaitOptions } from "./deferred.ts";
import { badArgument, showValue, type WeighbridgeError } from "./errors.ts";
import { nearestName } from "./nearest-name.ts";

/** Throws BAD_ARGUMENT unless `options` is an object with known names only. `what` is "the options of tensor w". */
export function checkOptions(options: unknown, known: readonly string[], what: string): void {
  if (typeof options !== "object" || options === null)
    throw badArgument(`${what} are an object with ${known.join(", ")}, not ${showValue(options)}`);
  for (const name in options) if (!known.includes(name)) throw unknownOptions(options, known, what);
}

export const WAIT_NAMES: readonly string[] = ["deadlineMs", "signal"];

/** Checks a wait, and what else `known` names, before anything is sent. Throws BAD_ARGUMENT. */
export function checkWaitOptions(options: WaitOptions, known: readonly string[] = WAIT_NAMES, what = "the options of a wait"): void {
  checkOptions(options, known, what);
  checkWait(options);
}

function unknownOptions(options: object, known: readonly string[], what: string): WeighbridgeError {
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  const nearest = [...new Set(unknown.map((name) => nearestName(name, known)))].join(" and ");
  return badArgument(
    `${what} have no ${unknown.map((name) => JSON.stringify(name)).join(", ")}; there are ${known.join(", ")}; did you mean ${nearest}?`,
  );
}
