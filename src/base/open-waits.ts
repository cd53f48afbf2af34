// open-waits — the waits with a deadline that are under way: until when somebody still waits.

import type { Clock } from "./clock.ts";
import { type WaitOptions, waitFor } from "./deferred.ts";

export class OpenWaits {
  readonly #clock: Clock;
  readonly #open = new Set<{ readonly untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** As `waitFor`, and known here until it ends. */
  async wait<T>(promise: Promise<T>, what: string, options: WaitOptions): Promise<T> {
    if (options.deadlineMs === undefined) return await waitFor(promise, what, this.#clock, options);
    const open = { untilMs: this.#clock.nowMs() + options.deadlineMs };
    this.#open.add(open);
    try {
      return await waitFor(promise, what, this.#clock, options);
    } finally {
      this.#open.delete(open);
    }
  }

  /** When the last of the waits that are under way now ends by its deadline; 0: there is none. */
  get untilMs(): number {
    let untilMs = 0;
    for (const open of this.#open) untilMs = Math.max(untilMs, open.untilMs);
    return untilMs;
  }
}
