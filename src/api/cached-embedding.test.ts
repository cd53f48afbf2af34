// cached-embedding — Goal: a cache never shows less than its bounds allow, never hides the worker's own updates and
// never loses one. Where Hetu's cache did: hetu-cache-defects.test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import type { ServerContext } from "../server/server-context.ts";
import { add, read, rowsOf, stageOf, stored } from "../testing/cache-stage.ts";
import type { CacheOptions } from "../worker/cache/cached-embedding.ts";
import { POLICY_NAMES } from "../worker/cache/eviction-order.ts";

test("operations of one worker that are not awaited run in the order of their calls", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const stage = await stageOf(cluster.session, { rows: 3, pushBound: 1, pullBound: 1 });
  const keys = [1, 2, 3, 4, 5];
  const reads: Promise<Float32Array>[] = [];
  const updates: Promise<void>[] = [];
  for (let i = 0; i < 20; i++) {
    reads.push(stage.cache.pull(keys));
    updates.push(stage.cache.push(keys, rowsOf(keys, 1)));
  }
  for (const [i, rows] of (await Promise.all(reads)).entries()) assert.deepEqual(rows, rowsOf(keys, i));
  await Promise.all(updates);
});

test("updates that wait for their turn while clocks end are pushed, and a BSP push of the same worker counts", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const { session } = cluster;
  const stage = await stageOf(session, { rows: 8, pushBound: 0 });
  const tensor = await session.tensor("bsp", { shape: [1], optimizer: "sum", consistency: "bsp" });
  const keys = Array.from({ length: 20 }, (_, i) => i);
  const calls: Promise<void>[] = [];
  for (let i = 0; i < 6; i++) {
    calls.push(stage.cache.push(keys, rowsOf(keys, 1)), tensor.push(Float32Array.of(1)));
    session.clock();
  }
  calls.push(tensor.push(Float32Array.of(100)));
  await Promise.all(calls);
  session.clock();
  assert.deepEqual(await tensor.pull(), Float32Array.of(106));
  assert.deepEqual(await stage.cache.pull(keys), rowsOf(keys, 6));
});

test("with a push bound of 2 own updates show at once and are pushed three at a time", async () => {
  await using cluster = await EmbeddedCluster.start();
  const stage = await stageOf(cluster.session, { pushBound: 2, pullBound: 2 }, { init: { type: "constant", value: 7 } });
  await read(stage, 1);
  const seen: unknown[] = [];
  for (let i = 0; i < 3; i++) {
    await add(stage, 1);
    seen.push([await read(stage, 1), await stored(stage, 1)]);
  }
  assert.deepEqual(seen, [
    [8, 7],
    [9, 7],
    [10, 10],
  ]);
});

test("with a pull bound of 3 others' updates show when they are four, then eight", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  const reader = await stageOf(one, { pullBound: 3 });
  const writer = await stageOf(two);
  const seen = [await read(reader, 1)];
  for (let i = 0; i < 8; i++) {
    await add(writer, 1);
    seen.push(await read(reader, 1));
  }
  assert.deepEqual(seen, [0, 0, 0, 0, 4, 4, 4, 4, 8]);
});

test("a refreshed row has the worker's own pending updates on it", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  const mine = await stageOf(one, { pushBound: 5 });
  const theirs = await stageOf(two);
  await read(mine, 1);
  await add(mine, 1, 10);
  await add(theirs, 1, 1);
  assert.deepEqual([await read(mine, 1), await stored(mine, 1)], [11, 1]);
});

test("under sgd with a schedule a lone worker's cache has the very bits of the server, also when the rate is changed", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  const [one, two] = cluster.sessions;
  const options = {
    dim: 5,
    init: { type: "normal", std: 1, seed: 3 },
    optimizer: { type: "sgd", learningRate: 0.3, weightDecay: 0.01, schedule: { type: "step", every: 2, factor: 0.7 } },
  } as const;
  const stage = await stageOf(one, { rows: 30, pushBound: 1 }, options);
  const other = await stageOf(two, {}, options);
  const keys = Array.from({ length: 30 }, (_, i) => i * 3);
  for (let i = 0; i < 12; i++) {
    await stage.cache.pull(keys);
    await stage.cache.push(
      keys,
      Float32Array.from({ length: 150 }, (_, j) => Math.sin(i * 150 + j)),
    );
    one?.clock();
    if (i === 6) await other.table.configure({ learningRate: 0.05 });
  }
  await stage.cache.flush();
  assert.deepEqual(await stage.cache.pull(keys), await stage.table.pull(keys));
  assert.equal(stage.cache.statistics().misses, 30);
  assert.equal(stage.cache.statistics().stale, 0);
});

for (const type of ["adam", "adagrad", "momentum", "ftrl"] as const) {
  test(`under ${type} own updates show after they were pushed, and a row that has some pending is pushed before it is read`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers: 2 });
    const stage = await stageOf(cluster.session, { rows: 10, pushBound: 5, pullBound: 5 }, { optimizer: { type } });
    const plain = await cluster.session.embedding("plain", { dim: 2, optimizer: { type } });
    const keys = [1, 2, 3];
    for (let i = 1; i <= 6; i++) {
      const gradients = rowsOf(keys, i / 4);
      await stage.cache.pull(keys);
      await stage.cache.push(keys, gradients);
      await plain.push(keys, gradients);
      assert.deepEqual(await stage.cache.pull(keys), await plain.pull(keys), `update ${i}`);
    }
  });
}

for (const type of ["adam", "adagrad"] as const) {
  test(`under ${type} a copy counts for nothing once its worker's updates were pushed: at once, by a flush, or with a lookup of others`, async () => {
    await using cluster = await EmbeddedCluster.start();
    const { session } = cluster;
    const plain = await session.embedding("plain", { dim: 2, optimizer: { type } });
    const atOnce = await stageOf(session, { pushBound: 0, pullBound: 5 }, { optimizer: { type } });
    const table = await session.embedding("flushed", { dim: 2, versions: true, optimizer: { type } });
    const flushed = table.cached({ rows: 8, pushBound: 5, pullBound: 5 });
    for (let i = 1; i <= 4; i++) {
      for (const cache of [atOnce.cache, flushed]) await cache.pull([1]);
      const gradient = rowsOf([1], i / 4);
      await plain.push([1], gradient);
      await atOnce.cache.push([1], gradient); // and pushed
      await flushed.pushPull({ keys: [1], gradients: gradient }, [2], { into: new Float32Array(2) });
      await flushed.flush();
      const expected = await plain.pull([1]);
      assert.deepEqual(await atOnce.cache.pull([1]), expected, `pushed at once, update ${i}`);
      assert.deepEqual(await flushed.pull([1]), expected, `flushed, update ${i}`);
    }
  });
}

test("bypassed, every read and update goes to the servers, and afterwards the cache still knows its own", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  const stage = await stageOf(one, { pushBound: 9, pullBound: 9 });
  const other = await stageOf(two);
  await read(stage, 1);
  await add(stage, 1);
  await stage.cache.bypass(true);
  assert.equal(await stored(stage, 1), 1);
  await add(stage, 1);
  assert.equal(await stored(stage, 1), 2);
  await other.table.push([1], rowsOf([1], 10));
  assert.equal(await read(stage, 1), 12);
  await stage.cache.bypass(false);
  assert.equal(await read(stage, 1), 2, "one update behind, which the bound allows");
  await other.table.push([1], rowsOf([1], 10));
  assert.equal(await read(stage, 1), 2);
});

test("updates that no server took are kept, shown and pushed later", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2 });
  const stage = await stageOf(cluster.session, { rows: 4 });
  const keys = [1, 2, 3, 4, 5, 6];
  await stage.cache.pull(keys);
  await stage.table.drop();
  await assert.rejects(stage.cache.push(keys, rowsOf(keys, 1)), (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"));
  await assert.rejects(stage.cache.pull(keys), (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"));
  await assert.rejects(stage.cache.close(), (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"));
  assert.equal(stage.cache.statistics().rowsPending, 6);
  await cluster.session.embedding("e", { dim: 2, optimizer: "sum", versions: true });
  assert.deepEqual(await stage.cache.pull(keys), rowsOf(keys, 1));
  await stage.cache.flush();
  assert.deepEqual(await stage.table.pull(keys), rowsOf(keys, 1));
  assert.deepEqual(await stage.cache.pull(keys), rowsOf(keys, 1));
  const { rowsCached, rowsPending } = stage.cache.statistics();
  assert.deepEqual({ rowsCached, rowsPending }, { rowsCached: 4, rowsPending: 0 }, "failed lookups cost no room");
});

test("a caller that does not wait loses nothing", async () => {
  await using cluster = await EmbeddedCluster.start();
  const stage = await stageOf(cluster.session);
  const aborter = new AbortController();
  const { signal } = aborter;
  const calls = [stage.cache.push([1], rowsOf([1], 1), { signal }), stage.cache.pull([1], { signal })];
  aborter.abort();
  for (const call of calls) await assert.rejects(call, (error) => isWeighbridgeError(error, "ABORTED"));
  assert.equal(await read(stage, 1), 1);
  await assert.rejects(stage.cache.push([1], rowsOf([1], 1), { signal }), (error) => isWeighbridgeError(error, "ABORTED"));
  assert.equal(await read(stage, 1), 1, "a call whose signal has fired before does nothing");
});

test("gradients that are not finite are refused, skipped or zeroed before they are pending", async () => {
  await using cluster = await EmbeddedCluster.start();
  const bad = Float32Array.of(1, Number.NaN);
  const refusing = await stageOf(cluster.session, { pushBound: 5 });
  await assert.rejects(refusing.cache.push([1], bad), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  assert.deepEqual([...(await refusing.cache.pull([1]))], [0, 0]);
  assert.equal((await refusing.table.nonFinite()).refusedPushes, 1);
  for (const [nonFinite, expected] of [
    ["skip", [0, 0]],
    ["zero", [1, 0]],
  ] as const) {
    const table = await cluster.session.embedding(nonFinite, { dim: 2, versions: true, optimizer: { type: "sum", nonFinite } });
    const cache = table.cached({ rows: 1, pushBound: 5 });
    await cache.pull([1]);
    await cache.push([1], bad);
    assert.deepEqual([...(await cache.pull([1]))], expected);
    const { rowsPending, skippedPushes, zeroedElements } = cache.statistics();
    assert.deepEqual([rowsPending, skippedPushes, zeroedElements], nonFinite === "skip" ? [0, 1, 0] : [1, 0, 1]);
  }
});

test("keys that repeat, none at all, and more rows than the cache has", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 3 });
  for (const policy of POLICY_NAMES) {
    const table = await cluster.session.embedding(policy, { dim: 3, optimizer: "sum", versions: true });
    const cache = table.cached({ rows: 5, policy, pushBound: 3, pullBound: 3 });
    const keys = BigUint64Array.from({ length: 400 }, (_, i) => BigInt((i * 7) % 130) + 2n ** 63n);
    const ones = new Float32Array(1200).fill(1);
    const counts = new Map<bigint, number>();
    for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
    for (let i = 1; i <= 4; i++) {
      await cache.push(keys, ones);
      const rows = await cache.pull(keys);
      for (const [at, key] of keys.entries()) assert.equal(rows[at * 3 + 2], i * (counts.get(key) as number), `${policy}: key ${key}`);
    }
    assert.equal(cache.statistics().rowsCached, 5);
    assert.equal((await cache.pull([])).length, 0);
    await cache.push([], new Float32Array(0));
    await cache.pushPull({ keys: [], gradients: new Float32Array(0) }, [], { into: new Float32Array(0) });
  }
});

test("what cannot be is an error that says why, and changes nothing", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const table = await session.embedding("e", { dim: 2, optimizer: "sum", versions: true, rows: 10 });
  for (const options of [
    { rows: 0 },
    { rows: 1.5 },
    { rows: 1, pullBound: -1 },
    { rows: 1, pushBound: 0.5 },
    { rows: 1, policy: "fifo" },
  ]) {
    assert.throws(
      () => table.cached(options as CacheOptions),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
  }
  const plain = await session.embedding("plain", { dim: 2, optimizer: "sum" });
  assert.throws(
    () => plain.cached({ rows: 1 }),
    (error) => isWeighbridgeError(error, "UNSUPPORTED"),
  );
  const clocked = await session.embedding("clocked", { dim: 2, optimizer: "sum", versions: true, consistency: { ssp: 1 } });
  assert.throws(
    () => clocked.cached({ rows: 1 }),
    (error) => isWeighbridgeError(error, "UNSUPPORTED"),
  );
  const assigned = await session.embedding("assigned", { dim: 2, versions: true, optimizer: { type: "assign" } });
  assert.throws(
    () => assigned.cached({ rows: 1 }),
    (error) => isWeighbridgeError(error, "UNSUPPORTED") && /assign/.test(error.message),
  );
  const cache = table.cached({ rows: 4 });
  await assert.rejects(cache.pull([10]), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
  await assert.rejects(cache.pull([1], { into: new Float32Array(3) }), (error) => isWeighbridgeError(error, "VALUE_LENGTH"));
  await assert.rejects(cache.push([1], new Float32Array(1)), (error) => isWeighbridgeError(error, "VALUE_LENGTH"));
  assert.equal(cache.statistics().rowsUpdated, 0);
});

test("rows set back between two frames of one lookup: versions of the first frame count for nothing (TableStore.T5)", async () => {
  /** Takes the rows away when the table is asked the second time from now. */
  const setBackBetween = psFunction({
    name: "set-back-between",
    request: { keys: "u64[]" },
    response: {},
    handler: ({ parameters, arena }: ServerContext, { keys }) => {
      const table = parameters.tableOf("e");
      const list = arena.allocate(keys.byteLength);
      new BigUint64Array(arena.memory.buffer, list, keys.length).set(keys);
      const sync = table.sync.bind(table);
      let askedCount = 0;
      table.sync = (...question) => {
        if (++askedCount === 2) table.store.remove(list, 2);
        return sync(...question);
      };
      return {};
    },
  });
  await using cluster = await EmbeddedCluster.start({ functions: [setBackBetween] });
  const dim = 131_072; // a row to a frame
  const stage = await stageOf(cluster.session, { pullBound: 1 }, { dim });
  const keys = [1, 2];
  for (let update = 0; update < 3; update++) await stage.table.push(keys, rowsOf(keys, 1, dim));
  await cluster.session.call(setBackBetween, { server: 0 }, { keys: BigUint64Array.of(1n, 2n) });
  const mixed = await stage.cache.pull(keys);
  assert.deepEqual(new Set([mixed[0], mixed[dim]]), new Set([0, 3]), "one frame before, one after");
  for (let update = 0; update < 4; update++) await stage.table.push(keys, rowsOf(keys, 10, dim));
  for (const key of keys) {
    const value = await read(stage, key); // version 4 is one ahead of version 3, which was another generation's
    assert.ok(value !== undefined && value >= 30, `key ${key} reads ${value}: of four updates more than one is missing`);
  }
});

for (const type of ["sum", "adagrad"] as const) {
  test(`what a server refuses with NOT_FINITE is told once and is pending no longer: later reads, updates, flush and close go on (${type})`, async () => {
    await using cluster = await EmbeddedCluster.start();
    const init = { type: "constant", value: 2e38 } as const;
    const table = await cluster.session.embedding("t", { dim: 1, init, optimizer: { type }, versions: true });
    await using cache = table.cached({ rows: 4 });
    await cache.pull([1]);
    const isNotFinite = (error: unknown): boolean => isWeighbridgeError(error, "NOT_FINITE");
    await assert.rejects(cache.push([1], Float32Array.of(2e38)), isNotFinite);
    assert.equal(cache.statistics().rowsPending, 0);
    assert.deepEqual([...(await cache.pull([1]))], [Math.fround(2e38)]);
    await cache.push([1], Float32Array.of(1));
    await cache.flush();
    assert.deepEqual(await cache.pull([1]), await table.pull([1]));
    assert.equal((await table.nonFinite()).refusedPushes, 1);
  });
}
