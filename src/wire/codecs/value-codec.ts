// value-codec — how the values of a parameter travel: as they are, in fewer bits, or only the largest. The interface,
// the three codecs that encode one value at a time, and the one that packs them. Bytes are as spec/codecs.md says.
//
//   packed   mask u64 × ⌈n / 64⌉ │ u32 for each word that is not 0
//            or all n words as they are, where that is not longer
//
// Invariants:
//   ValueCodec.V1. `encode` writes at most encodeBound bytes. It refuses before it changes anything but the target.
//   ValueCodec.V2. `decode` accepts only bytes of exactly the right length, reads nothing else, and writes exactly the
//       values.
//   ValueCodec.V3. A codec holds no values between calls: what error feedback keeps lies in the caller's residual span.
//   PackedCodec.P1. A payload of 4 n bytes is the words as they are, and every other one packed, and shorter.

import { assert } from "../../base/assert.ts";
import { badRequest, type WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { CODEC_COUNT_MAX, type CodecKernels } from "../../kernel/codec-kernels.ts";
import type { Kernels } from "../../kernel/kernels.ts";

/** What codecs work with: an arena, and kernels on it. */
export type CodecContext = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly codecKernels: CodecKernels;
};

export type ValueShape = { readonly rowCount: number; readonly width: number };

/** Addresses in the arena; the spans do not overlap. */
export type EncodeJob = ValueShape & {
  /** rowCount × width floats. */
  readonly source: number;
  /** encodeBound bytes, at a multiple of 4. */
  readonly target: number;
  /** As many floats as at `source`, all 0 to begin with. Only for codecs that have one. */
  readonly residual?: number | undefined;
};

export type DecodeJob = ValueShape & {
  readonly source: number;
  readonly byteCount: number;
  /** rowCount × width floats. */
  readonly target: number;
};

/** The number of a codec on the wire. */
export const ValueCodecId = { F32: 0, FP16: 1, BF16: 2, INT8: 3, INT8_CENTRED: 4, TOP_K: 5, PACKED: 6 } as const;

export interface ValueCodec {
  readonly id: number;
  /** Whether `encode` keeps what it does not send in a residual span. */
  readonly hasResidual: boolean;
  /** Whether how many bytes there are depends on the values. Left out: only where there is a residual. */
  readonly variesInLength?: boolean;
  encodeBound(shape: ValueShape): number;
  /** The most bytes that `decode` takes, where peers may send more than its own `encode` writes. */
  decodeBound?(shape: ValueShape): number;
  /** Returns how many bytes were written. Throws BAD_ARGUMENT for values that cannot be sent this way. */
  encode(job: EncodeJob): number;
  /** Throws BAD_REQUEST for bytes that no encoder makes; the target then holds nothing of use. */
  decode(job: DecodeJob): void;
  /** Gives scratch memory back. */
  close(): void;
}

/** The error for a peer's bytes that no encoder makes. */
export function malformed(what: string): WeighbridgeError {
  return badRequest(`malformed payload: ${what}`);
}

export function floatCountOf({ rowCount, width }: ValueShape): number {
  const floatCount = rowCount * width;
  assert(rowCount >= 1 && width >= 1 && floatCount <= CODEC_COUNT_MAX, `${rowCount} rows × ${width} are no shape of a payload`);
  return floatCount;
}

/** Throws BAD_REQUEST unless a payload has exactly so many bytes. */
export function checkByteCount(codec: string, byteCount: number, expected: number): void {
  if (byteCount !== expected) throw malformed(`${byteCount} bytes of ${codec} where ${expected} are due`);
}

/** f32, fp16 and bf16: each value by itself, in equally many bytes. They refuse nothing, not even NaN. */
export class FloatCodec implements ValueCodec {
  readonly id: number;
  readonly hasResidual = false;
  readonly #name: string;
  readonly #valueBytes: number;
  readonly #convert: Readonly<Record<"encode" | "decode", CodecKernels["encodeFp16"]>>;

  constructor(name: "f32" | "fp16" | "bf16", { kernels, codecKernels: codecs }: CodecContext) {
    this.id = { f32: ValueCodecId.F32, fp16: ValueCodecId.FP16, bf16: ValueCodecId.BF16 }[name];
    this.#name = name;
    this.#valueBytes = name === "f32" ? 4 : 2;
    const copy = (source: number, floatCount: number, target: number): void => kernels.copy(target, source, floatCount * 4);
    const fp16 = { encode: codecs.encodeFp16.bind(codecs), decode: codecs.decodeFp16.bind(codecs) };
    const bf16 = { encode: codecs.encodeBf16.bind(codecs), decode: codecs.decodeBf16.bind(codecs) };
    this.#convert = { f32: { encode: copy, decode: copy }, fp16, bf16 }[name];
  }

  encodeBound(shape: ValueShape): number {
    return floatCountOf(shape) * this.#valueBytes;
  }

  encode(job: EncodeJob): number {
    this.#convert.encode(job.source, floatCountOf(job), job.target);
    return this.encodeBound(job);
  }

  decode(job: DecodeJob): void {
    checkByteCount(this.#name, job.byteCount, this.encodeBound(job));
    this.#convert.decode(job.source, floatCountOf(job), job.target);
  }

  close(): void {}
}

/**
 * As f32, but words that are 0 stay behind, for rows of which little is used. No bit is lost: for rows of any element.
 */
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
    const wordsMax = wordCount - 2 * Math.ceil(wordCount / 64) - 1; // PackedCodec.P1
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
