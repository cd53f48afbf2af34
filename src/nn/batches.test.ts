// Goal: an epoch is a permutation, whoever shares it (Batches.B1, Batches.B2), and the same seed gives the same one.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../base/errors.ts";
import { Batches, type BatchesOptions } from "./batches.ts";

function visited(options: BatchesOptions, epoch: number): number[][] {
  const batches = new Batches(options);
  return Array.from({ length: batches.batchCount }, (_, step) => [...batches.at(epoch, step)]);
}

test("the shards of an epoch together visit every sample exactly once, in the global batches of a single worker", () => {
  const sizes = fc.record({
    sampleCount: fc.integer({ min: 1, max: 300 }),
    batchSize: fc.integer({ min: 1, max: 64 }),
    seed: fc.nat(),
    epoch: fc.nat({ max: 20 }),
    shardCount: fc.integer({ min: 1, max: 8 }),
  });
  fc.assert(
    fc.property(sizes, ({ sampleCount, batchSize, seed, epoch, shardCount }) => {
      fc.pre(batchSize >= shardCount);
      const alone = visited({ sampleCount, batchSize, seed }, epoch);
      const shards = Array.from({ length: shardCount }, (_, shard) => visited({ sampleCount, batchSize, seed, shard, shardCount }, epoch));
      assert.deepEqual(
        alone.map((_, step) => shards.flatMap((batches) => batches[step]!)),
        alone,
      );
      assert.deepEqual(
        alone.flat().sort((a, b) => a - b),
        Array.from({ length: sampleCount }, (_, i) => i),
      );
    }),
  );
});

test("shards of whole batches differ by at most one sample", () => {
  const sizes = [0, 1, 2].map((shard) => new Batches({ sampleCount: 100, batchSize: 64, seed: 1, shard, shardCount: 3 }).at(0, 0).length);
  assert.deepEqual(sizes, [21, 21, 22]);
});

test("the same seed and epoch give the same order, others another", () => {
  const order = (seed: number, epoch: number): number[] => visited({ sampleCount: 1000, batchSize: 1000, seed }, epoch).flat();
  assert.deepEqual(order(3, 5), order(3, 5));
  assert.notDeepEqual(order(3, 5), order(4, 5));
  assert.notDeepEqual(order(3, 5), order(3, 6));
  assert.notDeepEqual(
    order(3, 5),
    order(3, 5).toSorted((a, b) => a - b),
  );
});

test("a step can be asked for in any order", () => {
  const batches = new Batches({ sampleCount: 50, batchSize: 8, seed: 2 });
  const late = [...batches.at(4, 3)];
  batches.at(1, 0);
  assert.deepEqual([...batches.at(4, 3)], late);
});

test("the last batch is what is left", () => {
  const batches = new Batches({ sampleCount: 70, batchSize: 64, seed: 2 });
  assert.equal(batches.batchCount, 2);
  assert.equal(batches.globalSize(0), 64);
  assert.equal(batches.globalSize(1), 6);
  assert.equal(batches.at(0, 1).length, 6);
});

test("what makes no sense is refused", () => {
  const good = { sampleCount: 10, batchSize: 4, seed: 0 };
  const bad: BatchesOptions[] = [
    { ...good, sampleCount: 0 },
    { ...good, batchSize: 0 },
    { ...good, batchSize: 2.5 },
    { ...good, seed: -1 },
    { ...good, shard: 2, shardCount: 2 },
    { ...good, shard: -1, shardCount: 2 },
    { ...good, shardCount: 5 },
  ];
  const isRefused = (error: unknown): boolean => isWeighbridgeError(error, "BAD_ARGUMENT");
  for (const options of bad) assert.throws(() => new Batches(options), isRefused, JSON.stringify(options));
  assert.throws(() => new Batches(good).at(0, 3), isRefused);
  assert.throws(() => new Batches(good).at(-1, 0), isRefused);
});
