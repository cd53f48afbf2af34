// standard-output — what a command does when its standard output cannot be written. A reader that has seen enough
// (`| head`, EPIPE) ends it without a word, as it ends any Unix tool; anything else (ENOSPC) is a failure with a name.
// Nodes go on, as others need them, and report it by their exit code.

import { constants } from "node:os";
import { FAILED_EXIT_CODE } from "../node/launcher/process-errors.ts";

/** The system's number of SIGPIPE, by which a tool ends whose reader is gone; Windows has none. */
const SIGPIPE: number = constants.signals.SIGPIPE ?? 13;

export class StandardOutput {
  readonly #stream: NodeJS.WritableStream;
  readonly #listeners = new Set<(error: Error) => void>();
  #error: Error | undefined;

  constructor(stream: NodeJS.WritableStream) {
    this.#stream = stream;
    stream.on("error", (error: Error) => {
      if (this.#error !== undefined) return; // O1
      this.#error = error;
      for (const listener of this.#listeners) listener(error);
    });
  }

  /** Why it cannot be written; undefined as long as it can. */
  get error(): Error | undefined {
    return this.#error;
  }

  /** Returns what ends that. */
  onError(listener: (error: Error) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when everything was written, or cannot be. */
  async flush(): Promise<void> {
    if (this.#error === undefined) await new Promise<void>((resolve) => void this.#stream.write("", () => resolve()));
    await new Promise<void>((resolve) => setImmediate(resolve)); // The error of a write is told after its callback.
  }
}

/** The reader of a pipe has closed it. */
export function isReaderGone(error: Error): boolean {
  return "code" in error && error.code === "EPIPE";
}

/** O2 */
export function outputExitCode(error: Error): number {
  return isReaderGone(error) ? 128 + SIGPIPE : FAILED_EXIT_CODE;
}

export function outputText(error: Error): string {
  return `standard output cannot be written: ${error.message}`;
}
