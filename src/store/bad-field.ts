// bad-field — how a field of a spec is refused: for its value, or because there is no such field.

import { badArgument, showValue, type WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";

/** `path` names the field and begins with the option, as in "optimizer.schedule.steps". */
export function badField(path: string, expected: string, actual: unknown): WeighbridgeError {
  return badArgument(`${path}: expected ${expected}, not ${showValue(actual)}`);
}

/** A field that is one of these names. Throws BAD_ARGUMENT for another value; suggests the nearest name. */
export function checkChoice<T extends string>(path: string, value: unknown, choices: readonly T[]): T {
  const found = choices.find((name) => name === value);
  if (found !== undefined) return found;
  const { message } = badField(path, `one of ${choices.join(", ")}`, value);
  throw badArgument(`${message}${didYouMean(value, choices)}`);
}

/** A field that is such a number. Throws BAD_ARGUMENT for another value. */
export function checkNumber(path: string, value: unknown, expected: string, accepts: (value: number) => boolean): number {
  if (typeof value === "number" && accepts(value)) return value;
  throw badField(path, expected, value);
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
