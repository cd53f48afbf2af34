// plain-read-buffers — read buffers in ordinary memory, for nodes that keep no parameters.

import { READ_BUFFER_BYTES } from "../wire/frame-reader.ts";
import type { ReadBuffers } from "./connection.ts";

const FREE_MAX = 8;

export class PlainReadBuffers implements ReadBuffers {
  readonly #free: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#free.pop() ?? new Uint8Array(READ_BUFFER_BYTES);
  }

  give(buffer: Uint8Array): void {
    if (this.#free.length < FREE_MAX) this.#free.push(buffer);
  }
}
