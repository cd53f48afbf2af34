// peerLog — log lines about what other nodes did wrong. Bounded for each message: a flood of one kind of mistake must neither become a
// flood of lines nor hide the others.

import type { Clock } from "../base/clock.ts";
import type { Log, LogFields } from "../base/log.ts";
import type { Failure } from "../wire/failure.ts";

const WINDOW_MS = 1000;
const LINES_PER_WINDOW = 10;
/** How often a fault is told that lasts. */
const REMINDER_MS = 60_000;
/** Faults that are told seldom are named by what other nodes sent: so many are kept apart. */
const FAULTS_MAX = 256;

/** The lines with one message in the present window. */
type Window = { readonly endsAtMs: number; lineCount: number };

export class PeerLog {
  readonly #log: Log;
  readonly #clock: Clock;
  /** By message; those are ours, so there are only a few. */
  readonly #windows = new Map<string, Window>();
  /** What `tellOnce` has told. */
  readonly #told = new Set<string>();
  /** What `tellSeldom` has told, the oldest first. */
  readonly #reminders = new Map<string, Window>();

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Logs the line, or only counts it: how many were left out is told with the next one after a while. */
  tell(level: "debug" | "info" | "warn", message: string, fields: LogFields): void {
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

  /** For a fault that lasts, and that every call meets: the first line, and then one a minute that says how many were left out. */
  tellSeldom(fault: string, level: "info" | "warn", message: string, fields: LogFields): void {
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
    this.tell(level, message, last === undefined || last.lineCount === 0 ? fields : { ...fields, leftOut: last.lineCount });
  }

  /** For a mistake that all nodes make alike, as they run one script: only the first line of its kind is above debug. Kinds are ours, and few. */
  tellOnce(kind: string, level: "info" | "warn", message: string, fields: LogFields): void {
    this.tell(this.#told.has(kind) ? "debug" : level, message, fields);
    this.#told.add(kind);
  }

  /** A request failed. `stack` is of what a user's code threw: it is logged once for each line that throws, and then once a minute. */
  tellFailure({ code, message: reason, retryable }: Failure, request: LogFields, stack?: string): void {
    const fields = { ...request, code, reason };
    if (stack !== undefined) this.tellSeldom(framesOf(stack), "warn", "a handler threw", { ...request, stack });
    if (code === "UNKNOWN_PARAMETER") this.tellSeldom(`${code} ${reason}`, "warn", "a request failed", fields);
    else if (code === "UNKNOWN_FUNCTION" || code === "UNKNOWN_PLUG_IN")
      this.tellOnce(code, "info", "a request failed", fields); // its caller reports it
    else this.tell(retryable || code === "ABORTED" ? "info" : "warn", "a request failed", fields); // ABORTED: by its caller
  }
}

/** A stack without its message, which may differ from call to call. */
function framesOf(stack: string): string {
  const first = stack.search(/^\s+at /m);
  return first < 0 ? stack : stack.slice(first);
}
