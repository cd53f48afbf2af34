// sparse-payload — a payload with mostly zero words, as a mask and the other words, compressed once more: a general
// compressor takes three times as long over the zeros, and makes more bytes. spec/codecs.md, §5.
//
//   PACKED        header │ packed
//   PACKED_ZSTD   header │ u32 packedBytes │ u32 0 │ the compressor's bytes of packed
//
// Invariants:
//   SparsePayload.S1. The receiver takes no more memory than the payload may have, whatever the bytes say.

import { packedWordsBound } from "../../kernel/codec-kernels.ts";
import { WORD_BYTES } from "../../kernel/elements.ts";
import type { ScratchSpan } from "./codec-memory.ts";
import { COMPRESSED_HEADER_BYTES, CompressionMethod, type GeneralCompression, writeCompressedHeader } from "./general-compression.ts";
import { type CodecContext, malformed } from "./value-codec.ts";

const INNER_HEADER_BYTES = 8;
/** At most one word in so many may be other than 0. */
const WORDS_PER_OCCUPIED = 4;

export type SparseStage = { readonly context: CodecContext; readonly compression: GeneralCompression; readonly scratch: ScratchSpan };

/** Packs the plain payload right behind the header at `target` in place. Returns its bytes; 0 if it is not sparse. */
export function packPayload({ context, compression, scratch }: SparseStage, target: number, plainBytes: number): number {
  if (plainBytes % WORD_BYTES !== 0) return 0;
  const { arena, codecKernels } = context;
  const wordCount = plainBytes / WORD_BYTES;
  const wordsMax = Math.floor(wordCount / WORDS_PER_OCCUPIED);
  const packed = scratch.of(packedWordsBound({ wordCount, wordsMax }));
  const packedBytes = codecKernels.packWords(target + COMPRESSED_HEADER_BYTES, wordCount, wordsMax, packed);
  if (packedBytes === 0) return 0;
  const inner = target + COMPRESSED_HEADER_BYTES + INNER_HEADER_BYTES;
  const roomBytes = Math.max(0, packedBytes - (packedBytes >> 3) - INNER_HEADER_BYTES);
  const source = arena.bytes.subarray(packed, packed + packedBytes);
  const compressedBytes = compression.compress(source, arena.bytes.subarray(inner, inner + roomBytes));
  const header = arena.bytes.subarray(target, inner);
  if (compressedBytes === 0) {
    arena.module.copy(target + COMPRESSED_HEADER_BYTES, packed, packedBytes);
    writeCompressedHeader(header, plainBytes, CompressionMethod.PACKED);
    return COMPRESSED_HEADER_BYTES + packedBytes;
  }
  writeCompressedHeader(header, plainBytes, CompressionMethod.PACKED_ZSTD);
  writeCompressedHeader(header.subarray(COMPRESSED_HEADER_BYTES), packedBytes, 0);
  return COMPRESSED_HEADER_BYTES + INNER_HEADER_BYTES + compressedBytes;
}

/** Unpacks into the scratch and returns the address, valid until the next use. Throws BAD_REQUEST for illegal bytes. */
export function unpackPayload(
  { context, compression, scratch }: SparseStage,
  { source, byteCount, plainBytes, method }: { source: number; byteCount: number; plainBytes: number; method: number },
): number {
  const { arena, codecKernels } = context;
  if (plainBytes % WORD_BYTES !== 0) throw malformed(`${plainBytes} bytes packed, which are no whole words`);
  let packed = source + COMPRESSED_HEADER_BYTES;
  let packedBytes = byteCount - COMPRESSED_HEADER_BYTES;
  const plain = scratch.of(2 * Math.ceil(plainBytes / 8) * 8);
  if (method === CompressionMethod.PACKED_ZSTD) {
    const compressed = arena.bytes.subarray(packed, source + byteCount);
    if (compressed.length < INNER_HEADER_BYTES) throw malformed(`${byteCount} bytes are too short for a packed payload`);
    packedBytes = new DataView(compressed.buffer, compressed.byteOffset).getUint32(0, true);
    // SparsePayload.S1
    if (packedBytes === 0 || packedBytes > plainBytes) throw malformed(`${packedBytes} bytes packed of ${plainBytes}`);
    packed = plain + Math.ceil(plainBytes / 8) * 8;
    compression.decompress(compressed.subarray(INNER_HEADER_BYTES), arena.bytes.subarray(packed, packed + packedBytes));
  }
  if (codecKernels.unpackWords(packed, packedBytes, plainBytes / WORD_BYTES, plain) !== 0) {
    throw malformed(`${packedBytes} packed bytes do not match their mask`);
  }
  return plain;
}
