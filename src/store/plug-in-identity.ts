// plug-in-identity — what a row type and an updater share: a name, a version, and their promises. Ours have one, too.
//
// Invariants:
//   PlugIn.P1. A `deterministic` plug-in gives equal results for equal rows, updates and settings wherever it runs: a
//       replica that repeats a server's requests has the same bits. Others cannot be replicated.
//   PlugIn.P2. A name and a version mean one behaviour and one layout. If the servers of a job differ in them, or in
//       the source, creating a parameter fails (parameter-control.ts).

import { badArgument, showValue } from "../base/errors.ts";
import { renamedTo } from "../base/known-options.ts";
import { didYouMean } from "../base/nearest-name.ts";

/** By what servers know a row type or an updater of a user's own. */
export type PlugInIdentity = {
  /** Its name: unique within a server. */
  readonly name: string;
  /** Rises with every change of what it does. */
  readonly version: number;
  /** Whether equal rows and updates give equal bits on every server. */
  readonly deterministic: boolean;
};

const NAME = /^[a-zA-Z][\w.-]{0,63}$/;

/**
 * Throws BAD_ARGUMENT for a plug-in with a wrong name, version or promise, or an unknown option. `what`: "an updater".
 */
export function checkPlugIn(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null)
    throw badArgument(`${what} is described by an object with ${known.join(", ")}, not ${showValue(options)}`);
  const { name, version, deterministic } = options as Partial<PlugInIdentity>;
  if (typeof name !== "string" || !NAME.test(name))
    throw badArgument(`${what}: a name is a letter and up to 63 letters, digits, "_", "." or "-", not ${showValue(name)}`);
  const renamed = Object.keys(options).find((option) => renamedTo(option, known) !== undefined);
  if (renamed !== undefined) throw badArgument(`${name}: ${renamed} is now called ${renamedTo(renamed, known)}`);
  const unknown = Object.keys(options).find((option) => !known.includes(option));
  if (unknown !== undefined)
    throw badArgument(`${name}: ${what} has no ${JSON.stringify(unknown)}; there are ${known.join(", ")}${didYouMean(unknown, known)}`);
  if (!(typeof version === "number" && Number.isSafeInteger(version) && version >= 1))
    throw badArgument(`${name}: a version is a whole number from 1 up, not ${showValue(version)}`);
  if (typeof deterministic !== "boolean") throw badArgument(`${name}: deterministic is true or false, not ${showValue(deterministic)}`);
}

/** Throws BAD_ARGUMENT if a member is not a function, is async, or is `required` and missing. */
export function checkMembers(name: string, options: object, members: readonly string[], required: readonly string[]): void {
  const actual = options as Readonly<Record<string, unknown>>;
  for (const member of members) {
    const isMissing = actual[member] === undefined;
    const kind = Object.prototype.toString.call(actual[member]).slice("[object ".length, -1);
    if (/.Function$/.test(kind)) throw badArgument(`${name}: ${member} is done when it returns, and cannot be of the kind ${kind}`);
    if (isMissing ? !required.includes(member) : typeof actual[member] === "function") continue;
    throw badArgument(`${name}: ${member} is a function, not ${showValue(actual[member])}`);
  }
}
