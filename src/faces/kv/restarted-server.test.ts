// Goal: nobody takes a server that was killed and started again for the one before: what was pushed to that one is
// gone, and whoever counts on it is told once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { SimCluster } from "../../testing/sim-cluster.ts";
import { idOf } from "../../wire/node-id.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

const KEYS = BigUint64Array.of(1n, 2n ** 64n - 1n); // one on each server
const LAST = KEYS.subarray(1);

function isLost(error: unknown): boolean {
  return (
    isWeighbridgeError(error, "NODE_DEAD") &&
    !error.retryable &&
    /^server 1 was started again and has lost .* nothing was sent/.test(error.message)
  );
}

/**
 * Two servers that sum, and a worker that pushed 5 to a key of each; `restart` kills server 1 and starts it again while
 * the worker does nothing.
 */
async function stage(seed: number) {
  const cluster = new SimCluster({ seed, serverCount: 2, workerCount: 1 });
  await cluster.start();
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  await cluster.run(kv.wait(kv.push(KEYS, Float32Array.of(5, 5))));
  const restart = async (idleMs: number): Promise<void> => {
    cluster.kill(idOf("server", 1));
    await cluster.clock.advance(idleMs);
    new KVServer(await cluster.run(cluster.startNode(idOf("server", 1))), 0);
    await cluster.clock.advance(200);
  };
  const pulled = async (keys: BigUint64Array, worker = kv): Promise<number[]> => {
    const out = new Float32Array(keys.length);
    await cluster.run(worker.wait(worker.pull(keys, out)));
    return [...out];
  };
  return { cluster, kv, restart, pulled };
}

test("the first request to a server that was started again while its worker was idle fails with NODE_DEAD, and the next is served (KVWorker.U4)", async () => {
  for (const [seed, idleMs] of [0, 100, 10_000].entries()) {
    const { restart, pulled } = await stage(seed + 1);
    await restart(idleMs);
    await assert.rejects(pulled(LAST), isLost, `restarted after ${idleMs} ms`);
    assert.deepEqual(await pulled(LAST), [0]);
    await restart(idleMs);
    await assert.rejects(pulled(LAST), isLost, "and so the next time");
    assert.deepEqual(await pulled(LAST), [0]);
  }
});

test("a request that also goes to other servers is sent to none of them, whatever it asks (KVWorker.U4)", async () => {
  const { cluster, kv, restart, pulled } = await stage(4);
  const ones = Float32Array.of(1, 1);
  const requests: readonly (() => Promise<unknown>)[] = [
    () => kv.wait(kv.push(KEYS, ones)),
    () => kv.wait(kv.pushPull(KEYS, ones, new Float32Array(2))),
    () => kv.wait(kv.pull(KEYS, new Float32Array(2))),
    () => kv.pullPairs(KEYS),
    () => new Promise((_, reject) => void kv.push(KEYS, ones, { callback: (error) => reject(error ?? new Error("served")) })),
  ];
  for (const request of requests) {
    await restart(100);
    assert.deepEqual(await pulled(KEYS.subarray(0, 1)), [5], "requests that do not concern it go on, and change nothing");
    await assert.rejects(cluster.run(request()), isLost);
    assert.deepEqual(await pulled(KEYS), [5, 0], "the other server took no part of it");
  }
  assert.equal(kv.simple.customer.tracker.keptCount, 0);
});

test("every KVWorker of a node is told, and one that was made later is not (KVWorker.U4)", async () => {
  const { cluster, kv, restart, pulled } = await stage(5);
  const second = new KVWorker(cluster.worker(0), 0, 1);
  await restart(100);
  const third = new KVWorker(cluster.worker(0), 0, 2);
  assert.deepEqual(await pulled(LAST, third), [0]);
  for (const each of [kv, second]) {
    await assert.rejects(pulled(LAST, each), isLost);
    assert.deepEqual(await pulled(LAST, each), [0]);
  }
});

test("a link that breaks and comes back is no new server: its sums are read on (KVWorker.U4)", async () => {
  const { cluster, pulled } = await stage(6);
  cluster.network.isolate("server-1", { breakLinks: true });
  await cluster.clock.advance(300);
  cluster.network.heal();
  assert.deepEqual(await pulled(KEYS), [5, 5]);
});
