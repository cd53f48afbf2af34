// stoppable-clock — the clock of a process that can be stopped, as by SIGSTOP: what is due meanwhile happens when it
// goes on.

import type { CancelTimer, Clock } from "../../src/base/clock.ts";

export class StoppableClock implements Clock {
  readonly #clock: Clock;
  #due: (() => void)[] | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  stop(): void {
    this.#due = [];
  }

  goOn(): void {
    const due = this.#due ?? [];
    this.#due = undefined;
    for (const run of due) run();
  }

  nowMs(): number {
    return this.#clock.nowMs();
  }

  after(delayMs: number, fire: () => void): CancelTimer {
    let isCancelled = false;
    const cancel = this.#clock.after(delayMs, () => this.#run(() => isCancelled || fire()));
    return () => {
      isCancelled = true;
      cancel();
    };
  }

  soon(run: () => void): void {
    this.#clock.soon(() => this.#run(run));
  }

  afterInput(run: () => void): void {
    this.#clock.afterInput(() => this.#run(run));
  }

  #run(run: () => void): void {
    if (this.#due === undefined) run();
    else this.#due.push(run);
  }
}
