// arena-spans — memory of a worker's arena that calls are sent from and answers land in: taken piece by piece, given
// back together once no call is open.

import type { Arena } from "../kernel/arena.ts";
import { FLOAT_BYTES } from "../kernel/elements.ts";

export class ArenaSpans {
  readonly #arena: Arena;
  readonly #spans: { readonly address: number; readonly byteCount: number }[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  /** The address of so many bytes that mean nothing yet; none at all are one. Throws ARENA_FULL. */
  take(byteCount: number): number {
    const span = { address: this.#arena.allocate(Math.max(1, byteCount)), byteCount: Math.max(1, byteCount) };
    this.#spans.push(span);
    return span.address;
  }

  /** So many floats, their values arbitrary. Throws ARENA_FULL. */
  takeFloats(count: number): Float32Array {
    return new Float32Array(this.#arena.memory.buffer, this.take(count * FLOAT_BYTES), count);
  }

  /** Does something with the spans, and gives them all back if that throws. */
  guard<T>(make: () => T): T {
    try {
      return make();
    } catch (thrown) {
      this.release();
      throw thrown;
    }
  }

  release(): void {
    for (const { address, byteCount } of this.#spans.splice(0)) this.#arena.release(address, byteCount);
  }
}
