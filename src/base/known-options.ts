// known-options — refuses options that do not exist: a misspelt one would silently get its default. Allocates nothing
// if all are known: calls of the data plane are checked too.

import { checkWait, type WaitOptions } from "./deferred.ts";
import { badArgument, showValue, type WeighbridgeError } from "./errors.ts";
import { nearestName } from "./nearest-name.ts";

/** Options with their defaults: each field is there. */
export type Complete<T> = { readonly [K in keyof T]-?: Exclude<T[K], undefined> };

/** What an option, or a variable of the environment, was called before, and is called now. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ["deadlineMs", "timeoutMs"],
  ["rowType", "dtype"],
  ["element", "dtype"],
  ["elements", "dtypes"],
  ["log", "logger"],
  ["width", "dim"],
  ["port", "listenPort"],
  ["WEIGHBRIDGE_PORT", "WEIGHBRIDGE_LISTEN_PORT"],
]);

/** The new name of something that is known by it. */
export function renamedTo(name: string, known: readonly string[]): string | undefined {
  const renamed = RENAMED.get(name);
  return renamed !== undefined && known.includes(renamed) ? renamed : undefined;
}

/** Options that are gone, and what takes their place. */
const REPLACED: ReadonlyMap<string, string> = new Map([
  ["onCut", "onCut is now a promise: const { cut, saved } = session.checkpoint(); await cut"],
]);

/** Throws BAD_ARGUMENT unless `options` is an object with known names only. `what` is "the options of tensor w". */
export function checkOptions(options: unknown, known: readonly string[], what: string): void {
  if (typeof options !== "object" || options === null)
    throw badArgument(`${what} are an object with ${known.join(", ")}, not ${showValue(options)}`);
  if (options instanceof AbortSignal) throw badArgument(`${what} are an object: write { signal } in place of the signal`);
  for (const name in options) if (!known.includes(name)) throw unknownOptions(options, known, what);
}

/**
 * BAD_ARGUMENT for an argument behind the options of a call, which are its last: what once was there is not left out
 * without a word. Such a call declares the argument in its implementation alone.
 */
export function moreThanOptions(more: unknown, what: string): WeighbridgeError {
  return badArgument(`${what}: the options of a call must be one object, its last argument; got ${showValue(more)} behind it`);
}

export const WAIT_NAMES: readonly string[] = ["timeoutMs", "signal"];

/** Checks a wait, and what else `known` names, before anything is sent. Throws BAD_ARGUMENT. */
export function checkWaitOptions(options: WaitOptions, known: readonly string[] = WAIT_NAMES, what = "the options of a wait"): void {
  checkOptions(options, known, what);
  checkWait(options);
}

function unknownOptions(options: object, known: readonly string[], what: string): WeighbridgeError {
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  const renamed = unknown.flatMap((name) =>
    known.includes(RENAMED.get(name) ?? "") ? [`${name} is now called ${RENAMED.get(name)}`] : [],
  );
  const replaced = unknown.flatMap((name) => REPLACED.get(name) ?? []);
  if (renamed.length + replaced.length > 0) return badArgument(`${what}: ${[...renamed, ...replaced].join("; ")}`);
  const nearest = [...new Set(unknown.map((name) => nearestName(name, known)))].join(" and ");
  return badArgument(
    `${what} have no ${unknown.map((name) => JSON.stringify(name)).join(", ")}; there are ${known.join(", ")}; did you mean ${nearest}?`,
  );
}
