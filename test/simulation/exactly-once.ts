// Goal: whatever frames are lost, doubled or swapped, and however often links break in the middle of a message, every
// push counts exactly once and every worker reads its own writes at once.

import assert from "node:assert/strict";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const SERVERS = 2;
const WORKERS = 2;
const SHARED_KEYS = 8;
const STEPS = 12;

/** Key i of a worker's own (or of all, for worker −1), spread over the servers. */
function keyOf(worker: number, i: number): bigint {
  return BigInt(i % SERVERS) * 2n ** 63n + BigInt(worker + 1) * 1000n + BigInt(i);
}

const sorted = (keys: bigint[]): BigUint64Array => BigUint64Array.from(keys.sort((a, b) => (a < b ? -1 : 1)));

/** Pushes ones to random keys and checks what it reads of its own; returns how often it pushed each shared key. */
async function work(kv: KVWorker, rank: number, random: Random, seed: number): Promise<number[]> {
  const own = Array.from({ length: SHARED_KEYS }, () => 0);
  const shared = Array.from({ length: SHARED_KEYS }, () => 0);
  for (let step = 0; step < STEPS; step++) {
    const picks = [...new Set(Array.from({ length: 1 + random.below(5) }, () => random.below(SHARED_KEYS)))];
    for (const i of picks) {
      own[i] = (own[i] as number) + 1;
      shared[i] = (shared[i] as number) + 1;
    }
    const width = 2;
    const keys = sorted(picks.flatMap((i) => [keyOf(rank, i), keyOf(-1, i)]));
    const priority = random.below(3);
    const ones = new Float32Array(keys.length * width).fill(1);
    if (random.chance(0.3)) {
      const out = new Float32Array(ones.length);
      await kv.wait(kv.pushPull(keys, ones, out, { priority }), { timeoutMs: 120_000 });
    } else {
      const pushed = kv.push(keys, ones, { priority });
      if (random.chance(0.3)) await kv.wait(pushed, { timeoutMs: 120_000 });
    }
    const all = Array.from({ length: SHARED_KEYS }, (_, i) => i).filter((i) => (own[i] as number) > 0);
    const mine = sorted(all.map((i) => keyOf(rank, i)));
    const read = new Float32Array(mine.length * width);
    await kv.wait(kv.pull(mine, read, { priority: random.below(3) }), { timeoutMs: 120_000 });
    for (const i of all) {
      const at = mine.indexOf(keyOf(rank, i)) * width;
      assert.equal(read[at], own[i], `seed ${seed}: worker ${rank} reads its own key ${i} at step ${step}`);
    }
  }
  return shared;
}

/** Throws when something was lost, counted twice, or read too early. */
export async function runExactlyOnce(seed: number, changes?: Changes): Promise<void> {
  const random = new Random(seed);
  const cluster = await stormyCluster(random, { seed, serverCount: SERVERS, workerCount: WORKERS, changes });
  for (let rank = 0; rank < SERVERS; rank++) new KVServer(cluster.server(rank), 0);
  const workers = Array.from({ length: WORKERS }, (_, rank) => new KVWorker(cluster.worker(rank), 0));
  if (random.chance(0.5)) {
    cluster.clock.after(random.below(300), () => cluster.network.partition("worker-0", "server-1", { breakLinks: random.chance(0.5) }));
    cluster.clock.after(300 + random.below(2000), () => cluster.network.heal());
  }
  const counts = await cluster.run(Promise.all(workers.map((kv, rank) => work(kv, rank, new Random(seed * 31 + rank), seed))));
  const all = sorted(Array.from({ length: SHARED_KEYS }, (_, i) => keyOf(-1, i)));
  const read = new Float32Array(all.length * 2);
  await cluster.run((workers[0] as KVWorker).wait((workers[0] as KVWorker).pull(all, read)));
  for (let i = 0; i < SHARED_KEYS; i++) {
    const expected = counts.reduce((sum, shared) => sum + (shared[i] as number), 0);
    assert.equal(read[all.indexOf(keyOf(-1, i)) * 2], expected, `seed ${seed}: shared key ${i}`);
  }
  await cluster.finalize();
}
