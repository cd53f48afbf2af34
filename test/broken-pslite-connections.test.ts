// Goal: over ps-lite's protocol a connection that breaks, wherever in a message, leaves nobody waiting: what is asked
// while it is made again is answered, what was on its way fails by name, and with PS_RESEND everything counts once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { KVServer } from "../src/faces/kv/kv-server.ts";
import { KVWorker } from "../src/faces/kv/kv-worker.ts";
import { KEPT_BYTES_MAX } from "../src/pslite/resender.ts";
import { EMPTY, PsCommand, PsRole } from "../src/pslite/wire/ps-meta.ts";
import { encodeGreeting, encodeReady } from "../src/pslite/wire/zmtp.ts";
import { PsliteCluster, type PsliteClusterOptions } from "../src/testing/pslite-cluster.ts";
import { throwsCode } from "../src/testing/throws-code.ts";
import type { Link } from "../src/transport/transport.ts";
import { messageBytes, messagesOf } from "./conformance/pslite-notes.ts";
import { Keeper, RawDialer } from "./conformance/pslite-recording.ts";
import { workerOfOurs } from "./conformance/pslite-worker.ts";

const KEY = BigUint64Array.of(5n);
const ONE = Float32Array.of(1);
const keyBytes = new Uint8Array(KEY.buffer);
const WAIT = { timeoutMs: 20_000 };

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer);
}

async function dialed(cluster: PsliteCluster, port: number, identity: string): Promise<RawDialer> {
  const dialer = await RawDialer.to(cluster, port);
  dialer.greet(identity);
  return dialer;
}

for (const resendTimeoutMs of [0, 50]) {
  for (const side of ["worker-0", "server-0"]) {
    const title = `what is asked in the moment when the connections of ${side} break is answered once they are there again`;
    test(`${title}${resendTimeoutMs > 0 ? ", with resending what was asked before too" : ""}`, async () => {
      const cluster = await PsliteCluster.start({ resendTimeoutMs });
      new KVServer(cluster.office("server-0"), 0);
      const kv = new KVWorker(cluster.office("worker-0"), 0);
      let sum = 0;
      for (const afterMs of [0, 1, 50, 99]) {
        const onItsWay = kv.push(KEY, ONE);
        for (const link of cluster.links.get(side) ?? assert.fail()) link.destroy();
        await cluster.clock.advance(afterMs);
        const asked = [kv.push(KEY, ONE), kv.push(KEY, ONE)];
        if (resendTimeoutMs > 0) await cluster.run(kv.wait(onItsWay, WAIT));
        else await assert.rejects(cluster.run(kv.wait(onItsWay, WAIT)), throwsCode("NODE_DEAD"));
        for (const timestamp of asked) await cluster.run(kv.wait(timestamp, WAIT));
        sum += asked.length + (resendTimeoutMs > 0 ? 1 : 0);
        await cluster.clock.advance(1000);
      }
      const out = new Float32Array(1);
      await cluster.run(kv.wait(kv.pull(KEY, out), WAIT));
      assert.equal(out[0], sum);
      await cluster.finalize();
    });
  }
}

test("with PS_RESEND a push that broke off is not acknowledged, not applied in part, and counts once when it comes again", async () => {
  const cluster = await PsliteCluster.start({ resendTimeoutMs: 50 });
  const server = cluster.office("server-0");
  new KVServer(server, 0);
  const address = server.roster.nodes.find(({ role }) => role === "server")?.address ?? assert.fail();
  const port = Number(address.split(":").at(-1));
  const kv = new KVWorker(cluster.office("worker-0"), 0, 1);
  const width = 400_000; // three blocks
  for (const [round, cutBytes] of [20, 60, 1_200_000].entries()) {
    const fields = { request: true, push: true, head: 0, appId: 0, customerId: 0, timestamp: 1000 + round };
    const push = messageBytes(fields, [8, 9], [keyBytes, bytesOf(new Float32Array(width).fill(1))]);
    const first = await dialed(cluster, port, "ps9");
    first.write(push.subarray(0, cutBytes));
    await cluster.clock.advance(20);
    first.destroy();
    await cluster.clock.advance(20);
    const second = await dialed(cluster, port, "ps9");
    second.write(push);
    second.write(push); // the acknowledgement was lost
    await cluster.clock.advance(200);
    const out = new Float32Array(width);
    await cluster.run(kv.wait(kv.pull(KEY, out), WAIT));
    assert.deepEqual(new Set(out), new Set([round + 1]), `cut after ${cutBytes} bytes`);
    second.destroy();
  }
  await cluster.finalize();
});

test("an answer that breaks off fails its call, wherever it does, and so does the end of a connection that answers may have been on", async () => {
  const { cluster, kv } = await workerOfOurs();
  const out = new Float32Array(2000);
  const long = new Float32Array(2000).fill(3);
  for (const values of [long.subarray(0, 1), long]) {
    for (const cutBytes of [0, 10, 30, 37]) {
      const answers = await dialed(cluster, 9602, "ps8");
      const timestamp = kv.pull(KEY, out.subarray(0, values.length));
      await cluster.clock.advance(20);
      const fields = { pull: true, head: 0, appId: 0, customerId: 0, timestamp };
      answers.write(messageBytes(fields, [8, 9], [keyBytes, bytesOf(values.slice())]).subarray(0, cutBytes));
      await cluster.clock.advance(20);
      answers.destroy();
      await assert.rejects(
        cluster.run(kv.wait(timestamp, WAIT)),
        throwsCode("NODE_DEAD", /server 0/),
        `${values.length} values, cut after ${cutBytes} bytes`,
      );
    }
  }
  const answers = await dialed(cluster, 9602, "ps8");
  const timestamp = kv.pull(KEY, out.subarray(0, 1));
  await cluster.clock.advance(200);
  answers.write(messageBytes({ pull: true, head: 0, appId: 0, customerId: 0, timestamp }, [8, 9], [keyBytes, bytesOf(ONE.slice())]));
  await cluster.run(kv.wait(timestamp, WAIT));
  assert.equal(out[0], 1);
  await cluster.run(kv.office.close());
});

/** A scheduler and a server of ours, and a worker of theirs that the test plays, which listens at 9602 already. */
async function withWorker(options: PsliteClusterOptions, listen: (cluster: PsliteCluster) => Promise<void>): Promise<WorkerOfTheirs> {
  const cluster = new PsliteCluster({ startBarrier: false, ...options });
  const starting = [cluster.startNode("scheduler", "scheduler"), cluster.startNode("server", "server-0")];
  await listen(cluster);
  const node = { role: PsRole.WORKER, id: EMPTY, hostname: "127.0.0.1", port: 9602, isRecovery: false, customerId: 0 };
  (await dialed(cluster, 9600, "")).write(messageBytes({ command: PsCommand.ADD_NODE, nodes: [node], timestamp: 0 }));
  const offices = await cluster.run(Promise.all(starting));
  new KVServer(cluster.office("server-0"), 0);
  await cluster.clock.advance(500);
  const worker = await dialed(cluster, 9601, "ps9");
  const close = async (): Promise<void> => {
    await cluster.run(Promise.all(offices.map((office) => office.close())));
  };
  return { cluster, worker, close };
}

type WorkerOfTheirs = { readonly cluster: PsliteCluster; readonly worker: RawDialer; readonly close: () => Promise<void> };
const FIELDS = { request: true, head: 0, appId: 0, customerId: 0 };

/** Listens as a worker of theirs at 9602 that reads, and does nothing with it. */
async function deafWorker(cluster: PsliteCluster): Promise<void> {
  const accept = (link: Link): Keeper => {
    link.write([encodeGreeting(""), encodeReady("ROUTER", "")], () => {});
    return Object.assign(new Keeper(), { received: (): void => {} });
  };
  await cluster.run(cluster.transport("raw").listen("tcp://127.0.0.1:9602", accept));
}

/** Listens as a worker of theirs at 9602 that breaks its first connection after so many bytes. */
async function breakingWorker(cluster: PsliteCluster, bytesMax: number): Promise<Keeper[]> {
  const keepers: Keeper[] = [];
  const accept = (link: Link): Keeper => {
    link.write([encodeGreeting(""), encodeReady("ROUTER", "")], () => {});
    const keeper = new Keeper();
    if (keepers.length === 1) {
      let byteCount = 0;
      keeper.received = (count): void => {
        byteCount += count;
        if (byteCount > bytesMax) link.destroy();
      };
    }
    keepers.push(keeper);
    return keeper;
  };
  await cluster.run(cluster.transport("raw").listen("tcp://127.0.0.1:9602", accept));
  return keepers;
}

test("a long response whose connection breaks inside it comes once more, whole, and nothing of the first is sent behind it (ServedRequest.S3)", async () => {
  let keepers: Keeper[] = [];
  const { cluster, worker, close } = await withWorker({}, async (own) => {
    keepers = await breakingWorker(own, 3_000_000);
  });
  const values = bytesOf(Float32Array.from({ length: 3_000_000 }, (_, i) => i % 997));
  worker.write(messageBytes({ ...FIELDS, push: true, timestamp: 0 }, [8, 9], [keyBytes, values]));
  worker.write(messageBytes({ ...FIELDS, pull: true, timestamp: 1 }, [8, 9], [keyBytes, new Uint8Array(0)]));
  worker.write(
    messageBytes(
      { ...FIELDS, push: true, timestamp: 2 },
      [8, 9],
      [BigUint64Array.of(6n), ONE].map(({ buffer }) => new Uint8Array(buffer)),
    ),
  );
  await cluster.clock.advance(1000);
  assert.equal(keepers.length, 3, "the scheduler's connection, the one that broke, and the next");
  const lines = messagesOf(keepers[2]?.hex ?? "").filter((line) => !/READY|greeting|^part/.test(line));
  const texts = lines.filter((line) => line.includes("timestamp=")).map((line) => /(push|pull) .*timestamp=\d/.exec(line)?.[0] ?? line);
  assert.deepEqual(texts.sort(), ["pull response app=0/0 timestamp=1", "push response app=0/0 timestamp=2"]);
  assert.ok(lines.includes(Buffer.from(values).toString("hex")), "all values, in order");
  await close();
});

test("with PS_RESEND a worker that acknowledges nothing costs a bounded memory (Resender.R4), and is given up", async () => {
  const { cluster, worker, close } = await withWorker({ resendTimeoutMs: 100 }, deafWorker);
  const values = new Uint8Array(16 * 2 ** 20);
  worker.write(messageBytes({ ...FIELDS, push: true, timestamp: 0 }, [8, 9], [keyBytes, values]));
  for (let timestamp = 1; timestamp <= 10; timestamp++)
    worker.write(messageBytes({ ...FIELDS, pull: true, timestamp }, [8, 9], [keyBytes, new Uint8Array(0)]));
  const gateway = cluster.gateways.get("server-0") ?? assert.fail();
  const conversation = gateway.conversationOf(9) ?? assert.fail();
  let keptMax = 0;
  for (let i = 0; i < 40; i++) {
    await cluster.clock.advance(10);
    keptMax = Math.max(keptMax, gateway.resender?.keptBytes(conversation) ?? 0);
  }
  assert.ok(keptMax > KEPT_BYTES_MAX && keptMax < KEPT_BYTES_MAX + 3 * values.length, `${keptMax} bytes were kept`);
  await cluster.clock.advance(20_000);
  assert.equal(gateway.resender?.keptBytes(conversation), 0);
  assert.ok(cluster.logLines.some((line) => /server-0 error a message was not acknowledged .*PS_RESEND set on all nodes/.test(line)));
  await close();
});

test("who takes a connection and says nothing, as the system of a stopped process does, is dialed again, and works once it greets (OutgoingConnection.L3)", async () => {
  const cluster = new PsliteCluster();
  const links: Link[] = [];
  const listening = cluster.transport("silent").listen("tcp://127.0.0.1:9600", (link) => {
    links.push(link);
    return new Keeper();
  });
  const silent = await cluster.run(listening);
  const starting = [cluster.startNode("server", "server-0"), cluster.startNode("worker", "worker-0")];
  await cluster.clock.advance(4000);
  await silent.close();
  starting.push(cluster.startNode("scheduler", "scheduler"));
  await cluster.run(Promise.all(starting));
  assert.equal(links.length, 2, "each node was let wait once");
  await cluster.finalize();
});
