// bad-field — the one way in which a spec's field is refused: for its value, or because there is no such field.

import { WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { showValue } from "../base/show-value.ts";

/** Which field, what was expected, what was found. `path` begins with the name of the option, as in "optimizer.schedule.steps". */
export function badField(path: string, expected: string, actual: unknown): WeighbridgeError {
  return new WeighbridgeError("BAD_ARGUMENT", `${path}: expected ${expected}, not ${showValue(actual)}`);
}

/** The same for a name that is none of `choices`, with the nearest that is. */
export function badChoice(path: string, choices: readonly string[], actual: unknown): WeighbridgeError {
  const { message } = badField(path, `one of ${choices.join(", ")}`, actual);
  return new WeighbridgeError("BAD_ARGUMENT", `${message}${didYouMean(actual, choices)}`);
}

/** Throws BAD_ARGUMENT for the first field that is none of `known`, with the nearest that is. `owner` is what has these fields: a type of optimizer. */
export function checkFields(path: string, fields: object, known: readonly string[], owner: string): void {
  for (const name of Object.keys(fields)) {
    if (known.includes(name)) continue;
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `${path}.${name}: there is no such field; ${owner} has ${known.join(", ")}${didYouMean(name, known)}`,
    );
  }
}
