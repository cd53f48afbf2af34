// cache-functions — Goal: a cache gets exactly the rows it lacks, and a request that makes no sense changes nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { cachePush, cachePushSync, cacheSync } from "../../contracts/cached-rows.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";

const TO = { server: 0 } as const;
/** The first that is made. */
const parameter = 1;
const keysOf = (...keys: number[]): BigUint64Array => BigUint64Array.from(keys, BigInt);

const sync = (
  keys: BigUint64Array,
  versions: readonly number[],
  rest: { keptCount?: number; bound?: number; generation?: number } = {},
) => ({
  parameter,
  clock: 0,
  generation: 0,
  bound: 0,
  keptCount: 0,
  keys,
  versions: Uint32Array.from(versions),
  ...rest,
});
const push = (keys: BigUint64Array, gradients: readonly number[], updates: readonly number[] = []) => ({
  parameter,
  clock: 0,
  pushNumber: 1,
  scale: 1,
  pushKeys: keys,
  gradients: Float32Array.from(gradients),
  updates: Uint32Array.from(updates),
});

test("rows that a cache has come when they are too far behind, the others always, versions for those to keep", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  await session.embedding("e", { dim: 1, optimizer: "sum", versions: true });
  await session.call(cachePush, TO, push(keysOf(1, 2, 3), [10, 20, 30], [5, 1, 7]));
  await session.call(cachePush, TO, push(keysOf(3), [1]));
  const { generation } = await session.call(cacheSync, TO, sync(keysOf(), []));
  const fresh = await session.call(cacheSync, TO, sync(keysOf(1, 2, 3, 4, 2), [1, 1, 8], { generation, bound: 3, keptCount: 1 }));
  assert.deepEqual([...fresh.indexes], [0]);
  assert.deepEqual([...fresh.versions], [5, 0]);
  assert.deepEqual([...fresh.rows], [10, 0, 20]);
  const bounded = await session.call(cacheSync, TO, sync(keysOf(1, 2, 3), [1, 1, 8], { generation, bound: 4 }));
  assert.equal(bounded.rows.length, 0);
});

test("versions of another generation count for nothing", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  await session.embedding("e", { dim: 1, optimizer: "sum", versions: true });
  const { generation } = await session.call(cacheSync, TO, sync(keysOf(), []));
  const other = (generation ^ 1) >>> 0;
  const fresh = await session.call(cacheSync, TO, sync(keysOf(1, 2), [0, 0], { generation: other, bound: 1000 }));
  assert.deepEqual([...fresh.indexes], [0, 1]);
  assert.equal(fresh.generation, generation);
});

test("a push that comes with a question that makes no sense is not applied, nor the other way round", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const table = await session.embedding("e", { dim: 1, optimizer: "sum", versions: true, rows: 10 });
  const good = push(keysOf(1), [1]);
  for (const [code, asked] of [
    ["BAD_REQUEST", sync(keysOf(1), [0, 0])],
    ["BAD_REQUEST", sync(keysOf(1), [0], { keptCount: 0xffff_ffff })],
    ["OUT_OF_RANGE", sync(keysOf(10), [])],
  ] as const) {
    await assert.rejects(session.call(cachePushSync, TO, { ...good, ...asked }), (error) => isWeighbridgeError(error, code));
  }
  for (const [code, pushed] of [
    ["VALUE_LENGTH", push(keysOf(1), [1, 1])],
    ["VALUE_LENGTH", push(keysOf(1), [1], [1, 1])],
    ["NOT_FINITE", push(keysOf(1), [Number.NaN])],
  ] as const) {
    await assert.rejects(session.call(cachePushSync, TO, { ...pushed, ...sync(keysOf(1), []) }), (error) =>
      isWeighbridgeError(error, code),
    );
    await assert.rejects(session.call(cachePush, TO, pushed), (error) => isWeighbridgeError(error, code));
  }
  assert.deepEqual([...(await table.pull([1]))], [0]);
});

test("a table without versions, or with updates in rounds, is not for caches", async () => {
  for (const options of [{}, { versions: true, consistency: "bsp" }] as const) {
    await using cluster = await EmbeddedCluster.start();
    await cluster.session.embedding("e", { dim: 1, optimizer: "sum", ...options });
    for (const call of [
      cluster.session.call(cacheSync, TO, sync(keysOf(1), [])),
      cluster.session.call(cachePush, TO, push(keysOf(1), [1])),
    ]) {
      await assert.rejects(call, (error) => isWeighbridgeError(error, "UNSUPPORTED"));
    }
  }
});
