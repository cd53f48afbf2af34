// Goal: whatever frames are lost, doubled or swapped, and however often links break, a cached row is never further
// behind than its bound, shows every update of its own worker, and after the flush every update has counted exactly
// once.
//
// Element w of a row counts the updates of worker w, so that a row says by itself what it misses. Servers only go
// forward: what a plain pull gave before a lookup, the lookup may miss by its bound at most.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Complete } from "../../src/base/known-options.ts";
import { Random } from "../../src/base/random.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import type { CacheOptions } from "../../src/worker/cache/cached-embedding.ts";
import { POLICY_NAMES } from "../../src/worker/cache/eviction-order.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const KEYS = 24;
const OPERATIONS = 30;
const DEADLINE = { timeoutMs: 240_000 };

type Settings = { readonly seed: number; readonly workers: number; readonly cache: Complete<CacheOptions> };
type Counts = number[];

/** Some keys in no order, each once. */
function someKeys(random: Random): number[] {
  const keys = new Set<number>();
  for (let i = 1 + random.below(10); i > 0; i--) keys.add(Math.floor(KEYS * random.fraction() ** 2));
  return [...keys];
}

function settingsOf(seed: number, workers: number): Settings {
  const random = new Random(seed * 7);
  const one = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  const cache = {
    rows: 1 + random.below(12),
    policy: one(POLICY_NAMES),
    pullBound: one([0, 1, 3, Infinity]),
    pushBound: one([0, 2, 5, Infinity]),
  };
  return { seed, workers, cache };
}

/** Returns how often this worker updated each key, its cache closed. */
async function work(session: Session, random: Random, { seed, workers, cache: options }: Settings): Promise<Counts> {
  const table = await session.embedding("e", { dim: workers, optimizer: "sum", versions: true, ...DEADLINE });
  const cache = table.cached(options);
  const own = session.rank;
  const made: Counts = Array.from({ length: KEYS }, () => 0);
  const update = (keys: readonly number[]): Float32Array => {
    for (const key of keys) made[key]!++;
    return Float32Array.from({ length: keys.length * workers }, (_, i) => (i % workers === own ? 1 : 0));
  };
  const check = (keys: readonly number[], plain: Float32Array, read: Float32Array): void => {
    keys.forEach((key, at) => {
      const missed = Array.from({ length: workers }, (_, w) => (w === own ? 0 : plain[at * workers + w]! - read[at * workers + w]!));
      const behind = missed.reduce((sum, count) => sum + count, 0);
      assert.equal(read[at * workers + own], made[key], `seed ${seed}: own updates of ${key}`);
      assert.ok(behind <= options.pullBound, `seed ${seed}: key ${key} misses ${missed.join(", ")}, the bound is ${options.pullBound}`);
    });
  };
  for (let i = 0; i < OPERATIONS; i++) {
    const keys = someKeys(random);
    const what = random.fraction();
    if (what < 0.4) {
      const plain = await table.pull(keys, DEADLINE);
      check(keys, plain, await cache.pull(keys, DEADLINE));
    } else if (what < 0.75) {
      await cache.push(keys, update(keys), DEADLINE);
    } else if (what < 0.9) {
      const plain = await table.pull(keys, DEADLINE);
      const pushed = someKeys(random);
      const into = new Float32Array(keys.length * workers);
      await cache.pushPull({ keys: pushed, gradients: update(pushed) }, keys, { into, ...DEADLINE }).catch(async (error: unknown) => {
        // Where parts move, an update counts although its answer is lost.
        if (!isWeighbridgeError(error, "ANSWER_LOST")) throw error;
        await cache.pull(keys, { into, ...DEADLINE });
      });
      check(keys, plain, into);
    } else if (what < 0.95) {
      await cache.flush(DEADLINE);
      const plain = await table.pull(keys, DEADLINE);
      for (const [at, key] of keys.entries()) assert.equal(plain[at * workers + own], made[key], `seed ${seed}: ${key} after a flush`);
    } else {
      await cache.bypass(random.chance(0.5), DEADLINE);
    }
    const { rowsCached, rowsPending } = cache.statistics();
    assert.ok(rowsCached <= options.rows, `seed ${seed}: ${rowsCached} rows cached, ${options.rows} asked for`);
    assert.ok(rowsPending <= rowsCached, `seed ${seed}: ${rowsPending} rows pending, of which only ${rowsCached} can be cached`);
  }
  await cache.close(DEADLINE);
  return made;
}

/** Throws when a read was too stale or hid the worker's own, or an update was lost or counted twice. */
export async function runEmbeddingCache(seed: number, changes?: Changes): Promise<void> {
  const random = new Random(seed);
  const [serverCount, workerCount] = [1 + random.below(3), 2 + random.below(2)];
  const settings = settingsOf(seed, workerCount);
  const cluster = await stormyCluster(random, { seed, serverCount, workerCount, changes });
  const ranks = Array.from({ length: workerCount }, (_, rank) => rank);
  const sessions = await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const made = await cluster.run(Promise.all(sessions.map((session, rank) => work(session, new Random(seed * 31 + rank), settings))));
  const [first] = sessions;
  assert.ok(first !== undefined);
  const table = await cluster.run(first.embedding("e", { dim: workerCount, optimizer: "sum", versions: true }));
  const rows = await cluster.run(table.pull(Array.from({ length: KEYS }, (_, key) => key)));
  const expected = Float32Array.from({ length: KEYS * workerCount }, (_, i) => made[i % workerCount]![Math.floor(i / workerCount)]!);
  assert.deepEqual(rows, expected, `seed ${seed}: everything counted once`);
  await cluster.finalize();
}
