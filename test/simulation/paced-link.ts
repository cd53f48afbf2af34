// paced-link — when what a worker sends reaches a server, in the orders that the transport allows (spec/consistency.md,
// W8): updates of one parameter keep their order, a read does not overtake its worker's updates of what it reads, CLOCK
// and JOIN overtake no update. All else overtakes freely.

import type { Clock } from "../../src/base/clock.ts";
import type { Random } from "../../src/base/random.ts";

export type LinkDelay = { readonly msMax: number; readonly random: Random };

export class PacedLink {
  readonly #clock: Clock;
  readonly #delay: LinkDelay;
  readonly #lastPushMs = new Map<number, number>();
  #lastAnyPushMs = 0;
  #lastClockMs = 0;
  /** What would come later than this is lost. */
  #cutMs = Infinity;

  constructor(clock: Clock, delay: LinkDelay) {
    this.#clock = clock;
    this.#delay = delay;
  }

  push(parameter: number, deliver: () => void, lose: () => void): void {
    const atMs = Math.max(this.#arrivalMs(), this.#lastPushMs.get(parameter) ?? 0);
    this.#lastPushMs.set(parameter, atMs);
    this.#lastAnyPushMs = Math.max(this.#lastAnyPushMs, atMs);
    this.#deliver(atMs, deliver, lose);
  }

  read(parameter: number, deliver: () => void): void {
    this.#deliver(Math.max(this.#arrivalMs(), this.#lastPushMs.get(parameter) ?? 0), deliver);
  }

  /** CLOCK, JOIN, and the news that the worker has left. */
  clock(deliver: () => void): void {
    this.#lastClockMs = Math.max(this.#arrivalMs(), this.#lastAnyPushMs, this.#lastClockMs);
    this.#deliver(this.#lastClockMs, deliver);
  }

  /** An answer on its way back. */
  answer(deliver: () => void): void {
    this.#clock.after(this.#delay.random.fraction() * this.#delay.msMax, deliver);
  }

  /** The worker crashed: what is under way may still come, up to a moment. */
  cut(): void {
    this.#cutMs = this.#arrivalMs();
  }

  #arrivalMs(): number {
    return this.#clock.nowMs() + this.#delay.random.fraction() * this.#delay.msMax;
  }

  #deliver(atMs: number, deliver: () => void, lose: () => void = () => {}): void {
    this.#clock.after(atMs - this.#clock.nowMs(), () => {
      if (atMs <= this.#cutMs) deliver();
      else lose();
    });
  }
}
