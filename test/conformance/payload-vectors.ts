// payload-vectors — golden bytes of payloads behind the header of a link with compression (spec/codecs.md, §5): stored,
// packed, and both kinds of zstd. What our own encoder makes of zeros and other words is golden; the zstd frames are of
// one block that is not compressed, as any sender may make them, because the bytes of a compressor are not golden.

import { readWords } from "../../src/testing/arena-lists.ts";
import { ScratchSpan } from "../../src/wire/codecs/codec-memory.ts";
import {
  COMPRESSED_HEADER_BYTES,
  CompressionMethod,
  type GeneralCompression,
  writeCompressedHeader,
} from "../../src/wire/codecs/general-compression.ts";
import { PayloadCodec } from "../../src/wire/codecs/payload-codec.ts";
import { packPayload } from "../../src/wire/codecs/sparse-payload.ts";
import type { CodecContext } from "../../src/wire/codecs/value-codec.ts";
import { toHex } from "./vector-file.ts";

export type PayloadVector = {
  readonly name: string;
  readonly about: string;
  readonly method: keyof typeof CompressionMethod;
  /** Floats of the payload; those that `words` does not name are 0. */
  readonly valueCount: number;
  /** The bits of the floats that are not 0, by index. */
  readonly words: Readonly<Record<string, string>>;
  readonly hex: string;
};

/** The first and the last, one on each side of a u64 of the mask, a zero with a sign, a NaN. */
const WORDS = { 0: "3f800000", 31: "bf800000", 63: "80000000", 64: "7fc00001", 69: "00000001" } as const;
const VALUE_COUNT = 70;

const INPUTS: readonly Omit<PayloadVector, "hex" | "valueCount" | "words">[] = [
  { name: "payload-stored", about: "the floats as they are", method: "STORED" },
  { name: "payload-zstd", about: "a frame of one raw block, as a compressor may make it that finds nothing", method: "ZSTD" },
  { name: "payload-packed", about: "a mask of two u64 for 70 words, and the five that are not 0", method: "PACKED" },
  { name: "payload-packed-zstd", about: "the same mask and words in a frame of one raw block", method: "PACKED_ZSTD" },
];

/** A compressor that never gains. */
const NEVER: GeneralCompression = {
  method: CompressionMethod.ZSTD,
  compress: () => 0,
  decompress: () => {
    throw new Error("nothing was compressed");
  },
};

export function payloadInputs(): readonly Omit<PayloadVector, "hex">[] {
  return INPUTS.map((input) => ({ ...input, valueCount: VALUE_COUNT, words: WORDS }));
}

export function encodePayload(context: CodecContext, input: Omit<PayloadVector, "hex">): PayloadVector {
  return { ...input, hex: toHex(payloadOf(context, input)) };
}

/** The bits of the floats that are not 0, by index, as `compression` and our decoder read them. */
export function decodePayload(
  context: CodecContext,
  compression: GeneralCompression,
  { valueCount }: Pick<PayloadVector, "valueCount">,
  bytes: Uint8Array,
): Record<string, string> {
  const { arena } = context;
  const source = arena.allocate(bytes.length);
  arena.bytes.set(bytes, source);
  const target = arena.allocate(valueCount * 4);
  const codec = new PayloadCodec(context, "f32", compression);
  codec.decode({ rowCount: 1, width: valueCount, source, byteCount: bytes.length, target });
  const words = [...readWords(arena, target, valueCount)].entries();
  return Object.fromEntries([...words].filter(([, word]) => word !== 0).map(([i, word]) => [i, word.toString(16).padStart(8, "0")]));
}

function payloadOf(context: CodecContext, { method, valueCount, words }: Omit<PayloadVector, "hex">): Uint8Array {
  const plain = new Uint32Array(valueCount);
  for (const [index, bits] of Object.entries(words)) plain[Number(index)] = Number.parseInt(bits, 16);
  const plainBytes = new Uint8Array(plain.buffer);
  if (method === "STORED") return headed(plainBytes.length, method, plainBytes);
  if (method === "ZSTD") return headed(plainBytes.length, method, rawZstdFrame(plainBytes));
  const packed = pack(context, plainBytes);
  if (method === "PACKED") return packed;
  const inner = packed.subarray(COMPRESSED_HEADER_BYTES);
  const compressed = headed(inner.length, "STORED", rawZstdFrame(inner)); // u32 packedBytes, u32 0
  return headed(plainBytes.length, method, compressed);
}

function pack(context: CodecContext, plain: Uint8Array): Uint8Array {
  const { arena } = context;
  const target = arena.allocate(COMPRESSED_HEADER_BYTES + plain.length);
  arena.bytes.set(plain, target + COMPRESSED_HEADER_BYTES);
  const byteCount = packPayload({ context, compression: NEVER, scratch: new ScratchSpan(arena) }, target, plain.length);
  return arena.bytes.slice(target, target + byteCount);
}

function headed(byteCount: number, method: keyof typeof CompressionMethod, body: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(COMPRESSED_HEADER_BYTES + body.length);
  writeCompressedHeader(bytes, byteCount, CompressionMethod[method]);
  bytes.set(body, COMPRESSED_HEADER_BYTES);
  return bytes;
}

/** RFC 8878: magic number, a header with the content's size and no window of its own, one last block that is raw. */
function rawZstdFrame(content: Uint8Array): Uint8Array {
  const { length } = content;
  const size = length < 256 ? [0x20, length] : [0x60, (length - 256) & 0xff, (length - 256) >> 8];
  const block = (length << 3) | 1;
  return Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, ...size, block & 0xff, (block >> 8) & 0xff, block >> 16, ...content);
}
