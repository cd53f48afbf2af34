// bad-field — how a field of a spec is refused: for its value, or because there is no such field.

import { badArgument, showValue, type WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";

/** `path` names the field and begins with the option, as in "optimizer.schedule.steps". */
export function badField(path: string, expected: string, actual: unknown): WeighbridgeError {
  return badArgument(`${path}: expected ${expected}, not ${showValue(actual)}`);
}

/** The same for a name that is none of `choices`; suggests the nearest. */
export function badChoice(path: string, choices: readonly string[], actual: unknown): WeighbridgeError {
  const { message } = badField(path, `one of ${choices.join(", ")}`, actual);
  return badArgument(`${message}${didYouMean(actual, choices)}`);
}

/**
 * Throws BAD_ARGUMENT for the first field that is not in `known`; suggests the nearest. `owner` has these fields: a
 * type of optimizer.
 */
export function checkFields(path: string, fields: object, known: readonly string[], owner: string): void {
  for (const name of Object.keys(fields)) {
    if (known.includes(name)) continue;
    throw badArgument(`${path}.${name}: there is no such field; ${owner} has ${known.join(", ")}${didYouMean(name, known)}`);
  }
}
