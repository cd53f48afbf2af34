// peer-log — log lines about other nodes' mistakes. Bounded per message: a flood of one kind of mistake must neither
// flood the log nor hide the others.

import type { Clock } from "../base/clock.ts";
import type { Log, LogFields } from "../base/log.ts";
import type { Failure } from "../wire/failure.ts";

const WINDOW_MS = 1000;
const LINES_PER_WINDOW = 10;
/** How often a lasting fault is logged. */
const REMINDER_MS = 60_000;
/** Lasting faults are named by what other nodes sent: so many are kept apart. */
const FAULTS_MAX = 256;

/** The lines with one message in the present window. */
type Window = { readonly endsAtMs: number; lineCount: number };

export class PeerLog {
  readonly #log: Log;
  readonly #clock: Clock;
  /** By message; those are ours, so there are only a few. */
  readonly #windows = new Map<string, Window>();
  /** The codes of failures that all nodes have in common, as they run one script, once they are logged. */
  readonly #logged = new Set<string>();
  /** The faults that `#logSeldom` has logged, the oldest first. */
  readonly #reminders = new Map<string, Window>();

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Logs the line, or only counts it: the next line after the window reports how many were left out. */
  log(level: "debug" | "info" | "warn", message: string, fields: LogFields): void {
    const nowMs = this.#clock.nowMs();
    let window = this.#windows.get(message);
    let leftOut = {};
    if (window === undefined || nowMs >= window.endsAtMs) {
      if (window !== undefined && window.lineCount > LINES_PER_WINDOW) leftOut = { leftOut: window.lineCount - LINES_PER_WINDOW };
      window = { endsAtMs: nowMs + WINDOW_MS, lineCount: 0 };
      this.#windows.set(message, window);
    }
    window.lineCount++;
    if (window.lineCount <= LINES_PER_WINDOW) this.#log[level](message, { ...fields, ...leftOut });
  }

  /** For a lasting fault that every call meets: logs the first line, then one a minute with how many were left out. */
  #logSeldom(fault: string, message: string, fields: LogFields): void {
    const nowMs = this.#clock.nowMs();
    const last = this.#reminders.get(fault);
    if (last !== undefined && nowMs < last.endsAtMs) {
      last.lineCount++;
      return;
    }
    this.#reminders.delete(fault);
    this.#reminders.set(fault, { endsAtMs: nowMs + REMINDER_MS, lineCount: 0 });
    const [oldest] = this.#reminders.keys();
    if (this.#reminders.size > FAULTS_MAX && oldest !== undefined) this.#reminders.delete(oldest);
    this.log("warn", message, last === undefined || last.lineCount === 0 ? fields : { ...fields, leftOut: last.lineCount });
  }

  /** Logs a failed request. `stack`: of what a user's code threw; logged once per throwing line, then once a minute. */
  logFailure({ code, message: reason, retryable }: Failure, request: LogFields, stack?: string): void {
    const fields = { ...request, code, reason };
    if (stack !== undefined) this.#logSeldom(framesOf(stack), "a handler threw", { ...request, stack });
    if (code === "UNKNOWN_PARAMETER") this.#logSeldom(`${code} ${reason}`, "a request failed", fields);
    else if (code === "UNKNOWN_FUNCTION" || code === "UNKNOWN_PLUG_IN") {
      this.log(this.#logged.has(code) ? "debug" : "info", "a request failed", fields); // its caller reports it
      this.#logged.add(code);
    }
    // Its caller cuts it again.
    else if (code === "WRONG_EPOCH") this.log("debug", "a request failed", fields);
    // ABORTED: by its caller
    else this.log(retryable || code === "ABORTED" ? "info" : "warn", "a request failed", fields);
  }
}

/** A stack without its message, which may differ from call to call. */
function framesOf(stack: string): string {
  const first = stack.search(/^\s+at /m);
  return first < 0 ? stack : stack.slice(first);
}
