// Goal: what a table comes to does not depend on how many servers there are, or on which of them a row lies, also where pushes are counted: the steps of
// lazyAdam, and the workers over whom a mean is taken (spec/consistency.md, U2).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Consistency } from "../api/consistency.ts";
import type { Session } from "../api/session.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";
import { EmbeddedCluster } from "./connect.ts";

const KEYS: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8];
const LAZY: OptimizerSpec = { type: "lazyAdam", learningRate: 0.5 };
const MEAN: Consistency = { bsp: true, reduce: "mean" };

/** What comes of `train` by two workers, with one server and with others: the same bits. */
async function sameForAll(train: (one: Session, two: Session) => Promise<Float32Array>): Promise<void> {
  const results: number[][] = [];
  for (const servers of [1, 2, 5]) {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 2 });
    const [one, two] = cluster.sessions;
    assert.ok(one !== undefined && two !== undefined);
    results.push([...(await train(one, two))]);
  }
  const [expected, ...others] = results;
  for (const other of others) assert.deepEqual(other, expected);
}

const ones = (keys: readonly number[]): Float32Array => new Float32Array(keys.length).fill(1);

for (const [what, link] of [
  ["as they are", undefined],
  ["encoded", { push: "fp16", keyCache: true }],
] as const satisfies readonly (readonly [string, Partial<LinkEncoding> | undefined])[]) {
  const linked = link === undefined ? {} : { link };

  test(`lazyAdam counts every push, wherever its rows lie, values ${what}`, async () => {
    await sameForAll(async (one) => {
      const table = await one.embedding("t", { dim: 1, optimizer: LAZY, ...linked });
      for (let i = 0; i < 5; i++) await table.push([1], ones([1]));
      await table.pushPull({ keys: [2], gradients: ones([2]) }, [1]);
      await table.push(KEYS, ones(KEYS));
      return await table.pull(KEYS);
    });
  });

  test(`a mean is over all workers that pushed to the table, wherever their rows lie, values ${what}`, async () => {
    await sameForAll(async (one, two) => {
      const options = { dim: 1, optimizer: LAZY, consistency: MEAN, ...linked };
      const [first, second] = await Promise.all([one.embedding("t", options), two.embedding("t", options)]);
      for (let clock = 0; clock < 3; clock++) {
        await first.push([1], ones([1]));
        if (clock < 2) await second.push(KEYS, ones(KEYS));
        one.clock();
        two.clock();
      }
      return await first.pull(KEYS);
    });
  });
}

test("lazyAdam counts what a cache pushes, wherever its rows lie", async () => {
  await sameForAll(async (one) => {
    const table = await one.embedding("t", { dim: 1, optimizer: LAZY, versions: true });
    await using cache = table.cached({ rows: 4, pushBound: 0 });
    for (let i = 0; i < 5; i++) await cache.update([1], ones([1]));
    await cache.pushPull([1], new Float32Array(1), [2], ones([2]));
    await cache.update(KEYS, ones(KEYS));
    return await table.pull(KEYS);
  });
});

test("a push that is refused for its values is counted nowhere", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 5 });
  const options = { dim: 1, optimizer: { ...LAZY, nonFinite: "zero" }, link: { push: "int8" } } as const;
  const table = await cluster.session.embedding("t", options);
  for (let i = 0; i < 5; i++) await assert.rejects(table.push([1], Float32Array.of(NaN)), /cannot/);
  await table.push(KEYS, ones(KEYS));
  for (const value of await table.pull(KEYS)) assert.ok(Math.abs(value + 0.5) < 1e-3, `the first step, not ${value}`);
});
