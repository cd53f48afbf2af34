// standard-output — what a command does when it cannot write to its standard output. A reader that has closed the pipe
// (`| head`, EPIPE) ends the command silently, as it ends any Unix tool; any other error (ENOSPC) is reported. Nodes go
// on, because others need them, and report the error with their exit code.
//
// Invariants:
//   StandardOutput.O1. Only the first error counts: listeners are called once.
//   StandardOutput.O2. A command whose reader is gone exits as if by SIGPIPE; any other error is a failure.

import { constants } from "node:os";
import { FAILED_EXIT_CODE } from "../node/launcher/process-errors.ts";

/** SIGPIPE's number, with which a tool ends whose reader is gone; Windows has none. */
const SIGPIPE: number = constants.signals.SIGPIPE ?? 13;

export class StandardOutput {
  readonly #stream: NodeJS.WritableStream;
  readonly #listeners = new Set<(error: Error) => void>();
  #error: Error | undefined;

  constructor(stream: NodeJS.WritableStream) {
    this.#stream = stream;
    stream.on("error", (error: Error) => {
      if (this.#error !== undefined) return; // StandardOutput.O1
      this.#error = error;
      for (const listener of this.#listeners) listener(error);
    });
  }

  /** Why output cannot be written; undefined as long as it can. */
  get error(): Error | undefined {
    return this.#error;
  }

  /** Returns a function that removes the listener. */
  onError(listener: (error: Error) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when everything was written or cannot be. */
  async flush(): Promise<void> {
    if (this.#error === undefined) await new Promise<void>((resolve) => void this.#stream.write("", () => resolve()));
    await new Promise<void>((resolve) => setImmediate(resolve)); // A write's error arrives after its callback.
  }
}

/** The reader of a pipe has closed it. */
export function isReaderGone(error: Error): boolean {
  return "code" in error && error.code === "EPIPE";
}

/** StandardOutput.O2 */
export function outputExitCode(error: Error): number {
  return isReaderGone(error) ? 128 + SIGPIPE : FAILED_EXIT_CODE;
}

export function outputText(error: Error): string {
  return `standard output cannot be written: ${error.message}`;
}
