// complaints — log lines about what other nodes did wrong. Bounded: a flood of mistakes must not become a flood of lines.

import type { Clock } from "../base/clock.ts";
import type { Log, LogFields } from "../base/log.ts";

const WINDOW_MS = 1000;
const LINES_PER_WINDOW = 20;

export class Complaints {
  readonly #log: Log;
  readonly #clock: Clock;
  #windowEndsAtMs = 0;
  #lineCount = 0;

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Logs the line, or counts it: how many were left out is told with the first line after. */
  tell(level: "debug" | "info" | "warn", message: string, fields: LogFields): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs >= this.#windowEndsAtMs) {
      if (this.#lineCount > LINES_PER_WINDOW) {
        this.#log.warn("more lines about other nodes were left out", { lines: this.#lineCount - LINES_PER_WINDOW });
      }
      this.#windowEndsAtMs = nowMs + WINDOW_MS;
      this.#lineCount = 0;
    }
    if (++this.#lineCount <= LINES_PER_WINDOW) this.#log[level](message, fields);
  }
}
