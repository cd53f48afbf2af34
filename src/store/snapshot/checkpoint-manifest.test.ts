// Goal: a manifest comes back equal, one that contradicts itself is never written, and one that is torn or not ours is
// told apart.

import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { WeighbridgeError } from "../../base/errors.ts";
import { ElementType } from "../../kernel/elements.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { type CheckpointManifest, decodeManifest, encodeManifest, type ServerRecord } from "./checkpoint-manifest.ts";
import { describeSums, sumsOf } from "./describe-sums.ts";
import { type ParameterRecord, parameterProblem } from "./parameter-record.ts";

const FILE = "/data/step-000007/manifest.json";

const TABLE: ParameterRecord = {
  name: "users",
  kind: "table",
  shape: [],
  rowCount: 5,
  width: 2,
  columns: [
    { name: "keys", dtype: "U64", width: 1, per: "row" },
    { name: "values", dtype: "F32", width: 2, per: "row" },
  ],
  optimizer: { kind: "adagrad", learningRate: 0.1, epsilon: 1e-10 },
  initializer: { kind: "uniform", low: -0.05, high: 0.05, seed: "18446744073709551615" },
  consistency: { kind: "asp" },
  schedule: { kind: "step", at: [10, 20], factor: 0.1 },
  settings: { codec: null },
  state: { deep: { list: [1, "two", { three: true }] } },
};
const TENSOR: ParameterRecord = { ...TABLE, name: 'ü "w"', kind: "tensor", shape: [5, 1, 2], columns: TABLE.columns.slice(1) };
const SERVER: ServerRecord = {
  rank: 0,
  files: [{ file: "server-000-000.safetensors", bytes: 2 ** 40, headerCrc32: "00ff00ff" }],
  vectorClock: [{ worker: 9, incarnation: 3, stamp: 2 ** 53 - 1 }],
  state: {},
};
const MANIFEST: CheckpointManifest = {
  job: "night run",
  step: 7,
  clock: 6,
  createdAt: "2026-01-02T03:04:05.678Z",
  serverCount: 1,
  partCount: 1024,
  parameters: [TABLE, TENSOR],
  servers: [SERVER],
  workers: [{ rank: 0, clock: 7 }],
  state: { epoch: 3 },
};

const encode = (manifest: unknown): Uint8Array => encodeManifest(manifest as CheckpointManifest, crc32);
const decode = (bytes: Uint8Array): CheckpointManifest => decodeManifest(bytes, { file: FILE, crc32 });
/** A manifest with other words in it and the checksum that belongs to them. */
function forge(change: (text: string) => string): Uint8Array {
  const text = change(Buffer.from(encode(MANIFEST)).toString()).slice(0, -12);
  return Buffer.from(`${text}${crc32(text).toString(16).padStart(8, "0")}"\n}\n`);
}

test("a manifest comes back equal", () => {
  assert.deepEqual(decode(encode(MANIFEST)), MANIFEST);
});

test("it is JSON that ends with the checksum of all before it", () => {
  const text = Buffer.from(encode(MANIFEST)).toString();
  const { crc32: told } = JSON.parse(text) as { crc32: string };
  assert.equal(told, crc32(text.slice(0, -12)).toString(16).padStart(8, "0"));
  assert.ok(text.startsWith('{\n  "format": "weighbridge-checkpoint",\n  "version": 1,\n  "job": "night run"'));
});

test("every flipped byte and every truncation is refused", () => {
  const bytes = encode(MANIFEST);
  const refused = (error: unknown): boolean => error instanceof WeighbridgeError && error.message.startsWith(FILE);
  for (let at = 0; at < bytes.length; at++) {
    assert.throws(() => decode(bytes.subarray(0, at)), throwsCode("CHECKPOINT_TORN", /manifest\.json/), `${at} bytes`);
    for (const bit of [1, 0x20, 0x80]) {
      const flipped = bytes.slice();
      flipped[at] = (flipped[at] ?? 0) ^ bit;
      assert.throws(() => decode(flipped), refused, `byte ${at}, bit ${bit}`);
    }
  }
  assert.throws(() => decode(Buffer.concat([bytes, Buffer.from("\n")])), throwsCode("CHECKPOINT_TORN", /does not end with its checksum/));
});

test("JSON that is not ours, and manifests of other versions, are foreign", () => {
  const foreign = (text: string, pattern: RegExp): void =>
    assert.throws(() => decode(Buffer.from(text)), throwsCode("CHECKPOINT_FOREIGN", pattern));
  for (const text of ["{}", "[]", "null", '{"format":"safetensors"}', '{"metadata":{"total_size":1},"weight_map":{}}']) {
    foreign(text, /is JSON, but no manifest of a checkpoint/);
  }
  assert.throws(
    () => decode(forge((text) => text.replace('"version": 1', '"version": 2'))),
    throwsCode("CHECKPOINT_FOREIGN", /version 2; .* reads version 1/),
  );
});

test("a manifest that was written by somebody else and makes no sense says where", () => {
  const nonsense = (from: string, to: string, pattern: RegExp): void =>
    assert.throws(() => decode(forge((text) => text.replace(from, to))), throwsCode("CHECKPOINT_FOREIGN", pattern), to);
  nonsense('"clock": 6', '"clock": -1', /manifest\.clock must be a whole number from 0 up, but is -1/);
  nonsense('"server-000-000.safetensors"', '"../../etc/passwd"', /files\[0\]\.file must be the name of a safetensors file/);
  nonsense('"00ff00ff"', '"00FF00FF"', /headerCrc32 must be a checksum/);
  nonsense('"kind": "adagrad"', '"sort": "adagrad"', /optimizer\.kind must be a string/);
  nonsense('"dtype": "U64"', '"dtype": "F16"', /dtype must be one of F32, F64, I8, U8, I16, U16, I32, U32, I64, U64, but is "F16"/);
  nonsense('"dtype": "U64"', '"dtype": "I64"', /"users" is a table: only a table has the column keys, of one U64 per row/);
  nonsense('"kind": "table"', '"kind": "list"', /kind must be one of tensor, table, sums/);
  nonsense('"parameters"', '"parametres"', /manifest\.parameters must be a list, but is left out/);
  assert.throws(
    () => decode(forge((text) => text.replace('"step": 7', '"step": 7,\n  "step": 8'))),
    throwsCode("CHECKPOINT_TORN", /says "step" twice/),
  );
});

test("sums have keys and values of any type, also of no width, and no other parameter has", () => {
  const sums = describeSums({ owner: 3, type: ElementType.I64, width: 5 });
  assert.deepEqual(sumsOf(sums, "here"), { owner: 3, type: ElementType.I64, width: 5 });
  assert.equal(parameterProblem(sums), undefined);
  assert.equal(parameterProblem(describeSums({ owner: "data", type: ElementType.F32, width: 0 })), undefined);
  assert.equal(parameterProblem({ ...sums, kind: "table" }), undefined, "rows of tables may be of i64, too");
  const bytes = describeSums({ owner: 3, type: ElementType.U8, width: 5 });
  assert.match(parameterProblem({ ...bytes, kind: "table" }) ?? "", /has no column values of F32, F64, I32, I64, 5 per row/);
  assert.match(parameterProblem({ ...sums, shape: [5] }) ?? "", /is a sums, yet has a shape/);
  assert.match(parameterProblem({ ...sums, columns: sums.columns.slice(1) }) ?? "", /only a table has the column keys/);
  assert.throws(
    () => sumsOf({ ...sums, settings: { owner: "others" } }, "here"),
    throwsCode("CHECKPOINT_FOREIGN", /here has sums .*"others"/),
  );
});

test("fields of newer minor versions are ignored", () => {
  assert.deepEqual(decode(forge((text) => text.replace('"step": 7', '"step": 7,\n  "mood": "good"'))), MANIFEST);
});

test("servers may have any ranks that ascend", () => {
  const other = { ...SERVER, rank: 7, files: [{ ...SERVER.files[0], file: "server-007-000.safetensors" }] };
  const manifest = { ...MANIFEST, serverCount: 2, servers: [SERVER, other] };
  assert.deepEqual(decode(encode(manifest)), manifest);
});

test("what contradicts itself is not written", () => {
  const refused = (changed: object, pattern: RegExp): void =>
    assert.throws(() => encode({ ...MANIFEST, ...changed }), throwsCode("BAD_ARGUMENT", pattern));
  refused({ serverCount: 2 }, /2 servers wrote it, yet 1 are listed/);
  refused({ serverCount: 2, servers: [SERVER, { ...SERVER, files: [] }] }, /its servers do not ascend by rank/);
  refused({ serverCount: 2, servers: [SERVER, { ...SERVER, rank: 1 }] }, /file server-000-000\.safetensors is listed twice/);
  refused({ partCount: 1000 }, /not a power of two/);
  refused(
    {
      workers: [
        { rank: 1, clock: 0 },
        { rank: 1, clock: 0 },
      ],
    },
    /workers do not ascend/,
  );
  refused({ parameters: [TABLE, TABLE] }, /"users" is listed twice/);
  refused({ step: 1.5 }, /manifest\.step must be a whole number/);
  const refusedParameter = (changed: object, pattern: RegExp): void => refused({ parameters: [{ ...TENSOR, ...changed }] }, pattern);
  refusedParameter({ name: "" }, /no name/);
  refusedParameter({ shape: [5, 3] }, /has shape \[5, 3\], which is not 5 rows of 2 values/);
  refusedParameter({ columns: TABLE.columns }, /is a tensor: only a table has the column keys/);
  refusedParameter({ columns: [] }, /has no column values/);
  refusedParameter({ columns: [...TENSOR.columns, ...TENSOR.columns] }, /two columns of one name/);
  refusedParameter({ columns: [...TENSOR.columns, { name: "a/b", dtype: "F32", width: 1, per: "row" }] }, /column "a\/b"/);
  refused({ parameters: [{ ...TABLE, columns: TENSOR.columns }] }, /is a table: only a table/);
});

test("what JSON cannot keep is refused with its place, never changed", () => {
  const refused = (state: object, pattern: RegExp): void =>
    assert.throws(() => encode({ ...MANIFEST, state }), throwsCode("BAD_ARGUMENT", pattern));
  refused({ a: [1, Number.POSITIVE_INFINITY] }, /manifest\.state\.a\[1\] is Infinity, which JSON cannot keep/);
  refused({ a: { b: Number.NaN } }, /state\.a\.b is NaN/);
  refused({ seed: 1n }, /state\.seed is 1, which JSON cannot keep/);
  refused({ a: undefined }, /state\.a is undefined/);
  refused({ a: new Date(0) }, /state\.a is/);
  const deep: Record<string, unknown> = {};
  deep.again = deep;
  refused(deep, /nested deeper than 32 levels/);
});
