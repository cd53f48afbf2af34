// call-failures — names functions and parameters in waits and failures. The wire carries numbers, so a server cannot
// name a function or parameter that it does not have: the caller adds the names.

import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
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

/**
 * The same DEADLINE, with what the servers say that the call waits for; undefined when they say that none waits there.
 */
export function explainedDeadline(error: WeighbridgeError, waits: string | undefined): WeighbridgeError {
  if (waits === undefined) return error;
  return new WeighbridgeError(error.code, `${error.message}: it waits ${waits}`, { retryable: error.retryable, cause: error });
}

/** The same failure; with the name before it, where the server could not know it. */
export function namedFailure(error: WeighbridgeError, fn: CalledFunction, subject: NamedParameter | undefined): WeighbridgeError {
  const { code, retryable, message } = error;
  const again = (text: string): WeighbridgeError => new WeighbridgeError(code, text, { retryable, cause: error });
  if (code === "BUFFER_DETACHED") return again(`${callText(fn, subject)}: ${message}`);
  if (isMissingThere(error)) return again(`no function ${JSON.stringify(fn.name)}: ${message}${nearestFunction(fn.name, message)}`);
  if (code !== "UNKNOWN_PARAMETER" || subject === undefined) return error;
  const named = `no parameter ${JSON.stringify(subject.name)}`;
  return again(`${message.includes(named) ? message : `${named}: ${message}`}; make it again with ${subject.maker}()`);
}

/** Of a function that every server was asked for, and not every one has: who does, and who does not. */
export function missingFailure(
  error: WeighbridgeError,
  { name }: CalledFunction,
  { servers, hasAnswered }: { readonly servers: readonly number[]; readonly hasAnswered: (server: number) => boolean },
): WeighbridgeError {
  const names = (isKnown: boolean): string =>
    servers
      .filter((server) => hasAnswered(server) === isKnown)
      .map((server) => `server ${server}`)
      .join(", ");
  const known = names(true) === "" ? "" : `, but on ${names(true)}`;
  const message = `no function ${JSON.stringify(name)} on ${names(false)}${known}: start every server with the same --functions${nearestFunction(name, toldBy(error))}`;
  return new WeighbridgeError("UNKNOWN_FUNCTION", message, { cause: error });
}

/** What the server said, without the name that `namedFailure` put before it. */
function toldBy({ message, cause }: WeighbridgeError): string {
  return isWeighbridgeError(cause) ? cause.message : message;
}
