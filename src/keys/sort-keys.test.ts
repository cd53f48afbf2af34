// Goal: any u64 keys come out ascending, with the old index of each; equal ones in their old order.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { sortKeys } from "./sort-keys.ts";

function sorted(keys: readonly bigint[]): { keys: bigint[]; oldIndexes: number[] } {
  const list = BigUint64Array.from(keys);
  const oldIndexes = new Uint32Array(keys.length);
  sortKeys(new Uint32Array(list.buffer), oldIndexes);
  return { keys: [...list], oldIndexes: [...oldIndexes] };
}

test("keys of any magnitude ascend, and each names the index where it stood", () => {
  const key = fc.oneof(fc.bigInt(0n, 300n), fc.bigInt(0n, 2n ** 64n - 1n), fc.bigInt(2n ** 40n, 2n ** 40n + 9n));
  fc.assert(
    fc.property(fc.array(key, { maxLength: 300 }), (keys) => {
      const expected = keys
        .map((value, index) => ({ value, index }))
        .sort((a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : a.index - b.index));
      assert.deepEqual(sorted(keys), { keys: expected.map(({ value }) => value), oldIndexes: expected.map(({ index }) => index) });
    }),
  );
});

test("no key and one key are sorted", () => {
  assert.deepEqual(sorted([]), { keys: [], oldIndexes: [] });
  assert.deepEqual(sorted([2n ** 64n - 1n]), { keys: [2n ** 64n - 1n], oldIndexes: [0] });
});
