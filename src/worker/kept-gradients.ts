// kept-gradients — what top-k has not sent yet of the pushes to one tensor, block by block (spec/codecs.md, §1), for
// all handles of the tensor in a session.
//
// Invariants:
//   KeptGradients.E2. What was sent and acknowledged + the residuals = the sum of the gradients of all pushes that did
//       not fail. A push that fails is taken back; a flush sends what is left, exactly.
//   KeptGradients.E3. What failed and may have been applied (LINK_LOST, also as the cause of NODE_DEAD) is never sent
//       again, neither as a residual nor by a flush.

import type { WeighbridgeError } from "../base/errors.ts";
import { FLOAT_BYTES } from "../kernel/elements.ts";
import { mayBeApplied } from "../peer/call.ts";
import { Residuals } from "../wire/codecs/codec-memory.ts";
import { type CodecContext, floatCountOf, type ValueShape } from "../wire/codecs/value-codec.ts";
import type { ArenaSpans } from "./arena-spans.ts";
import type { KeptPayload, LinkPayloads } from "./link-payloads.ts";

/** A block of a push on its way. */
export type SentBlock = KeptPayload & {
  readonly block: number;
  readonly shape: ValueShape;
  /** It failed, and may have been applied (KeptGradients.E3). */
  isLost: boolean;
};

/** The residual of a block on its way. */
export type FlushedBlock = { readonly block: number; readonly gradients: Float32Array; isLost: boolean; isSent: boolean };

export class KeptGradients {
  readonly #codecs: CodecContext;
  readonly #payloads: LinkPayloads;
  readonly #residuals: Residuals;

  constructor(codecs: CodecContext, payloads: LinkPayloads) {
    this.#codecs = codecs;
    this.#payloads = payloads;
    this.#residuals = new Residuals(codecs);
  }

  /**
   * Encodes `scale` times a gradient and what was kept of the block before. Throws BAD_ARGUMENT, ARENA_FULL, with the
   * residual as it was.
   */
  encode(block: number, values: Float32Array, shape: ValueShape, scale: number, spans: ArenaSpans): SentBlock {
    const kept = this.#payloads.encodeKeeping(values, shape, scale, this.#residuals.spanOf(block, values.length), spans);
    return { ...kept, block, shape, isLost: false };
  }

  /** These were not acknowledged (KeptGradients.E2, KeptGradients.E3). */
  takeBack(blocks: Iterable<SentBlock>): void {
    for (const sent of blocks) {
      const residual = this.#residuals.spanOf(sent.block, floatCountOf(sent.shape));
      if (sent.isLost) this.#payloads.giveUp(sent, sent.shape, residual);
      else this.#payloads.takeBack(sent, sent.shape, residual);
    }
  }

  /** Takes out all that is kept, to be sent as it is. Throws ARENA_FULL. */
  takeAll(spans: ArenaSpans): FlushedBlock[] {
    const { kernels } = this.#codecs;
    const full = this.#full();
    const rooms = spans.guard(() => full.map(({ floatCount }) => spans.takeFloats(floatCount)));
    return full.map(({ block, address, floatCount }, i) => {
      const gradients = rooms[i] as Float32Array;
      kernels.copy(gradients.byteOffset, address, floatCount * FLOAT_BYTES);
      kernels.zero(address, floatCount * FLOAT_BYTES);
      return { block, gradients, isLost: false, isSent: false };
    });
  }

  get isEmpty(): boolean {
    return this.#full().length === 0;
  }

  /** The residuals that are not zero. */
  #full(): { readonly block: number; readonly address: number; readonly floatCount: number }[] {
    const { floats } = this.#codecs.arena;
    return [...this.#residuals.entries()].filter(
      ({ address, floatCount }) => !isZero(floats.subarray(address >>> 2, (address >>> 2) + floatCount)),
    );
  }

  /** What is not sent stays (KeptGradients.E3). */
  putBack(left: readonly FlushedBlock[]): void {
    for (const { block, gradients, isLost, isSent } of left) {
      if (isLost || isSent) continue;
      this.#codecs.kernels.add(this.#residuals.spanOf(block, gradients.length), gradients.byteOffset, gradients.length);
    }
  }

  /** Forgets it all: the parameter is gone. */
  close(): void {
    this.#residuals.close();
  }
}

/** KeptGradients.E3 */
export function noteLost(sent: { isLost: boolean }, error: WeighbridgeError): void {
  sent.isLost = mayBeApplied(error);
}

function isZero(floats: Float32Array): boolean {
  for (let i = 0; i < floats.length; i++) if (floats[i] !== 0) return false;
  return true;
}
