// call — one request frame to one node, from the moment it queues until its answer, its failure, or the end of the channel.
//
// Invariants:
//   K1. Exactly one of `answered` returning true, and `failed`, ends a call; nothing is called after that.
//   K2. A call can be written any number of times (a reconnect, a lost frame): what it refers to stays unchanged until it ended.

import type { WeighbridgeError } from "../base/errors.ts";
import type { FrameHeader } from "../wire/frame.ts";
import type { FrameBatch } from "./frame-batch.ts";

/** Payloads up to this size stay in the read buffer, and whoever is answered copies them: cheaper than to ask where they belong. */
export const IN_PLACE_BYTES_MAX = 128;

/** What a call is; KvCall implements it without inheriting, because a derived class takes several times as long to construct. */
export abstract class Call {
  readonly priority: number;
  /** Number on its channel, given when it leaves for the first time (0 before). */
  request = 0;
  /** Number in this node's sequence of updates, given when it leaves for the first time; stays 0 for what is not an update. */
  stamp = 0;
  /** When it left last, for the resend timer. */
  sentAtMs = 0;
  /** How often it left. */
  sendCount = 0;

  /** Tells it from the other frames that leave on a channel. */
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

  constructor(priority: number) {
    this.priority = priority;
  }

  /** Appends the frame. `header` has kind, function, priority, request, stamp and settled; the rest is the call's. */
  abstract encode(header: FrameHeader, batch: FrameBatch): void;

  /** Where the payload of an answer belongs, if it is larger than IN_PLACE_BYTES_MAX; see FrameSink. */
  abstract destination(header: FrameHeader): Uint8Array | undefined;

  /** An answer came. Returns true when it was the last one. Throws when it makes no sense: the call then fails with that. */
  abstract answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean;

  abstract failed(error: WeighbridgeError): void;

  /** Whether this read must not overtake that waiting call, whatever their priorities. */
  abstract mustFollow(waiting: Call): boolean;
}
