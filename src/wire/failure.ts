// failure — how an error crosses the wire: code, message, whether a retry may help, and detail for programs. A node
// that lacks a function got only the hash of its name: its failure lists the functions that it has, and the caller,
// which knows the name, finds the nearest of them.

import { type ErrorCode, isWeighbridgeError, reasonOf, type UpdateOutcome, WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { type Check, decodeJson, flag, object, text } from "./json-body.ts";
import { type PlacementView, placementShape } from "./roster.ts";

export type Failure = {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  /** By code: of WRONG_EPOCH the placement, of NODE_DEAD whether the caller is the dead one. */
  readonly detail?: unknown;
};

/** A user's handler may throw megabytes: only this much of a message is sent and logged. */
const MESSAGE_CHARS_MAX = 4096;

export const failureShape: Check<Failure> = object({ code: text, message: text, retryable: flag, detail: (value) => value });

/** Throws BAD_REQUEST for a body that is none. */
export function decodeFailure(body: Uint8Array): Failure {
  return decodeJson(failureShape, "a failure", body);
}

/** Anything that was thrown, as it is sent. What is not a WeighbridgeError came out of a user's handler. */
export function toFailure(thrown: unknown): Failure {
  if (isWeighbridgeError(thrown)) {
    const { code, message, retryable, detail } = thrown;
    return { code, message: cut(message), retryable, ...(detail === undefined ? {} : { detail }) };
  }
  const message = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : reasonOf(thrown);
  return { code: "HANDLER_FAILED", message: cut(message), retryable: false };
}

/**
 * The stack of what a user's code threw, for the log of the node that ran it; undefined where there is none, and for
 * errors of ours. It never crosses the wire.
 */
export function handlerStack(thrown: unknown): string | undefined {
  try {
    let error = thrown;
    while (isWeighbridgeError(error, "HANDLER_FAILED") && error.cause !== undefined) error = error.cause;
    return error instanceof Error && !isWeighbridgeError(error) && error.stack !== undefined ? cut(String(error.stack)) : undefined;
  } catch {
    return undefined; // users throw what they like: its own stack may throw
  }
}

function cut(message: string): string {
  if (message.length <= MESSAGE_CHARS_MAX) return message;
  return `${message.slice(0, MESSAGE_CHARS_MAX)} … (cut: the message has ${message.length} characters)`;
}

/**
 * A failure as it is thrown at the caller; `from` names the node that sent it, `outcome` says what became of an update.
 */
export function fromFailure(failure: Failure, from: string, outcome?: UpdateOutcome): WeighbridgeError {
  const { code, message, retryable, detail } = failure;
  return new WeighbridgeError(code as ErrorCode, `${from}: ${message}`, { retryable, detail, outcome });
}

/** What became of an update that its node answered with this failure (spec/protocol.md, E3). */
export function outcomeOfFailure({ code }: Failure): UpdateOutcome {
  if (code === "ANSWER_LOST") return "applied";
  return code === "HANDLER_FAILED" ? "unknown" : "not-applied"; // a user's code may have done something before it threw
}

/** The placement that a WRONG_EPOCH carries; undefined for any other error. Throws BAD_REQUEST when it is none. */
export function placementOfError({ code, detail }: WeighbridgeError): PlacementView | undefined {
  return code === "WRONG_EPOCH" && detail !== undefined ? placementShape(detail, "the placement of WRONG_EPOCH") : undefined;
}

/** For a worker that a server holds for dead. Its detail tells this from the NODE_DEAD of another node. */
export function takenOutError(message: string): WeighbridgeError {
  return new WeighbridgeError("NODE_DEAD", message, { retryable: true, detail: { takenOut: true } });
}

/** Whether a server refused something because it holds the caller for dead. */
export function wasTakenOut(error: unknown): boolean {
  return isWeighbridgeError(error, "NODE_DEAD") && (error.detail as { readonly takenOut?: unknown } | undefined)?.takenOut === true;
}

/** At the node that was called. */
export function missingFunction(names: readonly string[]): WeighbridgeError {
  const others =
    names.length === 0
      ? "it has none of its own: is --functions set? (a worker serves more with session.serve)"
      : `it has ${names.join(", ")}`;
  return new WeighbridgeError("UNKNOWN_FUNCTION", `this node has no function with the name that was called; ${others}`);
}

/** At the caller: whether the node itself lacks the function, and not one that its handler called. */
export function isMissingThere(error: unknown): boolean {
  return isWeighbridgeError(error, "UNKNOWN_FUNCTION") && /^(\w+ \d+: )?(this node has|there is) no function/.test(error.message);
}

/** At the caller: "; did you mean scale?", or nothing where the message names none. */
export function nearestFunction(called: string, message: string): string {
  const [, names = ""] = /; it has ([\w./-]+(?:, [\w./-]+)*)$/.exec(message) ?? [];
  return names === "" ? "" : didYouMean(called, names.split(", "));
}
