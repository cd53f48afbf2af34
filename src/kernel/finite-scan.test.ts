// Goal: the first NaN or infinity is found wherever it lies, and finite numbers never look like one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "./arena.ts";
import { FiniteScan } from "./finite-scan.ts";

const LARGEST = 3.4028234663852886e38;
const scan = new FiniteScan(new Arena({ bytesMax: 2 ** 20, shared: false }));

test("the first that is not finite is found at every kind of index, in short and long arrays", () => {
  for (const length of [1, 15, 1_024, 1_025, 16_384, 16_385, 49_152, 50_001]) {
    const indexes = [0, 1, length >> 1, 16_383, 16_384, 32_768, length - 1].filter((index) => index < length);
    for (const index of indexes) {
      for (const value of [Number.NaN, Infinity, -Infinity]) {
        const floats = new Float32Array(length).fill(1);
        floats[index] = value;
        floats[length - 1] = length - 1 === index ? value : Infinity;
        assert.equal(scan.firstNotFinite(floats), index, `${value} at ${index} of ${length}`);
      }
    }
  }
});

test("the largest numbers, subnormal ones and zeros are finite, however many there are", () => {
  for (const length of [0, 1, 1_000, 1_024, 1_025, 40_000]) {
    for (const value of [LARGEST, -LARGEST, 1e-45, -0]) assert.equal(scan.firstNotFinite(new Float32Array(length).fill(value)), -1);
  }
});

test("a part of a larger array is looked at alone", () => {
  const floats = new Float32Array(5_000).fill(Number.NaN).fill(2, 1_000, 4_000);
  assert.equal(scan.firstNotFinite(floats.subarray(1_000, 4_000)), -1);
  assert.equal(scan.firstNotFinite(floats.subarray(1_001, 4_001)), 2_999);
});
