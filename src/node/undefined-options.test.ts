// Goal: an option that is given as undefined is left out: callers pass on what they were given.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EmbeddedCluster } from "./embedded-cluster.ts";

test("a cluster, parameters, a cache and their calls take undefined for every option that may be left out", async () => {
  const none = { timeoutMs: undefined, signal: undefined };
  await using cluster = await EmbeddedCluster.start({
    ...{ servers: undefined, workers: undefined, workersMax: undefined, placement: undefined, functions: undefined, plugIns: undefined },
    ...{ arenaBytesMax: undefined, checkpointDir: undefined, restore: undefined, logger: undefined, logLevel: undefined, ...none },
  });
  const { session } = cluster;
  assert.equal(session.serverCount, 1);
  const common = { consistency: undefined, link: undefined, ...none };
  const optimizer = { type: "sgd", learningRate: undefined, schedule: undefined, clipNorm: undefined, nonFinite: undefined } as const;
  const init = { type: "uniform", low: undefined, high: undefined, seed: undefined } as const;
  const w = await session.tensor("w", { shape: [2], init: undefined, optimizer, ...common });
  const push = { priority: undefined, ...none };
  await w.push(Float32Array.of(1, 2), push);
  assert.deepEqual(await w.pull({ into: undefined, clocksAhead: undefined, ...push }), Float32Array.of(-0.01, -0.02));
  const users = await session.embedding("users", { dim: 2, dtype: undefined, rows: undefined, versions: true, init, optimizer, ...common });
  const row = await users.pull([5]);
  assert.ok(row.length === 2 && row.every((value) => value >= -0.05 && value < 0.05), "the defaults of uniform");
  assert.equal((await session.embedding("users", { dtype: undefined, ...none })).dtype, "f32");
  const settings = { learningRate: 0.5, schedule: undefined, staleness: undefined, consistency: undefined, fromClock: undefined, ...none };
  await w.configure(settings);
  await w.push(Float32Array.of(1, 0));
  assert.deepEqual(await w.pull(), Float32Array.of(Math.fround(-0.01) - 0.5, -0.02));
  await using cache = users.cached({ rows: 4, policy: undefined, pullBound: undefined, pushBound: undefined });
  assert.deepEqual(await cache.pull([5], push), row);
  await cache.close(none);
  const links = { push: "fp16", pull: undefined, keys: undefined, keyCache: undefined, compression: undefined } as const;
  await session.tensor("linked", { shape: [1], optimizer: "sum", link: links });
  await session.close({ barrier: undefined, ...none });
});
