// Goal: value types have the numbers of spec/protocol.md §9, both ways, and flags do not touch each other.

import assert from "node:assert/strict";
import { test } from "node:test";
import { APP_CUT } from "./frame.ts";
import { dtypeBits, dtypeConstructor, dtypeOf, dtypeOfFlags, FLOAT32, KvFlag, type Values } from "./kv-message.ts";

const TYPES = [
  Float32Array,
  Float64Array,
  Int8Array,
  Uint8Array,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
];

test("each type has its number, and each number its type", () => {
  for (const [dtype, Type] of TYPES.entries()) {
    const values: Values = new Type(1);
    assert.equal(dtypeOf(values), dtype);
    assert.equal(dtypeConstructor(dtype), Type);
  }
  assert.equal(FLOAT32, 0);
});

test("a subclass is its own base, other arrays have no type", () => {
  assert.equal(dtypeOf(new (class extends Float32Array {})(1)), FLOAT32);
  for (const values of [new Uint8ClampedArray(1), new DataView(new ArrayBuffer(8)), [1, 2]])
    assert.equal(dtypeOf(values as unknown as Values), -1);
  for (const dtype of [10, 11, 255, -1]) assert.equal(dtypeConstructor(dtype), undefined);
});

test("a type shares the flags with every flag there is, APP_CUT too", () => {
  const all = Object.values(KvFlag).reduce((flags, flag) => flags | flag, 0);
  assert.equal(
    Object.values(KvFlag).reduce((sum, flag) => sum + flag, 0),
    all,
    "no two are the same bit",
  );
  for (let dtype = 0; dtype < 128; dtype++) {
    const flags = dtypeBits(dtype) | all | APP_CUT;
    assert.equal(dtypeOfFlags(flags), dtype);
    assert.equal(flags & all, all);
    assert.ok(flags <= 0xffff);
  }
});
