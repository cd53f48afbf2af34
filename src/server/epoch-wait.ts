// epoch-wait — keeps requests that were cut by a newer placement than this server has or serves by, and all others
// while parts come or go. It pauses their links, requests the placement from the scheduler, and then handles them in
// the order of their arrival.
//
// Invariants:
//   EpochWait.W1. Requests of a channel are handled in the order of their arrival: those behind a waiting one wait,
//       too.
//   EpochWait.W2. No request waits forever: an epoch that the scheduler does not know within WAIT_MS gets WRONG_EPOCH.

import type { Clock } from "../base/clock.ts";
import { Deferred, sleep } from "../base/deferred.ts";
import type { Channel } from "../peer/channel.ts";
import { KeptRequest } from "../peer/kept-request.ts";
import { FrameHeader } from "../wire/frame.ts";
import { isGuest } from "../wire/node-id.ts";
import type { Ownership } from "./ownership.ts";

/** How long a restarted scheduler may take to learn the newest placement from a node that knows it. */
const WAIT_MS = 10_000;
const ASK_AGAIN_MS = 200;

/** Handles a request that has waited. */
type Gate = {
  pass(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, isFresh: boolean): void;
  /** Refuses the request instead, with WRONG_EPOCH. */
  refuse(channel: Channel, header: FrameHeader, epoch: number): never;
};

type Waiting = {
  readonly request: KeptRequest;
  readonly gate: Gate;
  readonly header: FrameHeader;
  readonly payload: Uint8Array;
  readonly isFresh: boolean;
};

/** Of one channel. */
type Queue = { readonly requests: Waiting[]; readonly isOver: Deferred<void> };

export class EpochWait {
  /** Requests the placement from the scheduler; settles with its answer, or if there is none. */
  requestPlacement: () => Promise<void> = async () => {};
  readonly #ownership: Ownership;
  readonly #clock: Clock;
  readonly #queues = new Map<Channel, Queue>();
  /** The channels whose requests wait. */
  readonly channels: ReadonlyMap<Channel, unknown> = this.#queues;
  #isRequesting = false;
  #closed = false;

  constructor(ownership: Ownership, clock: Clock) {
    this.#ownership = ownership;
    this.#clock = clock;
    ownership.onChange(() => this.#handleAll());
  }

  /** Keeps a request until its placement is there, and pauses its link. */
  add(gate: Gate, channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, isFresh: boolean): void {
    let queue = this.#queues.get(channel);
    if (queue === undefined) {
      queue = { requests: [], isOver: new Deferred() };
      this.#queues.set(channel, queue);
    }
    const kept = new FrameHeader();
    kept.copyFrom(header);
    kept.more = 0; // the others of its run are kept for themselves
    const payload = bytes.slice(at, at + header.payloadBytes);
    queue.requests.push({ request: new KeptRequest(channel, header), gate, header: kept, payload, isFresh });
    channel.holdInput(queue.isOver.promise);
    if (!this.#isRequesting) void this.#requestUntilKnown();
  }

  close(): void {
    this.#closed = true;
    for (const { isOver } of this.#queues.values()) isOver.resolve();
    this.#queues.clear();
  }

  async #requestUntilKnown(): Promise<void> {
    this.#isRequesting = true;
    const untilMs = this.#clock.nowMs() + WAIT_MS;
    for (;;) {
      await this.requestPlacement().catch(() => {}); // without a scheduler the requests are refused in time
      if (this.#closed || this.#queues.size === 0) break;
      if (this.#clock.nowMs() >= untilMs) {
        this.#handleAll(true); // EpochWait.W2
        break;
      }
      await sleep(this.#clock, ASK_AGAIN_MS);
    }
    this.#isRequesting = false;
    if (this.#queues.size > 0) void this.#requestUntilKnown(); // they came after the last answer
  }

  /** Handles what need not wait any more; with `isLate` everything, which refuses what is still too new. */
  #handleAll(isLate = false): void {
    for (const [channel, queue] of this.#queues) {
      const { requests, isOver } = queue;
      while (requests.length > 0 && (isLate || this.#mayPass(requests[0]!.header))) this.#handle(requests.shift()!, isLate);
      if (requests.length > 0) continue;
      this.#queues.delete(channel);
      isOver.resolve();
    }
  }

  /** One of no epoch waits as long as parts come or go (PartsExchange.E2). */
  #mayPass({ epoch }: FrameHeader): boolean {
    const { servedEpoch, isSettling } = this.#ownership;
    return epoch === 0 ? !isSettling : epoch <= servedEpoch;
  }

  #handle({ request, gate, header, payload, isFresh }: Waiting, isLate: boolean): void {
    const { channel } = request;
    if (channel.ended !== undefined && isGuest(channel.id)) return; // GuestList.L1
    request.serve(() => {
      if (isLate && !this.#mayPass(header)) gate.refuse(channel, header, header.epoch);
      gate.pass(channel, header, payload, 0, isFresh);
    });
  }
}
