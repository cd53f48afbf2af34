// Goal: headers are written as the format asks, come back equal, and nothing that breaks a rule of the format is
// accepted.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import {
  decodeHeader,
  decodeHeaderBytes,
  encodeHeader,
  HEADER_BYTES_MAX,
  LENGTH_BYTES,
  layOutTensors,
  type SafetensorsHeader,
} from "./safetensors.ts";

const FILE = "w.safetensors";
const tornFor = (pattern: RegExp) => (error: unknown) =>
  error instanceof WeighbridgeError && error.code === "CHECKPOINT_TORN" && error.message.startsWith(FILE) && pattern.test(error.message);

/** Decodes a header of this text in front of so many bytes of data. */
function decodeText(text: string, dataBytes: number): SafetensorsHeader {
  const header = new TextEncoder().encode(text);
  return decodeHeader(header, { file: FILE, fileBytes: LENGTH_BYTES + header.byteLength + dataBytes });
}

function entry(fields: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ dtype: "F32", shape: [2], data_offsets: [0, 8], ...fields });
}

test("a header is its length, its JSON, and spaces up to a multiple of 8", () => {
  const header = encodeHeader(layOutTensors([{ name: "w", dtype: "F32", shape: [2, 3] }]));
  const json = '{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}';
  assert.equal(Buffer.from(header).toString("latin1"), `\x40\0\0\0\0\0\0\0${json.padEnd(64, " ")}`);
});

test("tensors of every kind come back as they were laid out, in the order of their data", () => {
  const entries = layOutTensors([
    { name: "z/keys", dtype: "U64", shape: [3] },
    { name: "nothing", dtype: "F32", shape: [0, 5] },
    { name: 'a "name" with \\ and ü\n', dtype: "BF16", shape: [2, 1, 2] },
    { name: "scalar", dtype: "F64", shape: [] },
    { name: "__proto__", dtype: "BOOL", shape: [3] },
  ]);
  const header = encodeHeader(entries, { metadata: { job: "a", note: "" }, reservedBytes: 1024 });
  assert.equal(header.byteLength, 1024);
  const source = { file: FILE, fileBytes: 1024 + 24 + 8 + 8 + 3 };
  assert.equal(decodeHeaderBytes(header, source), 1016);
  const decoded = decodeHeader(header.subarray(LENGTH_BYTES), source);
  assert.deepEqual(decoded.entries, entries);
  assert.deepEqual({ ...decoded.metadata }, { job: "a", note: "" });
  assert.equal(decoded.dataStart, 1024);
});

test("a file without tensors is a file", () => {
  assert.deepEqual(decodeText("{}", 0).entries, []);
});

test("a length that cannot be is refused before anything is read for it", () => {
  const start = (length: bigint): Uint8Array => new Uint8Array(BigUint64Array.of(length).buffer);
  const fails = (bytes: Uint8Array, fileBytes: number, pattern: RegExp): void =>
    assert.throws(() => decodeHeaderBytes(bytes, { file: FILE, fileBytes }), tornFor(pattern));
  for (let length = 0; length < LENGTH_BYTES; length++) fails(new Uint8Array(length), length, /too few/);
  fails(start(2n ** 64n - 1n), 1000, /18446744073709551615 bytes; at most 100000000/);
  fails(start(BigInt(HEADER_BYTES_MAX) + 1n), 2 * HEADER_BYTES_MAX, /at most/);
  fails(start(993n), 1000, /header has 993 bytes, but the whole file has only 1000/);
  assert.equal(decodeHeaderBytes(start(992n), { file: FILE, fileBytes: 1000 }), 992);
  assert.equal(decodeHeaderBytes(start(BigInt(HEADER_BYTES_MAX)), { file: FILE, fileBytes: 2 * HEADER_BYTES_MAX }), HEADER_BYTES_MAX);
});

test("tensors that overlap, leave a gap or go beyond the file are refused", () => {
  const two = (from: number, to: number): string => `{"a":${entry()},"b":${entry({ shape: [(to - from) / 4], data_offsets: [from, to] })}}`;
  assert.equal(decodeText(two(8, 16), 8 + 8).entries.length, 2);
  assert.throws(() => decodeText(two(4, 16), 16), tornFor(/"b" from byte 4 of its data, which overlaps .* ends at 8/));
  assert.throws(() => decodeText(two(0, 8), 8), tornFor(/overlaps/));
  assert.throws(() => decodeText(two(12, 16), 16), tornFor(/"b" from byte 12 .* leaves a gap: the tensor before it ends at 8/));
  assert.throws(() => decodeText(two(8, 16), 15), tornFor(/its header speaks of/));
  assert.throws(() => decodeText(two(8, 16), 17), tornFor(/its header speaks of/));
  assert.throws(() => decodeText(`{"a":${entry({ data_offsets: [4, 12] })}}`, 12), tornFor(/gap/));
});

test("an entry that contradicts itself or misses something is refused", () => {
  const refused = (fields: Readonly<Record<string, unknown>>, pattern: RegExp): void =>
    assert.throws(() => decodeText(`{"a":${entry(fields)}}`, 8), tornFor(pattern));
  refused({ shape: [3] }, /as F32 of shape \[3\], which is not the 8 bytes from 0 to 8/);
  refused({ data_offsets: [8, 0] }, /not the -8 bytes/);
  refused({ shape: [2 ** 40, 2 ** 40] }, /shape/);
  refused({ dtype: "FP8" }, /dtype that is unknown here: "FP8"/);
  refused({ dtype: "toString" }, /unknown here/);
  refused({ dtype: undefined }, /unknown here: undefined/);
  refused({ shape: [-2] }, /shape that is not a list of whole numbers/);
  refused({ shape: [1.5] }, /shape that is not/);
  refused({ shape: "2" }, /shape that is not/);
  refused({ data_offsets: [0] }, /data_offsets that are not two/);
  refused({ data_offsets: [0, 8, 8] }, /data_offsets that are not two/);
  refused({ data_offsets: [0, 2 ** 60] }, /data_offsets that are not two/);
  assert.throws(() => decodeText('{"a":7}', 0), tornFor(/without dtype/));
});

test("a header that is no JSON object, or says a name twice, is refused", () => {
  for (const text of ["", "   ", "{", "{}x", '{"a":}', "\u{feff}{}", '{"a"', "[".repeat(5000)])
    assert.throws(() => decodeText(text, 0), tornFor(/not JSON/));
  for (const text of ["[]", "7", "null", '"{}"']) assert.throws(() => decodeText(text, 0), tornFor(/not an object/));
  const bytes = Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d);
  assert.throws(() => decodeHeader(bytes, { file: FILE, fileBytes: 13 }), tornFor(/not JSON/));
  assert.throws(() => decodeText(`{"a":${entry()},"a":${entry()}}`, 8), tornFor(/has "a" twice/));
  assert.throws(() => decodeText(`{"a":${entry()},"\\u0061":${entry()}}`, 8), tornFor(/has "a" twice/));
  assert.throws(() => decodeText('{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8), tornFor(/has "dtype" twice/));
});

test("metadata that is no map of texts is refused", () => {
  assert.throws(() => decodeText('{"__metadata__":[]}', 0), tornFor(/__metadata__ that is not an object/));
  assert.throws(() => decodeText('{"__metadata__":{"a":1}}', 0), tornFor(/"a" is not a string/));
});

test("every truncation of a file is refused", () => {
  const header = encodeHeader(layOutTensors([{ name: "w", dtype: "F32", shape: [4] }]), { metadata: { a: "b" } });
  const file = new Uint8Array(header.byteLength + 16);
  file.set(header);
  const read = (bytes: Uint8Array): SafetensorsHeader => {
    const source = { file: FILE, fileBytes: bytes.byteLength };
    return decodeHeader(bytes.subarray(LENGTH_BYTES, LENGTH_BYTES + decodeHeaderBytes(bytes, source)), source);
  };
  assert.equal(read(file).entries.length, 1);
  for (let length = 0; length < file.byteLength; length++) assert.throws(() => read(file.subarray(0, length)), tornFor(/./));
});
