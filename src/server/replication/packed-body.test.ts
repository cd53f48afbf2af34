// packed-body — Goal: what a head packs a standby unpacks, typed arrays, maps and numbers beyond JSON included.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../../testing/throws-code.ts";
import { pack, packedBytes, unpack, unpackBytes, writePacked } from "./packed-body.ts";

const VALUE = {
  staleness: Infinity,
  rest: [-Infinity, 1.5, "text", true],
  empty: new Uint8Array(0),
  nested: { keys: BigUint64Array.of(1n, 2n ** 64n - 1n), pulled: new Map([[3, Float32Array.of(1, Number.NaN)]]) },
  bytes: Uint8Array.of(1, 2, 3),
  words: Uint32Array.of(7),
};

function packed(value: unknown): {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly textBytes: number;
  readonly bodyBytes: number;
} {
  const body = pack(value);
  const bytes = new Uint8Array(24 + body.byteCount);
  writePacked(body, bytes, 24);
  return { bytes, at: 24, textBytes: body.text.length, bodyBytes: body.byteCount };
}

test("a value comes back as it was, in arrays of its own", () => {
  const { bytes, ...where } = packed(VALUE);
  const back = unpack(bytes, where) as typeof VALUE;
  assert.deepEqual(back, VALUE);
  bytes.fill(0);
  assert.deepEqual(back, VALUE, "nothing lies in the log");
  assert.equal(where.bodyBytes % 8, 0);
});

test("arrays of a body that is kept lie in it, but for those that are not aligned", () => {
  const { bytes, ...where } = packed(VALUE);
  const back = unpack(bytes, { ...where, isKept: true }) as typeof VALUE;
  assert.deepEqual(back, VALUE);
  assert.equal(back.nested.keys.buffer, bytes.buffer);
  const moved = new Uint8Array(bytes.length + 1);
  moved.set(bytes, 1);
  const copied = unpack(moved.subarray(1), { ...where, isKept: true }) as typeof VALUE;
  assert.deepEqual(copied, VALUE);
  assert.notEqual(copied.nested.keys.buffer, moved.buffer);
});

test("a field that is left out stays so", () => {
  const { bytes, ...where } = packed({ here: 1, gone: undefined });
  assert.deepEqual(unpack(bytes, where), { here: 1 });
});

test("an array that reaches beyond its entry is refused", () => {
  const { bytes, ...where } = packed(VALUE);
  assert.throws(() => unpack(bytes, { ...where, bodyBytes: where.bodyBytes - 8 }), throwsCode("BAD_REQUEST", /outside its entry/));
});

test("a body alone has its own memory, and its arrays lie there", () => {
  const bytes = packedBytes(VALUE);
  const back = unpackBytes(bytes) as typeof VALUE;
  assert.deepEqual(back, VALUE);
  assert.equal(back.nested.keys.buffer, bytes.buffer);
});

test("a body alone that is cut short is refused", () => {
  const bytes = packedBytes(VALUE);
  for (const byteCount of [0, 7, 8, 16])
    assert.throws(() => unpackBytes(bytes.slice(0, byteCount)), throwsCode("BAD_REQUEST", /no packed body/));
  assert.throws(() => unpackBytes(bytes.slice(0, -8)), throwsCode("BAD_REQUEST", /outside its entry/));
});
