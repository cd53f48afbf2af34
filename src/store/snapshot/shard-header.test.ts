// Goal: a shard's header is believed only where it agrees with the manifest, chunk by chunk and column by column.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { WeighbridgeError } from "../../base/errors.ts";
import type { ParameterRecord } from "./parameter-record.ts";
import { encodeHeader, layOutTensors, type NamedShape } from "./safetensors.ts";
import { type Chunk, chunkEntries, decodeShardHeader, shardHeaderBytes, shardMetadata } from "./shard-header.ts";

const TRAINED = {
  optimizer: { kind: "sgd" },
  initializer: { kind: "zero" },
  consistency: { kind: "bsp" },
  schedule: { kind: "constant" },
  settings: {},
  state: {},
};
const W: ParameterRecord = {
  name: "w",
  kind: "tensor",
  shape: [8, 2],
  rowCount: 8,
  width: 2,
  columns: [
    { name: "values", dtype: "F32", width: 2, per: "row" },
    { name: "version", dtype: "U32", width: 1, per: "row" },
    { name: "steps", dtype: "F64", width: 3, per: "chunk" },
  ],
  ...TRAINED,
};
const T: ParameterRecord = {
  name: "t",
  kind: "table",
  shape: [],
  rowCount: 5,
  width: 1,
  columns: [
    { name: "keys", dtype: "U64", width: 1, per: "row" },
    { name: "values", dtype: "F32", width: 1, per: "row" },
  ],
  ...TRAINED,
};
const OWNER = { job: "j", step: 3, server: 1 };
const FILE = "/data/step-000003/server-001-000.safetensors";
const parameters = new Map([W, T].map((parameter) => [parameter.name, parameter]));

function decode(tensors: readonly NamedShape[], metadata: Readonly<Record<string, string>> = {}): readonly Chunk[] {
  const entries = layOutTensors(tensors);
  const checksums = entries.map((_, index) => 0xfffffff0 + index);
  const header = encodeHeader(entries, { metadata: { ...shardMetadata(OWNER, checksums), ...metadata } });
  const fileBytes = header.byteLength + (entries.at(-1)?.dataTo ?? 0);
  return decodeShardHeader(header.subarray(8), {
    file: FILE,
    name: "server-001-000.safetensors",
    fileBytes,
    owner: OWNER,
    parameters,
    partCount: 16,
  });
}

const fails = (tensors: readonly NamedShape[], code: string, pattern: RegExp): void =>
  assert.throws(
    () => decode(tensors),
    (error) => error instanceof WeighbridgeError && error.code === code && error.message.startsWith(FILE) && pattern.test(error.message),
  );

const rows = chunkEntries({ kind: "rows", parameter: "w", from: 2, to: 6 }, W, 4);
const parts = chunkEntries({ kind: "parts", parameter: "t", from: 0, to: 16, ordinal: 7 }, T, 5);

test("chunks come back with their sections, where they lie, and their checksums", () => {
  const [one, other] = decode([...rows, ...parts]);
  assert.deepEqual(one?.key, { kind: "rows", parameter: "w", from: 2, to: 6 });
  assert.deepEqual([one?.rowCount, other?.rowCount, one?.file], [4, 5, "server-001-000.safetensors"]);
  const values = one?.sections.get("values");
  const steps = one?.sections.get("steps");
  assert.deepEqual([values?.bytes, values?.crc32], [32, 0xfffffff0]);
  assert.deepEqual([steps?.bytes, steps?.crc32, (steps?.position ?? 0) - (values?.position ?? 0)], [24, 0xfffffff2, 48]);
  assert.equal(other?.sections.get("values")?.crc32, 0xfffffff4);
});

test("a table's chunk may be empty", () => {
  assert.equal(decode(chunkEntries({ kind: "parts", parameter: "t", from: 0, to: 1, ordinal: 0 }, T, 0))[0]?.rowCount, 0);
});

test("what the manifest does not know is foreign", () => {
  fails([{ name: "model.weight", dtype: "F32", shape: [1] }], "CHECKPOINT_FOREIGN", /"model\.weight", which is no name of ours/);
  fails(
    [{ name: "v/rows/0:1/values", dtype: "F32", shape: [1, 2] }],
    "CHECKPOINT_FOREIGN",
    /"v\/rows\/0:1", of a parameter that the manifest does not list/,
  );
  fails(
    [{ name: "t/rows/0:1/values", dtype: "F32", shape: [1] }],
    "CHECKPOINT_FOREIGN",
    /"t\/rows\/0:1", but the manifest says it is a table/,
  );
  fails(chunkEntries({ kind: "rows", parameter: "w", from: 6, to: 9 }, W, 3), "CHECKPOINT_FOREIGN", /beyond the 8 rows there are/);
  fails(
    chunkEntries({ kind: "parts", parameter: "t", from: 6, to: 17, ordinal: 0 }, T, 3),
    "CHECKPOINT_FOREIGN",
    /beyond the 16 parts there are/,
  );
});

test("a chunk lacks no column, has none too many, and each has its shape (ShardHeader.S2)", () => {
  fails(rows.slice(1), "CHECKPOINT_TORN", /"w\/rows\/2:6" without its column values/);
  fails([...rows, { name: "w/rows/2:6/extra", dtype: "F32", shape: [4] }], "CHECKPOINT_TORN", /columns that its parameter has not/);
  const reshaped = (index: number, change: Partial<NamedShape>): NamedShape[] =>
    rows.map((tensor, at) => (at === index ? { ...tensor, ...change } : tensor));
  fails(reshaped(0, { shape: [2, 4] }), "CHECKPOINT_TORN", /"w\/rows\/2:6\/values" as F32 \[2, 4\]; expected F32 \[4, 2\]/);
  fails(reshaped(1, { dtype: "F32" }), "CHECKPOINT_TORN", /as F32 \[4\]; expected U32 \[4\]/);
  fails(parts.slice(1), "CHECKPOINT_TORN", /without its column keys/);
});

test("checksums are one for each section", () => {
  for (const crc32 of ["", "0123456", "0".repeat(41), "x".repeat(40)]) {
    assert.throws(() => decode([...rows, ...parts], { crc32 }), /digits of checksums for 5 sections/);
  }
});

test("another format, version or owner is foreign", () => {
  for (const [name, text] of [
    ["format", "pt"],
    ["version", "2"],
    ["job", "k"],
    ["step", "03"],
    ["server", "0"],
  ] as const) {
    assert.throws(
      () => decode(rows, { [name]: text }),
      (error) => error instanceof WeighbridgeError && error.code === "CHECKPOINT_FOREIGN",
      name,
    );
  }
});

test("the room that a header takes is known before it is made", () => {
  const empty = encodeHeader([], { metadata: shardMetadata(OWNER, []) });
  assert.ok(Math.ceil(shardHeaderBytes(OWNER) / 8) * 8 === empty.byteLength);
});

test("whatever a header says, it is decoded or refused with the file's name, and never anything else", () => {
  const entries = layOutTensors([...rows, ...parts]);
  const metadata = shardMetadata(
    OWNER,
    entries.map(() => 0),
  );
  const text = Buffer.from(encodeHeader(entries, { metadata }).subarray(8)).toString();
  const piece = fc.constantFrom(
    '"',
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "0",
    "-1",
    "1e99",
    "null",
    "w",
    "/",
    "__proto__",
    '"w/rows/0:2/values":',
    "\\u0000",
  );
  const change = fc.record({ at: fc.nat({ max: text.length }), drop: fc.nat({ max: 30 }), insert: fc.oneof(piece, fc.string()) });
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), fc.nat({ max: 200 }), (changes, dataBytes) => {
      const changed = changes.reduce((before, { at, drop, insert }) => before.slice(0, at) + insert + before.slice(at + drop), text);
      const header = new TextEncoder().encode(changed);
      const fileBytes = 8 + header.byteLength + dataBytes;
      try {
        decodeShardHeader(header, { file: FILE, name: "s", fileBytes, owner: OWNER, parameters, partCount: 16 });
      } catch (error) {
        assert.ok(
          error instanceof WeighbridgeError && error.code.startsWith("CHECKPOINT_") && error.message.startsWith(FILE),
          String(error),
        );
      }
    }),
    { numRuns: 5000 },
  );
});
