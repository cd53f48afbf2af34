// Which lists are known again, and how many.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PulledLists } from "./pulled-lists.ts";

const PLACE = { app: 0, dtype: 0 };
const BYTES_MAX = 3 * 1024 * 1024;
const ascending = (count: number, first = 0n): Uint8Array =>
  new Uint8Array(BigUint64Array.from({ length: count }, (_, i) => first + BigInt(i)).buffer);
const lensOf = (count: number, width: number): Uint8Array => new Uint8Array(new Int32Array(count).fill(width).buffer);

test("a list is known again by all of its keys, in its application and type only (PulledLists.W3)", () => {
  const memory = new PulledLists();
  for (const count of [1, 2, 8, 9, 5000]) {
    const keys = ascending(count);
    assert.equal(memory.find(keys, PLACE), undefined);
    memory.learn(keys, lensOf(count, 7), PLACE);
    const found = memory.find(keys.slice(), PLACE);
    assert.equal(found?.keys, keys, "the keys that were kept, not a copy");
    assert.deepEqual([found?.width, found?.lens], [7, lensOf(count, 7)]);
    assert.equal(memory.find(keys, { app: 1, dtype: 0 }), undefined);
    assert.equal(memory.find(keys, { app: 0, dtype: 3 }), undefined);
    for (let at = 0; at < keys.length; at += Math.max(1, Math.floor(keys.length / 97))) {
      const other = keys.slice();
      other[at] = (other[at] as number) ^ 1;
      assert.equal(memory.find(other, PLACE), undefined, `byte ${at} of ${keys.length} differs`);
    }
    memory.forget(keys, PLACE);
    assert.equal(memory.find(keys, PLACE), undefined);
  }
});

test("values of different lengths, or of none, are not remembered (PulledLists.W1)", () => {
  const memory = new PulledLists();
  for (const lens of [Int32Array.of(1, 2), Int32Array.of(0, 0), Int32Array.of(-1, -1)]) {
    memory.learn(ascending(2), new Uint8Array(lens.buffer), PLACE);
    assert.equal(memory.find(ascending(2), PLACE), undefined, String(lens));
  }
});

test("the newest lists are remembered, 1024 of them at most, and no more bytes than the bound (PulledLists.W2)", () => {
  const memory = new PulledLists({ bytesMax: BYTES_MAX });
  for (let i = 0; i < 1100; i++) memory.learn(ascending(1, BigInt(i)), lensOf(1, 1), PLACE);
  assert.equal(memory.find(ascending(1, 75n), PLACE), undefined);
  assert.ok(memory.find(ascending(1, 76n), PLACE) !== undefined);
  const count = BYTES_MAX / 12 / 4;
  const list = (i: number): Uint8Array => ascending(count, BigInt(i) << 32n);
  for (let i = 1; i <= 5; i++) memory.learn(list(i), lensOf(count, 1), PLACE);
  const isKnown = Array.from({ length: 6 }, (_, i) => memory.find(list(i), PLACE) !== undefined);
  assert.equal(isKnown.filter(Boolean).length <= 4, true);
  assert.equal(isKnown[5], true, "the newest");
  memory.learn(ascending(BYTES_MAX / 8, 5n), lensOf(BYTES_MAX / 8, 1), PLACE);
  assert.equal(memory.find(list(5), PLACE) !== undefined, true, "one that is too long drives nobody out");
});
