// Goal: the ranges are ps-lite's, cover every u64 once, and the last one reaches to the very end.

import assert from "node:assert/strict";
import { test } from "node:test";
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
