// disk-retry — tries a step again and again while the disk is full, until somebody frees space. Every other failure is
// its caller's.

import type { CancelTimer, Clock } from "../../base/clock.ts";
import type { Log, LogFields } from "../../base/log.ts";
import { reasonText } from "../checkpoint/file-layer.ts";

const RETRY_MS = 1000;
const FULL: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);

export type DiskRetryOptions = {
  readonly clock: Clock;
  readonly log: Log;
  /** For the log: what does not happen while the disk is full, and that it happens again. */
  readonly words: { readonly full: string; readonly again: string };
  readonly fields: LogFields;
};

export class DiskRetry {
  readonly #options: DiskRetryOptions;
  #isClosed = false;
  #cancelTimer: CancelTimer = () => {};
  #wake: () => void = () => {};

  constructor(options: DiskRetryOptions) {
    this.#options = options;
  }

  /** Throws what `step` throws, if the disk is not full or nobody waits any more. */
  async run(step: () => Promise<void>): Promise<void> {
    const { clock, log, words, fields } = this.#options;
    for (let tries = 0; ; tries++) {
      try {
        await step();
        if (tries > 0) log.info(words.again, fields);
        return;
      } catch (thrown) {
        if (this.#isClosed || !FULL.has((thrown as { readonly code?: string }).code ?? "")) throw thrown;
        if (tries === 0) log.error(words.full, { ...fields, reason: reasonText(thrown) });
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
          this.#cancelTimer = clock.after(RETRY_MS, resolve);
        });
        if (this.#isClosed) throw thrown;
      }
    }
  }

  /** Tries nothing again. */
  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
    this.#wake();
  }
}
