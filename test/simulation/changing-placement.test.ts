// Goal: while workers push, pull and lose links, and parts go from server to server, every acknowledged update counts once, and every worker reads its own writes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { PART_COUNT } from "../../src/keys/part.ts";
import { KVServer } from "../../src/kv/kv-server.ts";
import { KVWorker } from "../../src/kv/kv-worker.ts";
import { changePlacement } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { forSeeds } from "./seeds.ts";

const SERVERS = 3;
const WORKERS = 2;
const ROUNDS = 8;
/** So many parts go to another server at once. */
const MOVED = 300;
const SIZE = 3000;
const KEYS = BigUint64Array.from({ length: 100 }, (_, i) => BigInt(i) * 7919n);
const RAW_KEYS = BigUint64Array.from({ length: 6 }, (_, i) => (2n ** 64n / 6n) * BigInt(i));

/** All parts dealt out anew: on the ring, in ranges, or by chance. */
function change(cluster: SimCluster, random: Random): void {
  const kind = random.below(10);
  if (kind < 2) changePlacement(cluster, { policy: kind === 0 ? "ring" : "range", moved: [] });
  else {
    const parts = new Set(Array.from({ length: MOVED }, () => random.below(PART_COUNT)));
    changePlacement(cluster, { moved: [...parts].flatMap((part) => [part, random.below(SERVERS)]) });
  }
}

async function work(cluster: SimCluster, rank: number, seed: number): Promise<void> {
  const random = new Random(seed * 100 + rank);
  const session = await Session.open(cluster.worker(rank).node);
  const kv = new KVWorker(cluster.worker(rank), 0);
  const link = { push: "fp16", pull: "fp16", keys: "delta", keyCache: true } as const;
  const [own, shared, encoded, tensor] = await Promise.all([
    session.embedding(`own ${rank}`, { dim: 2, optimizer: { type: "sum" }, versions: true }),
    session.embedding("shared", { dim: 2, optimizer: { type: "sum" } }),
    session.embedding("encoded", { dim: 2, optimizer: { type: "sum" }, link }),
    session.tensor("tensor", { shape: [SIZE], optimizer: { type: "sum" } }),
  ]);
  const cache = own.cached({ rows: 16 });
  const ones = new Float32Array(2 * KEYS.length).fill(1);
  for (let round = 1; round <= ROUNDS; round++) {
    const pushes = [own.push(KEYS, ones), shared.push(KEYS, ones), encoded.push(KEYS, ones), tensor.push(new Float32Array(SIZE).fill(1))];
    const kvPush = kv.push(RAW_KEYS, new Float32Array(RAW_KEYS.length).fill(1));
    if (random.chance(0.3)) change(cluster, random);
    if (random.chance(0.2)) cluster.network.breakLinks(`worker-${rank}`, `server-${random.below(SERVERS)}`);
    const seen = await own.pull(KEYS);
    assert.ok(
      seen.every((value) => value === round),
      `worker ${rank} reads its own ${round} pushes`,
    );
    const copies = await cache.lookup(KEYS.subarray(0, 10));
    assert.ok(
      copies.every((value) => value === round),
      `so does its cache`,
    );
    await Promise.all([...pushes, kv.wait(kvPush)]);
  }
  await session.barrier();
  for (const table of [shared, encoded])
    assert.deepEqual(await table.pull(KEYS), new Float32Array(2 * KEYS.length).fill(WORKERS * ROUNDS), table.name);
  assert.deepEqual(await tensor.pull(), new Float32Array(SIZE).fill(WORKERS * ROUNDS));
  const raw = new Float32Array(RAW_KEYS.length);
  await kv.wait(kv.pull(RAW_KEYS, raw));
  assert.deepEqual(raw, new Float32Array(RAW_KEYS.length).fill(WORKERS * ROUNDS));
  await session.barrier();
}

/** A ring takes longer to make. */
const optionsOf = (): { readonly placement: "range" } => ({ placement: "range" });

test("for 4 seeds with parts that move between servers at any moment: acknowledged = applied, for rows, encoded rows, cached rows, tensors and kv", async () => {
  await forSeeds({ from: 1, count: 4 }, async (seed) => {
    const cluster = new SimCluster({ seed, serverCount: SERVERS, workerCount: WORKERS, settle: setImmediate, optionsOf });
    await cluster.start();
    for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 0);
    await cluster.run(Promise.all(Array.from({ length: WORKERS }, (_, rank) => work(cluster, rank, seed))));
    const refusedCount = Array.from({ length: SERVERS }, (_, rank) => cluster.server(rank).metrics.requestsFailed).reduce((a, b) => a + b);
    assert.ok(refusedCount > 0, "the placement has changed while requests were under way");
  });
});
