// residuals — the spans in which a sender keeps what error feedback has not sent yet, one for each block of a tensor.
// Closing them loses their contents, so a job that ends well sends them first (as f32) and zeroes them.

import type { CodecContext } from "./value-codec.ts";

const FLOAT_BYTES = 4;

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
