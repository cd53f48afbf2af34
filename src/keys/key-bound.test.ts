// key-bound — Goal: bounds are exact wherever the two halves of a key meet.

import assert from "node:assert/strict";
import { test } from "node:test";
import { firstKeyFrom } from "./key-bound.ts";

test("the first key that is not below the bound is found, for bounds on either side of 2^32", () => {
  for (const bound of [0, 1, 7, 2 ** 24 + 1, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 5 * 2 ** 32 + 3, 2 ** 53 - 1]) {
    const exact = BigInt(bound);
    const below = [0n, exact / 2n, exact - 1n].filter((key) => key >= 0n && key < exact);
    assert.equal(firstKeyFrom(bound, BigUint64Array.from(below)), -1, `below ${bound}`);
    for (const key of [exact, exact + 1n, exact + 2n ** 32n, 2n ** 64n - 1n]) {
      assert.equal(firstKeyFrom(bound, BigUint64Array.from([...below, key, 0n])), below.length, `${key} is not below ${bound}`);
    }
  }
});

test("a list that begins anywhere in its buffer is read from there", () => {
  assert.equal(firstKeyFrom(5, BigUint64Array.of(9n, 1n, 2n, 5n).subarray(1)), 2);
  assert.equal(firstKeyFrom(5, new BigUint64Array(0)), -1);
});
