// partial-requests — holds requests of several frames whose last frame has not come, and bounds them. Their owners
// know what a request is made of (request-assembly.ts for typed functions, server/kv/whole-requests.ts).
//
// Invariants:
//   PartialRequests.N1. What is kept is bounded: `bytesMax` for all workers, `workerBytesMax` for one (half of it by
//       default).
//   PartialRequests.N2. What a worker left unfinished is dropped with its incarnation, when it is dead or has left,
//       and LINK_GRACE_MS after its link is gone, unless that comes back: acknowledged frames are not sent again.
//   PartialRequests.N3. A worker whose requests are dropped loses its link: its next frame may be landing in memory
//       that was released.
//   PartialRequests.N4. A timer runs only while something unfinished could be dropped by it: none keeps a finished
//       process alive.
//   PartialRequests.N5. An owner gets a request whole or not at all: once a frame was refused, the rest is refused
//       too.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";
import type { Channel } from "./channel.ts";

/** A frame of a request, as its owner sees it. */
export type RequestFrame<T> = {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  /** The request without a frame. */
  begin(): T;
  /** Adds this frame. Throws when it does not belong there. */
  add(request: T): void;
  /** What the request counts for with this frame. */
  byteCountOf(request: T): number;
};

type Entry<T> = { readonly request: T; readonly byteCount: number };

/** The requests of one incarnation of a worker, by the names that their owner uses. */
type OfWorker<T> = {
  channel: Channel;
  readonly incarnation: number;
  readonly entries: Map<string | number, Entry<T>>;
  byteCount: number;
  isWatched: boolean;
  cancelTimer: CancelTimer;
};

export type PartialRequestsOptions<T> = {
  readonly clock: Clock;
  readonly bytesMax?: number;
  readonly workerBytesMax?: number;
  /** Called with each request that is dropped or refused, not with those that its owner got. */
  readonly dropped?: (request: T) => void;
};

/** Two workers at once may push what fits a large layer. */
const UNFINISHED_BYTES_MAX = 2 ** 30;
/** Longer than a worker that lives takes to dial again. */
export const LINK_GRACE_MS = 10_000;

export class PartialRequests<T> {
  readonly #clock: Clock;
  readonly #bytesMax: number;
  readonly #workerBytesMax: number;
  readonly #dropped: ((request: T) => void) | undefined;
  /** By the ids of the nodes that sent them. Nobody else changes them. */
  readonly workers: Map<number, OfWorker<T>> = new Map();
  #bytes = 0;
  #ownerCount = 0;

  constructor({ clock, bytesMax = UNFINISHED_BYTES_MAX, workerBytesMax = bytesMax / 2, dropped }: PartialRequestsOptions<T>) {
    this.#clock = clock;
    this.#bytesMax = bytesMax;
    this.#workerBytesMax = workerBytesMax;
    this.#dropped = dropped;
  }

  /** Bytes of all requests that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A number that keeps the names of one owner apart from those of others. */
  newOwner(): number {
    return ++this.#ownerCount;
  }

  get(channel: Channel, name: string | number): T | undefined {
    return this.#of(channel)?.entries.get(name)?.request;
  }

  /**
   * Adds a frame; returns the request after its last. Throws what `begin` and `add` throw, QUEUE_FULL
   * (PartialRequests.N1), and BAD_REQUEST for the rest of a refused request; the request is then dropped
   * (PartialRequests.N5).
   */
  take(channel: Channel, name: string | number, frame: RequestFrame<T>): T | undefined {
    if (frame.isFirst) this.refuse(channel, name);
    const request = frame.isFirst ? frame.begin() : this.get(channel, name);
    if (request === undefined) throw badRequest("a part of a request whose beginning was refused, or never came");
    this.#delete(channel, name);
    try {
      frame.add(request);
      if (frame.isLast) return request;
      this.#set(channel, name, request, frame.byteCountOf(request));
      return undefined;
    } catch (thrown) {
      this.#dropped?.(request);
      throw thrown;
    }
  }

  /** Drops what came of this request. */
  refuse(channel: Channel, name: string | number): void {
    const request = this.get(channel, name);
    if (request === undefined) return;
    this.#delete(channel, name);
    this.#dropped?.(request);
  }

  /** PartialRequests.N1 */
  #set(channel: Channel, name: string | number, request: T, byteCount: number): void {
    const worker = this.#of(channel) ?? this.#begin(channel);
    if (worker.byteCount + byteCount > this.#workerBytesMax)
      throw full(worker.byteCount, byteCount, `${channel.name} may have ${this.#workerBytesMax}`);
    if (this.#bytes + byteCount > this.#bytesMax) throw full(this.#bytes, byteCount, `all workers together may have ${this.#bytesMax}`);
    worker.entries.set(name, { request, byteCount });
    worker.byteCount += byteCount;
    this.#bytes += byteCount;
    if (!worker.isWatched) this.#watch(worker);
  }

  #delete(channel: Channel, name: string | number): void {
    const worker = this.#of(channel);
    const entry = worker?.entries.get(name);
    if (worker === undefined || entry === undefined) return;
    worker.entries.delete(name);
    worker.byteCount -= entry.byteCount;
    this.#bytes -= entry.byteCount;
  }

  /** PartialRequests.N2 */
  forgetWorker(id: number): void {
    const worker = this.workers.get(id);
    if (worker === undefined) return;
    this.workers.delete(id);
    worker.cancelTimer(); // PartialRequests.N4
    this.#bytes -= worker.byteCount;
    if (worker.entries.size > 0) worker.channel.link?.destroy(); // PartialRequests.N3
    for (const { request } of worker.entries.values()) this.#dropped?.(request);
  }

  /** What came for this channel's node through another channel goes on here: its server was replaced by a standby. */
  handOver(channel: Channel): void {
    const worker = this.workers.get(channel.id);
    if (worker !== undefined && worker.incarnation === channel.incarnation) worker.channel = channel;
    if (worker !== undefined && worker.entries.size > 0) this.#watch(worker);
  }

  close(): void {
    for (const id of [...this.workers.keys()]) this.forgetWorker(id);
  }

  #of(channel: Channel): OfWorker<T> | undefined {
    const worker = this.workers.get(channel.id);
    return worker?.channel === channel && worker.incarnation === channel.incarnation ? worker : undefined;
  }

  #begin(channel: Channel): OfWorker<T> {
    this.forgetWorker(channel.id);
    const worker: OfWorker<T> = {
      channel,
      incarnation: channel.incarnation,
      entries: new Map(),
      byteCount: 0,
      isWatched: false,
      cancelTimer: () => {},
    };
    this.workers.set(channel.id, worker);
    return worker;
  }

  #watch(worker: OfWorker<T>): void {
    const { channel } = worker;
    worker.isWatched = true;
    const check = (): void => {
      worker.isWatched = false;
      if (channel.link === undefined) this.forgetWorker(channel.id);
      else if (worker.entries.size > 0) this.#watch(worker);
    };
    channel.whenUnlinked(() => {
      if (this.workers.get(channel.id) !== worker) return;
      if (worker.entries.size === 0) this.forgetWorker(channel.id);
      else worker.cancelTimer = this.#clock.after(LINK_GRACE_MS, check);
    });
  }
}

function full(keptBytes: number, moreBytes: number, limit: string): WeighbridgeError {
  const message = `${keptBytes} bytes of unfinished requests wait already, and ${moreBytes} more do not fit: ${limit}; ask for fewer keys at once`;
  return new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
}
