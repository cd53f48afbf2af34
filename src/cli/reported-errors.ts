// reported-errors — keeps a job from telling one error several times: by every process that runs into it, and again in the last line of the job. An error of
// ours, in one line, is held back until it is known what the job makes of it.
//
// Invariants:
//   T1. An error is told once in full: in the last line of the job when it is the reason for its end, otherwise by the first process that says it.
//   T2. Nothing is held for longer than HOLD_MS while its process runs: a process that does not end after its error shows it.

import type { ProcessEnd } from "../node/launcher/node-process.ts";

const ERROR_LINE = /^weighbridge: [A-Z_]+: /;
const HOLD_MS = 1000;

export class ReportedErrors {
  readonly #told = new Set<string>();

  /** The job ends for this reason, and says so. */
  tellReason({ reason }: ProcessEnd): void {
    if (reason !== undefined) this.#told.add(reason);
  }

  /** For the standard error of one process: changes its lines, as LineStream takes it. `show` writes what was held. */
  reader(ended: Promise<unknown>, change: (line: string) => string, show: (line: string) => void): (line: string) => string | undefined {
    let held: string | undefined;
    const release = (): string | undefined => {
      const line = held;
      held = undefined;
      if (line === undefined || this.#told.has(line)) return undefined; // T1
      this.#told.add(line);
      return change(line);
    };
    const showHeld = (): void => {
      const line = release();
      if (line !== undefined) show(line);
    };
    ended.then(() => setImmediate(showHeld)).catch(() => {}); // The job has judged the end by then.
    return (line) => {
      const before = release();
      if (ERROR_LINE.test(line)) {
        held = line;
        setTimeout(showHeld, HOLD_MS).unref(); // T2
        return before;
      }
      return before === undefined ? change(line) : `${before}\n${change(line)}`;
    };
  }
}
