// reported-errors — keeps a job from printing one error several times: once for every process that meets it, and again
// in the job's last line. It holds a line with one of our errors back until the job has decided what the line means.
//
// Invariants:
//   ReportedErrors.T1. An error is printed once: in the job's last line if it ended the job, otherwise for the first
//       process that meets it. Lines that differ only in the server that reports the error, or in the line of the
//       script, count as one.
//   ReportedErrors.T2. A line is held for at most HOLD_MS while its process runs.

import type { ProcessEnd } from "../node/launcher/node-process.ts";

const ERROR_LINE = /^weighbridge: [A-Z_]+: /;
const REPORTING_SERVER = /^(weighbridge: [A-Z_]+: )server \d+: /;
/** Where in the script: workers may meet the error in different lines. */
const PLACE = / \([^()]+:\d+:\d+\)$/;
const HOLD_MS = 1000;

export class ReportedErrors {
  readonly #printed = new Set<string>();

  /** The job ends for this reason, and prints it. */
  addReason({ reason }: ProcessEnd): void {
    if (reason !== undefined) this.#printed.add(errorOf(reason));
  }

  /** Resolves when the held lines of processes that have ended are shown. */
  async shown(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** For the standard error of one process: changes its lines for a LineStream. `show` writes a line that was held. */
  reader(ended: Promise<unknown>, change: (line: string) => string, show: (line: string) => void): (line: string) => string | undefined {
    let held: string | undefined;
    const release = (): string | undefined => {
      const line = held;
      held = undefined;
      if (line === undefined || this.#printed.has(errorOf(line))) return undefined; // ReportedErrors.T1
      this.#printed.add(errorOf(line));
      return change(line);
    };
    const showHeld = (): void => {
      const line = release();
      if (line !== undefined) show(line);
    };
    ended.then(() => setImmediate(showHeld)).catch(() => {}); // The job has decided by then.
    return (line) => {
      const before = release();
      if (ERROR_LINE.test(line)) {
        held = line;
        setTimeout(showHeld, HOLD_MS).unref(); // ReportedErrors.T2
        return before;
      }
      return before === undefined ? change(line) : `${before}\n${change(line)}`;
    };
  }
}

/** Without the server that reports it, and without the place in the script. */
function errorOf(line: string): string {
  return line.replace(REPORTING_SERVER, "$1").replace(PLACE, "");
}
