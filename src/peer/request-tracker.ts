// request-tracker — numbers a user's requests and remembers which have not ended, so that anyone can wait for a number. Memory goes with the
// requests that are open, not with all there ever were (ps-lite keeps every one).
//
// Invariants:
//   T1. Numbers are 0, 1, 2 … in the order requests open.
//   T2. A number below the oldest open one has ended; it ended well unless a failure is remembered for it.
//   T3. At most FAILURES_MAX failures nobody has asked for are remembered, the newest ones.

import type { Clock } from "../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { RingQueue } from "../base/ring-queue.ts";

const FAILURES_MAX = 1024;

/** The state every tracked request has. */
export class TrackedRequest {
  isSettled = false;
  error: WeighbridgeError | undefined;
  /** Made when somebody waits before the end. */
  waiting: Deferred<void> | undefined;
}

export class RequestTracker {
  readonly #clock: Clock;
  readonly #open = new RingQueue<TrackedRequest>();
  #oldest = 0;
  readonly #failures = new Map<number, WeighbridgeError>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The number the next request will get. */
  get nextTimestamp(): number {
    return this.#oldest + this.#open.length;
  }

  /** Requests that are kept: open ones, and ended ones behind an older open one. */
  get keptCount(): number {
    return this.#open.length;
  }

  /** Takes a request on and gives it its number. */
  open(request: TrackedRequest): number {
    this.#open.push(request);
    return this.#oldest + this.#open.length - 1;
  }

  /** The request ended, well or with `error`. */
  settle(timestamp: number, request: TrackedRequest, error: WeighbridgeError | undefined): void {
    request.isSettled = true;
    request.error = error;
    if (request.waiting !== undefined) {
      if (error === undefined) request.waiting.resolve();
      else request.waiting.reject(error);
    }
    if (error !== undefined) this.#rememberFailure(timestamp, error);
    while (this.#open.at(0)?.isSettled === true) {
      this.#open.shift();
      this.#oldest++;
    }
  }

  /** Waits until the request ended; rejects with its failure, or with DEADLINE or ABORTED, which leave the request as it is. */
  async wait(timestamp: number, options: WaitOptions = {}): Promise<void> {
    if (!Number.isSafeInteger(timestamp) || timestamp < 0 || timestamp >= this.nextTimestamp) {
      throw new WeighbridgeError("BAD_ARGUMENT", `there is no request ${timestamp}; the newest is ${this.nextTimestamp - 1}`);
    }
    const request = this.#open.at(timestamp - this.#oldest);
    if (request !== undefined && !request.isSettled) {
      request.waiting ??= new Deferred();
      await waitFor(request.waiting.promise, `request ${timestamp}`, this.#clock, options);
      return;
    }
    const failure = request?.error ?? this.#failures.get(timestamp);
    if (failure !== undefined) throw failure;
  }

  isSettled(timestamp: number): boolean {
    return timestamp < this.#oldest || this.#open.at(timestamp - this.#oldest)?.isSettled === true;
  }

  #rememberFailure(timestamp: number, error: WeighbridgeError): void {
    this.#failures.set(timestamp, error);
    if (this.#failures.size <= FAILURES_MAX) return;
    const [oldest] = this.#failures.keys();
    if (oldest !== undefined) this.#failures.delete(oldest); // T3
  }
}
