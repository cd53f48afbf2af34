// call — one request frame to one node, from the moment it queues until its answer, its failure, or the end of the
// channel; and the errors of calls to nodes that are gone.
//
// Invariants:
//   Call.K1. Exactly one of `answered` returning true, and `failed`, ends a call; nothing is called after that.
//   Call.K2. A call can be written any number of times (reconnects, lost frames): what it refers to stays unchanged
//       till its end.
//   Call.K3. A call whose memory is gone before its end (its owner transferred or shrank an ArrayBuffer) fails with
//       BUFFER_DETACHED. What has left may have been applied; a withdrawn frame then takes its number.
//   Call.K4. The next hello says what became of updates that `failCalls` failed: the same incarnation has taken those
//       below the number that it expects, and takes no other; another incarnation has none.

import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { FrameHeader } from "../wire/frame.ts";
import { nameOf } from "../wire/node-id.ts";
import type { FrameBatch } from "./frame-batch.ts";

/** Payloads up to this size stay in the read buffer, and the call copies them: cheaper than to name a destination. */
export const IN_PLACE_BYTES_MAX = 128;

/**
 * What became of an update that had left when its node was declared dead. "open" until the node comes back: the same
 * incarnation says in its hello which requests it took, another one has none. "unknown": nobody can say any more.
 */
export type CallFate = { readonly outcome: "open" | "applied" | "dropped" | "unknown" };

/** What became of updates that were given up after they had left (Call.K4). */
export class UpdateFates {
  #fates: { readonly request: number; outcome: CallFate["outcome"] }[] = [];

  /** `isOver`: the other node will not come back. */
  open(request: number, isOver: boolean): CallFate {
    const fate: { readonly request: number; outcome: CallFate["outcome"] } = { request, outcome: isOver ? "unknown" : "open" };
    this.#fates.push(fate);
    return fate;
  }

  decide(outcomeOf: (request: number) => CallFate["outcome"]): void {
    for (const fate of this.#fates.splice(0)) fate.outcome = outcomeOf(fate.request);
  }
}

/** KvCall implements it without inheriting: a derived class takes several times as long to construct. */
export abstract class Call {
  readonly priority: number;
  /** Of the placement by which the request was cut, the same for all of its calls; 0: it was cut by none. */
  readonly epoch: number;
  /** Number on its channel, given when it leaves for the first time (0 before). */
  request = 0;
  /** Number in this node's sequence of updates, from its first departure on; stays 0 for what is not an update. */
  stamp = 0;
  /** When it left last, for the resend timer. */
  sentAtMs = 0;
  /** How often it left. */
  sendCount = 0;

  /** Distinguishes it from the other frames that leave on a channel. */
  get isCall(): true {
    return true;
  }

  /** Changes state at the receiver: is stamped, and applied exactly once. */
  abstract readonly isUpdate: boolean;
  /** Reads state that earlier updates of this node may have changed. */
  abstract readonly isRead: boolean;
  /** Means the same to a restarted receiver, and is sent to it again; other calls fail when the receiver restarts. */
  abstract readonly isIdempotent: boolean;
  abstract readonly functionId: number;
  /** About how many bytes the frame takes. */
  abstract readonly byteCount: number;

  /** Whether all memory that it sends from, and that its answer lands in, is still there (Call.K3). */
  abstract readonly isIntact: boolean;

  constructor(priority: number, epoch = 0) {
    this.priority = priority;
    this.epoch = epoch;
  }

  /** Appends the frame; `header` has kind, function, priority, request, stamp, settled and epoch already. */
  abstract encode(header: FrameHeader, batch: FrameBatch): void;

  /** Appends a frame without memory that the receiver refuses, forgetting the request so far (Call.K3). */
  abstract encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void;

  /** Where the payload of an answer belongs, if it is larger than IN_PLACE_BYTES_MAX; see FrameSink. */
  abstract destination(header: FrameHeader): Uint8Array | undefined;

  /** Takes an answer. Returns true for the last one. Throws if it makes no sense: the call then fails with that. */
  abstract answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean;

  /** `fate`: of an update that had left when its node was taken for dead. */
  abstract failed(error: WeighbridgeError, fate?: CallFate): void;

  /** Whether this read must not overtake that waiting call, whatever their priorities. */
  abstract mustFollow(waiting: Call): boolean;
}

/** Call.K3 */
export function detachedError({ isUpdate, sendCount }: Pick<Call, "isUpdate" | "sendCount">): WeighbridgeError {
  const what = "the memory of one of its arrays was transferred away, or shrunk, before the call ended";
  const applied = sendCount > 0 ? "the update may have been applied, in part or whole" : "other parts of the update may have been applied";
  const outcome = !isUpdate ? undefined : sendCount > 0 ? "unknown" : "not-applied";
  return new WeighbridgeError("BUFFER_DETACHED", `${what}; ${isUpdate ? applied : "nothing was changed by it"}`, { outcome });
}

/** What replaces a call that was withdrawn, until the receiver has answered (Call.K3). Its answer is nobody's. */
export class WithdrawnCall extends Call {
  readonly #call: Call;

  constructor(call: Call) {
    super(call.priority, call.epoch);
    this.#call = call;
    this.request = call.request;
    this.stamp = call.stamp;
    this.sendCount = call.sendCount;
  }

  get isUpdate(): boolean {
    return this.#call.isUpdate;
  }

  get isRead(): boolean {
    return this.#call.isRead;
  }

  get isIdempotent(): boolean {
    return false;
  }

  get functionId(): number {
    return this.#call.functionId;
  }

  get byteCount(): number {
    return 0;
  }

  get isIntact(): boolean {
    return true;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    this.#call.encodeWithdrawn(header, batch);
  }

  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    this.encode(header, batch);
  }

  destination(): undefined {
    return undefined;
  }

  answered(): boolean {
    return true;
  }

  failed(): void {}

  mustFollow(): boolean {
    return false;
  }
}

/** NODE_DEAD: a dead node may be restarted, so the call may be repeated; a node that left does not come back. */
export function nodeDeadError(node: number, state: "dead" | "left"): WeighbridgeError {
  return new WeighbridgeError("NODE_DEAD", `${nameOf(node)} ${state === "dead" ? "is dead" : "has left"}`, { retryable: state === "dead" });
}

/** For a call to a node that has left in order; `isOut`: it had departed. Refused, unless it may have been applied. */
export function leftError(node: number, { isUpdate, epoch }: Pick<Call, "isUpdate" | "epoch">, isOut: boolean): WeighbridgeError {
  const error = nodeDeadError(node, "left");
  if (epoch === 0) return error;
  if (isUpdate && isOut) return lostErrors("LINK_LOST", error.message).lost;
  const outcome = isUpdate ? "not-applied" : undefined;
  return new WeighbridgeError("WRONG_EPOCH", `${error.message}: nothing was applied`, { retryable: true, outcome });
}

/**
 * Whether a live node may have applied the update that failed with this error: it must not be sent again (Channel.N6).
 * True also for the NODE_DEAD of a node that was unreachable while the scheduler was away: its cause is the LINK_LOST.
 */
export function mayBeApplied(error: WeighbridgeError): boolean {
  return [error, error.cause].some((each) => isWeighbridgeError(each, "LINK_LOST") && !each.retryable);
}

/** For calls to an unreachable node: the error of updates that had left, and that of all others (Channel.N6). */
export function lostErrors(
  code: "LINK_LOST" | "NODE_DEAD",
  reason: string,
): { readonly lost: WeighbridgeError; readonly unsent: WeighbridgeError } {
  const applied = "the update had left and may have been applied, once at most; it is not sent again";
  const mayCount = new WeighbridgeError("LINK_LOST", `${reason}: ${applied}`, { outcome: "unknown" });
  // Nobody knows whether the node is dead: a step may be repeated, but the update itself is not sent again.
  const options = { retryable: true, outcome: "unknown", cause: mayCount } as const;
  const lost = code === "LINK_LOST" ? mayCount : new WeighbridgeError(code, mayCount.message, options);
  return { lost, unsent: new WeighbridgeError(code, `${reason}: nothing was applied`, { retryable: true }) };
}
