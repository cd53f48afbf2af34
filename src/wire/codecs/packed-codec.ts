// packed-codec — as f32, but words that are 0 stay behind: for rows of which little is used. No bit is lost: for rows
// of every element.
//   mask u64 × ⌈n / 64⌉ │ u32 for each word that is not 0        or all n words as they are, where that is not longer
// Invariants VC1 to VC3 are those of value-codec.ts, and:
//   PackedCodec.P1. A payload of 4 n bytes is the words as they are, and every other one packed, and shorter.

import { type CodecContext, type DecodeJob, type EncodeJob, FloatCodec, floatCountOf, malformed, ValueCodecId } from "./value-codec.ts";

export class PackedCodec extends FloatCodec {
  override readonly id: number = ValueCodecId.PACKED;
  readonly variesInLength = true;
  readonly #kernels: CodecContext["codecKernels"];

  constructor(context: CodecContext) {
    super("f32", context);
    this.#kernels = context.codecKernels;
  }

  override encode(job: EncodeJob): number {
    const wordCount = floatCountOf(job);
    const wordsMax = wordCount - 2 * Math.ceil(wordCount / 64) - 1; // P1
    const packedBytes = wordsMax < 0 ? 0 : this.#kernels.packWords(job.source, wordCount, wordsMax, job.target);
    return packedBytes > 0 ? packedBytes : super.encode(job);
  }

  override decode(job: DecodeJob): void {
    const wordCount = floatCountOf(job);
    if (job.byteCount >= this.encodeBound(job)) super.decode(job);
    else if (this.#kernels.unpackWords(job.source, job.byteCount, wordCount, job.target) !== 0)
      throw malformed(`${job.byteCount} bytes are not what a mask of ${wordCount} words says`);
  }
}
