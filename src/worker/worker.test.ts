// Goal: a request goes to every server it concerns or to none, and a server that is away costs its callers an error,
// not a wait.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { KVServer } from "../faces/kv/kv-server.ts";
import { KVWorker } from "../faces/kv/kv-worker.ts";
import { MemoryCluster } from "../testing/memory-cluster.ts";
import { SimCluster } from "../testing/sim-cluster.ts";
import { idOf } from "../wire/node-id.ts";

const KEY_LAST = 2n ** 64n - 1n;
const keysOf = (...keys: readonly bigint[]): BigUint64Array => BigUint64Array.from(keys);

test("a request that does not fit the queue to one server is sent to none (Router.R1)", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, limits: { queuedMax: 8, inFlightBytesMax: 65_536 } });
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 0);
  const kv = new KVWorker(cluster.worker(), 0);
  const slow = cluster.links.get(idOf("server", 1))?.[1];
  slow?.pause();
  const isFull = (error: unknown): boolean => isWeighbridgeError(error, "QUEUE_FULL") && /server 1/.test(error.message);
  const row = new Float32Array(4000);
  const fill = async (): Promise<never> => {
    for (;;) {
      kv.push(keysOf(KEY_LAST), row);
      await cluster.clock.advance(1);
    }
  };
  await assert.rejects(fill(), isFull);
  const vals = new Float32Array(8000).fill(1);
  assert.throws(() => kv.push(keysOf(1n, KEY_LAST), vals), isFull);
  const out = new Float32Array(4000).fill(-1);
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  assert.ok(out.every((value) => value === 0));
  slow?.resume();
  await cluster.run(kv.room());
  await cluster.run(kv.wait(kv.push(keysOf(1n, KEY_LAST), vals)));
});

test("calls to a dead server fail at once, those to the others do not, and a request over both fails with the dead one's name (Router.R2)", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 2, workerCount: 1 });
  await cluster.start();
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  cluster.kill(idOf("server", 1));
  await cluster.clock.advance(3000);
  const isDead = (error: unknown): boolean =>
    isWeighbridgeError(error, "NODE_DEAD") && /server 1 is dead/.test(error.message) && error.retryable;
  const beginMs = cluster.clock.nowMs();
  const [alive, dead, both] = [keysOf(1n), keysOf(KEY_LAST), keysOf(1n, KEY_LAST)].map((keys) =>
    kv.wait(kv.push(keys, new Float32Array(keys.length).fill(1))),
  );
  await assert.rejects(cluster.run(dead ?? assert.fail()), isDead);
  assert.equal(cluster.clock.nowMs(), beginMs, "without a wait");
  const isDeadForSome = (error: unknown): boolean =>
    isWeighbridgeError(error, "NODE_DEAD") &&
    /server 1 is dead.* applied by server 0, not by server 1$/.test(error.message) &&
    !error.retryable;
  await assert.rejects(cluster.run(both ?? assert.fail()), isDeadForSome);
  await cluster.run(alive ?? assert.fail());
  await cluster.run(kv.room({ timeoutMs: 1000 }));
});

test("who waits for room to a server that dies is let go when its death is known", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 1 });
  await cluster.start();
  new KVServer(cluster.server(0), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  cluster.network.partition("server-0", "worker-0", { breakLinks: true });
  await cluster.clock.advance(100);
  let last = 0;
  for (let i = 0; i < 60_000; i++) last = kv.push(keysOf(1n), Float32Array.of(1));
  const room = kv.room();
  let hasRoom = false;
  const mark = (): void => {
    hasRoom = true;
  };
  room.then(mark, mark);
  await cluster.clock.advance(1000);
  assert.equal(hasRoom, false);
  cluster.kill(idOf("server", 0));
  await cluster.run(room);
  await assert.rejects(cluster.run(kv.wait(last)), (error) => isWeighbridgeError(error, "NODE_DEAD"));
});
