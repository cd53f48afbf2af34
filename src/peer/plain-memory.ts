// plain-memory — ordinary memory, for nodes without an arena: read buffers, and room for requests of several frames.

import { READ_BUFFER_BYTES } from "../wire/frame-reader.ts";
import type { ReadBuffers } from "./connection.ts";
import type { RequestMemory, RequestRoom } from "./request-assembly.ts";

/** The longest request to a node without an arena. */
export const REQUEST_BYTES_MAX: number = 64 * 1024 * 1024;
const BYTES_MAX: number = 2 ** 30;

export class PlainMemory implements RequestMemory {
  readonly requestBytesMax: number = REQUEST_BYTES_MAX;
  readonly bytesMax: number = BYTES_MAX;
  readonly nodeBytesMax: number = BYTES_MAX / 2;

  allocate(byteCount: number): RequestRoom {
    return { bytes: new Uint8Array(byteCount), at: 0, release: () => {} };
  }

  holds(): boolean {
    return true;
  }
}

const FREE_MAX = 8;
/** Of all nodes in this process: what one gives back is as good for the next. */
const FREE: Uint8Array[] = [];

export class PlainReadBuffers implements ReadBuffers {
  take(): Uint8Array {
    return FREE.pop() ?? new Uint8Array(READ_BUFFER_BYTES);
  }

  give(buffer: Uint8Array): void {
    if (FREE.length < FREE_MAX) FREE.push(buffer);
  }
}
