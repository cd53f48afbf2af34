// Goal: several applications and several customers of one live side by side on a node, and requests find the
// application that they name, or learn that there is none.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryCluster } from "../../testing/memory-cluster.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

/** A cluster of one server and one worker with an application 0. */
async function stage() {
  const cluster = await MemoryCluster.start();
  new KVServer(cluster.server(), 0);
  return { cluster, kv: new KVWorker(cluster.worker(), 0) };
}

test("apps and customers are whole numbers of 16 bits, each pair once per node, and a KVWorker lives on a worker", async () => {
  const { cluster } = await stage();
  const office = cluster.worker();
  for (const id of [-1, 65_536, 1.5, Number.NaN]) {
    assert.throws(() => new KVWorker(office, id), { code: "BAD_ARGUMENT", message: /app id/ }, `${id}`);
    assert.throws(() => new KVWorker(office, 1, id), { code: "BAD_ARGUMENT", message: /customer id/ }, `${id}`);
  }
  assert.throws(() => new KVWorker(office, 0), { code: "BAD_ARGUMENT", message: /application 0 for customer 0/ });
  assert.throws(() => new KVWorker(cluster.server(), 5), { code: "BAD_ARGUMENT", message: /this is the server/ });
  assert.throws(() => new KVServer(office, 5), { code: "BAD_ARGUMENT", message: /this is the worker/ });
  assert.throws(() => new KVServer(cluster.server(), 0), { code: "BAD_ARGUMENT", message: /application 0/ });
  const last = new KVWorker(office, 65_535, 65_535);
  new KVServer(cluster.server(), 65_535);
  await cluster.run(last.wait(last.push(BigUint64Array.of(1n), Float32Array.of(1))));
});

test("several customers of an app on one node have their own numbers and share the server's values", async () => {
  const { cluster, kv } = await stage();
  const second = new KVWorker(cluster.worker(), 0, 1);
  const third = new KVWorker(cluster.worker(), 0, 2);
  assert.deepEqual(
    [
      kv.push(BigUint64Array.of(1n), Float32Array.of(1)),
      second.push(BigUint64Array.of(1n), Float32Array.of(10)),
      second.push(BigUint64Array.of(1n), Float32Array.of(100)),
    ],
    [0, 0, 1],
  );
  const out = new Float32Array(1);
  await cluster.run(third.wait(third.pull(BigUint64Array.of(1n), out)));
  assert.equal(out[0], 111);
  await cluster.run(Promise.all([kv.wait(0), second.wait(0), second.wait(1)]));
});

test("several apps on one node keep their values apart", async () => {
  const { cluster, kv } = await stage();
  new KVServer(cluster.server(), 7);
  const other = new KVWorker(cluster.worker(), 7);
  kv.push(BigUint64Array.of(1n), Float32Array.of(1));
  other.push(BigUint64Array.of(1n), Float32Array.of(5, 6));
  const [mine, theirs] = [new Float32Array(1), new Float32Array(2)];
  await cluster.run(Promise.all([kv.wait(kv.pull(BigUint64Array.of(1n), mine)), other.wait(other.pull(BigUint64Array.of(1n), theirs))]));
  assert.deepEqual([...mine, ...theirs], [1, 5, 6]);
});

test("requests that come before their KVServer wait for it, in order", async () => {
  const cluster = await MemoryCluster.start();
  const kv = new KVWorker(cluster.worker(), 0);
  const out = new Float32Array(1);
  kv.push(BigUint64Array.of(1n), Float32Array.of(2));
  kv.push(BigUint64Array.of(2n), new Float32Array(200_000).fill(3));
  const pull = kv.pull(BigUint64Array.of(1n), out);
  await cluster.clock.advance(9000);
  new KVServer(cluster.server(), 0);
  kv.push(BigUint64Array.of(1n), Float32Array.of(40));
  const late = new Float32Array(1);
  await cluster.run(Promise.all([kv.wait(pull), kv.wait(kv.pull(BigUint64Array.of(1n), late))]));
  assert.deepEqual([out[0], late[0]], [2, 42]);
  const long = new Float32Array(200_000);
  await cluster.run(kv.wait(kv.pull(BigUint64Array.of(2n), long)));
  assert.ok(long.every((value) => value === 3));
});

test("on a server that has all of its apps a request for another one fails at once, also one that waited (AppRegistry.A6)", async () => {
  const cluster = await MemoryCluster.start();
  new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(), 3);
  const push = (): Promise<void> => kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(2)));
  const waiting = push();
  const refused = { code: "UNKNOWN_APP", message: /no application 3, and there are others/, retryable: false };
  const rejected = assert.rejects(waiting, refused);
  await cluster.clock.advance(1000);
  const beginMs = cluster.clock.nowMs();
  cluster.server().server?.apps.complete("and there are others");
  await cluster.run(rejected);
  await assert.rejects(cluster.run(push()), refused);
  assert.ok(cluster.clock.nowMs() - beginMs < 1000);
  const known = new KVWorker(cluster.worker(), 0);
  await cluster.run(known.wait(known.push(BigUint64Array.of(1n), Float32Array.of(2))));
});

test("requests for an app that nobody creates fail with UNKNOWN_APP after the time, and name it", async () => {
  const cluster = await MemoryCluster.start();
  const kv = new KVWorker(cluster.worker(), 3);
  const beginMs = cluster.clock.nowMs();
  const push = kv.push(BigUint64Array.of(1n), Float32Array.of(2));
  await assert.rejects(cluster.run(kv.wait(push)), { code: "UNKNOWN_APP", message: /no application 3.*10000 ms/ });
  assert.equal(cluster.clock.nowMs() - beginMs, 10_000);
  new KVServer(cluster.server(), 3);
  const out = Float32Array.of(-1);
  await cluster.run(kv.wait(kv.pull(BigUint64Array.of(1n), out)));
  assert.equal(out[0], 0, "what failed was not applied later");
});
