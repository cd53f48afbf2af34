// payload-codec — encodes the values of one message by the codec of its direction, then compresses them if the link
// says so and it pays. Works on spans of the arena; spec/codecs.md, §1 and §5.

import { FLOAT_BYTES } from "../../kernel/elements.ts";
import { ScratchSpan } from "./codec-memory.ts";
import {
  COMPRESSED_HEADER_BYTES,
  CompressionMethod,
  compressPayload,
  decompressPayload,
  type GeneralCompression,
  isCompressible,
  isStored,
  methodOf,
  plainBytesOf,
  writeCompressedHeader,
} from "./general-compression.ts";
import { openValueCodec, type ValueCodecChoice } from "./link-encoding.ts";
import { packPayload, type SparseStage, unpackPayload } from "./sparse-payload.ts";
import type { CodecContext, DecodeJob, EncodeJob, ValueCodec, ValueShape } from "./value-codec.ts";
import { floatCountOf, malformed } from "./value-codec.ts";

export class PayloadCodec {
  /** Whether payloads are the floats themselves, so that nothing has to be encoded or decoded. */
  readonly isPlain: boolean;
  readonly #context: CodecContext;
  readonly #values: ValueCodec;
  readonly #compression: GeneralCompression | undefined;
  readonly #scratch: ScratchSpan;

  constructor(context: CodecContext, choice: ValueCodecChoice, compression: GeneralCompression | undefined) {
    this.isPlain = choice === "f32" && compression === undefined;
    this.#context = context;
    this.#values = openValueCodec(context, choice);
    this.#compression = compression;
    this.#scratch = new ScratchSpan(context.arena);
  }

  /** Whether `encode` keeps what it does not send in a residual span. */
  get hasResidual(): boolean {
    return this.#values.hasResidual;
  }

  /** The most bytes that `encode` writes. */
  encodeBound(shape: ValueShape): number {
    return this.#headerBytes + this.#values.encodeBound(shape);
  }

  /** How long every payload of this shape is; undefined if that depends on the values. */
  exactBytes(shape: ValueShape): number | undefined {
    return (this.#values.variesInLength ?? this.hasResidual) || this.#compression !== undefined ? undefined : this.encodeBound(shape);
  }

  /** Returns how many bytes were written at `target`, a multiple of 8. Throws BAD_ARGUMENT for illegal values. */
  encode(job: EncodeJob): number {
    const compression = this.#compression;
    if (compression === undefined) return this.#values.encode(job);
    const { bytes } = this.#context.arena;
    const plainAt = job.target + COMPRESSED_HEADER_BYTES;
    const plainBytes = this.#values.encode({ ...job, target: plainAt });
    const plain = bytes.subarray(plainAt, plainAt + plainBytes);
    const sparseBytes = isCompressible(plain) ? packPayload(this.#sparse(compression), job.target, plainBytes) : 0;
    if (sparseBytes > 0) return sparseBytes;
    const compressedAt = this.#scratch.of(plainBytes);
    const compressedBytes = compressPayload(compression, plain, bytes.subarray(compressedAt, compressedAt + plainBytes));
    if (compressedBytes > 0) {
      bytes.copyWithin(job.target, compressedAt, compressedAt + compressedBytes);
      return compressedBytes;
    }
    writeCompressedHeader(bytes.subarray(job.target, plainAt), plainBytes, CompressionMethod.STORED);
    return COMPRESSED_HEADER_BYTES + plainBytes;
  }

  /** Throws BAD_REQUEST for bytes that no encoder makes. */
  decode(job: DecodeJob): void {
    const compression = this.#compression;
    if (compression === undefined) {
      this.#values.decode(job);
      return;
    }
    const { bytes } = this.#context.arena;
    const payload = bytes.subarray(job.source, job.source + job.byteCount);
    if (isStored(payload)) {
      const byteCount = job.byteCount - COMPRESSED_HEADER_BYTES;
      this.#values.decode({ ...job, source: job.source + COMPRESSED_HEADER_BYTES, byteCount });
      return;
    }
    const byteCount = plainBytesOf(payload, this.#values.decodeBound?.(job) ?? this.#values.encodeBound(job));
    const method = methodOf(payload);
    if (method === CompressionMethod.PACKED || method === CompressionMethod.PACKED_ZSTD) {
      const packed = { source: job.source, byteCount: job.byteCount, plainBytes: byteCount, method };
      this.#values.decode({ ...job, source: unpackPayload(this.#sparse(compression), packed), byteCount });
      return;
    }
    const source = this.#scratch.of(byteCount);
    decompressPayload(compression, payload, bytes.subarray(source, source + byteCount));
    this.#values.decode({ ...job, source, byteCount });
  }

  /** The floats of a plain payload where they lie. Throws BAD_REQUEST for another length. */
  plain({ buffer, byteOffset, byteLength }: ArrayBufferView, shape: ValueShape): Float32Array {
    const floatCount = floatCountOf(shape);
    if (byteLength !== floatCount * FLOAT_BYTES) throw malformed(`${byteLength} bytes of f32 where ${floatCount * FLOAT_BYTES} are due`);
    return new Float32Array(buffer, byteOffset, floatCount);
  }

  close(): void {
    this.#values.close();
    this.#scratch.close();
  }

  #sparse(compression: GeneralCompression): SparseStage {
    return { context: this.#context, compression, scratch: this.#scratch };
  }

  get #headerBytes(): number {
    return this.#compression === undefined ? 0 : COMPRESSED_HEADER_BYTES;
  }
}
