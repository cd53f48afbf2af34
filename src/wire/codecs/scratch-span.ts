// scratch-span — arena memory that a codec uses within one call: one span, which grows as needed, kept until closed.

import type { Arena } from "../../kernel/arena.ts";

export class ScratchSpan {
  readonly #arena: Arena;
  #address = 0;
  #byteCount = 0;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  /** At least `byteCount` bytes whose contents mean nothing, until the next call. Throws ARENA_FULL. */
  of(byteCount: number): number {
    if (byteCount <= this.#byteCount) return this.#address;
    this.close();
    this.#address = this.#arena.allocate(byteCount);
    this.#byteCount = byteCount;
    return this.#address;
  }

  close(): void {
    if (this.#byteCount > 0) this.#arena.release(this.#address, this.#byteCount);
    this.#byteCount = 0;
  }
}
