// bad-handshake.test — Goal: whatever comes instead of a proper first frame closes that link and nothing else, is
// counted, and leaves a log line (spec/protocol.md, H and X rules). Each case runs against a real scheduler and a real
// server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../src/base/bytes.ts";
import type { Postoffice } from "../src/faces/kv/postoffice.ts";
import type { PeerMetrics } from "../src/peer/channel-host.ts";
import type { Address } from "../src/transport/transport.ts";
import { HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX, RUN_MORE_MAX } from "../src/wire/frame.ts";
import { FunctionId } from "../src/wire/function-id.ts";
import { idOf, SCHEDULER_ID } from "../src/wire/node-id.ts";
import { failureOf, type RawClient } from "./hostile/raw-client.ts";
import { frameBytes, jsonFrameBytes } from "./hostile/raw-frame.ts";
import { simulatedWorld, TargetCluster } from "./hostile/target-cluster.ts";

type Case = {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly counts: keyof PeerMetrics;
  readonly says: RegExp;
};

const HELLO = { job: "", kind: "worker", node: 0, incarnation: 0, expects: 1 };
/** Of a node that is registered in the job. */
const NAMED = { ...HELLO, job: "job" };

function patched(bytes: Uint8Array, patch: (view: DataView) => void): Uint8Array {
  patch(new DataView(bytes.buffer));
  return bytes;
}

const helloBytes = (hello: unknown = HELLO): Uint8Array => jsonFrameBytes(Kind.HELLO, {}, hello);

const CASES: readonly Case[] = [
  {
    name: "an HTTP request",
    bytes: new TextEncoder().encode("GET /metrics HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a browser or a probe\r\n\r\n"),
    counts: "badFrames",
    says: /magic/,
  },
  { name: "zeros", bytes: new Uint8Array(HEADER_BYTES), counts: "badFrames", says: /magic/ },
  {
    name: "another version",
    bytes: patched(helloBytes(), (view) => view.setUint8(2, 1)),
    counts: "badHellos",
    says: /speaks version 1 of the protocol, and this node version 2/,
  },
  { name: "kind 0", bytes: patched(helloBytes(), (view) => view.setUint8(3, 0)), counts: "badFrames", says: /no kind 0/ },
  { name: "kind 6", bytes: patched(helloBytes(), (view) => view.setUint8(3, 6)), counts: "badFrames", says: /no kind 6/ },
  {
    name: "a payload one byte over the limit",
    bytes: patched(helloBytes(), (view) => view.setUint32(8, PAYLOAD_BYTES_MAX + 1, true)),
    counts: "badFrames",
    says: /over the limit/,
  },
  {
    name: "a payload of 4 GiB",
    bytes: patched(helloBytes(), (view) => view.setUint32(8, 0xffffffff, true)),
    counts: "badFrames",
    says: /over the limit/,
  },
  {
    name: "a run of hellos",
    bytes: patched(helloBytes(), (view) => view.setBigUint64(16, 2n ** 53n, true)),
    counts: "badFrames",
    says: /a run of frames of kind 1/,
  },
  {
    name: "the header of a long run before the hello",
    bytes: frameBytes(Kind.REQUEST, { functionId: FunctionId.KV_PULL, request: 1, more: RUN_MORE_MAX }, new Uint8Array(8)),
    counts: "badFrames",
    says: /a run of 2048 frames before its hello/,
  },
  {
    name: "a request before the hello",
    bytes: frameBytes(Kind.REQUEST, { functionId: FunctionId.KV_PULL, request: 1 }),
    counts: "badHellos",
    says: /before its hello/,
  },
  { name: "a hello of 5,000 bytes", bytes: frameBytes(Kind.HELLO, {}, new Uint8Array(5000)), counts: "badHellos", says: /5000 bytes/ },
  { name: "a hello that is not JSON", bytes: frameBytes(Kind.HELLO, {}, new Uint8Array(9)), counts: "badHellos", says: /not JSON/ },
  { name: "a hello without a body", bytes: frameBytes(Kind.HELLO), counts: "badHellos", says: /not JSON/ },
  { name: "a hello of the wrong shape", bytes: helloBytes({ ...HELLO, node: "9" }), counts: "badHellos", says: /node must be/ },
  { name: "a hello with a fraction", bytes: helloBytes({ ...HELLO, incarnation: 0.5 }), counts: "badHellos", says: /incarnation must be/ },
  {
    name: "a hello of nested lists",
    bytes: frameBytes(Kind.HELLO, {}, new TextEncoder().encode("[".repeat(2000) + "]".repeat(2000))),
    counts: "badHellos",
    says: /must be an object, but is a list/,
  },
  { name: "a hello of another job", bytes: helloBytes({ ...HELLO, job: "another" }), counts: "badHellos", says: /another/ },
  {
    name: "a hello of the scheduler",
    bytes: helloBytes({ ...NAMED, kind: "scheduler", node: SCHEDULER_ID }),
    counts: "badHellos",
    says: /the scheduler/,
  },
  {
    name: "a hello of a worker that says it is a server",
    bytes: helloBytes({ ...NAMED, kind: "server", node: 9 }),
    counts: "badHellos",
    says: /node 9 claims to be a server/,
  },
  {
    name: "a hello of no kind",
    bytes: helloBytes({ ...HELLO, kind: "browser" }),
    counts: "badHellos",
    says: /kind must be one of worker, server/,
  },
  { name: "a hello of no node's number", bytes: helloBytes({ ...NAMED, node: 5 }), counts: "badHellos", says: /no node 5/ },
  { name: "a hello of rank 1,000,000", bytes: helloBytes({ ...NAMED, node: 2_000_009 }), counts: "badHellos", says: /no node 2000009/ },
  {
    name: "a hello of an incarnation that nobody was given",
    bytes: helloBytes({ ...NAMED, node: idOf("worker", 0), incarnation: 1_000_000 }),
    counts: "badHellos",
    says: /incarnation 1000000/,
  },
  {
    name: "a hello of an incarnation before the first",
    bytes: helloBytes({ ...NAMED, node: idOf("worker", 0), incarnation: 0 }),
    counts: "badHellos",
    says: /replaced/,
  },
  {
    name: "a hello of a node that does not name its job",
    bytes: helloBytes({ ...HELLO, node: idOf("worker", 0), incarnation: 1 }),
    counts: "badHellos",
    says: /worker 0 does not name its job/,
  },
  {
    name: "a hello in the name of a worker without its token",
    bytes: helloBytes({ ...NAMED, node: idOf("worker", 0), incarnation: 1 }),
    counts: "badHellos",
    says: /not worker 0 of incarnation 1/,
  },
  {
    name: "a hello in the name of a worker with another's token",
    bytes: helloBytes({ ...NAMED, node: idOf("worker", 0), incarnation: 1, token: "intruder" }),
    counts: "badHellos",
    says: /not worker 0 of incarnation 1/,
  },
  { name: "a failure that is not JSON", bytes: frameBytes(Kind.FAILURE, {}, new Uint8Array(9)), counts: "badHellos", says: /not JSON/ },
];

function at(cluster: TargetCluster, address: Address): { office: Postoffice; metrics: PeerMetrics; before: PeerMetrics } {
  const office = cluster.officeAt(address);
  return { office, metrics: office.metrics, before: { ...office.metrics } };
}

/** The honest worker pushes and pulls, and gets exactly what it should. */
async function assertUnharmed({ kv, world }: TargetCluster): Promise<void> {
  const keys = BigUint64Array.of(7n, 2n ** 63n);
  const before = new Float32Array(4);
  await world.run(kv.wait(kv.pull(keys, before)));
  kv.push(keys, Float32Array.of(1, 2, 3, 4));
  const after = new Float32Array(4);
  await world.run(kv.wait(kv.pull(keys, after)));
  assert.deepEqual([...after], [...before.map((value, i) => value + i + 1)]);
}

for (const { name, bytes, counts, says } of CASES) {
  test(`${name} closes the link, is counted and logged`, async () => {
    const cluster = await TargetCluster.start();
    for (const address of cluster.addresses) {
      const { metrics, before } = at(cluster, address);
      const client = await cluster.stranger(address);
      client.send(bytes);
      await cluster.world.run(client.closed());
      await cluster.settle();
      assert.equal(metrics[counts], before[counts] + 1, `${counts} at ${address}`);
      assert.match(cluster.log.recent.at(-1) ?? "", says);
    }
    await assertUnharmed(cluster);
    await cluster.close();
  });
}

test("a client that says nothing is cut off after helloTimeoutMs", async () => {
  const world = simulatedWorld();
  const cluster = await TargetCluster.start(world);
  for (const address of cluster.addresses) {
    const { metrics, before } = at(cluster, address);
    const client = await cluster.stranger(address);
    const openedAtMs = world.clock.nowMs();
    await world.clock.advance(4999);
    assert.equal(client.isClosed, false);
    await world.run(client.closed());
    assert.equal(world.clock.nowMs() - openedAtMs, 5000);
    assert.equal(metrics.badHellos, before.badHellos + 1);
    assert.match(cluster.log.recent.at(-1) ?? "", /did not say who it is/);
  }
  await cluster.close();
});

test("a client that sends half a hello is cut off after helloTimeoutMs", async () => {
  const cluster = await TargetCluster.start();
  const { metrics, before } = at(cluster, cluster.serverAddress);
  const client = await cluster.stranger();
  client.send(helloBytes().subarray(0, 70));
  await cluster.world.run(client.closed());
  assert.equal(metrics.badHellos, before.badHellos + 1);
  await cluster.close();
});

test("a link that ends inside a frame is a bad frame", async () => {
  const cluster = await TargetCluster.start();
  const whole = helloBytes();
  for (const byteCount of [1, 63, 64, whole.length - 1]) {
    const { metrics, before } = at(cluster, cluster.serverAddress);
    const client = await cluster.stranger();
    client.send(whole.subarray(0, byteCount));
    client.close();
    await cluster.settle();
    assert.equal(metrics.badFrames, before.badFrames + 1, `after ${byteCount} bytes`);
    assert.match(cluster.log.recent.at(-1) ?? "", /ended inside a frame/);
  }
  await cluster.close();
});

test("a second hello closes the link", async () => {
  const cluster = await TargetCluster.start();
  for (const address of cluster.addresses) {
    const { metrics, before } = at(cluster, address);
    const client = await cluster.intrude(address);
    client.hello(cluster.identity);
    await cluster.world.run(client.closed());
    await cluster.settle();
    assert.equal(metrics.badFrames, before.badFrames + 1);
    assert.match(cluster.log.recent.at(-1) ?? "", /second hello/);
  }
  await cluster.close();
});

test("a refused hello is answered with a failure that says why", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.stranger();
  client.hello({ job: "another" });
  const { code, message } = failureOf(await cluster.world.run(client.next()));
  assert.equal(code, "WRONG_JOB");
  assert.match(message, /a worker of job "another" has come to a node of job "job"/);
  await cluster.close();
});

test("a hello of another version is answered with a failure that names both versions, in this node's own", async () => {
  const cluster = await TargetCluster.start(simulatedWorld(), { packageVersion: "1.2.3" });
  for (const address of cluster.addresses) {
    const client = await cluster.stranger(address);
    client.send(patched(helloBytes(), (view) => view.setUint8(2, 7)));
    const { code, message } = failureOf(await cluster.world.run(client.next()));
    assert.equal(code, "VERSION_MISMATCH");
    assert.match(message, /speaks version 7 of the protocol, and this node version 2 \(weighbridge 1\.2\.3\); install the same version/);
    await cluster.world.run(client.closed());
  }
  await assertUnharmed(cluster);
  await cluster.close();
});

test("a dialer that refuses our hello is heard, and is no breach of the protocol", async () => {
  const cluster = await TargetCluster.start();
  const { metrics, before } = at(cluster, cluster.serverAddress);
  const client = await cluster.intrude();
  client.send(jsonFrameBytes(Kind.FAILURE, {}, { code: "NO_ROUTE", message: "you are not who I wanted", retryable: true }));
  await cluster.world.run(client.closed());
  await cluster.settle();
  assert.deepEqual([metrics.badFrames, metrics.orphanAnswers], [before.badFrames, before.orphanAnswers]);
  assert.equal(metrics.linksBroken, before.linksBroken + 1);
  assert.match(cluster.log.recent.at(-1) ?? "", /worker 1: you are not who I wanted/);
  await cluster.close();
});

test("after a refused hello nothing more of that link is taken", async () => {
  const cluster = await TargetCluster.start();
  const { metrics, before } = at(cluster, cluster.serverAddress);
  const client = await cluster.stranger();
  client.send(joinBytes([helloBytes({ ...HELLO, job: "another" }), helloBytes(), helloBytes(cluster.identity)]));
  await cluster.world.run(client.closed());
  await cluster.settle();
  assert.equal(metrics.badHellos, before.badHellos + 1);
  assert.equal(client.frames.length, 1);
  await cluster.close();
});

test("nobody who dials a server becomes its scheduler", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.stranger();
  client.hello({ job: "job", node: SCHEDULER_ID, incarnation: 2 ** 52 });
  client.send(jsonFrameBytes(Kind.REQUEST, { functionId: FunctionId.ABORT, request: 1 }, { code: "ABORTED", message: "by a stranger" }));
  await cluster.world.run(client.closed());
  await cluster.settle();
  assert.equal(cluster.server.failure, undefined);
  await assertUnharmed(cluster);
  await cluster.close();
});

test("links without a node behind them are bounded", async () => {
  const cluster = await TargetCluster.start();
  await cluster.settle(); // the honest worker has said hello
  const clients: RawClient[] = [];
  const { metrics, before } = at(cluster, cluster.serverAddress);
  for (let i = 0; i < 1100; i++) clients.push(await cluster.stranger());
  await cluster.settle();
  const openCount = clients.filter(({ isClosed }) => !isClosed).length;
  assert.equal(openCount, 1024);
  assert.equal(metrics.linksRefused - before.linksRefused, clients.length - openCount);
  await assertUnharmed(cluster);
  for (const client of clients) client.destroy();
  await cluster.close();
});
