// step-times — where the time of a training goes, at one worker. It counts from `restart` on:
//
//   sending    gradients are handed to the links: cut, encoded, and written as far as the links take them at once
//   waiting    for what is not this worker's own work: bytes on their way, servers, other workers
//   computing  all else: samples are read, forward, backward, optimizers that run here
//
// How long this worker waited for other workers it cannot know: they are late when they reach the clock that its values
// need after it began to wait for these. So it notes both, for whoever knows the same of all workers (ExchangeTimes).

import { inNextTurn } from "./event-loop.ts";

/** When a worker reached a clock and waited for its values, in milliseconds of its `performance.now()`. */
export type ExchangeTimes = {
  /** How many clocks it had ended. */
  readonly clock: number;
  /** When it ended the last of them. */
  readonly reachedAtMs: number;
  /** When it first waited after that; 0 if it did not wait before the next clock. */
  readonly waitsFromMs: number;
  /** How long it waited until the next clock, all waits together. */
  readonly waitedMs: number;
};

export class StepTimes {
  readonly #now: () => number;
  #startedAt: number;
  #waitedMs = 0;
  #sentMs = 0;
  /** When the links had what was handed to them last, as far as they take it at once. */
  #writtenAt = 0;
  #exchange = { clock: 0, reachedAtMs: 0, waitsFromMs: 0, waitedMs: 0 };
  #lastExchange: ExchangeTimes | undefined;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#startedAt = now();
  }

  /** Hands gradients to the links. */
  send(run: () => void): void {
    const from = this.#now();
    run();
    this.#sentMs += this.#now() - from;
    inNextTurn(this.#written); // links write when the caller pauses
  }

  readonly #written = (): void => {
    this.#writtenAt = this.#now();
  };

  /** Waits for something that is not this worker's own work. */
  async wait<T>(promise: Promise<T>): Promise<T> {
    const from = this.#now();
    try {
      return await promise;
    } finally {
      const ms = this.#now() - from;
      const writingMs = Math.min(ms, Math.max(0, this.#writtenAt - from));
      this.#sentMs += writingMs;
      this.#waitedMs += ms - writingMs;
      if (this.#exchange.waitedMs === 0) this.#exchange.waitsFromMs = from + writingMs;
      this.#exchange.waitedMs += ms - writingMs;
    }
  }

  /** This worker has ended so many clocks. */
  reached(clock: number): void {
    const before = this.#exchange;
    if (before.reachedAtMs > 0) this.#lastExchange = before;
    this.#exchange = { clock, reachedAtMs: this.#now(), waitsFromMs: 0, waitedMs: 0 };
  }

  /** Of the clock before the last one that this worker reached. */
  get lastExchange(): ExchangeTimes | undefined {
    return this.#lastExchange;
  }

  restart(): void {
    this.#startedAt = this.#now();
    this.#waitedMs = 0;
    this.#sentMs = 0;
  }

  get seconds(): number {
    return (this.#now() - this.#startedAt) / 1000;
  }

  /** The shares of the time since the start, from 0 to 1. */
  get shares(): { readonly sendShare: number; readonly waitShare: number } {
    const total = this.#now() - this.#startedAt;
    const shareOf = (ms: number): number => (total > 0 ? Math.min(1, ms / total) : 0);
    return { sendShare: shareOf(this.#sentMs), waitShare: shareOf(this.#waitedMs) };
  }
}
