// missing-function — the failure of a call whose function a node does not have. The node was given the hash of a name alone: it says which functions it has, and the
// caller, who knows the name, finds the nearest of them. Text and reader stand together here.

import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";

/** At the node that was called. */
export function missingFunction(names: readonly string[]): WeighbridgeError {
  const others =
    names.length === 0
      ? "it has none of its own: is --functions set? (a worker serves more with session.serve)"
      : `it has ${names.join(", ")}`;
  return new WeighbridgeError("UNKNOWN_FUNCTION", `this node has no function with the name that was called; ${others}`);
}

/** At the caller: whether it is the node itself that does not have the function, and not one that its handler called. */
export function isMissingThere(error: unknown): boolean {
  return isWeighbridgeError(error, "UNKNOWN_FUNCTION") && /^(\w+ \d+: )?(this node has|there is) no function/.test(error.message);
}

/** At the caller: "; did you mean scale?", or nothing where the message names none. */
export function nearestFunction(called: string, message: string): string {
  const [, names = ""] = /; it has ([\w./-]+(?:, [\w./-]+)*)$/.exec(message) ?? [];
  return names === "" ? "" : didYouMean(called, names.split(", "));
}
