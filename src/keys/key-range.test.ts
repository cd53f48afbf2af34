// Goal: the ranges are ps-lite's, cover every u64 once, and the last one reaches to the very end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { firstKeyFrom } from "./first-key-from.ts";
import { evenRanges } from "./key-range.ts";

test("cuts the key space where ps-lite cuts it", () => {
  const step = (2n ** 64n - 1n) / 3n;
  assert.deepEqual(
    evenRanges(3).map(({ begin }) => begin),
    [0n, step, 2n * step],
  );
});

test("no servers have no ranges", () => {
  assert.deepEqual(evenRanges(0), []);
});

test("ranges lie end to end from 0 to 2^64, so that 2^64 − 1 has an owner", () => {
  for (const count of [1, 2, 3, 7, 64, 1000]) {
    const ranges = evenRanges(count);
    assert.equal(ranges.length, count);
    assert.equal(ranges[0]?.begin, 0n);
    assert.equal(ranges.at(-1)?.end, 2n ** 64n);
    for (let i = 1; i < count; i++) assert.equal(ranges[i]?.begin, ranges[i - 1]?.end);
  }
});

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
