// Goal: the samples of a unit are dealt whole, in chunks that depend on the numbers of samples and devices alone, and
// each chunk is computed once, whoever has time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Chunk, chunksOf, dealingOf } from "./chunks.ts";
import { createControlMemory, DeviceControl, NO_CHUNK } from "./device-control.ts";

const small = { gradientBytes: 250_000, usesWeightsOften: true };

test("chunks have every sample once, in order; those that are claimed begin with the largest (Chunks.C1)", () => {
  for (const isClaimed of [true, false])
    for (const deviceCount of [2, 3, 5, 64])
      for (let sampleCount = 1; sampleCount <= 300; sampleCount++) {
        const chunks = chunksOf(sampleCount, deviceCount, { isClaimed });
        let next = 0;
        for (const { from, count } of chunks) {
          assert.equal(from, next);
          next += count;
        }
        assert.equal(next, sampleCount);
        if (isClaimed) assert.ok(chunks.every(({ count }, i) => count > 0 && (i === 0 || count <= chunks[i - 1]!.count)));
        else assert.equal(chunks.length, deviceCount);
      }
  const counts = (chunks: readonly Chunk[]): readonly number[] => chunks.map(({ count }) => count);
  assert.deepEqual(counts(chunksOf(64, 2, { isClaimed: true })), [16, 16, 8, 8, 4, 4, 4, 4]);
  assert.deepEqual(counts(chunksOf(64, 2, { isClaimed: false })), [32, 32]);
  assert.deepEqual(counts(chunksOf(3, 2, { isClaimed: true })), [3]);
  assert.deepEqual(counts(chunksOf(1, 3, { isClaimed: false })), [1, 0, 0]);
});

test("chunks are claimed where weights are used often and gradients are small, and there is memory for those of every unit", () => {
  const dealing = dealingOf({ ...small, deviceCount: 2, sampleCountMax: 64 });
  assert.deepEqual(dealing, { isClaimed: true, chunkCountMax: 8 });
  for (let count = 1; count <= 64; count++) assert.ok(chunksOf(count, 2, dealing).length <= dealing.chunkCountMax);
  const own = { isClaimed: false, chunkCountMax: 2 };
  assert.deepEqual(dealingOf({ ...small, deviceCount: 2, sampleCountMax: 64, gradientBytes: 5_000_000 }), own);
  assert.deepEqual(dealingOf({ ...small, deviceCount: 2, sampleCountMax: 64, usesWeightsOften: false }), own);
  assert.deepEqual(dealingOf({ ...small, deviceCount: 2, sampleCountMax: 8 }), own, "as many chunks as devices");
});

test("every chunk of a step is given to one thread, the last that is done is told, and losses are added in their order (DeviceControl.D2)", () => {
  for (const isClaimed of [true, false]) {
    const memory = createControlMemory(2, { isClaimed, chunkCountMax: 8 });
    const [owner, other] = [new DeviceControl(memory, 0), new DeviceControl(memory, 1)];
    for (const sampleCount of [64, 7, 64]) {
      assert.ok(!owner.hasChunk && !other.hasChunk && owner.nextChunk() === NO_CHUNK);
      owner.begin(sampleCount, 100);
      const chunks = chunksOf(sampleCount, 2, { isClaimed });
      const taken: number[] = [];
      for (let turn = 0; taken.length < chunks.length; turn++) {
        const control = turn % 3 === 0 ? owner : other;
        const chunk = control.nextChunk();
        if (chunk === NO_CHUNK) continue;
        assert.deepEqual(control.samplesOf(chunk), chunks[chunk]);
        assert.equal(control.divisor, 100);
        taken.push(chunk);
        assert.equal(control.done(chunk, 2 ** chunk), taken.length === chunks.length);
      }
      assert.deepEqual(
        taken.toSorted((a, b) => a - b),
        chunks.map((_, chunk) => chunk),
      );
      assert.equal(owner.loss, 2 ** chunks.length - 1);
      assert.equal(other.chunkCount, chunks.length);
    }
  }
});
