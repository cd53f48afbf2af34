// codec-memory — arena memory of codecs: scratch within one call, and residuals that error feedback keeps between
// calls.

import type { Arena } from "../../kernel/arena.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import type { CodecContext } from "./value-codec.ts";

/** One span that grows as needed, kept until closed. */
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

/**
 * What error feedback has not sent yet, one span for each block of a tensor. Closing them loses their contents, so a
 * job that ends well sends them first (as f32) and zeroes them.
 */
export class Residuals {
  readonly #context: CodecContext;
  readonly #spans = new Map<number, { readonly address: number; readonly floatCount: number }>();

  constructor(context: CodecContext) {
    this.#context = context;
  }

  /** The address of a block's residual: zeros at first, or with another number of floats. Throws ARENA_FULL. */
  spanOf(block: number, floatCount: number): number {
    const span = this.#spans.get(block);
    if (span?.floatCount === floatCount) return span.address;
    const { arena, kernels } = this.#context;
    const address = arena.allocate(floatCount * FLOAT_BYTES);
    if (span !== undefined) arena.release(span.address, span.floatCount * FLOAT_BYTES);
    kernels.zero(address, floatCount * FLOAT_BYTES);
    this.#spans.set(block, { address, floatCount });
    return address;
  }

  /** The blocks that have a residual, with its address. */
  *entries(): Generator<{ readonly block: number; readonly address: number; readonly floatCount: number }> {
    for (const [block, span] of this.#spans) yield { block, ...span };
  }

  close(): void {
    for (const { address, floatCount } of this.#spans.values()) this.#context.arena.release(address, floatCount * FLOAT_BYTES);
    this.#spans.clear();
  }
}
