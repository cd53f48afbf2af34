// plain-memory — ordinary memory for requests of several frames: that of nodes without an arena.

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
