// wait-meter — how long a training waits for others, and how long it takes in all.

export class WaitMeter {
  readonly #now: () => number;
  #startedAt: number;
  #waitedMs = 0;

  /** `now`: milliseconds that never go back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#startedAt = now();
  }

  /** Waits for something that is not this worker's own work. */
  async wait<T>(promise: Promise<T>): Promise<T> {
    const from = this.#now();
    try {
      return await promise;
    } finally {
      this.#waitedMs += this.#now() - from;
    }
  }

  restart(): void {
    this.#startedAt = this.#now();
    this.#waitedMs = 0;
  }

  get seconds(): number {
    return (this.#now() - this.#startedAt) / 1000;
  }

  /** Of the time since the start, from 0 to 1. */
  get share(): number {
    const total = this.#now() - this.#startedAt;
    return total > 0 ? Math.min(1, this.#waitedMs / total) : 0;
  }
}
