// bad-conversations.test — Goal: who breaks the rules of a conversation (numbers, answers, notices) loses its link, and
// what peers can make a node keep is bounded (spec/protocol.md, R and X rules).

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../src/base/bytes.ts";
import type { Server } from "../src/server/server.ts";
import { Kind } from "../src/wire/frame.ts";
import { FunctionId } from "../src/wire/function-id.ts";
import { encodeJson } from "../src/wire/json-body.ts";
import { KvFlag } from "../src/wire/kv-message.ts";
import { frameBytes, type HeaderFields, kvPayload } from "./hostile/raw-frame.ts";
import { TargetCluster } from "./hostile/target-cluster.ts";

const KEYS = [5n, 6n, 7n];
const PULL: HeaderFields = { functionId: FunctionId.KV_PULL, flags: KvFlag.FIRST | KvFlag.LAST, arg0: 3, arg1: 2 };

test("an answer to a request that was never made closes the link and is counted", async () => {
  const cluster = await TargetCluster.start();
  for (const address of cluster.addresses) {
    for (const kind of [Kind.REPLY, Kind.FAILURE] as const) {
      const { metrics } = cluster.officeAt(address);
      const { orphanAnswers, badFrames } = metrics;
      const client = await cluster.intrude(address);
      client.send(frameBytes(kind, { request: 17 }, encodeJson({ code: "CLOSED", message: "", retryable: false })));
      await cluster.world.run(client.closed());
      assert.equal(metrics.orphanAnswers, orphanAnswers + 1);
      assert.equal(metrics.badFrames, badFrames + 1);
      assert.match(cluster.log.recent.at(-1) ?? "", /answered request 17/);
    }
  }
  await cluster.close();
});

test("a notice about a request that was never made, and request 0, close the link", async () => {
  const cluster = await TargetCluster.start();
  const frames = [
    frameBytes(Kind.NOTICE, { request: 5 }),
    frameBytes(Kind.NOTICE),
    frameBytes(Kind.REQUEST, { functionId: FunctionId.KV_PULL }),
  ];
  for (const bytes of frames) {
    const client = await cluster.intrude();
    client.send(bytes);
    await cluster.world.run(client.closed());
  }
  await cluster.close();
});

test("a request too far ahead of what its sender has settled closes the link: nobody makes a node remember more", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  client.send(frameBytes(Kind.REQUEST, { functionId: 1024, request: 2 ** 20 + 2, settled: 1 }));
  await cluster.world.run(client.closed());
  assert.match(cluster.log.recent.at(-1) ?? "", /request 1048578/);
  await cluster.close();
});

test("a flood of requests behind a gap is answered with one notice", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const { metrics } = cluster.server;
  const frame = frameBytes(Kind.REQUEST, { ...PULL, request: 9, settled: 1 }, kvPayload(KEYS));
  client.send(joinBytes(Array.from({ length: 10_000 }, () => frame)));
  await cluster.settle();
  assert.equal(metrics.gaps, 10_000);
  assert.deepEqual(
    client.frames.map(({ header }) => [header.kind, header.request]),
    [[Kind.NOTICE, 1]],
  );
  await cluster.close();
});

test("one buffer of small requests cannot ask for gigabytes: what is answered waits, and so do the requests", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const { arena } = cluster.server.server as Server;
  const usedBefore = arena.usedBytes;
  const [requestCount, keyCount] = [400, 128];
  for (let i = 0; i < requestCount; i++) {
    // Other ones each time, so that no answer serves two.
    const keys = Array.from({ length: keyCount }, (_, k) => BigInt(i * keyCount + k));
    client.request({ ...PULL, arg0: keyCount, arg1: 2048 }, kvPayload(keys)); // a mebibyte each
  }
  client.pause();
  client.keptBytesMax = 0;
  await cluster.settle();
  const usedBytes = arena.usedBytes - usedBefore;
  assert.ok(usedBytes < 32 * 2 ** 20, `${usedBytes} bytes of answers wait`);
  client.resume();
  await cluster.settle();
  assert.equal(client.frames.length, requestCount);
  assert.equal(arena.usedBytes, usedBefore);
  await cluster.close();
});

test("a frame that breaks the link does so also when it had to wait, and harms nobody else", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const keys = Array.from({ length: 128 }, (_, i) => BigInt(i));
  for (let i = 0; i < 20; i++) client.request({ ...PULL, arg0: keys.length, arg1: 2048 }, kvPayload(keys));
  client.send(frameBytes(Kind.REPLY, { request: 99 }));
  client.pause();
  await cluster.settle();
  assert.equal(client.isClosed, false);
  client.resume();
  await cluster.world.run(client.closed());
  assert.match(cluster.log.recent.at(-1) ?? "", /answered request 99/);
  await cluster.close();
});

test("answers that leave one by one to a peer that does not read do not keep a page each", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  client.pause();
  const bytesBefore = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 20_000; i++) client.request({ ...PULL, arg0: 1, arg1: 1 }, kvPayload([1n]));
  await cluster.settle();
  const grownBytes = process.memoryUsage().arrayBuffers - bytesBefore;
  assert.ok(grownBytes < 256 * 2 ** 20, `${grownBytes} bytes`);
  await cluster.close();
});

test("a peer that asks and never reads is not read either: what waits for it is bounded", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.intrude();
  const { metrics } = cluster.server;
  const receivedBefore = metrics.framesReceived;
  client.pause();
  const batchCount = 100;
  const batch = 5000;
  for (let i = 0; i < batchCount; i++) {
    const frames = Array.from({ length: batch }, (_, j) => {
      const request = i * batch + j + 1;
      return frameBytes(
        Kind.REQUEST,
        { functionId: FunctionId.KV_PULL, flags: KvFlag.FIRST | KvFlag.LAST, request, settled: request, arg0: 1, arg1: 1 },
        kvPayload([1n]),
      );
    });
    client.send(joinBytes(frames));
  }
  await cluster.settle();
  const taken = metrics.framesReceived - receivedBefore;
  assert.ok(taken < 200_000, `${taken} of ${batch * batchCount} requests were taken`);
  client.resume();
  await cluster.settle();
  assert.equal(metrics.framesReceived - receivedBefore, batch * batchCount, "all of them once it reads again");
  await cluster.close();
});
