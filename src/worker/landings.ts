// landings — where the encoded answers of one call land, and how they come to the caller's arrays.

import type { ValueShape } from "../wire/codecs/value-codec.ts";
import type { ArenaSpans } from "./arena-spans.ts";
import { CallerArray } from "./caller-array.ts";
import type { LinkPayloads } from "./link-payloads.ts";

/**
 * For one answer: where it lands, if its length is known before, and what happens when it has: whether its values are
 * where they belong.
 */
export type Landing = {
  readonly into: Uint8Array | undefined;
  readonly answered: (answer: { readonly values: ArrayBufferView }) => boolean;
};

/** Keeps what was wrong with an answer until all have come: a call's `answered` must not throw. */
export class Landings {
  readonly #payloads: LinkPayloads;
  readonly #spans: ArenaSpans;
  #failure: unknown;

  constructor(payloads: LinkPayloads, spans: ArenaSpans) {
    this.#payloads = payloads;
    this.#spans = spans;
  }

  /** Throws ARENA_FULL. */
  open(target: Float32Array, shape: ValueShape): Landing {
    const given = new CallerArray(target);
    return {
      into: this.#payloads.landing(target, shape, this.#spans),
      answered: ({ values }) => {
        try {
          given.check("an encoded answer", false);
          this.#payloads.decode(values, target, shape);
          return true;
        } catch (thrown) {
          this.#failure ??= thrown;
          return false;
        }
      },
    };
  }

  /** Throws BAD_REQUEST if an answer could not be decoded, BUFFER_DETACHED if there was nowhere to decode it to. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}
