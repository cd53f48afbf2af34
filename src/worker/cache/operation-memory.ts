// operation-memory — what one operation of a cache takes of the arena, given back all at once when it has ended.

import type { Arena } from "../../kernel/arena.ts";

export class OperationMemory {
  readonly #arena: Arena;
  readonly #spans: { readonly address: number; readonly byteCount: number }[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  /** Bytes that mean nothing yet; none at all are one. Throws ARENA_FULL. */
  take(byteCount: number): number {
    const span = { address: this.#arena.allocate(Math.max(1, byteCount)), byteCount: Math.max(1, byteCount) };
    this.#spans.push(span);
    return span.address;
  }

  release(): void {
    for (const { address, byteCount } of this.#spans.splice(0)) this.#arena.release(address, byteCount);
  }
}
