// top-k-codec — only the largest sums of gradient and residual travel; the others stay in the residual and are added to
// the next gradient (error feedback). Values that did not travel decode as 0. For gradients alone, not for pulls.
//
//   u32 keepCount k │ u32 indexBytes │ k indices, delta-coded as keys are │ zeros to a multiple of 4 │ f32 × k
//
// Invariants, beside ValueCodec.V1 to V3:
//   TopKCodec.T1. After any number of steps, for every element: sent so far + residual = sum of the gradients, up to
//        2^-24 of each sum made (one rounding to f32 per step). A refused gradient leaves the residual as it was.

import { assert } from "../../base/assert.ts";
import { badArgument } from "../../base/errors.ts";
import { deltaKeysBound, topKScratchBytes } from "../../kernel/codec-kernels.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import { ScratchSpan } from "./codec-memory.ts";
import { decodeKeyDeltas } from "./key-codec.ts";
import {
  type CodecContext,
  type DecodeJob,
  type EncodeJob,
  floatCountOf,
  malformed,
  type ValueCodec,
  ValueCodecId,
  type ValueShape,
} from "./value-codec.ts";

const HEADER_BYTES = 8;
const INDEX_BYTES = 8;

const aligned = (byteCount: number): number => Math.ceil(byteCount / FLOAT_BYTES) * FLOAT_BYTES;

export class TopKCodec implements ValueCodec {
  readonly id: number = ValueCodecId.TOP_K;
  readonly hasResidual = true;
  readonly #context: CodecContext;
  readonly #fraction: number;
  readonly #scratch: ScratchSpan;

  /** `fraction` of the values travels, rounded up: above 0 and at most 1. */
  constructor(context: CodecContext, fraction: number) {
    assert(fraction > 0 && fraction <= 1, `top-k sends a fraction above 0 and at most 1, not ${fraction}`);
    this.#context = context;
    this.#fraction = fraction;
    this.#scratch = new ScratchSpan(context.arena);
  }

  keepCountOf(shape: ValueShape): number {
    const floatCount = floatCountOf(shape);
    return Math.min(floatCount, Math.ceil(this.#fraction * floatCount));
  }

  encodeBound(shape: ValueShape, keepCount: number = this.keepCountOf(shape)): number {
    return HEADER_BYTES + aligned(deltaKeysBound(keepCount)) + keepCount * FLOAT_BYTES;
  }

  /** Rows, and what is left of a block, travel with all their values, whatever the fraction. */
  readonly decodeBound = (shape: ValueShape): number => this.encodeBound(shape, floatCountOf(shape));

  encode(job: EncodeJob): number {
    const { arena, kernels, codecKernels } = this.#context;
    const { source, target, residual } = job;
    assert(residual !== undefined, "top-k keeps what it does not send: it needs a residual span");
    assert(target % FLOAT_BYTES === 0, "a payload of top-k is aligned as its floats are");
    const floatCount = floatCountOf(job);
    const keepCount = this.keepCountOf(job);
    const indices = this.#scratch.of((keepCount + 1) * (INDEX_BYTES + FLOAT_BYTES) + topKScratchBytes(floatCount));
    const values = indices + (keepCount + 1) * INDEX_BYTES;
    const kernelScratch = values + (keepCount + 1) * FLOAT_BYTES;
    const wrong = codecKernels.selectTopK(source, residual, floatCount, keepCount, indices, values, kernelScratch);
    if (wrong >= 0) throw badArgument(`value ${wrong} of a gradient for top-k is not finite`);
    const indexBytes = codecKernels.encodeDeltaKeys(indices, keepCount, target + HEADER_BYTES);
    assert(indexBytes >= 0, "the kernel lists indices in ascending order");
    const valuesAt = HEADER_BYTES + aligned(indexBytes);
    arena.words[target >>> 2] = keepCount;
    arena.words[(target >>> 2) + 1] = indexBytes;
    arena.bytes.fill(0, target + HEADER_BYTES + indexBytes, target + valuesAt);
    kernels.copy(target + valuesAt, values, keepCount * FLOAT_BYTES);
    return valuesAt + keepCount * FLOAT_BYTES;
  }

  decode(job: DecodeJob): void {
    const { arena, kernels, codecKernels } = this.#context;
    const { source, byteCount, target } = job;
    const floatCount = floatCountOf(job);
    if (byteCount < HEADER_BYTES) throw malformed(`${byteCount} bytes are too short for top-k`);
    const view = new DataView(arena.memory.buffer, source, byteCount);
    const keepCount = view.getUint32(0, true);
    const indexBytes = view.getUint32(4, true);
    if (keepCount === 0 || keepCount > floatCount) throw malformed(`${keepCount} of ${floatCount} values for top-k`);
    const valuesAt = HEADER_BYTES + aligned(indexBytes);
    if (valuesAt + keepCount * FLOAT_BYTES !== byteCount) {
      throw malformed(`${byteCount} bytes of top-k where ${valuesAt + keepCount * FLOAT_BYTES} are due`);
    }
    for (let at = HEADER_BYTES + indexBytes; at < valuesAt; at++) {
      if (view.getUint8(at) !== 0) throw malformed("bytes between indices and values of top-k that are not 0");
    }
    const indices = this.#scratch.of(keepCount * INDEX_BYTES);
    decodeKeyDeltas(codecKernels, { source: source + HEADER_BYTES, byteCount: indexBytes, keyCount: keepCount, target: indices });
    const last = (indices >>> 2) + (keepCount - 1) * 2;
    if (arena.words[last + 1] !== 0 || arena.words[last]! >= floatCount) throw malformed(`a top-k index at or above ${floatCount}`);
    kernels.zero(target, floatCount * FLOAT_BYTES);
    codecKernels.scatterFloats(indices, keepCount, source + valuesAt, target);
  }

  close(): void {
    this.#scratch.close();
  }
}
