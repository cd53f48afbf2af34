// Goal: nothing grows with time or with a slow neighbour: requests that ended, queues, bytes in flight, answers nobody
// reads.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { CHANNEL_LIMITS } from "../../peer/channel-host.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../../testing/memory-cluster.ts";
import { SimCluster } from "../../testing/sim-cluster.ts";
import type { Link } from "../../transport/transport.ts";
import { idOf } from "../../wire/node-id.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";

const MIB = 1024 * 1024;
const FLOATS_PER_MIB = MIB / 4;
const BLOCK_FLOATS = 131_072;
const keysOf = (...keys: readonly bigint[]): BigUint64Array => BigUint64Array.from(keys);

async function stage(options: MemoryClusterOptions = {}) {
  const cluster = await MemoryCluster.start(options);
  const servers = Array.from({ length: cluster.serverCount }, (_, rank) => new KVServer(cluster.server(rank), 0));
  const workers = Array.from({ length: cluster.workerCount }, (_, rank) => new KVWorker(cluster.worker(rank), 0));
  return { cluster, servers, workers, kv: workers[0] as KVWorker };
}

/** The worker's end of its link to server 0: the second it dialed, after the scheduler's. */
function linkOf(cluster: MemoryCluster, workerRank = 0): Link {
  const link = cluster.links.get(idOf("worker", workerRank))?.[1];
  assert.ok(link !== undefined);
  return link;
}

/** Counts the bytes that were handed to a link and are not flushed, from now on. */
function watchUnflushed(link: Link): { bytes: number; bytesMax: number } {
  const unflushed = { bytes: 0, bytesMax: 0 };
  const write = link.write.bind(link);
  link.write = (chunks, flushed) => {
    const byteCount = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    unflushed.bytes += byteCount;
    unflushed.bytesMax = Math.max(unflushed.bytesMax, unflushed.bytes);
    write(chunks, () => {
      unflushed.bytes -= byteCount;
      flushed();
    });
  };
  return unflushed;
}

test("100,000 requests leave nothing behind in the tracker", async () => {
  const { cluster, kv } = await stage();
  const keys = keysOf(1n, 2n);
  const vals = Float32Array.of(1, 1);
  const out = new Float32Array(2);
  const { tracker } = kv.simple.customer;
  let keptMax = 0;
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < 999; i++) kv.push(keys, vals);
    await cluster.run(kv.wait(kv.pull(keys, out)));
    keptMax = Math.max(keptMax, tracker.keptCount);
  }
  assert.deepEqual([...out], [99_900, 99_900]);
  assert.equal(tracker.nextTimestamp, 100_000);
  assert.equal(keptMax, 0);
  await kv.wait(12_345);
});

test("every push that died with its server is told as lost, however many and however late it is asked for", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 2, workerCount: 1, heartbeatIntervalMs: 100, heartbeatTimeoutMs: 1000 });
  await cluster.start();
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  const one = Float32Array.of(1);
  await cluster.run(kv.wait(kv.push(keysOf(1n, 2n ** 63n), new Float32Array(2))));
  cluster.kill(idOf("server", 1));
  const [living, lost] = [keysOf(1n), keysOf(2n ** 63n)];
  const pushes = Array.from({ length: 5000 }, () => ({ to: kv.push(living, one), toDead: kv.push(lost, one) }));
  await cluster.clock.advance(5000);
  for (const { to, toDead } of pushes) {
    await kv.wait(to);
    await assert.rejects(kv.wait(toDead), (error) => isWeighbridgeError(error, "NODE_DEAD"), `push ${toDead}`);
  }
});

test("a full queue refuses with QUEUE_FULL, sends nothing of that request, and room() tells when to go on", async () => {
  const { cluster, kv } = await stage({ limits: { queuedMax: 100, inFlightBytesMax: 64 * 1024 } });
  const serverLink = cluster.links.get(idOf("server", 0))?.[1];
  serverLink?.pause();
  const keys = BigUint64Array.from({ length: 1000 }, (_, i) => BigInt(i));
  const vals = new Float32Array(keys.length).fill(1);
  let pushed = 0;
  const isFull = (error: unknown): boolean => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable;
  assert.throws(() => {
    for (;;) {
      kv.push(keys, vals);
      pushed++;
      cluster.clock.step();
    }
  }, isFull);
  assert.ok(pushed >= 100 && pushed < 200, `${pushed}`);
  assert.equal(kv.simple.customer.tracker.nextTimestamp, pushed, "the refused one has no number");
  await assert.rejects(cluster.run(kv.room({ timeoutMs: 10 })), (error) => isWeighbridgeError(error, "DEADLINE"));
  const room = kv.room();
  serverLink?.resume();
  await cluster.run(room);
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(keysOf(5n), out)));
  assert.equal(out[0], pushed);
});

test("a request larger than the whole queue is taken once half of it is free, and waiting for that is no spin", async () => {
  const { cluster, kv } = await stage({ limits: { queuedMax: 10, inFlightBytesMax: 1 * MIB } });
  const vals = new Float32Array(20 * FLOATS_PER_MIB).fill(1);
  const pushAll = async (): Promise<number> => {
    let refusals = 0;
    for (let i = 0; i < 5; ) {
      try {
        kv.push(keysOf(1n), vals);
        i++;
      } catch (thrown) {
        assert.ok(isWeighbridgeError(thrown, "QUEUE_FULL"));
        refusals++;
        await kv.room();
      }
    }
    return refusals;
  };
  assert.equal(await cluster.run(pushAll()), 4);
  await cluster.run(kv.room());
  const out = new Float32Array(vals.length);
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  assert.ok(out.every((value) => value === 5));
});

test("to a server that does not read, no more than the bound and one frame are handed to the link (FrameWriter.N3)", async () => {
  const { cluster, kv } = await stage();
  cluster.links.get(idOf("server", 0))?.[1]?.pause();
  const unflushed = watchUnflushed(linkOf(cluster));
  for (let i = 0; i < 16; i++) kv.push(keysOf(BigInt(i)), new Float32Array(4 * FLOATS_PER_MIB));
  await cluster.clock.advance(1000);
  const frameBytes = 64 + 8 + BLOCK_FLOATS * 4;
  assert.ok(unflushed.bytesMax >= CHANNEL_LIMITS.inFlightBytesMax);
  assert.ok(unflushed.bytesMax < CHANNEL_LIMITS.inFlightBytesMax + frameBytes, `${unflushed.bytesMax}`);
});

test("a worker that does not read its answers costs the server a bounded amount, and disturbs no other (FrameWriter.N4)", async () => {
  const { cluster, workers } = await stage({ workerCount: 2 });
  const [lazy, busy] = workers as [KVWorker, KVWorker];
  const { arena } = cluster.server().server ?? assert.fail("no server");
  const vals = new Float32Array(FLOATS_PER_MIB).fill(3);
  for (let i = 0; i < 64; i++) lazy.push(keysOf(BigInt(i)), vals);
  const rows = BigUint64Array.from({ length: 1000 }, (_, i) => BigInt(10_000 + i));
  await cluster.run(lazy.wait(lazy.push(rows, new Float32Array(64_000).fill(2))));
  const usedBefore = arena.usedBytes;
  const serverLink = cluster.links.get(idOf("server", 0))?.[1] as Link;
  let isPaused = false;
  const [pause, resume] = [serverLink.pause.bind(serverLink), serverLink.resume.bind(serverLink)];
  serverLink.pause = () => {
    isPaused = true;
    pause();
  };
  serverLink.resume = () => {
    isPaused = false;
    resume();
  };
  const unflushed = watchUnflushed(serverLink);
  linkOf(cluster, 0).pause();
  const outs = Array.from({ length: 64 }, () => new Float32Array(vals.length));
  const rowOuts = Array.from({ length: 200 }, () => new Float32Array(64_000));
  const pulls = [...outs.map((out, i) => lazy.pull(keysOf(BigInt(i)), out)), ...rowOuts.map((out) => lazy.pull(rows, out))];
  await cluster.clock.advance(1000);
  assert.equal(isPaused, true, "the server stopped reading from it");
  assert.ok(unflushed.bytesMax <= CHANNEL_LIMITS.inFlightBytesMax + MIB);
  const { answerBytesMax, inFlightBytesMax } = CHANNEL_LIMITS;
  assert.ok(arena.usedBytes - usedBefore <= answerBytesMax + inFlightBytesMax + 2 * MIB, `${arena.usedBytes - usedBefore}`);
  const framesBefore = cluster.server().metrics.framesReceived;
  const out = new Float32Array(1);
  for (let i = 0; i < 1000; i++) busy.push(keysOf(2n ** 60n), Float32Array.of(1));
  await cluster.run(busy.wait(busy.pull(keysOf(2n ** 60n), out), { timeoutMs: 1 }));
  assert.equal(out[0], 1000);
  assert.ok(cluster.server().metrics.framesReceived - framesBefore <= 1010, "all of it was the other worker's");
  linkOf(cluster, 0).resume();
  await cluster.run(Promise.all(pulls.map((pull) => lazy.wait(pull))));
  assert.ok(outs.every((values) => values.every((value) => value === 3)));
  assert.ok(rowOuts.every((values) => values.every((value) => value === 2)));
});

test("a worker that sends and does not read its acknowledgements is not read for ever (FrameWriter.N4)", async () => {
  const { cluster, kv } = await stage({ limits: { answerBytesMax: 64 * 1024, inFlightBytesMax: 64 * 1024 } });
  linkOf(cluster).pause();
  const { metrics } = cluster.server();
  const framesBefore = metrics.framesReceived;
  for (let turn = 0; turn < 400; turn++) {
    for (let i = 0; i < 50; i++) kv.push(keysOf(1n), Float32Array.of(1));
    await cluster.clock.advance(1); // what is acknowledged together takes next to nothing, so they come in many turns
  }
  const taken = metrics.framesReceived - framesBefore;
  assert.ok(taken < 10_000, `${taken}`);
  linkOf(cluster).resume();
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  assert.equal(out[0], 20_000);
});

test("a block that is being pulled is never torn by the pushes that come meanwhile, and its memory comes back", async () => {
  const { cluster, workers } = await stage({ workerCount: 2 });
  const [reader, writer] = workers as [KVWorker, KVWorker];
  const { arena } = cluster.server().server ?? assert.fail("no server");
  const width = 6 * BLOCK_FLOATS + 1000;
  const ones = new Float32Array(width).fill(1);
  await cluster.run(writer.wait(writer.push(keysOf(1n), ones)));
  const usedBefore = arena.usedBytes;
  for (let round = 0; round < 5; round++) {
    linkOf(cluster, 0).pause();
    const out = new Float32Array(width);
    const pull = reader.pull(keysOf(1n), out);
    await cluster.clock.advance(1);
    for (let i = 0; i < 3; i++) await cluster.run(writer.wait(writer.push(keysOf(1n), ones)));
    linkOf(cluster, 0).resume();
    const pushes = [1, 2, 3].map(() => writer.push(keysOf(1n), ones));
    await cluster.run(Promise.all([reader.wait(pull), ...pushes.map((push) => writer.wait(push))]));
    const values: number[] = [];
    for (let from = 0; from < width; from += BLOCK_FLOATS) {
      const block = out.subarray(from, Math.min(width, from + BLOCK_FLOATS));
      values.push(block[0] as number);
      assert.ok(
        block.every((value) => value === block[0]),
        `round ${round}: the block at ${from} is torn`,
      );
    }
    const before = 1 + round * 6;
    assert.ok(
      values.every((value) => value >= before && value <= before + 6),
      `round ${round}: ${values.join()}`,
    );
    assert.ok(values.includes(before), "what was held is from before the pushes");
  }
  await cluster.run(writer.wait(writer.push(keysOf(1n), ones)));
  await cluster.clock.advance(1);
  assert.equal(arena.usedBytes, usedBefore);
});

test("a pull that fails because the reader went away gives its blocks back", async () => {
  const { cluster, workers } = await stage({ workerCount: 2 });
  const [reader, writer] = workers as [KVWorker, KVWorker];
  const { arena } = cluster.server().server ?? assert.fail("no server");
  const ones = new Float32Array(4 * BLOCK_FLOATS).fill(1);
  await cluster.run(writer.wait(writer.push(keysOf(1n), ones)));
  const rows = BigUint64Array.from({ length: 10_000 }, (_, i) => BigInt(100 + i));
  await cluster.run(writer.wait(writer.push(rows, new Float32Array(160_000))));
  const usedBefore = arena.usedBytes;
  linkOf(cluster, 0).pause();
  reader.pull(keysOf(1n), new Float32Array(ones.length));
  reader.pull(rows, new Float32Array(160_000));
  reader.pullPairs(rows).catch(() => {});
  await cluster.clock.advance(1);
  assert.ok(arena.usedBytes > usedBefore);
  const closed = cluster.worker(0).close();
  await cluster.run(writer.wait(writer.push(keysOf(1n), ones)));
  await cluster.run(closed);
  await cluster.clock.advance(1000);
  assert.ok(arena.usedBytes <= usedBefore, `${arena.usedBytes} > ${usedBefore}`);
});
