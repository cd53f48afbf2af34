// The golden vectors of the codecs, both ways: the SIMD module and the plain reference encode what lies in
// spec/vectors/codecs/, byte for byte, and read from those bytes what they mean. And spec/codecs.md says the numbers
// that the code uses.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { zstd } from "../../src/node/zstd.ts";
import { readKey } from "../../src/testing/arena-lists.ts";
import { codecStage } from "../../src/testing/store-stage.ts";
import { COMPRESSED_HEADER_BYTES, CompressionMethod } from "../../src/wire/codecs/general-compression.ts";
import { KEY_SECTION_HEADER_BYTES, KeyForm } from "../../src/wire/codecs/key-codec.ts";
import { KeyReceiver } from "../../src/wire/codecs/key-receiver.ts";
import { ReceivedKeyLists } from "../../src/wire/codecs/received-key-lists.ts";
import { ValueCodecId } from "../../src/wire/codecs/value-codec.ts";
import {
  type CodecVector,
  decodeValues,
  encodeKeys,
  encodeValues,
  type KeyVector,
  makeCodecVectors,
  type ValueVector,
} from "./codec-vectors.ts";
import { decodePayload, encodePayload, type PayloadVector } from "./payload-vectors.ts";
import { fromHex } from "./vector-file.ts";

const SPEC = join(import.meta.dirname, "..", "..", "spec");
const DIRECTORY = join(SPEC, "vectors", "codecs");
const FIX = "the wire has changed: if that is meant, run `node scripts/make-vectors.ts` and write docs/decisions";
const KERNELS = ["simd", "plain"] as const;

const files: readonly CodecVector[] = readdirSync(DIRECTORY)
  .map((name) => name.replace(/\.json$/, ""))
  .sort()
  .map((name) => JSON.parse(readFileSync(join(DIRECTORY, `${name}.json`), "utf8")));
const valueVectors = files.filter((file): file is ValueVector => "codec" in file);
const keyVectors = files.filter((file): file is KeyVector => "form" in file);
const payloadVectors = files.filter((file): file is PayloadVector => "method" in file);

test("there is a vector for every codec, every form of keys and every method of compression", () => {
  const made = makeCodecVectors().map(({ name }) => name);
  assert.deepEqual(
    made.sort(),
    files.map(({ name }) => name),
    FIX,
  );
  const codecOf = ({ codec }: ValueVector): string => (typeof codec === "string" ? codec : "topK");
  assert.equal(new Set(valueVectors.map(codecOf)).size, Object.keys(ValueCodecId).length);
  assert.deepEqual(new Set(keyVectors.map(({ form }) => form.toUpperCase())), new Set(Object.keys(KeyForm)));
  assert.deepEqual(new Set(payloadVectors.map(({ method }) => method)), new Set(Object.keys(CompressionMethod)));
});

test("the SIMD module and the plain reference make each of them byte for byte", () => {
  for (const kind of KERNELS) {
    for (const { hex: _, decoded: __, residualAfter: ___, ...input } of valueVectors) {
      const expected = valueVectors.find(({ name }) => name === input.name);
      assert.deepEqual(encodeValues(codecStage(kind), input), expected, `${kind} ${input.name}: ${FIX}`);
    }
    for (const { hex: _, signature: __, ...input } of keyVectors) {
      const expected = keyVectors.find(({ name }) => name === input.name);
      assert.deepEqual(encodeKeys(codecStage(kind), input), expected, `${kind} ${input.name}: ${FIX}`);
    }
    for (const { hex: _, ...input } of payloadVectors) {
      const expected = payloadVectors.find(({ name }) => name === input.name);
      assert.deepEqual(encodePayload(codecStage(kind), input), expected, `${kind} ${input.name}: ${FIX}`);
    }
  }
});

test("both decode each of them to the values beside it", () => {
  for (const kind of KERNELS) {
    for (const { name, codec, rowCount, width, hex, decoded } of valueVectors) {
      assert.deepEqual(decodeValues(codecStage(kind), codec, { rowCount, width }, fromHex(hex)), decoded, `${kind} ${name}`);
    }
  }
});

test("both take the floats out of every payload behind a header of compression, with Node's own zstd", () => {
  for (const kind of KERNELS) {
    for (const { name, valueCount, words, hex } of payloadVectors) {
      assert.deepEqual(decodePayload(codecStage(kind), zstd(), { valueCount }, fromHex(hex)), words, `${kind} ${name}`);
    }
  }
});

test("both read the keys of each list, and a list by its name once it was told to remember it", () => {
  for (const kind of KERNELS) {
    const context = codecStage(kind);
    const { arena } = context;
    const receiver = new KeyReceiver(context, new ReceivedKeyLists(context, { listCountMax: 4, bytesMax: 4096 }));
    const remembered = [...keyVectors].sort((a, b) => Number(b.remember) - Number(a.remember));
    for (const { name, hex, keys } of remembered) {
      const bytes = fromHex(hex);
      const source = arena.allocate(bytes.length);
      arena.bytes.set(bytes, source);
      const read = receiver.read({ source, byteCount: bytes.length, keyCountMax: 100 });
      const found = Array.from({ length: read.keys.keyCount }, (_, i) => readKey(arena, read.keys.address + i * 8).toString());
      assert.deepEqual(found, keys, `${kind} ${name}`);
      read.keys.release();
    }
  }
});

test("spec/codecs.md gives every number that the code uses", () => {
  const text = readFileSync(join(SPEC, "codecs.md"), "utf8");
  const rows = text
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) => line.split("|").map((cell) => cell.trim()));
  for (const [name, id] of [...Object.entries(ValueCodecId), ...Object.entries(KeyForm), ...Object.entries(CompressionMethod)]) {
    assert.ok(
      rows.some((row) => row[1] === String(id) && row[2] === name),
      `${name} is ${id}`,
    );
  }
  assert.ok(text.includes(`a header of ${KEY_SECTION_HEADER_BYTES} bytes`));
  assert.ok(text.includes(`a header of ${COMPRESSED_HEADER_BYTES} bytes`));
});
