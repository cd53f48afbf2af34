// field-checks — checks of single fields of a configuration. A field is written { name }, so that an error can name it.

import { showValue, WeighbridgeError } from "./errors.ts";
import { didYouMean } from "./nearest-name.ts";

type Field<T> = Readonly<Record<string, T>>;

/** The error for a field that is something else than `expected`. */
export function refuse(field: Field<unknown>, expected: string, hint = ""): WeighbridgeError {
  const [name, value] = Object.entries(field)[0] as [string, unknown];
  return new WeighbridgeError("BAD_ARGUMENT", `${name} is ${expected}, not ${showValue(value)}${hint}`);
}

/** A whole number between two others. Throws BAD_ARGUMENT, as all of these. */
export function whole(field: Field<unknown>, least: number, most: number): void {
  const value = Object.values(field)[0];
  if (!(Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most))
    throw refuse(field, `a whole number from ${least} to ${most}`);
}

/** A number above 0. */
export function positive(field: Field<unknown>): void {
  const value = Object.values(field)[0];
  if (!(typeof value === "number" && value > 0)) throw refuse(field, "a number above 0");
}

/** True or false. */
export function flag(field: Field<unknown>): void {
  if (typeof Object.values(field)[0] !== "boolean") throw refuse(field, "true or false");
}

/** A path, or left out. */
export function path(field: Field<unknown>): void {
  const value = Object.values(field)[0];
  if (value !== undefined && (typeof value !== "string" || value === "")) throw refuse(field, "a path");
}

/** One of some words; a mistyped one is told the nearest. */
export function oneOf(field: Field<unknown>, known: readonly string[]): void {
  const value = Object.values(field)[0];
  if (!known.includes(value as string)) throw refuse(field, `one of ${known.join(", ")}`, didYouMean(value, known));
}
