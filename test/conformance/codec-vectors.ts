// codec-vectors — golden bytes of every codec of spec/codecs.md, from fixed inputs. scripts/make-vectors.ts writes them
// to spec/vectors/codecs/; codec-vectors.test.ts holds the SIMD module and the plain reference to what lies there.
// Floats are given by their bits, so that NaNs and zeros of both signs are told apart.

import { putKeys, putWords, readWords } from "../../src/testing/arena-lists.ts";
import { codecStage } from "../../src/testing/store-stage.ts";
import { keySectionBound, nameOfKeys, writeKeys, writeName } from "../../src/wire/codecs/key-codec.ts";
import { openValueCodec, type ValueCodecChoice } from "../../src/wire/codecs/link-encoding.ts";
import type { CodecContext, ValueShape } from "../../src/wire/codecs/value-codec.ts";
import { encodePayload, type PayloadVector, payloadInputs } from "./payload-vectors.ts";
import { toHex } from "./vector-file.ts";

export type ValueVector = {
  readonly name: string;
  readonly about: string;
  readonly codec: ValueCodecChoice;
  readonly rowCount: number;
  readonly width: number;
  /** The bits of the floats, 8 hex digits each, the highest first. */
  readonly values: readonly string[];
  readonly residual?: readonly string[];
  readonly hex: string;
  /** What the bytes are decoded to. */
  readonly decoded: readonly string[];
  readonly residualAfter?: readonly string[];
};

export type KeyVector = {
  readonly name: string;
  readonly about: string;
  readonly form: "raw" | "delta" | "named";
  readonly remember: boolean;
  readonly keys: readonly string[];
  readonly signature: string;
  readonly hex: string;
};

export type CodecVector = ValueVector | KeyVector | PayloadVector;

const CORNERS = [
  "00000000", "80000000", "3f800000", "bf800000", "3f801000", "3f803000", "3f808000", "3f818000", "477fe000", "477fefff", "477ff000",
  "38800000", "387fe000", "33800000", "33000000", "33000001", "00000001", "7f7fffff", "7f800000", "ff800000", "7fc00000", "ff800001",
]; // biome-ignore format: one line for each kind would be longer than it is clear
const ROWS = ["3f800000", "c0000000", "3f000000", "00000000", "00000000", "80000000", "41200000", "41300000", "41400000"];
const GRADIENT = ["3f800000", "c0400000", "40000000", "40400000", "00000000", "c0000000", "40000000", "3f000000"];
const RESIDUAL = ["00000000", "00000000", "00000000", "00000000", "3f800000", "00000000", "00000000", "00000000"];

const MOSTLY_ZEROS = Array.from(
  { length: 24 },
  (_, i) => ({ 2: "00000003", 3: "7fc00001", 14: "80000000", 23: "3ff00000" })[i] ?? "00000000",
);

const VALUE_INPUTS: readonly Omit<ValueVector, "hex" | "decoded">[] = [
  { name: "values-f32", about: "as they are", codec: "f32", rowCount: 1, width: CORNERS.length, values: CORNERS },
  {
    name: "values-fp16",
    about: "ties to even, subnormals, overflow to infinity, NaN to the quiet NaN of its sign",
    codec: "fp16",
    rowCount: 1,
    width: CORNERS.length,
    values: CORNERS,
  },
  { name: "values-bf16", about: "ties to even, a NaN stays one", codec: "bf16", rowCount: 2, width: CORNERS.length / 2, values: CORNERS },
  { name: "values-int8", about: "three rows, the second of zeros", codec: "int8", rowCount: 3, width: 3, values: ROWS },
  { name: "values-int8-centred", about: "the same rows, with their middles", codec: "int8-centred", rowCount: 3, width: 3, values: ROWS },
  {
    name: "values-top-k",
    about: "four of eight values; of the three with magnitude 2 the first two are sent",
    codec: { topK: 0.5 },
    rowCount: 2,
    width: 4,
    values: GRADIENT,
    residual: RESIDUAL,
  },
  {
    name: "values-top-k-odd",
    about: "three of eight values, though 0.3 of eight is 2.4; two bytes of zeros follow those of the indices",
    codec: { topK: 0.3 },
    rowCount: 1,
    width: 8,
    values: GRADIENT,
    residual: RESIDUAL,
  },
  {
    name: "values-packed",
    about: "four of 24 words, one of them a NaN and one a zero with a sign",
    codec: "packed",
    rowCount: 2,
    width: 12,
    values: MOSTLY_ZEROS,
  },
  {
    name: "values-packed-as-is",
    about: "as many words as bytes of a mask would not pay for",
    codec: "packed",
    rowCount: 3,
    width: 3,
    values: ROWS,
  },
];

const SPREAD = [0n, 1n, 2n, 255n, 258n, 70_000n, 2n ** 32n, 2n ** 40n + 7n, 2n ** 63n, 2n ** 64n - 2n, 2n ** 64n - 1n];
const EVEN = Array.from({ length: 16 }, (_, i) => BigInt(1000 + 3 * i));
const KEY_INPUTS: readonly Omit<KeyVector, "hex" | "signature">[] = [
  { name: "keys-raw", about: "eleven keys as they are", form: "raw", remember: false, keys: SPREAD.map(String) },
  { name: "keys-delta", about: "the same, as what each adds to the one before", form: "delta", remember: false, keys: SPREAD.map(String) },
  { name: "keys-remember", about: "sixteen keys to be held by the receiver", form: "delta", remember: true, keys: EVEN.map(String) },
  { name: "keys-named", about: "the same list, once it is held", form: "named", remember: false, keys: EVEN.map(String) },
];

export function makeCodecVectors(): CodecVector[] {
  return [
    ...VALUE_INPUTS.map((input) => encodeValues(codecStage(), input)),
    ...KEY_INPUTS.map((input) => encodeKeys(codecStage(), input)),
    ...payloadInputs().map((input) => encodePayload(codecStage(), input)),
  ];
}

export function encodeValues(context: CodecContext, input: Omit<ValueVector, "hex" | "decoded">): ValueVector {
  const { arena } = context;
  const { values, rowCount, width } = input;
  const codec = openValueCodec(context, input.codec);
  const target = arena.allocate(codec.encodeBound({ rowCount, width }));
  const residual = input.residual === undefined ? undefined : putWords(arena, wordsOf(input.residual));
  const byteCount = codec.encode({ rowCount, width, source: putWords(arena, wordsOf(values)), target, residual });
  const bytes = arena.bytes.slice(target, target + byteCount);
  const decoded = decodeValues(context, input.codec, { rowCount, width }, bytes);
  const after = residual === undefined ? {} : { residualAfter: bitsOf(readWords(arena, residual, values.length)) };
  return { ...input, hex: toHex(bytes), decoded, ...after };
}

export function decodeValues(context: CodecContext, choice: ValueCodecChoice, shape: ValueShape, bytes: Uint8Array): string[] {
  const { arena } = context;
  const source = arena.allocate(bytes.length);
  arena.bytes.set(bytes, source);
  const target = arena.allocate(shape.rowCount * shape.width * 4);
  openValueCodec(context, choice).decode({ ...shape, source, byteCount: bytes.length, target });
  return bitsOf(readWords(arena, target, shape.rowCount * shape.width));
}

export function encodeKeys(context: CodecContext, input: Omit<KeyVector, "hex" | "signature">): KeyVector {
  const { arena } = context;
  const { form, remember } = input;
  const keyCount = input.keys.length;
  const keys = putKeys(arena, input.keys.map(BigInt));
  const target = arena.allocate(keySectionBound(keyCount));
  const name = nameOfKeys(context, keys, keyCount, arena.allocate(8));
  const job = { keys, keyCount, target, remember: remember ? name : undefined };
  const byteCount = form === "named" ? writeName(arena, target, name) : writeKeys(context, { ...job, form });
  return { ...input, signature: hexOf(name.signature, 16), hex: toHex(arena.bytes.slice(target, target + byteCount)) };
}

function wordsOf(bits: readonly string[]): number[] {
  return bits.map((word) => Number.parseInt(word, 16));
}

function bitsOf(words: Uint32Array): string[] {
  return Array.from(words, (word) => hexOf(word, 8));
}

function hexOf(value: number | bigint, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}
