// errors — the one error type a user meets. Our own bugs are `assert`s; everything else is a WeighbridgeError.
// Callers match on `code`, which is stable; the message is for people: who, what was expected and what happened.

/**
 * What happened, as a stable code. Codes cross the wire as strings; one from a newer peer is kept as it is.
 *
 * - `"ABORTED"`: the caller's AbortSignal fired.
 * - `"ANSWER_LOST"`: the update was applied once, but its answer is not known any more, or found no memory.
 * - `"ARENA_FULL"`: the node's parameter memory is exhausted.
 * - `"BAD_ARGUMENT"`: a call's arguments do not make sense; nothing was sent.
 * - `"BAD_CONFIG"`: configuration is missing, unknown or contradictory.
 * - `"BAD_FRAME"`: a peer sent bytes that are not a legal frame.
 * - `"BAD_REQUEST"`: a peer's request is well framed but makes no sense.
 * - `"BUFFER_DETACHED"`: an array of a call was transferred or shrunk before the call ended; it may have been
 *   applied.
 * - `"CATALOGUE_FULL"`: the scheduler knows as many parameters as it can; drop some.
 * - `"CHECKPOINT_FOREIGN"`: a file is no checkpoint of ours, or one of another version, job or model.
 * - `"CHECKPOINT_IO"`: the disk or the file system refused to read or write a checkpoint.
 * - `"CHECKPOINT_MISSING"`: there is no checkpoint, or a file of it is not there.
 * - `"CHECKPOINT_TORN"`: a checkpoint's file is shorter, longer or otherwise not what was written.
 * - `"CLOSED"`: the object was closed.
 * - `"COUNT_MISMATCH"`: nodes disagree on how many servers and workers there are.
 * - `"DATASET_FOREIGN"`: a file is no data set of the requested kind.
 * - `"DATASET_MISSING"`: a file of a data set is not there, or cannot be read.
 * - `"DATASET_TORN"`: a file of a data set is shorter or longer than it says.
 * - `"DEADLINE"`: the deadline passed; an update then may still be applied, and the message says so.
 * - `"DEVICE_FAILED"`: a GPU or its driver failed: a launch, a copy, a bad address; what the card holds may be
 *   lost.
 * - `"DEVICE_MEMORY_FULL"`: a GPU has not enough free memory.
 * - `"FENCED"`: this node was replaced by a newer one of the same rank.
 * - `"FOREIGN_PROTOCOL"`: what listens at an address does not speak our protocol.
 * - `"HANDLER_FAILED"`: a user's handler threw.
 * - `"KERNEL_REJECTED"`: the source of a CUDA kernel does not compile; the message has the compiler's log.
 * - `"KEYS_NOT_ASCENDING"`: a key list is not strictly ascending.
 * - `"LINK_LOST"`: the node was unreachable for too long; the message says whether an update may have been applied.
 * - `"NOT_FINITE"`: a gradient has a NaN or an infinity in it.
 * - `"NODE_DEAD"`: the node that had to answer is dead or was restarted.
 * - `"NOT_JOINED"`: the worker is not in the clock set: it has to join to get its clock.
 * - `"NO_DEVICE"`: no GPU that can be used: no driver, no card, no koffi; the message says which.
 * - `"NO_ROUTE"`: no such node, group or role to talk to.
 * - `"OUTCOME_FORGOTTEN"`: a request ended too long ago to know whether it failed.
 * - `"OUT_OF_RANGE"`: a row or column that the parameter does not have, a number that its type cannot hold, or a
 *   clock above the highest.
 * - `"PORT_IN_USE"`: an address is taken.
 * - `"QUEUE_FULL"`: a bounded queue is full; try again once it drained.
 * - `"RANK_TAKEN"`: two nodes request one rank.
 * - `"SCHEDULER_UNREACHABLE"`: no process at the scheduler's address speaks our protocol.
 * - `"SPEC_MISMATCH"`: two nodes describe one parameter, function or operation differently.
 * - `"STALE_UPDATE"`: an update is stamped with a clock that its worker has passed already.
 * - `"STATE_CORRUPT"`: what a scheduler wrote of its state cannot be read.
 * - `"STATE_HELD"`: another scheduler decides for the job.
 * - `"STATE_IO"`: the disk or the file system refused to read or write a scheduler's state; or etcd did.
 * - `"UNKNOWN_APP"`: no app with this id was created on the receiver.
 * - `"UNKNOWN_FUNCTION"`: the receiver has no such function.
 * - `"UNKNOWN_PARAMETER"`: the server has no parameter of this name.
 * - `"UNKNOWN_PLUG_IN"`: the server has no such row type or updater.
 * - `"UNKNOWN_KEY_LIST"`: a key list was named that the receiver does not hold; send the keys.
 * - `"UNSUPPORTED"`: legal, but not offered here.
 * - `"VALUE_LENGTH"`: a key's value has another length.
 * - `"VERSION_MISMATCH"`: two nodes speak different versions of the protocol.
 * - `"WRONG_EPOCH"`: a request was cut by another placement than the server's; nothing was applied; carries the
 *   newer one.
 * - `"WRONG_JOB"`: a node of another job; the message names both.
 * - `"WRONG_OWNER"`: a request for what another server owns: a client's bug.
 */
export type ErrorCode =
  | "ABORTED"
  | "ANSWER_LOST"
  | "ARENA_FULL"
  | "BAD_ARGUMENT"
  | "BAD_CONFIG"
  | "BAD_FRAME"
  | "BAD_REQUEST"
  | "BUFFER_DETACHED"
  | "CATALOGUE_FULL"
  | "CHECKPOINT_FOREIGN"
  | "CHECKPOINT_IO"
  | "CHECKPOINT_MISSING"
  | "CHECKPOINT_TORN"
  | "CLOSED"
  | "COUNT_MISMATCH"
  | "DATASET_FOREIGN"
  | "DATASET_MISSING"
  | "DATASET_TORN"
  | "DEADLINE"
  | "DEVICE_FAILED"
  | "DEVICE_MEMORY_FULL"
  | "FENCED"
  | "FOREIGN_PROTOCOL"
  | "HANDLER_FAILED"
  | "KERNEL_REJECTED"
  | "KEYS_NOT_ASCENDING"
  | "LINK_LOST"
  | "NOT_FINITE"
  | "NODE_DEAD"
  | "NOT_JOINED"
  | "NO_DEVICE"
  | "NO_ROUTE"
  | "OUTCOME_FORGOTTEN"
  | "OUT_OF_RANGE"
  | "PORT_IN_USE"
  | "QUEUE_FULL"
  | "RANK_TAKEN"
  | "SCHEDULER_UNREACHABLE"
  | "SPEC_MISMATCH"
  | "STALE_UPDATE"
  | "STATE_CORRUPT"
  | "STATE_HELD"
  | "STATE_IO"
  | "UNKNOWN_APP"
  | "UNKNOWN_FUNCTION"
  | "UNKNOWN_PARAMETER"
  | "UNKNOWN_PLUG_IN"
  | "UNKNOWN_KEY_LIST"
  | "UNSUPPORTED"
  | "VALUE_LENGTH"
  | "VERSION_MISMATCH"
  | "WRONG_EPOCH"
  | "WRONG_JOB"
  | "WRONG_OWNER";

/**
 * What became of an update that failed. `"not-applied"`: it was refused before anything was sent, or every server that
 * was asked refused it. `"applied"`: it counts, and what failed came later, such as the pull of a `pushPull`.
 * `"unknown"`: the caller stopped waiting, the link was lost, or some servers have applied their part and others have
 * not (see `WeighbridgeError.parts`).
 */
export type UpdateOutcome = "not-applied" | "applied" | "unknown";

/** What became of the part of an update that one server, named by its rank, was asked to apply. */
export type UpdatePart = {
  /** The rank of the server. */
  readonly server: number;
  /** `"unknown"` also where it has applied some of several pieces. */
  readonly outcome: UpdateOutcome;
};

/** What an error carries in addition to its code and its message. */
export type WeighbridgeErrorOptions = {
  /** True when the same call may succeed if repeated. Defaults to false. */
  readonly retryable?: boolean | undefined;
  /** What became of the update that failed. */
  readonly outcome?: UpdateOutcome | undefined;
  /** The same server by server, by ascending rank. */
  readonly parts?: readonly UpdatePart[] | undefined;
  /** The end of an update that continues. Must not reject. */
  readonly settled?: Promise<UpdateOutcome> | undefined;
  /** What was thrown before, if this error follows from it. */
  readonly cause?: unknown;
  /** More for programs to read than the code. It crosses the wire as JSON. */
  readonly detail?: unknown;
  /** @internal The handler that answers with it has logged it. */
  readonly isLogged?: boolean;
};

/**
 * In the registry of the process: several copies of the package, also of different versions, know each other's errors.
 */
const BRAND: symbol = Symbol.for("weighbridge.error");

/**
 * The one error type of the package. Programs compare its `code`, which is stable; its message is for people.
 *
 * @example
 * ```ts
 * try {
 *   await users.push([17], gradient, { timeoutMs: 500 });
 * } catch (error) {
 *   if (!isWeighbridgeError(error)) throw error;
 *   if (error.outcome === "not-applied") await retryLater(); // it did not count
 *   else if ((await error.settled) === "not-applied") await retryLater(); // it did not count in the end
 * }
 * ```
 */
export class WeighbridgeError extends Error {
  /** "WeighbridgeError". */
  override readonly name = "WeighbridgeError";
  /** What happened, as one of the stable codes. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed if it is repeated. False wherever an update might then count twice. */
  readonly retryable: boolean;
  /** What became of the update. Undefined for the failure of a call that changes no parameter. */
  declare readonly outcome?: UpdateOutcome;
  /**
   * What became of it server by server, by ascending rank. Undefined where nothing was sent, where the caller stopped
   * waiting (DEADLINE, ABORTED), and for a call of one worker.
   */
  declare readonly parts?: readonly UpdatePart[];
  /**
   * For an update that continues after its caller stopped waiting (DEADLINE, ABORTED): resolves when the update has
   * ended, with what became of it. Never rejects. Undefined for everything else.
   */
  declare readonly settled?: Promise<UpdateOutcome>;
  /** More for programs to read than the code; undefined for most errors. */
  declare readonly detail?: unknown;
  /** @internal */
  declare readonly isLogged?: boolean;

  constructor(code: ErrorCode, message: string, options: WeighbridgeErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
    if (options.detail !== undefined) this.detail = options.detail;
    if (options.isLogged === true) this.isLogged = true;
    if (options.outcome !== undefined) this.outcome = options.outcome;
    if (options.parts !== undefined) this.parts = options.parts;
    if (options.settled !== undefined) this.settled = options.settled;
  }

  static {
    Object.defineProperty(WeighbridgeError.prototype, BRAND, { value: true });
  }
}

/**
 * Whether something that was thrown is an error of this package, and of this code if one is given. Holds also for
 * errors of another copy of the package, for which `instanceof` fails.
 *
 * @example
 * ```ts
 * try {
 *   await users.pull([17], { timeoutMs: 100 });
 * } catch (error) {
 *   if (!isWeighbridgeError(error, "DEADLINE")) throw error;
 * }
 * ```
 */
export function isWeighbridgeError(value: unknown, code?: ErrorCode): value is WeighbridgeError {
  try {
    if (typeof value !== "object" || value === null) return false;
    const isOurs = (value as Readonly<Record<symbol, unknown>>)[BRAND] === true;
    return isOurs && (code === undefined || (value as WeighbridgeError).code === code);
  } catch {
    return false; // a revoked proxy
  }
}

/**
 * The same failure of an update with what became of it, and with the stack and the cause of the one given. What
 * `changes` does not name stays. `outcome` is undefined for a caller that has changed nothing.
 */
export function withOutcome(
  error: WeighbridgeError,
  outcome: UpdateOutcome | undefined,
  changes: Pick<WeighbridgeErrorOptions, "parts" | "settled" | "retryable"> = {},
): WeighbridgeError {
  const { code, message, retryable, parts, settled, detail, cause, isLogged, stack } = error;
  const options = { retryable, parts, settled, detail, cause, isLogged: isLogged === true, ...changes, outcome };
  const told = new WeighbridgeError(code, message, options);
  if (stack !== undefined) told.stack = stack;
  return told;
}

/** The same failure with more in its message, and itself as the cause. */
export function restated(error: WeighbridgeError, message: string): WeighbridgeError {
  const { code, retryable, outcome, parts, settled } = error;
  return new WeighbridgeError(code, message, { retryable, outcome, parts, settled, cause: error });
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

/** An object of which JSON shows nothing: by its class, unless it is a plain one. */
function classOf(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return "{}";
  const tag = Object.prototype.toString.call(value).slice("[object ".length, -1);
  const name = tag === "Object" ? String(value.constructor.name || tag) : tag;
  return `${/^[AEIOU]/.test(name) ? "an" : "a"} ${name}`;
}

function textOf(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return value.toString();
  if (typeof value === "number") return `${value}`; // JSON knows no NaN and no Infinity
  if (value === undefined) return "undefined";
  try {
    if (ArrayBuffer.isView(value)) return `a ${value.constructor.name}`;
    const text = JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? `${part}n` : part)) ?? "an object";
    return text === "{}" ? classOf(value as object) : text;
  } catch {
    return "an object"; // it refers to itself, or what it says of itself throws
  }
}
