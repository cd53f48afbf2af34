// Goal: the mix on halves is the top half of the kernel's mix, and spreads small consecutive ids evenly.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { plainMix } from "../kernel/plain-partition-kernels.ts";
import { mixHigh } from "./mix.ts";

const KEY_MAX = 2n ** 64n - 1n;

function check(key: bigint): void {
  const low = Number(key & 0xffff_ffffn);
  const high = Number(key >> 32n);
  assert.equal(mixHigh(low, high), Number(plainMix(key) >> 32n), `key ${key}`);
}

test("equals the top half of the kernels' mix for every kind of key", () => {
  for (const key of [0n, 1n, KEY_MAX, KEY_MAX - 1n, 2n ** 32n, 2n ** 32n - 1n, 2n ** 63n, 0xffff_0000_ffff_0000n]) check(key);
  fc.assert(fc.property(fc.bigInt({ min: 0n, max: KEY_MAX }), check), { numRuns: 2_000 });
});

test("consecutive ids, and ids that differ in the high half only, spread evenly over 4,096 parts", () => {
  for (const step of ["low", "high"]) {
    const counts = new Uint32Array(4096);
    const keyCount = 4096 * 100;
    for (let i = 0; i < keyCount; i++) counts[(step === "low" ? mixHigh(i, 0) : mixHigh(0, i)) >>> 20]!++;
    const chiSquare = counts.reduce((sum, count) => sum + (count - 100) ** 2 / 100, 0);
    assert.ok(chiSquare < 4095 + 6 * Math.sqrt(2 * 4095), `${step}: chi-square ${chiSquare} of 4095 degrees of freedom`);
  }
});
