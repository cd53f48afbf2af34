// Goal: small requests that are made together travel in runs, and nothing else about them changes: each is applied
// once, answered once, and fails alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryCluster } from "../../testing/memory-cluster.ts";
import type { Link } from "../../transport/transport.ts";
import { HEADER_BYTES } from "../../wire/frame.ts";
import { idOf } from "../../wire/node-id.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

const keysOf = (...keys: readonly bigint[]): BigUint64Array => BigUint64Array.from(keys);
const ONE = Float32Array.of(1);

type Stage = { readonly cluster: MemoryCluster; readonly kv: KVWorker; readonly near: Link; readonly far: Link };

/** A worker whose link to its server has been used, and both ends of that link. */
async function stage(): Promise<Stage> {
  const cluster = await MemoryCluster.start();
  new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(), 0);
  await cluster.run(kv.wait(kv.push(keysOf(5n), ONE)));
  const near = cluster.links.get(idOf("worker", 0))?.[1];
  const far = cluster.links.get(idOf("server", 0))?.[1];
  assert.ok(near !== undefined && far !== undefined);
  return { cluster, kv, near, far };
}

/** Counts what is written to the link from now on. */
function watchBytes(link: Link): { byteCount: number } {
  const written = { byteCount: 0 };
  const write = link.write.bind(link);
  link.write = (chunks, flushed) => {
    for (const { length } of chunks) written.byteCount += length;
    write(chunks, flushed);
  };
  return written;
}

test("64 pushes have one header, and so have their acknowledgements; 64 pulls and their values as well", async () => {
  const { cluster, kv, near, far } = await stage();
  const [asked, answered] = [watchBytes(near), watchBytes(far)];
  const pushes = Array.from({ length: 64 }, () => kv.push(keysOf(5n), ONE));
  await cluster.run(Promise.all(pushes.map((push) => kv.wait(push))));
  assert.deepEqual([asked.byteCount, answered.byteCount], [HEADER_BYTES + 64 * 16, HEADER_BYTES]);
  const outs = Array.from({ length: 64 }, () => new Float32Array(1));
  await cluster.run(Promise.all(outs.map((out) => kv.wait(kv.pull(keysOf(5n), out)))));
  assert.deepEqual([asked.byteCount, answered.byteCount], [2 * HEADER_BYTES + 64 * 24, 2 * HEADER_BYTES + 64 * 8]);
  assert.ok(outs.every(([value]) => value === 65));
});

test("pushes and pulls in turns are each a frame of their own, in order", async () => {
  const { cluster, kv, near } = await stage();
  const asked = watchBytes(near);
  const outs = Array.from({ length: 10 }, () => new Float32Array(1));
  const pulls = outs.map((out) => {
    kv.push(keysOf(5n), ONE);
    return kv.pull(keysOf(5n), out);
  });
  await cluster.run(Promise.all(pulls.map((pull) => kv.wait(pull))));
  assert.equal(asked.byteCount, 10 * (HEADER_BYTES + 16 + HEADER_BYTES + 8));
  assert.deepEqual(
    outs.map(([value]) => value),
    [2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
  );
});

test("one request of a run fails alone, with its own reason", async () => {
  const { cluster, kv } = await stage();
  await cluster.run(kv.wait(kv.push(keysOf(6n), Float32Array.of(1, 2))));
  const ends = await cluster.run(Promise.allSettled([5n, 5n, 6n, 5n].map((key) => kv.wait(kv.push(keysOf(key), ONE)))));
  assert.deepEqual(
    ends.map(({ status }) => status),
    ["fulfilled", "fulfilled", "rejected", "fulfilled"],
  );
  assert.match(String((ends[2] as PromiseRejectedResult).reason), /key 6 has 2 values, the request has 1/);
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(keysOf(5n), out)));
  assert.equal(out[0], 4);
});

test("a link that breaks under a run, or before its acknowledgement is read, costs no push and repeats none", async () => {
  for (const isApplied of [false, true]) {
    const { cluster, kv, near } = await stage();
    if (isApplied) near.pause();
    const pushes = Array.from({ length: 64 }, () => kv.push(keysOf(5n), ONE));
    if (isApplied) await cluster.clock.advance(1);
    near.destroy();
    await cluster.run(Promise.all(pushes.map((push) => kv.wait(push))));
    const out = new Float32Array(1);
    await cluster.run(kv.wait(kv.pull(keysOf(5n), out)));
    assert.equal(out[0], 65, isApplied ? "applied before the break" : "lost by the break");
    assert.ok(cluster.worker().metrics.resends >= 64);
  }
});
