// field-checks — a configuration as a list of fields: what each may be, and what it is when it is left out. One list
// checks values and names, and fills in what was left out.

import { badArgument, showValue, type WeighbridgeError } from "./errors.ts";
import { checkOptions } from "./known-options.ts";
import { didYouMean } from "./nearest-name.ts";

/** Of one field. */
export type FieldCheck<T> = {
  /** In words, for errors. */
  readonly expected: string;
  readonly isRight: (value: unknown) => boolean;
  /** What it is when it is left out; without it the field has to be given. */
  readonly initial?: T | undefined;
  /** The words that it may be, of which a mistyped one is told the nearest. */
  readonly words?: readonly string[];
};

/** Of all fields of a checked configuration. */
export type FieldChecks<T> = { readonly [Name in keyof Required<T>]: FieldCheck<T[Name]> };

/**
 * The configuration with all its fields. Throws BAD_ARGUMENT for an unknown field and for a wrong value, with its name.
 */
export function checkFields<T extends object>(config: object, checks: FieldChecks<T>, what: string): T {
  checkOptions(config, Object.keys(checks), what);
  const entries = Object.entries<FieldCheck<unknown>>(checks).map(([name, check]) => {
    const given = (config as Readonly<Record<string, unknown>>)[name];
    if (given === undefined && "initial" in check) return [name, check.initial] as const;
    if (check.isRight(given)) return [name, given] as const;
    throw refuse({ [name]: given }, check.expected, check.words === undefined ? "" : didYouMean(given, check.words));
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as T;
}

/** The error for a field that is something else than `expected`. A field is written { name }. */
export function refuse(field: Readonly<Record<string, unknown>>, expected: string, hint = ""): WeighbridgeError {
  const [name, value] = Object.entries(field)[0] as [string, unknown];
  return badArgument(`${name} is ${expected}, not ${showValue(value)}${hint}`);
}

/** A whole number between two others. */
export function whole(least: number, most: number): FieldCheck<number> {
  const isRight = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
  return { expected: `a whole number from ${least} to ${most}`, isRight };
}

/** What another check allows, or one value more, which is what it is when it is left out. */
export function orElse<T>({ expected, isRight }: FieldCheck<T>, value: T): FieldCheck<T> {
  return { expected: `${expected}, or ${showValue(value)}`, isRight: (given) => given === value || isRight(given), initial: value };
}

/** A number above 0. */
export function positive(initial: number): FieldCheck<number> {
  return { expected: "a number above 0", isRight: (value) => typeof value === "number" && value > 0, initial };
}

/** Left out, false. */
export function flag(): FieldCheck<boolean> {
  return { expected: "true or false", isRight: (value) => typeof value === "boolean", initial: false };
}

/** A path, or left out. */
export function path(): FieldCheck<string | undefined> {
  return { expected: "a path", isRight: (value) => typeof value === "string" && value !== "", initial: undefined };
}

export function oneOf<Word extends string>(words: readonly Word[], initial: Word): FieldCheck<Word> {
  return { expected: `one of ${words.join(", ")}`, isRight: (value) => words.includes(value as Word), initial, words };
}
