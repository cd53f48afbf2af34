// Goal: every implementation of top-k selects the largest sums, and what was sent and what is kept add up to all
// gradients.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Random } from "../base/random.ts";
import { putFloats, readFloats, readKey, readKeys } from "../testing/arena-lists.ts";
import { CODEC_IMPLEMENTATIONS } from "../testing/store-stage.ts";
import { topKScratchBytes } from "./codec-kernels.ts";

for (const { name, fresh } of CODEC_IMPLEMENTATIONS) {
  describe(name, () => {
    test("selects the largest by magnitude, of equal ones those of lower index, and keeps the rest", () => {
      const { arena, kernels } = fresh();
      const gradient = putFloats(arena, [1, -3, 2, 3, 0, -2, 2, 0.5]);
      const residual = putFloats(arena, [0, 0, 0, 0, 1, 0, 0, 0]);
      const indices = arena.allocate(8 * 8);
      const values = arena.allocate(8 * 4);
      const scratch = arena.allocate(topKScratchBytes(512));
      assert.equal(kernels.selectTopK(gradient, residual, 8, 4, indices, values, scratch), -1);
      assert.deepEqual(readKeys(arena, indices, 4), [1n, 2n, 3n, 5n]);
      assert.deepEqual([...readFloats(arena, values, 4)], [-3, 2, 3, -2]);
      assert.deepEqual([...readFloats(arena, residual, 8)], [1, 0, 0, 0, 1, 0, 2, 0.5]);
    });

    test("changes nothing when a sum is not finite, and names the first", () => {
      const { arena, kernels } = fresh();
      const scratch = arena.allocate(topKScratchBytes(512));
      for (const [wrong, kept] of [
        [Number.NaN, 0],
        [Number.POSITIVE_INFINITY, 1],
        [3e38, 3e38],
      ] as const) {
        const gradient = putFloats(arena, [1, 2, 3, 4, 5, wrong, wrong]);
        const residual = putFloats(arena, [1, 1, 1, 1, 1, kept, 0]);
        const before = readFloats(arena, residual, 7);
        assert.equal(kernels.selectTopK(gradient, residual, 7, 2, arena.allocate(64), arena.allocate(64), scratch), 5);
        assert.deepEqual(readFloats(arena, residual, 7), before);
      }
    });

    test("loses nothing of whole gradients: what was sent and what is kept add up exactly, after every step", () => {
      const { arena, kernels } = fresh();
      const count = 301;
      const random = new Random(7);
      const residual = putFloats(arena, new Float32Array(count));
      const gradient = arena.allocate(count * 4);
      const indices = arena.allocate(count * 8 + 8);
      const values = arena.allocate(count * 4 + 4);
      const scratch = arena.allocate(topKScratchBytes(512));
      const pushed = new Float64Array(count);
      const sent = new Float64Array(count);
      for (let step = 0; step < 60; step++) {
        for (let i = 0; i < count; i++) {
          const value = random.below(2001) - 1000;
          arena.floats[gradient / 4 + i] = value;
          pushed[i]! += value;
        }
        const keepCount = 1 + random.below(20);
        assert.equal(kernels.selectTopK(gradient, residual, count, keepCount, indices, values, scratch), -1);
        for (let i = 0; i < keepCount; i++) sent[Number(readKey(arena, indices + i * 8))]! += arena.floats[values / 4 + i]!;
        for (let i = 0; i < count; i++) assert.equal(sent[i]! + arena.floats[residual / 4 + i]!, pushed[i], `step ${step}, value ${i}`);
      }
    });

    test("loses no more of any gradients than 2^-24 of each sum that was made", () => {
      const { arena, kernels } = fresh();
      const count = 64;
      const random = new Random(8);
      const residual = putFloats(arena, new Float32Array(count));
      const gradient = arena.allocate(count * 4);
      const indices = arena.allocate(count * 8 + 8);
      const values = arena.allocate(count * 4 + 4);
      const scratch = arena.allocate(topKScratchBytes(512));
      const missing = new Float64Array(count); // pushed, not sent yet
      const bounds = new Float64Array(count);
      for (let step = 0; step < 200; step++) {
        for (let i = 0; i < count; i++) {
          const value = Math.fround((random.fraction() - 0.5) * 2 ** (random.below(40) - 20));
          arena.floats[gradient / 4 + i] = value;
          missing[i]! += value;
          bounds[i]! += 2 ** -24 * Math.abs(value + arena.floats[residual / 4 + i]!) + 2 ** -50 * Math.abs(missing[i]!);
        }
        kernels.selectTopK(gradient, residual, count, 3, indices, values, scratch);
        for (let i = 0; i < 3; i++) missing[Number(readKey(arena, indices + i * 8))]! -= arena.floats[values / 4 + i]!;
        for (let i = 0; i < count; i++) assert.ok(Math.abs(missing[i]! - arena.floats[residual / 4 + i]!) <= bounds[i]!, `step ${step}`);
      }
    });
  });
}
