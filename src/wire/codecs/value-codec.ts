// value-codec — how the values of a parameter travel: as they are, in fewer bits, or only the largest. The interface,
// and the three codecs that encode one value at a time. Bytes are as spec/codecs.md says.
//
// Invariants:
//   VC1. `encode` writes at most encodeBound bytes. It refuses before it changes anything but the target.
//   VC2. `decode` accepts only bytes of exactly the right length, reads nothing else, and writes exactly the values.
//   VC3. A codec holds no values between calls: what error feedback keeps lies in the caller's residual span.

import { assert } from "../../base/assert.ts";
import { WeighbridgeError } from "../../base/errors.ts";
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
export const ValueCodecId = { F32: 0, FP16: 1, BF16: 2, INT8: 3, INT8_CENTRED: 4, TOP_K: 5 } as const;

export interface ValueCodec {
  readonly id: number;
  /** Whether `encode` keeps what it does not send in a residual span. */
  readonly hasResidual: boolean;
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
  return new WeighbridgeError("BAD_REQUEST", `malformed payload: ${what}`);
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

/**
 * f32, fp16 and bf16: each value by itself, in the same number of bytes. They refuse nothing: NaN and infinity travel.
 */
export class FloatCodec implements ValueCodec {
  readonly id: number;
  readonly hasResidual = false;
  readonly #name: string;
  readonly #valueBytes: number;
  readonly #encode: (source: number, floatCount: number, target: number) => void;
  readonly #decode: (source: number, floatCount: number, target: number) => void;

  constructor(name: "f32" | "fp16" | "bf16", { kernels, codecKernels }: CodecContext) {
    this.#name = name;
    this.#valueBytes = name === "f32" ? 4 : 2;
    const copyFloats = (source: number, floatCount: number, target: number): void => kernels.copy(target, source, floatCount * 4);
    switch (name) {
      case "f32":
        this.id = ValueCodecId.F32;
        this.#encode = copyFloats;
        this.#decode = copyFloats;
        break;
      case "fp16":
        this.id = ValueCodecId.FP16;
        this.#encode = (...args) => codecKernels.encodeFp16(...args);
        this.#decode = (...args) => codecKernels.decodeFp16(...args);
        break;
      case "bf16":
        this.id = ValueCodecId.BF16;
        this.#encode = (...args) => codecKernels.encodeBf16(...args);
        this.#decode = (...args) => codecKernels.decodeBf16(...args);
        break;
    }
  }

  encodeBound(shape: ValueShape): number {
    return floatCountOf(shape) * this.#valueBytes;
  }

  encode(job: EncodeJob): number {
    const floatCount = floatCountOf(job);
    this.#encode(job.source, floatCount, job.target);
    return floatCount * this.#valueBytes;
  }

  decode(job: DecodeJob): void {
    const floatCount = floatCountOf(job);
    checkByteCount(this.#name, job.byteCount, floatCount * this.#valueBytes);
    this.#decode(job.source, floatCount, job.target);
  }

  close(): void {}
}
