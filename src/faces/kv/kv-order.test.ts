// Goal: requests of one worker reach a server in the order they were made at equal priority, urgent ones pass large
// ones, and a worker always reads its own writes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../../testing/memory-cluster.ts";
import { type KVRequestHandle, KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

const MIB = 1024 * 1024;
const FLOATS_PER_MIB = MIB / 4;
const keysOf = (...keys: readonly bigint[]): BigUint64Array => BigUint64Array.from(keys);

/** One server whose handle remembers the cmds in the order it saw them, and keeps the last value of every key. */
async function recording(options: MemoryClusterOptions = {}) {
  const cluster = await MemoryCluster.start(options);
  const server = new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(), 0);
  const seen: number[] = [];
  const last = new Map<bigint, number>();
  const handle: KVRequestHandle = (meta, { keys, vals }, own) => {
    seen.push(meta.cmd);
    const width = vals.length / keys.length;
    if (meta.push) for (const [i, key] of keys.entries()) last.set(key, vals[i * width] as number);
    own.response(meta, meta.pull ? { vals: Float32Array.from(keys, (key) => last.get(key) ?? 0) } : {});
  };
  server.setRequestHandle(handle);
  return { cluster, server, kv, seen };
}

/** Fills the bytes that may be in flight, so that what follows waits in the outbox. Returns once that is so. */
function plug(kv: KVWorker, key = 10n ** 18n): void {
  kv.push(keysOf(key), new Float32Array(4 * FLOATS_PER_MIB), { cmd: -1 });
}

test("requests of equal priority arrive in the order they were made, small and large", async () => {
  const { cluster, kv, seen } = await recording();
  const random = new Random(7);
  let last = 0;
  for (let i = 0; i < 300; i++) {
    const width = random.chance(0.1) ? 300_000 : 1 + random.below(50);
    last = kv.push(keysOf(BigInt(random.below(5))), new Float32Array(width), { cmd: i });
  }
  await cluster.run(kv.wait(last));
  assert.deepEqual(
    seen,
    Array.from({ length: 300 }, (_, i) => i),
  );
});

test("a pull without a wait sees every push before it, one after the other", async () => {
  const { cluster, kv } = await recording();
  const outs: Float32Array[] = [];
  let last = 0;
  for (let i = 1; i <= 200; i++) {
    kv.push(keysOf(1n, 2n), Float32Array.of(i, -i));
    const out = new Float32Array(2);
    outs.push(out);
    last = kv.pull(keysOf(1n, 2n), out);
  }
  await cluster.run(kv.wait(last));
  assert.deepEqual(
    outs.map(([value]) => value),
    Array.from({ length: 200 }, (_, i) => i + 1),
  );
});

test("an urgent pull does not overtake the push of its key that waits in the outbox, but overtakes others (Outbox.O3)", async () => {
  const { cluster, kv, seen } = await recording();
  plug(kv);
  kv.push(keysOf(1n), Float32Array.of(42), { cmd: 1 });
  kv.push(keysOf(2n), Float32Array.of(1), { cmd: 2 });
  const [own, other] = [new Float32Array(1), new Float32Array(1)];
  const waits = [kv.pull(keysOf(1n), own, { cmd: 3, priority: 9 }), kv.pull(keysOf(3n), other, { cmd: 4, priority: 9 })];
  await cluster.run(Promise.all(waits.map((pull) => kv.wait(pull))));
  assert.equal(own[0], 42);
  assert.deepEqual(seen, [4, -1, 1, 2, 3]);
});

test("an urgent pull of many frames stays whole behind a push of only its first keys (KvRequest.K2)", async () => {
  const { cluster, server, kv } = await recording();
  let pulled = 0;
  server.setRequestHandle((meta, { keys }, own) => {
    if (meta.pull) pulled = keys.length;
    own.response(meta, meta.pull ? { vals: new Float32Array(keys.length) } : {});
  });
  const keys = BigUint64Array.from({ length: 200_000 }, (_, i) => BigInt(i));
  plug(kv);
  kv.push(keysOf(0n), Float32Array.of(1));
  await cluster.run(kv.wait(kv.pull(keys, new Float32Array(keys.length), { priority: 5 })));
  assert.equal(pulled, keys.length);
});

test("an urgent pull sees a push whose first frames left before it was made (KvRequest.K2)", async () => {
  const { cluster, kv } = await recording();
  const keys = BigUint64Array.from({ length: 1000 }, (_, i) => BigInt(i));
  const vals = new Float32Array(keys.length * 4000).fill(7);
  kv.push(keys, vals);
  for (let i = 0; i < 3; i++) cluster.clock.step();
  assert.ok(cluster.worker().metrics.framesSent > 2, "its first frames have left");
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(keysOf(0n), out, { priority: 100 })));
  assert.equal(out[0], 7);
});

test("for 30 seeds of pushes, pulls and pushPulls of any priority, a worker reads its own writes, with both handles", async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = new Random(seed);
    const { cluster, server, kv } = await recording();
    const isSum = random.chance(0.5);
    if (isSum) server.setRequestHandle(undefined);
    const written = new Map<bigint, number>();
    const reads: { expected: number; out: Float32Array }[] = [];
    const waits: number[] = [];
    for (let step = 0; step < 40; step++) {
      const key = BigInt(random.below(3));
      const priority = random.below(4) - 2;
      if (random.chance(0.1)) plug(kv);
      if (random.chance(0.5)) {
        // A handle that keeps the last value is only predictable when writes of one key do not overtake each other.
        const value = isSum ? (written.get(key) ?? 0) + 1 : step + 1;
        written.set(key, value);
        waits.push(kv.push(keysOf(key), Float32Array.of(isSum ? 1 : value), { priority: isSum ? priority : 0 }));
      } else {
        const out = new Float32Array(1);
        reads.push({ expected: written.get(key) ?? 0, out });
        waits.push(kv.pull(keysOf(key), out, { priority }));
      }
      if (random.chance(0.1)) cluster.clock.step();
    }
    await cluster.run(Promise.all(waits.map((timestamp) => kv.wait(timestamp))));
    for (const [i, { expected, out }] of reads.entries())
      assert.ok((out[0] as number) >= expected, `seed ${seed}, read ${i}: ${out[0]} < ${expected}`);
  }
});

test("a small urgent push passes a push of 64 MiB at the next block", async () => {
  const cluster = await MemoryCluster.start();
  new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(), 0);
  const ended: string[] = [];
  const large = kv.push(keysOf(1n), new Float32Array(64 * FLOATS_PER_MIB), { callback: () => ended.push("large") });
  cluster.settleFrames(20);
  const framesBefore = cluster.server().metrics.framesReceived;
  kv.push(keysOf(2n), Float32Array.of(1), {
    priority: 1,
    callback: () => ended.push(`urgent after ${cluster.server().metrics.framesReceived - framesBefore}`),
  });
  await cluster.run(kv.wait(large));
  const passed = /^urgent after (\d+)$/.exec(ended[0] ?? "");
  assert.ok(passed !== null, ended.join());
  assert.ok(Number(passed[1]) <= 10, `of 128 frames, ${passed[1]} came before it`);
  assert.equal(ended[1], "large");
});

test("what waits leaves by priority, and by age within one", async () => {
  const { cluster, kv, seen } = await recording();
  plug(kv);
  const waits = [0, 5, -3, 5, 0, 9].map((priority, i) => kv.push(keysOf(BigInt(i)), Float32Array.of(1), { cmd: i, priority }));
  await cluster.run(Promise.all(waits.map((timestamp) => kv.wait(timestamp))));
  assert.deepEqual(seen, [5, 1, 3, -1, 0, 4, 2]);
});

test("answers keep their priority: an urgent pull passes the answer to a pull of 64 MiB", async () => {
  const cluster = await MemoryCluster.start();
  new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(), 0);
  const ended: string[] = [];
  const vals = new Float32Array(64 * FLOATS_PER_MIB).fill(1);
  await cluster.run(kv.wait(kv.push(keysOf(1n), vals)));
  const large = kv.pull(keysOf(1n), vals, { callback: () => ended.push("large") });
  cluster.settleFrames(20);
  kv.pull(keysOf(2n), new Float32Array(1), { priority: 1, callback: () => ended.push("urgent") });
  await cluster.run(kv.wait(large));
  assert.deepEqual(ended, ["urgent", "large"]);
});
