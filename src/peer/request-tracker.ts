// request-tracker — numbers a user's requests and remembers the open ones, so that anyone can wait for a number. Memory
// grows with the open requests, not with all there ever were (ps-lite keeps every one).
//
// Invariants:
//   RequestTracker.T1. Numbers are 0, 1, 2 … in the order requests open.
//   RequestTracker.T2. A number below the oldest has ended unless it is a straggler's. It succeeded unless a failure is
//       remembered for it, or RequestTracker.T3 applies.
//   RequestTracker.T3. The newest FAILURES_MAX failures are remembered. A number up to the newest dropped one that is
//       not remembered itself may have failed: a wait for it rejects with OUTCOME_FORGOTTEN.
//   RequestTracker.T4. At most ENDED_MAX ended requests are kept behind an open one: beyond that the open one becomes a
//       straggler.

import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import type { OpenWaits } from "../base/open-waits.ts";
import { RingQueue } from "../base/ring-queue.ts";
import { STILL_OPEN, unheard } from "./unheard-update.ts";

/** As many as may wait for one node (queuedMax): all of them fail together when it dies. */
const FAILURES_MAX = 1 << 16;
const ENDED_MAX = 4096;

/** The state every tracked request has. */
export class TrackedRequest {
  isSettled = false;
  error: WeighbridgeError | undefined;
  /** Made when somebody waits before the end. */
  waiting: PromiseWithResolvers<void> | undefined;

  /** Whether it changes something at its receivers. */
  get isUpdate(): boolean {
    return false;
  }
}

export class RequestTracker {
  readonly #waits: OpenWaits;
  /** How long a wait without a deadline lasts; undefined: until the end. */
  readonly #timeoutMs: number | undefined;
  /** The requests from `#oldest` up to the next number: a ring of 2^n slots, in which a request is at its number. */
  #requests: (TrackedRequest | undefined)[] = new Array<TrackedRequest | undefined>(16).fill(undefined);
  #oldest = 0;
  /** The number the next request will get. Nobody else writes it. */
  nextTimestamp = 0;
  /** Ended requests in the ring. */
  #endedCount = 0;
  readonly #stragglers = new Map<number, TrackedRequest>();
  readonly #failures = new Map<number, WeighbridgeError>();
  /** The numbers of `#failures`, oldest first: a map that is emptied from its front gets slow. */
  readonly #failed = new RingQueue<number>();
  /** The highest number whose failure was dropped (RequestTracker.T3). */
  #forgottenThrough = -1;

  constructor(waits: OpenWaits, timeoutMs?: number) {
    this.#waits = waits;
    this.#timeoutMs = timeoutMs;
  }

  /** Requests that are kept: open ones, and a few ended ones behind an older open one (RequestTracker.T4). */
  get keptCount(): number {
    return this.nextTimestamp - this.#oldest + this.#stragglers.size;
  }

  /** Accepts a request and returns its number. */
  open(request: TrackedRequest): number {
    if (this.nextTimestamp - this.#oldest === this.#requests.length) this.#grow();
    const timestamp = this.nextTimestamp++;
    this.#requests[timestamp & (this.#requests.length - 1)] = request;
    return timestamp;
  }

  /** The request succeeded, or failed with `error`. */
  settle(timestamp: number, request: TrackedRequest, error: WeighbridgeError | undefined): void {
    request.isSettled = true;
    request.error = error;
    if (request.waiting !== undefined) {
      if (error === undefined) request.waiting.resolve();
      else request.waiting.reject(error);
    }
    if (error !== undefined) this.#rememberFailure(timestamp, error);
    if (timestamp < this.#oldest) this.#stragglers.delete(timestamp);
    else this.#endedCount++;
    this.#trim();
  }

  /** Waits for the request's end; rejects with its failure, or with DEADLINE or ABORTED, which leave it open. */
  async wait(timestamp: number, options: WaitOptions = {}): Promise<void> {
    if (!Number.isSafeInteger(timestamp) || timestamp < 0 || timestamp >= this.nextTimestamp) {
      throw badArgument(`there is no request ${timestamp}; ${this.nextTimestamp} were made, from 0 on`);
    }
    const request = this.#find(timestamp);
    if (request !== undefined && !request.isSettled) {
      request.waiting ??= Promise.withResolvers();
      const { promise } = request.waiting;
      const { timeoutMs = this.#timeoutMs, signal } = options;
      if (timeoutMs === undefined && signal === undefined) return await promise;
      const { isUpdate } = request;
      try {
        await this.#waits.wait(promise, `request ${timestamp}${isUpdate ? STILL_OPEN : ""}`, { timeoutMs, signal });
      } catch (thrown) {
        throw isUpdate ? unheard(thrown, promise) : thrown;
      }
      return;
    }
    const failure = request === undefined ? this.#failureOf(timestamp) : request.error; // RequestTracker.T2
    if (failure !== undefined) throw failure;
  }

  isSettled(timestamp: number): boolean {
    return timestamp < this.nextTimestamp && this.#find(timestamp)?.isSettled !== false;
  }

  #find(timestamp: number): TrackedRequest | undefined {
    return timestamp < this.#oldest ? this.#stragglers.get(timestamp) : this.#requests[timestamp & (this.#requests.length - 1)];
  }

  #failureOf(timestamp: number): WeighbridgeError | undefined {
    const failure = this.#failures.get(timestamp);
    if (failure !== undefined || timestamp > this.#forgottenThrough) return failure;
    return new WeighbridgeError(
      "OUTCOME_FORGOTTEN",
      `request ${timestamp} ended, but it may have failed: ${FAILURES_MAX} others failed since, and more are not remembered; wait sooner`,
    );
  }

  /**
   * Forgets the oldest requests that have ended, and sets open ones aside that keep too many behind them
   * (RequestTracker.T4).
   */
  #trim(): void {
    const mask = this.#requests.length - 1;
    for (; this.#oldest < this.nextTimestamp; this.#oldest++) {
      const oldest = this.#requests[this.#oldest & mask] as TrackedRequest;
      if (oldest.isSettled) this.#endedCount--;
      else if (this.#endedCount <= ENDED_MAX) return;
      else this.#stragglers.set(this.#oldest, oldest);
      this.#requests[this.#oldest & mask] = undefined;
    }
  }

  #grow(): void {
    const requests = new Array<TrackedRequest | undefined>(this.#requests.length * 2).fill(undefined);
    for (let at = this.#oldest; at < this.nextTimestamp; at++) requests[at & (requests.length - 1)] = this.#find(at);
    this.#requests = requests;
  }

  #rememberFailure(timestamp: number, error: WeighbridgeError): void {
    this.#failures.set(timestamp, error);
    this.#failed.push(timestamp);
    if (this.#failed.length <= FAILURES_MAX) return;
    const oldest = this.#failed.shift() as number;
    this.#failures.delete(oldest);
    this.#forgottenThrough = Math.max(this.#forgottenThrough, oldest); // RequestTracker.T3
  }
}
