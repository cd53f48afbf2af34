// codec-kernels — the arithmetic of the codecs of links: values and keys in fewer bytes, and back. The interface, and
// the binding that runs; PlainCodecKernels is the reference. Not the layout of messages: src/wire/codecs,
// spec/codecs.md.
//
// Addresses, keys and values are as in kernels.ts. Sources and targets do not overlap. Encoded bytes need no alignment.
//
// Invariants:
//   CodecKernels.E1. All implementations give the same bits, NaNs included: integer operations make the 16-bit forms.
//   CodecKernels.E2. Whatever the bytes are, a decoder reads and writes only the spans that its arguments describe.
//   CodecKernels.E3. Counts are at most CODEC_COUNT_MAX, so that no size in bytes reaches 2^31.

import type { Arena } from "./arena.ts";

export const CODEC_COUNT_MAX: number = 2 ** 27;

const HISTOGRAM_BYTES = 2048 * 4;

/** The largest magnitude that `encodeInt8Rows` takes. */
export const INT8_MAGNITUDE_MAX: number = 2 ** 126;

/** What decodeDeltaKeys returns. */
export const DeltaStatus = {
  DONE: 0,
  /** The bytes end before the keys do. */
  TOO_SHORT: 1,
  /** Bytes are left after the last key. */
  TOO_LONG: 2,
  /** A length is over 8, or is not the shortest, or an unused one is not 0. */
  WRONG_LENGTH: 3,
  /** A key would be 2^64 or more. */
  NOT_ASCENDING: 4,
} as const;

/** Numbers side by side, against the house rule: this is the WebAssembly boundary, and a call must not allocate. */
export interface CodecKernels {
  /** f32 → binary16, to nearest, ties to even. Above 65,519.99: Infinity. A NaN becomes the quiet NaN of its sign. */
  encodeFp16(source: number, floatCount: number, target: number): void;
  /** binary16 → f32, exact. */
  decodeFp16(source: number, floatCount: number, target: number): void;
  /** f32 → its upper 16 bits, to the nearest, ties to even. A NaN keeps its upper bits and becomes quiet. */
  encodeBf16(source: number, floatCount: number, target: number): void;
  /** bf16 → f32, exact. */
  decodeBf16(source: number, floatCount: number, target: number): void;

  /**
   * Writes scales (f32 × rows), zeros (f32 × rows, only if `centred` is 1) and bytes. Returns -1, or the index of the
   * first row with a value that is not finite or above INT8_MAGNITUDE_MAX; the target is then undefined.
   */
  encodeInt8Rows(source: number, rowCount: number, width: number, centred: number, target: number): number;
  /** Back again. Returns -1, or the index of the first row that no encoder makes; what is decoded is finite. */
  decodeInt8Rows(source: number, rowCount: number, width: number, centred: number, target: number): number;

  /**
   * residual += gradient, then moves the `keepCount` sums of the largest magnitude (of equal ones the lower index) out
   * of it: indices (u64, ascending) and values (f32), in lists with room for keepCount + 1. Returns -1, or the index of
   * the first sum that is not finite, with nothing changed.
   */
  selectTopK(
    gradient: number,
    residual: number,
    floatCount: number,
    keepCount: number,
    indices: number,
    values: number,
    scratch: number,
  ): number;
  /** target[indices[i]] = values[i], indices u64 below 2^30. */
  scatterFloats(indices: number, count: number, values: number, target: number): void;

  /** Writes at most deltaKeysBound(keyCount) bytes. Returns how many, or -1 if the keys are not strictly ascending. */
  encodeDeltaKeys(keys: number, keyCount: number, target: number): number;
  /** Writes keyCount keys, strictly ascending if the status is DONE. */
  decodeDeltaKeys(source: number, byteCount: number, keyCount: number, keys: number): number;
  /** Writes the 64-bit signature of a list at `signature` (8 bytes). */
  signKeys(keys: number, keyCount: number, signature: number): void;

  /**
   * Writes a bit for each word (u32) that is not 0, in whole u64, then those words. Returns the number of bytes, or 0
   * if more than `wordsMax` words are not 0; the packedWordsBound bytes at `target` are then undefined.
   */
  packWords(source: number, wordCount: number, wordsMax: number, target: number): number;
  /** The inverse. Returns 0, or 1, with nothing written, if the mask does not match `byteCount` and `wordCount`. */
  unpackWords(source: number, byteCount: number, wordCount: number, target: number): number;
}

/** The most bytes that `packWords` writes. */
export function packedWordsBound({ wordCount, wordsMax }: { readonly wordCount: number; readonly wordsMax: number }): number {
  return Math.ceil(wordCount / 64) * 8 + wordsMax * 4;
}

/** The most bytes that `encodeDeltaKeys` writes. */
export function deltaKeysBound(keyCount: number): number {
  return Math.ceil(keyCount / 2) + keyCount * 8;
}

/** What `selectTopK` needs at `scratch`; its bytes mean nothing before and after. */
export function topKScratchBytes(floatCount: number): number {
  return HISTOGRAM_BYTES + (floatCount + 1) * 4;
}

/** The kernels that run: each member is the module's export, so a call costs only the step into WebAssembly. */
export function simdCodecKernels({ module }: Arena): CodecKernels {
  return {
    encodeFp16: module.encodeFp16,
    decodeFp16: module.decodeFp16,
    encodeBf16: module.encodeBf16,
    decodeBf16: module.decodeBf16,
    encodeInt8Rows: module.encodeInt8Rows,
    decodeInt8Rows: module.decodeInt8Rows,
    selectTopK: module.selectTopK,
    scatterFloats: module.scatterFloats,
    encodeDeltaKeys: module.encodeDeltaKeys,
    decodeDeltaKeys: module.decodeDeltaKeys,
    signKeys: module.signKeys,
    packWords: module.packWords,
    unpackWords: module.unpackWords,
  };
}
