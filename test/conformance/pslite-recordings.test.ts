// Goal: what nodes of ps-lite sent is read however it is cut, written again byte for byte, and answered as their own
// nodes answered it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { decodeMeta, encodeMeta, metaBytesMax, PsMeta } from "../../src/pslite/wire/ps-meta.ts";
import { ZmtpReader } from "../../src/pslite/wire/zmtp-reader.ts";
import { PsliteCluster } from "../../src/testing/pslite-cluster.ts";
import { feed, messagesOf, Notes } from "./pslite-notes.ts";
import { bytesOf, hexOf, hexText, RawDialer, RawListener, RECORDINGS, readRecording, sentBy } from "./pslite-recording.ts";
import { workerOfOurs } from "./pslite-worker.ts";

function* streams(): Iterable<{ readonly name: string; readonly bytes: Uint8Array }> {
  for (const recordingName of RECORDINGS) {
    const recording = readRecording(recordingName);
    for (const name of new Set(recording.map(({ from, to }) => `${from} ${to}`))) {
      const [from = "", to = ""] = name.split(" ");
      yield { name: `${recordingName}: ${name}`, bytes: bytesOf(hexOf(sentBy(recording, from, to))) };
    }
  }
}

test("every recorded connection reads the same, however it is cut and wherever its parts go", () => {
  let messageCount = 0;
  for (const { name, bytes } of streams()) {
    const whole = new Notes("whole");
    feed(new ZmtpReader(whole), bytes, bytes.length);
    assert.equal(whole.lines[0], "greeting", name);
    for (const pieceBytes of [1, 2, 3, 7, 64, 65]) {
      const notes = new Notes(pieceBytes % 2 === 1 ? "stream" : "whole");
      const reader = new ZmtpReader(notes);
      feed(reader, bytes, pieceBytes);
      assert.deepEqual(notes.lines, whole.lines, `${name}, ${pieceBytes} bytes at a time`);
      assert.equal(reader.isInsideMessage, false, name);
    }
    messageCount += whole.metas.length;
  }
  assert.ok(messageCount > 200);
});

test("every recorded meta is written again byte for byte, garbage included", () => {
  for (const { name, bytes } of streams()) {
    const notes = new Notes("skip");
    feed(new ZmtpReader(notes), bytes, bytes.length);
    for (const original of notes.metas) {
      const meta = new PsMeta();
      decodeMeta(original, 0, original.length, meta);
      const copy = new Uint8Array(metaBytesMax(meta));
      const byteCount = encodeMeta(meta, copy, 0);
      assert.equal(hexText(copy.subarray(0, byteCount)), hexText(original), `${name}: ${meta.toString()}`);
    }
  }
});

test("every recorded connection may end anywhere, and every meta may be cut anywhere", () => {
  for (const { name, bytes } of streams()) {
    for (let length = 0; length < bytes.length; length++) feed(new ZmtpReader(new Notes("stream")), bytes.subarray(0, length), length);
    const notes = new Notes("skip");
    feed(new ZmtpReader(notes), bytes, bytes.length);
    for (const original of notes.metas) {
      for (let length = 0; length < original.length; length++) {
        try {
          decodeMeta(original, 0, length, new PsMeta()); // a meta that ends between two fields is one
        } catch (thrown) {
          assert.ok(isWeighbridgeError(thrown, "BAD_FRAME"), `${name}: ${String(thrown)}`);
        }
      }
    }
  }
});

test("our server, in place of theirs, sends what theirs sent, byte for byte", async () => {
  const recording = readRecording("full");
  const cluster = new PsliteCluster({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  const scheduler = await RawListener.at(cluster, 9600);
  const worker = await RawListener.at(cluster, 9602);
  const starting = cluster.startNode("server", "server-0");
  await cluster.clock.advance(200);
  const registered = scheduler.connections[0]?.hex ?? "";
  assert.deepEqual(messagesOf(registered), messagesOf(hexOf(sentBy(recording, "37208", "SCHED:9600"))));

  const fromScheduler = sentBy(recording, "55298", "SERVER:9601");
  const schedulerDials = await RawDialer.to(cluster, 9601);
  schedulerDials.write(...fromScheduler.slice(0, 3));
  await cluster.clock.advance(200);
  schedulerDials.write(...fromScheduler.slice(3, 4)); // the barrier of the start is over
  const office = await cluster.run(starting);
  assert.equal(office.nodeId, 8);
  const server = new KVServer(office, 0);
  server.simple.setRequestHandle((data, app) => app.response(data, `pong:${new TextDecoder().decode(data.body)}`));

  const workerDials = await RawDialer.to(cluster, 9601);
  for (const bytes of sentBy(recording, "55310", "SERVER:9601")) {
    workerDials.write(bytes);
    await cluster.clock.advance(20);
  }
  const toWorker = worker.connections.map(({ hex }) => hex);
  assert.deepEqual(toWorker, [hexOf(sentBy(recording, "53306", "WORKER:9602"))]);

  const ending = office.finalize();
  await cluster.clock.advance(100);
  schedulerDials.write(...fromScheduler.slice(4));
  await cluster.run(ending);
  assert.equal(scheduler.connections[1]?.hex, hexOf(sentBy(recording, "37228", "SCHED:9600")));
});

test("our worker, in place of theirs, sends what theirs sent", async () => {
  const recording = readRecording("full");
  const { cluster, office, kv, server } = await workerOfOurs();
  const keys = BigUint64Array.of(1n, 3n, 7n);
  const lens = Int32Array.of(1, 2, 3);
  const vals = Float32Array.of(1, 2, 3, 4, 5, 6);
  const outs = new Float32Array(6);
  const serverDials = await RawDialer.to(cluster, 9602);
  const fromServer = sentBy(recording, "53306", "WORKER:9602");
  serverDials.write(...fromServer.slice(0, 2));
  const answers = [fromServer.slice(2, 3), fromServer.slice(3, 7), fromServer.slice(7, 11), fromServer.slice(11)];
  const ask = async (timestamp: number): Promise<void> => {
    await cluster.clock.advance(50);
    serverDials.write(...(answers.shift() ?? []));
    await cluster.run(kv.wait(timestamp));
  };
  await ask(kv.push(keys, vals, { lens, cmd: 42, priority: 5 }));
  await ask(kv.pull(keys, outs, { cmd: 43, priority: -1, lens: new Int32Array(3) }));
  assert.deepEqual(outs, vals);
  await ask(kv.pushPull(keys, vals, outs, { lens, cmd: 44 }));
  assert.deepEqual([...outs], [2, 4, 6, 8, 10, 12]);
  kv.simple.request(7, "hello", 8);
  await cluster.clock.advance(50);
  const noSimpleTimestamp = (meta: PsMeta): void => {
    if (meta.simpleApp) meta.timestamp = 3; // ours are numbered apart from pushes and pulls
  };
  const sent = server.connections[0]?.hex ?? "";
  assert.deepEqual(messagesOf(sent, noSimpleTimestamp), messagesOf(hexOf(sentBy(recording, "55310", "SERVER:9601"))));
  await cluster.run(office.close());
});

test("our scheduler, in place of theirs, gives the same ranks and opens the same barriers", async () => {
  const recording = readRecording("full");
  const cluster = new PsliteCluster({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  const server = await RawListener.at(cluster, 9601);
  const worker = await RawListener.at(cluster, 9602);
  const starting = cluster.startNode("scheduler", "scheduler");
  await cluster.clock.advance(10);
  for (const connection of ["37208", "37222"]) (await RawDialer.to(cluster, 9600)).write(...sentBy(recording, connection, "SCHED:9600"));
  await cluster.clock.advance(200);
  const nodes = ["37228", "37226"].map((connection) => sentBy(recording, connection, "SCHED:9600"));
  const dialers: RawDialer[] = [];
  for (const bytes of nodes) {
    const dialer = await RawDialer.to(cluster, 9600);
    dialers.push(dialer);
    dialer.write(...bytes.slice(0, 3)); // up to the barrier of the start
  }
  const office = await cluster.run(starting);
  const ending = office.finalize();
  for (const [i, dialer] of dialers.entries()) dialer.write(...(nodes[i] ?? []).slice(3));
  await cluster.clock.advance(200);
  const mask = (meta: PsMeta): void => {
    if (meta.command !== 3) return;
    meta.timestamp = 0; // theirs counts its own entries too
    meta.barrierGroup = 0; // uninitialised there
  };
  assert.deepEqual(messagesOf(worker.connections[0]?.hex ?? "", mask), messagesOf(hexOf(sentBy(recording, "53290", "WORKER:9602")), mask));
  assert.deepEqual(messagesOf(server.connections[0]?.hex ?? "", mask), messagesOf(hexOf(sentBy(recording, "55298", "SERVER:9601")), mask));
  for (const dialer of dialers) dialer.destroy();
  await cluster.run(office.close());
  await cluster.run(Promise.allSettled([ending]));
});
