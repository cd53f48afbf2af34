// plug-in-identity — what a row type and an updater have in common: a name, a version, and what they promise. One for
// our own and for users'.
//
// Invariants:
//   PlugIn.P1. Equal rows, updates and settings give equal results wherever a plug-in that is `deterministic` runs: a
//       copy of a server that repeats its requests has the same bits. One that is not cannot be replicated.
//   PlugIn.P2. A name and a version mean one behaviour and one layout; servers of a job that differ in them, or in the
//       source, are told so when a parameter is made (parameter-control.ts).

import { WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { showValue } from "../base/show-value.ts";

export type PlugInIdentity = {
  readonly name: string;
  readonly version: number;
  readonly deterministic: boolean;
};

const NAME = /^[a-zA-Z][\w.-]{0,63}$/;

/**
 * What every plug-in says of itself, and no option that there is none of. Throws BAD_ARGUMENT. `what` is "an updater".
 */
export function checkPlugIn(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null)
    throw new WeighbridgeError("BAD_ARGUMENT", `${what} is described by an object with ${known.join(", ")}, not ${showValue(options)}`);
  const { name, version, deterministic } = options as Partial<PlugInIdentity>;
  if (typeof name !== "string" || !NAME.test(name))
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `${what}: a name is a letter and up to 63 letters, digits, "_", "." or "-", not ${showValue(name)}`,
    );
  const unknown = Object.keys(options).find((option) => !known.includes(option));
  if (unknown !== undefined)
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `${name}: ${what} has no ${JSON.stringify(unknown)}; there are ${known.join(", ")}${didYouMean(unknown, known)}`,
    );
  if (!(typeof version === "number" && Number.isSafeInteger(version) && version >= 1))
    throw new WeighbridgeError("BAD_ARGUMENT", `${name}: a version is a whole number from 1 up, not ${showValue(version)}`);
  if (typeof deterministic !== "boolean")
    throw new WeighbridgeError("BAD_ARGUMENT", `${name}: deterministic is true or false, not ${showValue(deterministic)}`);
}

/** Throws BAD_ARGUMENT for members that are no functions, or not done when they return, and `required` ones that are not there. */
export function checkMembers(name: string, options: object, members: readonly string[], required: readonly string[]): void {
  const given = options as Readonly<Record<string, unknown>>;
  for (const member of members) {
    const isMissing = given[member] === undefined;
    const kind = Object.prototype.toString.call(given[member]).slice("[object ".length, -1);
    if (/.Function$/.test(kind))
      throw new WeighbridgeError("BAD_ARGUMENT", `${name}: ${member} is done when it returns, and cannot be of the kind ${kind}`);
    if (isMissing ? !required.includes(member) : typeof given[member] === "function") continue;
    throw new WeighbridgeError("BAD_ARGUMENT", `${name}: ${member} is a function, not ${showValue(given[member])}`);
  }
}
