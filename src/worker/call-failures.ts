// call-failures — names functions and parameters in waits and failures. The wire carries numbers, so a server cannot
// name a function or parameter that it does not have: the caller adds the names.

import { restated, type WeighbridgeError } from "../base/errors.ts";
import { isMissingThere, nearestFunction } from "../wire/failure.ts";

/** The parameter of a call. */
export type NamedParameter = {
  readonly name: string;
  /** What a session makes it with. */
  readonly maker: "tensor" | "embedding";
};

type CalledFunction = { readonly name: string };

/** What is called, in words; completes "waiting for …". */
export function callText({ name }: CalledFunction, subject: NamedParameter | undefined): string {
  return subject === undefined ? name : `the ${name.slice(name.lastIndexOf("/") + 1)} of ${JSON.stringify(subject.name)}`;
}

/** The same failure; with the name before it, where the server could not know it. */
export function namedFailure(error: WeighbridgeError, fn: CalledFunction, subject: NamedParameter | undefined): WeighbridgeError {
  const { code, message } = error;
  const again = (text: string): WeighbridgeError => restated(error, text);
  if (code === "BUFFER_DETACHED") return again(`${callText(fn, subject)}: ${message}`);
  if (isMissingThere(error)) return again(`no function ${JSON.stringify(fn.name)}: ${message}${nearestFunction(fn.name, message)}`);
  if (code !== "UNKNOWN_PARAMETER" || subject === undefined) return error;
  const named = `no parameter ${JSON.stringify(subject.name)}`;
  return again(`${message.includes(named) ? message : `${named}: ${message}`}; make it again with ${subject.maker}()`);
}
