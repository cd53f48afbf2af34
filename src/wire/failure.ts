// failure — how an error crosses the wire: its code, its message and whether trying again may help.

import { type ErrorCode, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { type Check, decodeJson, flag, object, text } from "./json-body.ts";

export type Failure = { readonly code: string; readonly message: string; readonly retryable: boolean };

/** A user's handle may throw megabytes: so much of a message is sent and logged. */
const MESSAGE_CHARS_MAX = 4096;

export const failureShape: Check<Failure> = object({ code: text, message: text, retryable: flag });

/** Throws BAD_REQUEST for a body that is none. */
export function decodeFailure(body: Uint8Array): Failure {
  return decodeJson(failureShape, "a failure", body);
}

/** Anything that was thrown, as it is sent. What is not a WeighbridgeError came out of a user's handler. */
export function toFailure(thrown: unknown): Failure {
  if (thrown instanceof WeighbridgeError) return { code: thrown.code, message: cut(thrown.message), retryable: thrown.retryable };
  const message = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : reasonOf(thrown);
  return { code: "HANDLER_FAILED", message: cut(message), retryable: false };
}

function cut(message: string): string {
  if (message.length <= MESSAGE_CHARS_MAX) return message;
  return `${message.slice(0, MESSAGE_CHARS_MAX)} … (cut: the message has ${message.length} characters)`;
}

/** A failure as it is thrown at the caller; `from` names the node that sent it. */
export function fromFailure(failure: Failure, from: string): WeighbridgeError {
  return new WeighbridgeError(failure.code as ErrorCode, `${from}: ${failure.message}`, { retryable: failure.retryable });
}
