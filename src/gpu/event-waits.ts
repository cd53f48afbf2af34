// event-waits — waits for events of a card without blocking the thread. CUDA can tell a thread that an event is done
// only by blocking it or by a call from a thread of its own, which costs a hop between threads; so we ask: in every
// turn of the event loop for a while, then once in a millisecond.
//
// Invariants:
//   EventWaits.W1. One loop asks for all events; it runs only while somebody waits.
//   EventWaits.W2. A wait ends: by the event, by the failure of the card, by its signal or timeout, or by `close`.

import type { WaitOptions } from "../base/deferred.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";

/** What can be asked: an event of a card, or a stand-in of a test. */
export type AwaitedEvent = { readonly isDone: boolean };

type Wait = {
  readonly event: AwaitedEvent;
  readonly options: WaitOptions;
  readonly sinceMs: number;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
};

/** So many turns without a change before the loop slows down: some milliseconds. */
const EAGER_TURNS = 2_000;
const SLOW_MS = 1;

export class EventWaits {
  #waits: Wait[] = [];
  #isPolling = false;
  #quietTurns = 0;
  #isClosed = false;

  /**
   * Resolves when the event is done. Rejects with DEVICE_FAILED if the work before it failed, DEADLINE, ABORTED, or
   * CLOSED.
   */
  whenDone(event: AwaitedEvent, options: WaitOptions = {}): Promise<void> {
    return new Promise((resolve, reject) => {
      const wait = { event, options, sinceMs: performance.now(), resolve, reject };
      if (this.#isClosed) reject(closed());
      else if (!settled(wait)) {
        this.#waits.push(wait);
        this.#quietTurns = 0;
        this.#pollLater();
      }
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const { reject } of this.#waits.splice(0)) reject(closed());
  }

  #pollLater(): void {
    if (this.#isPolling) return;
    this.#isPolling = true;
    if (this.#quietTurns < EAGER_TURNS) setImmediate(() => this.#poll());
    else setTimeout(() => this.#poll(), SLOW_MS);
  }

  #poll(): void {
    this.#isPolling = false;
    const before = this.#waits;
    this.#waits = before.filter((wait) => !settled(wait));
    this.#quietTurns = this.#waits.length === before.length ? this.#quietTurns + 1 : 0;
    if (this.#waits.length > 0) this.#pollLater();
  }
}

function settled({ event, options: { signal, timeoutMs = Infinity }, sinceMs, resolve, reject }: Wait): boolean {
  try {
    if (signal?.aborted === true) {
      reject(new WeighbridgeError("ABORTED", `the wait was aborted: ${reasonOf(signal.reason)}`, { cause: signal.reason }));
      return true;
    }
    if (event.isDone) resolve();
    else if (performance.now() - sinceMs < timeoutMs) return false;
    else reject(new WeighbridgeError("DEADLINE", `waited ${timeoutMs} ms for the card`, { retryable: true }));
  } catch (thrown) {
    reject(thrown);
  }
  return true;
}

function closed(): WeighbridgeError {
  return new WeighbridgeError("CLOSED", "the card was closed");
}
