// arena-spans — memory of a worker's arena that calls are sent from and answers land in: taken piece by piece, given back together once no call
// is open.

import type { Arena } from "../kernel/arena.ts";

export class ArenaSpans {
  readonly #arena: Arena;
  readonly #spans: { readonly address: number; readonly byteCount: number }[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  /** The address of so many bytes, at least 1. Throws ARENA_FULL. */
  take(byteCount: number): number {
    const address = this.#arena.allocate(byteCount);
    this.#spans.push({ address, byteCount });
    return address;
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
