// Goal: every distinct id of a batch gets one slot, in ascending order, keys have all their bits, and what names no row
// has none (RowSource.R4).

import assert from "node:assert/strict";
import { test } from "node:test";
import { BatchSlots } from "./batch-slots.ts";
import { NO_SLOT } from "./row-source.ts";

function batch(vocabSize: number): BatchSlots {
  return new BatchSlots({ idCountMax: 8, vocabSize, keys: new BigUint64Array(8) });
}

test("equal ids share a slot, slots ascend with the ids", () => {
  const slots = batch(100);
  slots.assign([7, 3, 7, 99, 0, 3]);
  assert.deepEqual([...slots.slots], [2, 1, 2, 3, 0, 1]);
  assert.deepEqual([...slots.keys], [0n, 3n, 7n, 99n]);
});

test("ids below zero, past the end and NaN have no slot", () => {
  const slots = batch(10);
  slots.assign([-1, 10, 4, Number.NaN, -5]);
  assert.deepEqual([...slots.slots], [NO_SLOT, NO_SLOT, 0, NO_SLOT, NO_SLOT]);
  assert.deepEqual([...slots.keys], [4n]);
  slots.assign([]);
  assert.deepEqual([slots.slots.length, slots.keys.length], [0, 0]);
});

test("keys above 2^32 keep all their bits", () => {
  const slots = batch(2 ** 50);
  slots.assign([2 ** 40 + 5, 2 ** 32, 2 ** 32 - 1]);
  assert.deepEqual([...slots.keys], [2n ** 32n - 1n, 2n ** 32n, 2n ** 40n + 5n]);
});

test("knows the ids that it holds, and the keys of some slots", () => {
  const slots = batch(10);
  slots.assign([5, -1, 2]);
  assert.ok(slots.holds([5, -3, 2]), "whatever names no row is the same");
  assert.ok(!slots.holds([5, 1, 2]) && !slots.holds([5, -1]) && !slots.holds([2, -1, 5]));
  assert.deepEqual([...slots.keysOf(Int32Array.of(1))], [5n]);
});
