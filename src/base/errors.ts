// errors — the one error type a user meets. Our own bugs are `assert`s; everything else is a WeighbridgeError.
// Callers match on `code`, which is stable; the message is for people: who, what was expected and what happened.

/** Stable codes. They cross the wire as strings; an unknown one from a newer peer is kept as it is. */
export type ErrorCode =
  | "ABORTED" // the caller's AbortSignal fired
  | "ANSWER_LOST" // the update was applied once, but its answer is not known any more, or found no memory
  | "ARENA_FULL" // the node's parameter memory is exhausted
  | "BAD_ARGUMENT" // a call's arguments do not make sense; nothing was sent
  | "BAD_CONFIG" // configuration is missing, unknown or contradictory
  | "BAD_FRAME" // a peer sent bytes that are not a legal frame
  | "BAD_REQUEST" // a peer's request is well framed but makes no sense
  | "BUFFER_DETACHED" // an array of a call was transferred or shrunk before the call ended; it may have been applied
  | "CATALOGUE_FULL" // the scheduler knows as many parameters as it can; clear some
  | "CHECKPOINT_FOREIGN" // a file is no checkpoint of ours, or one of another version, job or model
  | "CHECKPOINT_IO" // the disk or the file system refused to read or write a checkpoint
  | "CHECKPOINT_MISSING" // there is no checkpoint, or a file of it is not there
  | "CHECKPOINT_TORN" // a checkpoint's file is shorter, longer or otherwise not what was written
  | "CLOSED" // the object was closed
  | "COUNT_MISMATCH" // nodes disagree on how many servers and workers there are
  | "DATASET_FOREIGN" // a file is no data set of the requested kind
  | "DATASET_MISSING" // a file of a data set is not there, or cannot be read
  | "DATASET_TORN" // a file of a data set is shorter or longer than it says
  | "DEADLINE" // the deadline passed
  | "DEVICE_FAILED" // a GPU or its driver failed: a launch, a copy, a bad address; what the card holds may be lost
  | "DEVICE_MEMORY_FULL" // a GPU has not enough free memory
  | "FENCED" // this node was replaced by a newer one of the same rank
  | "FOREIGN_PROTOCOL" // what listens at an address does not speak our protocol
  | "HANDLER_FAILED" // a user's handler threw
  | "KERNEL_REJECTED" // the source of a CUDA kernel does not compile; the message has the compiler's log
  | "KEYS_NOT_ASCENDING" // a key list is not strictly ascending
  | "LINK_LOST" // the node was unreachable for too long; the message says whether an update may have been applied
  | "NOT_FINITE" // a gradient has a NaN or an infinity in it
  | "NODE_DEAD" // the node that had to answer is dead or was restarted
  | "NOT_JOINED" // the worker is not in the clock set: it has to join to get its clock
  | "NO_DEVICE" // no GPU that can be used: no driver, no card, no koffi; the message says which
  | "NO_ROUTE" // no such node, group or role to talk to
  | "OUTCOME_FORGOTTEN" // a request ended too long ago to know whether it failed
  | "OUT_OF_RANGE" // a row that the parameter does not have, or a clock above the highest there is
  | "PORT_IN_USE" // an address is taken
  | "QUEUE_FULL" // a bounded queue is full; try again once it drained
  | "RANK_TAKEN" // two nodes request one rank
  | "SCHEDULER_UNREACHABLE" // nobody speaks our protocol at the scheduler's address
  | "SPEC_MISMATCH" // two nodes describe one parameter, function or operation differently
  | "STALE_UPDATE" // an update is stamped with a clock that its worker has passed already
  | "STATE_CORRUPT" // what a scheduler wrote of its state cannot be read
  | "STATE_HELD" // another scheduler decides for the job
  | "STATE_IO" // the disk or the file system refused to read or write a scheduler's state; or etcd did
  | "UNKNOWN_APP" // no app with this id was created on the receiver
  | "UNKNOWN_FUNCTION" // the receiver has no such function
  | "UNKNOWN_PARAMETER" // the server has no parameter of this name
  | "UNKNOWN_PLUG_IN" // the server has no such row type or updater
  | "UNKNOWN_KEY_LIST" // a key list was named that the receiver does not hold; send the keys
  | "UNSUPPORTED" // legal, but not offered here
  | "VALUE_LENGTH" // a key's value has another length
  | "VERSION_MISMATCH" // two nodes speak different versions of the protocol
  // a request was cut by another placement than the server's; nothing was applied; carries the newer one
  | "WRONG_EPOCH"
  | "WRONG_JOB" // a node of another job; the message names both
  | "WRONG_OWNER"; // a request for what another server owns: a client's bug

export type WeighbridgeErrorOptions = {
  /** True when the same call may succeed if repeated. Defaults to false. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
  /** What a program needs beside the code. It crosses the wire as JSON. */
  readonly detail?: unknown;
};

export class WeighbridgeError extends Error {
  override readonly name = "WeighbridgeError";
  readonly code: ErrorCode;
  readonly retryable: boolean;
  /** What a program needs beside the code; undefined for most errors. */
  declare readonly detail?: unknown;

  constructor(code: ErrorCode, message: string, options: WeighbridgeErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
    if (options.detail !== undefined) this.detail = options.detail;
  }
}

export function isWeighbridgeError(value: unknown, code?: ErrorCode): value is WeighbridgeError {
  try {
    return value instanceof WeighbridgeError && (code === undefined || value.code === code);
  } catch {
    return false; // a revoked proxy
  }
}

export function badArgument(message: string): WeighbridgeError {
  return new WeighbridgeError("BAD_ARGUMENT", message);
}

export function badRequest(message: string): WeighbridgeError {
  return new WeighbridgeError("BAD_REQUEST", message);
}

export function unsupported(message: string): WeighbridgeError {
  return new WeighbridgeError("UNSUPPORTED", message);
}

/** What was thrown, if it is ours; anything else as the cause of an error of this code. */
export function asError(thrown: unknown, code: ErrorCode): WeighbridgeError {
  return isWeighbridgeError(thrown) ? thrown : new WeighbridgeError(code, reasonOf(thrown), { cause: thrown });
}

/** The text of anything that was thrown, for messages and log lines. Never throws, whatever users throw. */
export function reasonOf(thrown: unknown): string {
  try {
    return `${thrown instanceof Error ? thrown.message : String(thrown)}`;
  } catch {
    return showValue(thrown); // an object without a prototype, or whose own text throws
  }
}

/** The same with the module, line and column that threw, where a stack names them: for what a user's module throws. */
export function reasonAndSite(thrown: unknown): string {
  const stack: unknown = thrown instanceof Error ? thrown.stack : undefined;
  const site = typeof stack === "string" ? /(?:[a-z]+:\/\/|\/|[A-Z]:\\)[^\s()]+:\d+:\d+/.exec(stack)?.[0] : undefined;
  return `${reasonOf(thrown)}${site === undefined ? "" : `, at ${site}`}`;
}

const SHOWN_LENGTH_MAX = 80;

/**
 * A value as an error message shows it; never throws, and shows little of it. JSON where possible: text in quotes,
 * lists and objects. Numbers, bigints and symbols as code writes them.
 */
export function showValue(value: unknown): string {
  const text = textOf(value);
  return text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text;
}

function textOf(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return value.toString();
  if (typeof value === "number") return `${value}`; // JSON knows no NaN and no Infinity
  if (value === undefined) return "undefined";
  try {
    if (ArrayBuffer.isView(value)) return `a ${value.constructor.name}`;
    return JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? `${part}n` : part)) ?? "an object";
  } catch {
    return "an object"; // it refers to itself, or what it says of itself throws
  }
}
