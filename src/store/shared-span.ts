// shared-span — a span of the arena that several read from, or write to the network from: it is given back when the last of them lets go.

import { assert } from "../base/assert.ts";
import type { Arena } from "../kernel/arena.ts";

export class SharedSpan {
  readonly address: number;
  readonly byteCount: number;
  /** It was put together for one answer (peer/frame-batch.ts, Held). */
  readonly isFresh = true;
  readonly #arena: Arena;
  #users: number;

  /** Takes over memory that was allocated with this many bytes, for so many users. */
  constructor(arena: Arena, span: { readonly address: number; readonly byteCount: number; readonly users?: number }) {
    this.#arena = arena;
    this.address = span.address;
    this.byteCount = span.byteCount;
    this.#users = span.users ?? 1;
  }

  /** To be called once by each user; the address is void for it afterwards. */
  release(): void {
    assert(this.#users > 0, "a span was released twice");
    if (--this.#users === 0) this.#arena.release(this.address, this.byteCount);
  }
}
