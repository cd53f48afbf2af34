// outbox — frames that wait to leave on one channel: highest priority first, then first in, first out. Pure.
//
// Invariants:
//   Outbox.O1. Frames of equal priority leave in the order they came.
//   Outbox.O2. A frame leaves before every frame of lower priority that is still here.
//   Outbox.O3. A read never leaves before a write it must see: it queues behind it, at its priority (`mustFollow`).

import { RingQueue } from "../base/ring-queue.ts";
import { type FrameHeader, Kind } from "../wire/frame.ts";
import type { Answer } from "./answer.ts";
import type { Call } from "./call.ts";
import type { FrameBatch } from "./frame-batch.ts";

/** One frame on its way out. */
export type Outbound = Call | Answer | Notice;

/** A frame that belongs to no request. */
export type Notice = Pick<Answer, "isCall" | "priority" | "byteCount" | "isRepeatable" | "isFresh" | "writeTo" | "discard">;

type Lane = { readonly priority: number; readonly frames: RingQueue<Outbound> };

export class Outbox {
  /** Highest priority first. The lane of priority 0 stays even when it is empty. */
  readonly #lanes: Lane[] = [{ priority: 0, frames: new RingQueue() }];
  /** Frames that wait. Nobody else writes it. */
  length = 0;

  push(frame: Outbound): void {
    this.#laneOf(this.#queuePriority(frame)).frames.push(frame);
    this.length++;
  }

  shift(): Outbound | undefined {
    const lanes = this.#lanes;
    for (let i = 0; i < lanes.length; i++) {
      const lane = lanes[i] as Lane;
      const frame = lane.frames.shift();
      if (frame !== undefined) {
        this.length--;
        return frame;
      }
      if (lane.priority !== 0) lanes.splice(i--, 1);
    }
    return undefined;
  }

  /** Takes everything out, in the order in which it would have left. */
  drain(): Outbound[] {
    const frames: Outbound[] = [];
    for (let frame = this.shift(); frame !== undefined; frame = this.shift()) frames.push(frame);
    return frames;
  }

  /** The priority at which a frame queues: its own, or the lowest of the writes it must see (Outbox.O3). */
  #queuePriority(frame: Outbound): number {
    const { priority } = frame;
    if (this.length === 0 || !frame.isCall || !frame.isRead) return priority;
    for (let i = this.#lanes.length - 1; i >= 0; i--) {
      const lane = this.#lanes[i] as Lane;
      if (lane.priority >= priority) return priority;
      for (let at = 0; at < lane.frames.length; at++) {
        const waiting = lane.frames.at(at);
        if (waiting?.isCall === true && frame.mustFollow(waiting)) return lane.priority;
      }
    }
    return priority;
  }

  #laneOf(priority: number): Lane {
    const lanes = this.#lanes;
    let at = 0;
    while (at < lanes.length && (lanes[at] as Lane).priority > priority) at++;
    const found = lanes[at];
    if (found !== undefined && found.priority === priority) return found;
    const lane: Lane = { priority, frames: new RingQueue() };
    lanes.splice(at, 0, lane);
    return lane;
  }
}

/** Names the first of the other side's requests that is missing here. */
export class GapNotice implements Notice {
  readonly priority: number = 0x7fffffff;
  readonly byteCount = 0;
  readonly isRepeatable = true;
  readonly isFresh = false;
  readonly isCall = false;
  readonly #missing: number;

  constructor(missing: number) {
    this.#missing = missing;
  }

  writeTo(header: FrameHeader, batch: FrameBatch): void {
    header.reset(Kind.NOTICE, 0);
    header.request = this.#missing;
    batch.begin(header, 0);
  }

  discard(): void {
    // It holds nothing.
  }
}
