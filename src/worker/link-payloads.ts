// link-payloads — the values of one parameter on their way between a caller's arrays and its link: copied once into the
// worker's arena to be encoded there, or decoded there and copied out. Values that travel as they are stay in the
// caller's arrays.
//
// Invariants:
//   LinkPayloads.L1. What was encoded lies in the given spans and does not change: a call may be sent again as long as
//       they are not
//   released.

import { bytesOf } from "../base/bytes.ts";
import { FLOAT_BYTES } from "../kernel/elements.ts";
import { ScratchSpan } from "../wire/codecs/codec-memory.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";
import { PayloadCodec } from "../wire/codecs/payload-codec.ts";
import { type CodecContext, floatCountOf, type ValueShape } from "../wire/codecs/value-codec.ts";
import type { ArenaSpans } from "./arena-spans.ts";

/** What top-k leaves behind: the gradient as it was encoded, and what of it was sent. */
export type KeptPayload = { readonly payload: Uint8Array; readonly gradient: number };

export class LinkPayloads {
  readonly #codecs: CodecContext;
  readonly #push: PayloadCodec;
  readonly #pull: PayloadCodec;
  /** For pushes that leave nothing behind: with top-k all values travel. */
  readonly #exact: PayloadCodec;
  readonly #zeros: ScratchSpan;
  readonly #floats: ScratchSpan;
  readonly #bytes: ScratchSpan;

  constructor(codecs: CodecContext, link: LinkEncoding, compression: GeneralCompression | undefined) {
    this.#codecs = codecs;
    this.#push = new PayloadCodec(codecs, link.push, compression);
    this.#pull = new PayloadCodec(codecs, link.pull, compression);
    this.#exact = this.#push.hasResidual ? new PayloadCodec(codecs, { topK: 1 }, compression) : this.#push;
    this.#zeros = new ScratchSpan(codecs.arena);
    this.#floats = new ScratchSpan(codecs.arena);
    this.#bytes = new ScratchSpan(codecs.arena);
  }

  /** Whether what is pushed leaves something behind for the next push. */
  get hasResidual(): boolean {
    return this.#push.hasResidual;
  }

  /**
   * Carries all of these values (LinkPayloads.L1). Throws BAD_ARGUMENT for values that the link cannot carry,
   * ARENA_FULL.
   */
  encode(values: Float32Array, shape: ValueShape, spans: ArenaSpans): Uint8Array {
    if (this.#push.isPlain) return bytesOf(values);
    const { arena } = this.#codecs;
    const target = spans.take(this.#exact.encodeBound(shape));
    const residual = this.#exact.hasResidual ? this.#zerosOf(values.byteLength) : undefined;
    const byteCount = this.#exact.encode({ ...shape, source: this.#addressOf(values), target, residual });
    return arena.bytes.subarray(target, target + byteCount) as Uint8Array;
  }

  /** As `encode`, with a residual: `scale` times the values is added to it, and what is sent taken out. */
  encodeKeeping(values: Float32Array, shape: ValueShape, scale: number, residual: number, spans: ArenaSpans): KeptPayload {
    const { arena, kernels } = this.#codecs;
    const gradient = spans.take(values.byteLength);
    if (scale === 1) arena.floats.set(values, gradient >>> 2);
    else {
      kernels.zero(gradient, values.byteLength);
      kernels.axpy(gradient, this.#addressOf(values), scale, values.length);
    }
    const target = spans.take(this.#push.encodeBound(shape));
    const byteCount = this.#push.encode({ ...shape, source: gradient, target, residual });
    return { gradient, payload: arena.bytes.subarray(target, target + byteCount) as Uint8Array };
  }

  /** Takes an encoded gradient back, as if it had not been pushed, up to the rounding of two sums. */
  takeBack({ payload, gradient }: KeptPayload, shape: ValueShape, residual: number): void {
    const { kernels } = this.#codecs;
    const floatCount = floatCountOf(shape);
    const sent = this.#floats.of(floatCount * FLOAT_BYTES);
    this.#push.decode({ ...shape, source: payload.byteOffset, byteCount: payload.length, target: sent });
    kernels.add(residual, sent, floatCount);
    kernels.axpy(residual, gradient, -1, floatCount);
  }

  /** Gives an encoded gradient up that may have been applied: what was sent of it is gone, the rest is taken back. */
  giveUp({ payload, gradient }: KeptPayload, shape: ValueShape, residual: number): void {
    const { floats } = this.#codecs.arena;
    const floatCount = floatCountOf(shape);
    const sent = this.#floats.of(floatCount * FLOAT_BYTES);
    this.#push.decode({ ...shape, source: payload.byteOffset, byteCount: payload.length, target: sent });
    for (let i = 0; i < floatCount; i++) {
      if (floats[(sent >>> 2) + i] === 0) floats[(residual >>> 2) + i]! -= floats[(gradient >>> 2) + i] as number;
    }
  }

  /** Where an answer lands that carries values for `target`; undefined if its length is not known before. */
  landing(target: Float32Array, shape: ValueShape, spans: ArenaSpans): Uint8Array | undefined {
    if (this.#pull.isPlain) return bytesOf(target);
    const byteCount = this.#pull.exactBytes(shape);
    if (byteCount === undefined) return undefined;
    const address = spans.take(byteCount);
    return this.#codecs.arena.bytes.subarray(address, address + byteCount) as Uint8Array;
  }

  /** Fills `target` from an answer. Throws BAD_REQUEST for one that no encoder makes. */
  decode(answer: ArrayBufferView, target: Float32Array, shape: ValueShape): void {
    if (this.#pull.isPlain) return; // it landed there
    const { arena } = this.#codecs;
    const { byteLength: byteCount } = answer;
    const source = isIn(arena.memory.buffer, answer) ? answer.byteOffset : this.#copyOf(answer);
    if (isIn(arena.memory.buffer, target)) {
      this.#pull.decode({ ...shape, source, byteCount, target: target.byteOffset });
      return;
    }
    const values = this.#floats.of(target.byteLength);
    this.#pull.decode({ ...shape, source, byteCount, target: values });
    target.set(arena.floats.subarray(values >>> 2, (values + target.byteLength) >>> 2));
  }

  close(): void {
    for (const codec of new Set([this.#push, this.#pull, this.#exact])) codec.close();
    this.#zeros.close();
    this.#floats.close();
    this.#bytes.close();
  }

  /** Where values lie in the arena, copied there if they do not; until the next call. */
  #addressOf(values: Float32Array): number {
    const { arena } = this.#codecs;
    if (isIn(arena.memory.buffer, values)) return values.byteOffset;
    const address = this.#floats.of(values.byteLength);
    arena.floats.set(values, address >>> 2);
    return address;
  }

  #zerosOf(byteCount: number): number {
    const address = this.#zeros.of(byteCount);
    this.#codecs.kernels.zero(address, byteCount);
    return address;
  }

  #copyOf(answer: ArrayBufferView): number {
    const address = this.#bytes.of(Math.max(1, answer.byteLength));
    this.#codecs.arena.bytes.set(bytesOf(answer), address);
    return address;
  }
}

function isIn(buffer: ArrayBufferLike, view: ArrayBufferView): boolean {
  return view.buffer === buffer;
}
