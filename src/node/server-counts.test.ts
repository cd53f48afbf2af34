// Goal: what a table comes to does not depend on how many servers there are, or on which of them a row lies, also where
// pushes are counted: the steps of lazyAdam, and the workers over whom a mean is taken (spec/consistency.md, U2).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../api/session.ts";
import type { Consistency } from "../store/consistency.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import type { LinkEncoding } from "../wire/codecs/link-encoding.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";

const KEYS: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8];
const LAZY: OptimizerSpec = { type: "lazyAdam", learningRate: 0.5 };
const MEAN: Consistency = { bsp: true, reduce: "mean" };

/** What comes of `train` by two workers, with one server and with others: the same bits. */
async function sameForAll(train: (one: Session, two: Session) => Promise<Float32Array>): Promise<void> {
  const results: number[][] = [];
  for (const servers of [1, 2, 3, 4, 5]) {
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
    for (let i = 0; i < 5; i++) await cache.push([1], ones([1]));
    await cache.pushPull({ keys: [2], gradients: ones([2]) }, [1], { into: new Float32Array(1) });
    await cache.push(KEYS, ones(KEYS));
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

test("a mean of rows of a tensor is over all workers that pushed to the tensor, in whichever block their rows lie", async () => {
  const rowsPerBlock = 2 ** 17 / 64;
  const results: number[][] = [];
  for (const servers of [1, 2, 3, 4, 5]) {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 2 });
    const [one, two] = cluster.sessions;
    assert.ok(one !== undefined && two !== undefined);
    const options = { shape: [4 * rowsPerBlock, 64], optimizer: "sum", consistency: MEAN } as const;
    const [first, second] = await Promise.all([one.tensor("w", options), two.tensor("w", options)]);
    const rows = [0, rowsPerBlock, 2 * rowsPerBlock, 3 * rowsPerBlock];
    await first.pushRows(rows.slice(0, 1), new Float32Array(64).fill(2));
    await second.pushRows(rows.slice(1), new Float32Array(3 * 64).fill(4));
    one.clock();
    two.clock();
    results.push([...(await first.pullRows(rows))].filter((_, i) => i % 64 === 0));
  }
  for (const values of results) assert.deepEqual(values, [1, 2, 2, 2]);
});

test("lazyAdam counts the pushes of earlier clocks, also where their rows were elsewhere and a clock has just ended", async () => {
  await sameForAll(async (one, two) => {
    const table = await one.embedding("t", { dim: 1, optimizer: LAZY });
    await two.leaveClocks();
    for (const key of KEYS) {
      for (let i = 0; i < 3; i++) await table.push([key], ones([key]));
      one.clock();
      await table.push([(key * 7) % 8], ones([key])); // at once: it may come before the clock does
    }
    return await table.pull(KEYS);
  });
});

test("a table that is changed to a mean divides by all workers that pushed to it, wherever their rows lie", async () => {
  await sameForAll(async (one, two) => {
    const options = { dim: 1, optimizer: "sum", consistency: "bsp" } as const;
    const [first, second] = await Promise.all([one.embedding("t", options), two.embedding("t", options)]);
    const from = await first.configure({ consistency: MEAN });
    for (let clock = 0; clock <= from; clock++) {
      await first.push([1], ones([1]));
      await second.push([2, 3, 4, 5, 6], ones([2, 3, 4, 5, 6]));
      one.clock();
      two.clock();
    }
    return await first.pull(KEYS);
  });
});

test("a parameter that is cleared and made anew begins with step 1 on every server", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 5 });
  const make = () => cluster.session.embedding("t", { dim: 1, optimizer: LAZY });
  const before = await make();
  for (let i = 0; i < 5; i++) await before.push([1], ones([1]));
  await before.drop();
  const table = await make();
  await table.push(KEYS, ones(KEYS));
  for (const value of await table.pull(KEYS)) assert.ok(Math.abs(value + 0.5) < 1e-3, `the first step, not ${value}`);
});

test("a mean leaves out a worker that began its clock anew and pushed nothing again", async () => {
  await sameForAll(async (one, two) => {
    const options = { dim: 1, optimizer: "sum", consistency: MEAN } as const;
    const [first, second] = await Promise.all([one.embedding("t", options), two.embedding("t", options)]);
    await first.push(KEYS, ones(KEYS));
    await second.push([1], ones([1]));
    await two.rejoin();
    one.clock();
    two.clock();
    const values = await first.pull(KEYS);
    assert.deepEqual([...values], [...ones(KEYS)]);
    return values;
  });
});

test("a mean counts a worker that left the clock set after its pushes", async () => {
  await sameForAll(async (one, two) => {
    const options = { dim: 1, optimizer: "sum", consistency: MEAN } as const;
    const [first, second] = await Promise.all([one.embedding("t", options), two.embedding("t", options)]);
    await first.push(KEYS, ones(KEYS));
    await second.push([1], ones([1]));
    await two.leaveClocks();
    one.clock();
    return await first.pull(KEYS);
  });
});
