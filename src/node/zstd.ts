// zstd — the GeneralCompression that Node includes. Level -4: if one float in twenty is not 0, level 1 makes a quarter
// fewer bytes at half the speed; if one in a hundred is, no fewer. Node's functions return a buffer of their own, which
// is copied: payloads are short (a frame at most) and shrink first.

// As a namespace: an older Node has no zstd, and must get far enough to report that it is too old.
import * as zlib from "node:zlib";
import { badRequest, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { CompressionMethod, type GeneralCompression } from "../wire/codecs/general-compression.ts";

const LEVEL = -4;
/**
 * The memory that a frame may require of its reader, as a power of two: what the largest payload needs. Node allows 128
 * MiB.
 */
const WINDOW_LOG_MAX = 20;
/** The least that Node accepts. */
const CHUNK_BYTES_MIN = 64;

/** What `info` returns, which the declared type does not include. `bytesWritten` are the bytes that were read. */
type Decompressed = { readonly buffer: Uint8Array; readonly engine: { readonly bytesWritten: number } };

export function zstd(): GeneralCompression {
  return ZSTD;
}

const ZSTD: GeneralCompression = {
  method: CompressionMethod.ZSTD,

  compress(source: Uint8Array, target: Uint8Array): number {
    // Where any output fits into one chunk, zstd works without buffers of its own: up to twice as fast.
    const chunkSize = source.length + (source.length >> 8) + CHUNK_BYTES_MIN;
    const compressed = zlib.zstdCompressSync(source, { chunkSize, params: { [zlib.constants.ZSTD_c_compressionLevel]: LEVEL } });
    if (compressed.length > target.length) return 0;
    target.set(compressed);
    return compressed.length;
  },

  decompress(source: Uint8Array, target: Uint8Array): void {
    const plain = tryDecompress(source, target.length);
    if (plain.length !== target.length) {
      throw badRequest(`zstd returned ${plain.length} bytes; ${target.length} were expected`);
    }
    target.set(plain);
  },
};

function tryDecompress(source: Uint8Array, plainBytes: number): Uint8Array {
  const params = { [zlib.constants.ZSTD_d_windowLogMax]: WINDOW_LOG_MAX };
  const options = { chunkSize: Math.max(CHUNK_BYTES_MIN, plainBytes), maxOutputLength: plainBytes, params, info: true };
  try {
    const { buffer, engine } = zlib.zstdDecompressSync(source, options) as unknown as Decompressed;
    if (engine.bytesWritten === source.length) return buffer;
  } catch (error) {
    throw new WeighbridgeError("BAD_REQUEST", `malformed payload: zstd: ${reasonOf(error)}`, { cause: error });
  }
  throw badRequest("malformed payload: bytes after the end of the zstd frame");
}
