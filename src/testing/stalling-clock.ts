// stalling-clock — the clock of a process on a machine that stands still for a while, as a virtual machine does that is
// not scheduled: time jumps, what was due meanwhile happens at once, and what is on its way arrives behind that.

import type { CancelTimer, Clock } from "../base/clock.ts";

type Timer = { readonly dueAtMs: number; readonly fire: () => void; cancel: CancelTimer };

export class StallingClock implements Clock {
  readonly #clock: Clock;
  readonly #timers = new Set<Timer>();
  #stalledMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** It has stood still for so long. */
  stall(ms: number): void {
    this.#stalledMs += ms;
    for (const timer of [...this.#timers].sort((a, b) => a.dueAtMs - b.dueAtMs)) {
      if (!this.#timers.has(timer)) continue; // one before it has cancelled it
      timer.cancel();
      if (timer.dueAtMs <= this.nowMs()) this.#fire(timer);
      else this.#arm(timer);
    }
  }

  nowMs(): number {
    return this.#clock.nowMs() + this.#stalledMs;
  }

  after(delayMs: number, fire: () => void): CancelTimer {
    const timer: Timer = { dueAtMs: this.nowMs() + delayMs, fire, cancel: () => {} };
    this.#timers.add(timer);
    this.#arm(timer);
    return () => {
      timer.cancel();
      this.#timers.delete(timer);
    };
  }

  soon(run: () => void): void {
    this.#clock.soon(run);
  }

  afterInput(run: () => void): void {
    this.#clock.afterInput(run);
  }

  #arm(timer: Timer): void {
    timer.cancel = this.#clock.after(timer.dueAtMs - this.nowMs(), () => this.#fire(timer));
  }

  #fire(timer: Timer): void {
    if (this.#timers.delete(timer)) timer.fire();
  }
}
