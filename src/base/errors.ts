// errors — the one error type a user meets. Our own bugs are `assert`s; everything else is a WeighbridgeError.
// Callers match on `code`, which is stable; the message is for people and names the culprit, what was expected and what happened.

/** Stable codes. They cross the wire as strings; an unknown one from a newer peer is kept as it is. */
export type ErrorCode =
  | "ABORTED" // the caller's AbortSignal fired
  | "ARENA_FULL" // the node's parameter memory is exhausted
  | "BAD_ARGUMENT" // a call's arguments do not make sense; nothing was sent
  | "BAD_CONFIG" // configuration is missing, unknown or contradictory
  | "BAD_FRAME" // a peer sent bytes that are not a legal frame
  | "BAD_REQUEST" // a peer's request is well framed but makes no sense
  | "CLOSED" // the object was closed
  | "COUNT_MISMATCH" // nodes disagree on how many servers and workers there are
  | "DEADLINE" // the deadline passed
  | "FENCED" // this node was replaced by a newer one of the same rank
  | "HANDLER_FAILED" // a user's handler threw
  | "KEYS_NOT_ASCENDING" // a key list is not strictly ascending
  | "NODE_DEAD" // the node that had to answer is dead or was restarted
  | "NO_ROUTE" // no such node, group or role to talk to
  | "PORT_IN_USE" // an address is taken
  | "QUEUE_FULL" // a bounded queue is full; try again once it drained
  | "RANK_TAKEN" // two nodes ask for one rank
  | "SCHEDULER_UNREACHABLE" // nobody speaks our protocol at the scheduler's address
  | "UNKNOWN_APP" // no app with this id was created on the receiver
  | "UNKNOWN_FUNCTION" // the receiver has no such function
  | "UNSUPPORTED" // legal, but not offered here
  | "VALUE_LENGTH"; // a key's value has another length

export type WeighbridgeErrorOptions = {
  /** True when the same call may succeed if repeated. Defaults to false. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
};

export class WeighbridgeError extends Error {
  override readonly name = "WeighbridgeError";
  readonly code: ErrorCode;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options: WeighbridgeErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
  }
}

export function isWeighbridgeError(value: unknown, code?: ErrorCode): value is WeighbridgeError {
  return value instanceof WeighbridgeError && (code === undefined || value.code === code);
}

/** The text of anything that was thrown, for messages and log lines. */
export function reasonOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
