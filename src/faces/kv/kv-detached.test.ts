// Goal: an array of a push or a pull that is transferred away before the request ended fails that request with
// BUFFER_DETACHED; all others are served.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../../testing/memory-cluster.ts";
import { idOf } from "../../wire/node-id.ts";
import type { KVPairs } from "./kv-server.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

async function stage(options: MemoryClusterOptions = {}) {
  const cluster = await MemoryCluster.start(options);
  const servers = Array.from({ length: cluster.serverCount }, (_, rank) => new KVServer(cluster.server(rank), 0));
  return { cluster, servers, kv: new KVWorker(cluster.worker(), 0) };
}

/** Keys over the whole range, so that each of two servers has half of them. */
function keysOf(count: number): BigUint64Array<ArrayBuffer> {
  const step = 2n ** 64n / BigInt(count);
  return BigUint64Array.from({ length: count }, (_, i) => BigInt(i) * step);
}

function transfer(array: { readonly buffer: ArrayBufferLike }): void {
  structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] });
}

const detached = (error: unknown): boolean => isWeighbridgeError(error, "BUFFER_DETACHED");
const COUNT = 300_000;

test("each array of a push, a pull and a pushPull, of any size: the request fails, the ones around it do not", async () => {
  for (const count of [10, COUNT]) {
    const { cluster, kv } = await stage({ serverCount: 2 });
    const values = (): Float32Array<ArrayBuffer> => new Float32Array(count).fill(1);
    let served = 0;
    const fails = async (begin: () => { readonly timestamp: number; readonly array: { readonly buffer: ArrayBufferLike } }) => {
      const before = kv.push(keysOf(count), values());
      const { timestamp, array } = begin();
      const after = kv.push(keysOf(count), values());
      transfer(array);
      await assert.rejects(cluster.run(kv.wait(timestamp)), detached);
      await cluster.run(Promise.all([kv.wait(before), kv.wait(after)]));
      served += 2;
    };
    await fails(() => {
      const into = values();
      return { timestamp: kv.pull(keysOf(count), into), array: into };
    });
    await fails(() => {
      const keys = keysOf(count);
      return { timestamp: kv.pull(keys, values()), array: keys };
    });
    await fails(() => {
      const lens = new Int32Array(count);
      return { timestamp: kv.pull(keysOf(count), values(), { lens }), array: lens };
    });
    await fails(() => {
      const into = values();
      return { timestamp: kv.pull(keysOf(count), into, { lens: new Int32Array(count) }), array: into };
    });
    const into = new Float32Array(count);
    await cluster.run(kv.wait(kv.pull(keysOf(count), into)));
    assert.deepEqual(into, new Float32Array(count).fill(served));
    await fails(() => {
      const gradient = values();
      return { timestamp: kv.push(keysOf(count), gradient), array: gradient };
    });
    await fails(() => {
      const [keys, gradient, outs] = [keysOf(count), values(), values()];
      return { timestamp: kv.pushPull(keys, gradient, outs), array: outs };
    });
    await fails(() => {
      const lens = new Int32Array(count).fill(1);
      return { timestamp: kv.push(keysOf(count), values(), { lens }), array: lens };
    });
    await cluster.run(kv.wait(kv.pull(keysOf(count), into)));
    assert.ok(
      into.every((value) => Number.isInteger(value) && value >= served && value <= served + 3),
      "what failed counts once or not at all",
    );
  }
});

test("a push whose array goes after it left is not sent again over the next link, and those behind it are", async () => {
  const { cluster, kv } = await stage();
  const gradient = new Float32Array(COUNT).fill(1);
  const push = kv.push(keysOf(COUNT), gradient);
  const after = kv.push(keysOf(COUNT), new Float32Array(COUNT).fill(1));
  cluster.settleFrames(2);
  transfer(gradient);
  for (const link of cluster.links.get(idOf("worker", 0)) ?? []) link.destroy();
  await assert.rejects(cluster.run(kv.wait(push)), detached);
  await cluster.run(kv.wait(after));
  const into = new Float32Array(COUNT);
  await cluster.run(kv.wait(kv.pull(keysOf(COUNT), into)));
  assert.ok(
    into.every((value) => value === 1 || value === 2),
    "each key has the second push, and the first one at most once",
  );
});

test("a handle of the user's own never sees a request whose array went, and the server keeps none of its frames", async () => {
  const { cluster, kv, servers } = await stage();
  const seen: KVPairs[] = [];
  servers[0]?.setRequestHandle((meta, pairs, server) => {
    seen.push(pairs);
    server.response(meta, { vals: new Float32Array(0) });
  });
  for (let round = 0; round < 3; round++) {
    const gradient = new Float32Array(COUNT).fill(1);
    const push = kv.push(keysOf(COUNT), gradient);
    cluster.settleFrames(round);
    transfer(gradient);
    await assert.rejects(cluster.run(kv.wait(push)), detached);
  }
  assert.equal(seen.length, 0);
  await cluster.run(kv.wait(kv.push(keysOf(COUNT), new Float32Array(COUNT).fill(1))));
  assert.deepEqual(
    seen.map(({ vals }) => vals.length),
    [COUNT],
  );
});
