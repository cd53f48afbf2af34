// general-compression — the interface of a general compressor (zstd), and the decision when to use it. Dense floats do
// not compress (1.08 times); sparse ones and key lists do. So a sample of the payload is checked first, and a payload
// that gains less than an eighth travels as it is. Every compressed payload of values has this header:
//
//   u32 plainBytes │ u32 method, 0: stored, 1: zstd │ the payload, or the compressor's bytes    2, 3: sparse-payload.ts
//
// Invariants:
//   GeneralCompression.C1. The receiver knows how many bytes it will get before it allocates, and takes no more than
//       its limit.

import { assert } from "../../base/assert.ts";
import { malformed } from "./value-codec.ts";

export interface GeneralCompression {
  /** The number of the method on the wire. */
  readonly method: number;
  /** Returns how many bytes were written to `target`, or 0 when they do not fit. */
  compress(source: Uint8Array, target: Uint8Array): number;
  /** Throws BAD_REQUEST unless `source` is exactly what gives target.length bytes. */
  decompress(source: Uint8Array, target: Uint8Array): void;
}

export const CompressionMethod = { STORED: 0, ZSTD: 1, PACKED: 2, PACKED_ZSTD: 3 } as const;

export const COMPRESSED_HEADER_BYTES = 8;

/** Shorter payloads are not worth the call: it costs some ten microseconds. */
const COMPRESSIBLE_BYTES_MIN = 4096;

const SAMPLE_COUNT = 2048;
const SAMPLE_RUN = 32;
/** Bits per byte, of 8. Dense floats have 6.7 and more, floats with a third of zeros 5.5, raw ascending keys 3 to 5. */
const ENTROPY_MAX = 5.5;

/** Whether a payload is likely to shrink, by the entropy of a sample: runs of 32 bytes, spread over all of it. */
export function isCompressible(bytes: Uint8Array): boolean {
  if (bytes.length < COMPRESSIBLE_BYTES_MIN) return false;
  const counts = new Uint32Array(256);
  const runCount = SAMPLE_COUNT / SAMPLE_RUN;
  for (let run = 0; run < runCount; run++) {
    const start = Math.floor((run * (bytes.length - SAMPLE_RUN)) / (runCount - 1));
    for (let at = start; at < start + SAMPLE_RUN; at++) counts[bytes[at]!]!++;
  }
  let bits = 0;
  for (const count of counts) if (count > 0) bits -= count * Math.log2(count / SAMPLE_COUNT);
  return bits / SAMPLE_COUNT <= ENTROPY_MAX;
}

/** Writes the header of what lies behind it. */
export function writeCompressedHeader(target: Uint8Array, plainBytes: number, method: number): void {
  const view = new DataView(target.buffer, target.byteOffset, COMPRESSED_HEADER_BYTES);
  view.setUint32(0, plainBytes, true);
  view.setUint32(4, method, true);
}

/** The method that a payload's header names. Throws BAD_REQUEST for one that is too short. */
export function methodOf(source: Uint8Array): number {
  if (source.length < COMPRESSED_HEADER_BYTES) throw malformed(`${source.length} bytes are too short for a compressed payload`);
  return new DataView(source.buffer, source.byteOffset, COMPRESSED_HEADER_BYTES).getUint32(4, true);
}

/** Whether the payload itself follows the header. Throws BAD_REQUEST unless it then has the length in the header. */
export function isStored(source: Uint8Array): boolean {
  if (methodOf(source) !== CompressionMethod.STORED) return false;
  const plainBytes = new DataView(source.buffer, source.byteOffset, COMPRESSED_HEADER_BYTES).getUint32(0, true);
  if (source.length - COMPRESSED_HEADER_BYTES === plainBytes) return true;
  throw malformed(`${source.length - COMPRESSED_HEADER_BYTES} bytes stored where ${plainBytes} are due`);
}

/** Returns the compressed length; 0 if the payload travels as it is. `target` has source.length bytes or more. */
export function compressPayload(compression: GeneralCompression, source: Uint8Array, target: Uint8Array): number {
  assert(target.length >= source.length, "a compressed payload needs room for as much as it was");
  if (!isCompressible(source)) return 0;
  const roomBytes = source.length - (source.length >> 3) - COMPRESSED_HEADER_BYTES;
  const byteCount = compression.compress(source, target.subarray(COMPRESSED_HEADER_BYTES, COMPRESSED_HEADER_BYTES + roomBytes));
  if (byteCount === 0) return 0;
  writeCompressedHeader(target, source.length, compression.method);
  return COMPRESSED_HEADER_BYTES + byteCount;
}

/** The bytes of a decompressed payload, for the caller to allocate (GeneralCompression.C1). Throws BAD_REQUEST. */
export function plainBytesOf(source: Uint8Array, plainBytesMax: number): number {
  if (source.length < COMPRESSED_HEADER_BYTES) throw malformed(`${source.length} bytes are too short for a compressed payload`);
  const plainBytes = new DataView(source.buffer, source.byteOffset).getUint32(0, true);
  if (plainBytes === 0 || plainBytes > plainBytesMax)
    throw malformed(`${plainBytes} bytes compressed, where at most ${plainBytesMax} are taken`);
  return plainBytes;
}

/** `target` has exactly plainBytesOf(source) bytes. Throws BAD_REQUEST. */
export function decompressPayload(compression: GeneralCompression, source: Uint8Array, target: Uint8Array): void {
  assert(plainBytesOf(source, target.length) === target.length, "memory is taken for as many bytes as there will be");
  const method = methodOf(source);
  if (method !== compression.method) throw malformed(`compression method ${method}, where ${compression.method} is spoken`);
  compression.decompress(source.subarray(COMPRESSED_HEADER_BYTES), target);
}
