// arena-memory — the arena as memory for requests of several frames: that of servers, whose kernels work on a request where it lies.

import type { Arena } from "../kernel/arena.ts";
import type { RequestMemory, RequestRoom } from "../peer/request-assembly.ts";

const BYTES_MAX = 2 ** 30;

export class ArenaMemory implements RequestMemory {
  readonly requestBytesMax: number = BYTES_MAX;
  readonly bytesMax: number = BYTES_MAX;
  readonly nodeBytesMax: number = BYTES_MAX;
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  allocate(byteCount: number): RequestRoom {
    const arena = this.#arena;
    const size = Math.max(1, byteCount);
    const at = arena.allocate(size);
    return { bytes: arena.bytes, at, release: () => arena.release(at, size) };
  }

  holds(bytes: Uint8Array): boolean {
    return bytes.buffer === this.#arena.bytes.buffer;
  }
}
