// Goal: whatever comes over ps-lite's protocol, a node of ours goes on; whoever sent it loses its connection, or is
// told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../src/base/errors.ts";
import { Random } from "../src/base/random.ts";
import { KVServer } from "../src/faces/kv/kv-server.ts";
import { KVWorker } from "../src/faces/kv/kv-worker.ts";
import { encodeMeta, metaBytesMax, PsCommand, PsMeta, PsRole } from "../src/pslite/wire/ps-meta.ts";
import { encodeGreeting, encodeReady, writeFrameHeader } from "../src/pslite/wire/zmtp.ts";
import { PSLITE_SCHEDULER, PsliteCluster } from "../src/testing/pslite-cluster.ts";
import { dialed, serverAt, workerAt } from "./conformance/pslite-nodes.ts";
import { Keeper, RawDialer, RawListener } from "./conformance/pslite-recording.ts";

const SCHEDULER_PORT = 9600;

/** A running cluster, and a check that it still works. */
async function started(): Promise<{ cluster: PsliteCluster; serverPort: number; stillWorks: () => Promise<void> }> {
  const cluster = await PsliteCluster.start();
  const server = cluster.office("server-0");
  new KVServer(server, 0);
  const kv = new KVWorker(cluster.office("worker-0"), 0);
  const address = server.roster.nodes.find(({ role }) => role === "server")?.address ?? assert.fail();
  let sum = 0;
  const stillWorks = async (): Promise<void> => {
    const out = new Float32Array(1);
    await cluster.run(kv.wait(kv.push(BigUint64Array.of(77n), Float32Array.of(1))));
    await cluster.run(kv.wait(kv.pull(BigUint64Array.of(77n), out)));
    assert.equal(out[0], ++sum);
  };
  return { cluster, serverPort: Number(address.split(":").at(-1)), stillWorks };
}

function handshake(identity: string): Uint8Array[] {
  return [encodeGreeting(identity), encodeReady("DEALER", identity)];
}

function frame(body: Uint8Array, isLast = true): Uint8Array {
  const bytes = new Uint8Array(9 + body.length);
  const at = writeFrameHeader(bytes, 0, body.length, isLast);
  bytes.set(body, at);
  return bytes.subarray(0, at + body.length);
}

function metaBytes(fields: Partial<PsMeta>, types: readonly number[] = []): Uint8Array {
  const meta = Object.assign(new PsMeta(), { head: 0, appId: 0, customerId: 0, timestamp: 0, ...fields });
  meta.dataTypes.push(...types);
  const bytes = new Uint8Array(metaBytesMax(meta));
  return bytes.subarray(0, encodeMeta(meta, bytes, 0));
}

test("random bytes after a valid handshake never end a node, nor what it does for others", async () => {
  const { cluster, serverPort, stillWorks } = await started();
  const random = new Random(7);
  for (let round = 0; round < 300; round++) {
    const port = round % 2 === 0 ? SCHEDULER_PORT : serverPort;
    const dialer = await RawDialer.to(cluster, port);
    const identity = ["", "ps1", "ps9", "ps11", "ps8"][random.below(5)] as string;
    dialer.write(...handshake(identity));
    const bytes = new Uint8Array(1 + random.below(300)).map(() => random.below(256));
    dialer.write(random.chance(0.5) ? frame(bytes, random.chance(0.7)) : bytes);
    await cluster.clock.advance(2);
    dialer.destroy();
    if (round % 50 === 49) await stillWorks();
  }
  await cluster.clock.advance(100);
  await stillWorks();
  await cluster.finalize();
});

test("requests that make no sense are answered with a failure, and change nothing", async () => {
  const { cluster, serverPort, stillWorks } = await started();
  const dialer = await RawDialer.to(cluster, serverPort);
  dialer.write(...handshake("ps9"));
  const keys = new Uint8Array(BigUint64Array.of(1n, 2n).buffer);
  const push = { request: true, push: true, timestamp: 1000 };
  const cases: readonly (readonly [Uint8Array, ...Uint8Array[]])[] = [
    [metaBytes(push, [8, 9])], // no keys
    [metaBytes(push, [7, 9]), keys, new Uint8Array(8)], // USE_KEY32
    [metaBytes(push, [8, 99]), keys, new Uint8Array(8)],
    [metaBytes(push, [8, 9]), new Uint8Array(7), new Uint8Array(8)],
    [metaBytes(push, [8, 9]), keys, new Uint8Array(9)],
    [metaBytes(push, [8, 9]), keys],
    [metaBytes(push, [8, 9, 3]), keys, new Uint8Array(8), new Uint8Array(4)],
    [metaBytes(push, [8, 9, 3]), keys, new Uint8Array(8), new Uint8Array(Int32Array.of(-1, 3).buffer)],
    [metaBytes({ request: true, pull: true, timestamp: 1000 }, [8, 9]), keys, new Uint8Array(8)],
    [metaBytes({ ...push, appId: 70_000 }, [8, 9]), keys, new Uint8Array(8)],
    [metaBytes({ request: true, timestamp: 1000 }, [8, 9]), keys, new Uint8Array(8)],
    [metaBytes(push, [8, 9]), new Uint8Array(BigUint64Array.of(2n, 1n).buffer), new Uint8Array(8)], // not ascending
  ];
  for (const parts of cases) {
    const before = cluster.logLines.length;
    dialer.write(...parts.map((part, i) => frame(part, i === parts.length - 1)));
    await cluster.clock.advance(20);
    const told = cluster.logLines.slice(before).filter((line) => /server-0 (warn|error) a request (was refused|failed)/.test(line));
    assert.equal(told.length, 1, cluster.logLines.slice(before).join("\n"));
    await stillWorks();
  }
  assert.ok(
    cluster.logLines.some((line) => /USE_KEY32/.test(line)),
    "says what is wrong with 32-bit keys",
  );
  dialer.destroy();
  await cluster.finalize();
});

test("nobody's TERMINATE ends a node, and strange control messages are left out", async () => {
  const { cluster, serverPort, stillWorks } = await started();
  for (const port of [SCHEDULER_PORT, serverPort]) {
    for (const identity of ["ps1", "ps8", "ps9"]) {
      const dialer = await RawDialer.to(cluster, port);
      dialer.write(...handshake(identity));
      const node = { role: PsRole.SERVER, id: 10, hostname: "192.0.2.1", port: 1, isRecovery: true, customerId: 0 };
      dialer.write(frame(metaBytes({ command: PsCommand.ACK, signature: { high: 1, low: 2 } })));
      dialer.write(frame(metaBytes({ command: 77 })));
      dialer.write(frame(metaBytes({ command: PsCommand.BARRIER, request: true, barrierGroup: 99 })));
      dialer.write(frame(metaBytes({ command: PsCommand.HEARTBEAT, nodes: [{ ...node, id: 4242 }] })));
      if (identity !== "ps1" && port !== SCHEDULER_PORT)
        dialer.write(frame(metaBytes({ command: PsCommand.TERMINATE, timestamp: 0x7fffffff })));
      await cluster.clock.advance(20);
      dialer.destroy();
      await cluster.clock.advance(20);
      await stillWorks();
    }
  }
  await cluster.finalize();
});

test("a node of bytedance's fork is refused with a sentence that says so", async () => {
  const { cluster, stillWorks } = await started();
  const raw = new Uint8Array(112 + 552);
  const view = new DataView(raw.buffer);
  view.setInt32(0, 32767, true);
  view.setInt32(8, PsCommand.ADD_NODE, true);
  view.setInt32(12, 1, true);
  const dialer = await RawDialer.to(cluster, SCHEDULER_PORT);
  dialer.write(...handshake(""), frame(raw));
  await cluster.clock.advance(20);
  assert.ok(dialer.keeper.isClosed);
  assert.ok(cluster.logLines.some((line) => /scheduler warn .*bytedance's fork/.test(line)));
  await stillWorks();
  await cluster.finalize();
});

test("who answers on the connection that it was asked on is taken for bytedance's fork, and told so", async () => {
  const cluster = new PsliteCluster({ startTimeoutMs: 2000 });
  const answer = frame(metaBytes({ command: PsCommand.ADD_NODE }));
  const listening = cluster.transport("fork").listen(PSLITE_SCHEDULER, (link) => {
    link.write([encodeGreeting(""), encodeReady("ROUTER", "")], () => {});
    cluster.clock.after(50, () => link.write([answer], () => {}));
    return new Keeper();
  });
  await cluster.run(listening);
  await assert.rejects(cluster.run(cluster.startNode("worker", "worker-0")), (error) => {
    return isWeighbridgeError(error, "UNSUPPORTED") && error.message.includes("bytedance's fork");
  });
});

test("who does not say who it is within 5 seconds is cut off (IncomingConnection.I1), and who does is not", async () => {
  const { cluster, serverPort, stillWorks } = await started();
  const beginnings = [[], [Uint8Array.of(0xff)], [encodeGreeting("ps9")], handshake("ps9")];
  const dialers = await Promise.all(beginnings.map(() => RawDialer.to(cluster, serverPort)));
  for (const [index, dialer] of dialers.entries()) dialer.write(...(beginnings[index] ?? []));
  await cluster.clock.advance(4900);
  assert.deepEqual(
    dialers.map(({ keeper }) => keeper.isClosed),
    [false, false, false, false],
  );
  await cluster.clock.advance(200);
  assert.deepEqual(
    dialers.map(({ keeper }) => keeper.isClosed),
    [true, true, true, false],
  );
  await stillWorks();
  await cluster.finalize();
});

test("a second connection with the same name is taken, while the first is still open", async () => {
  const { cluster, serverPort, stillWorks } = await started();
  const dialers = [await RawDialer.to(cluster, serverPort), await RawDialer.to(cluster, serverPort)];
  for (const dialer of dialers) dialer.write(...handshake("ps9"));
  const keys = new Uint8Array(BigUint64Array.of(5n).buffer);
  const parts = [metaBytes({ request: true, push: true, timestamp: 900 }, [8, 9]), keys, new Uint8Array(Float32Array.of(2).buffer)];
  const [first, second] = dialers as [RawDialer, RawDialer];
  const bytes = Buffer.concat(parts.map((part, i) => frame(part, i === parts.length - 1)));
  first.write(bytes.subarray(0, bytes.length - 2)); // inside a message
  await cluster.clock.advance(10);
  second.write(bytes);
  await cluster.clock.advance(10);
  first.write(bytes.subarray(bytes.length - 2));
  await cluster.clock.advance(10);
  const kv = new KVWorker(cluster.office("worker-0"), 0, 1);
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(BigUint64Array.of(5n), out)));
  assert.equal(out[0], 4);
  await stillWorks();
  await cluster.finalize();
});

function registrationOf(hostname: string, port: number, customerId = 0): Uint8Array {
  const node = { role: PsRole.WORKER, id: 0x7fffffff, hostname, port, isRecovery: false, customerId };
  return frame(metaBytes({ command: PsCommand.ADD_NODE, nodes: [node] }));
}

test("a node that is not in the job waits until the list is here, and then loses its connection (IncomingConnections.Y1)", async () => {
  const cluster = new PsliteCluster({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  await RawListener.at(cluster, SCHEDULER_PORT);
  const starting = cluster.startNode("server", "server-0");
  await cluster.clock.advance(100);
  const stranger = await dialed(cluster, 9601, "ps77");
  stranger.write(frame(metaBytes({ request: true, push: true }, [8, 9])));
  await cluster.clock.advance(1000);
  assert.equal(stranger.keeper.isClosed, false);
  const scheduler = await dialed(cluster, 9601, "ps1");
  const nodes = [serverAt(9601, { id: 8 }), workerAt(9650, { id: 9 }), { ...serverAt(SCHEDULER_PORT, { id: 1 }), role: PsRole.SCHEDULER }];
  scheduler.write(frame(metaBytes({ command: PsCommand.ADD_NODE, nodes })));
  await cluster.clock.advance(1000);
  assert.equal(stranger.keeper.isClosed, true);
  scheduler.write(frame(metaBytes({ command: PsCommand.BARRIER, timestamp: 1 })));
  const office = await cluster.run(starting);
  await cluster.run(office.close());
});

test("the scheduler has at most 1024 connections that no node is behind, silent ones too, and takes others when those are cut off (IncomingConnections.Y2)", async () => {
  const { cluster, stillWorks } = await started();
  const dialers: RawDialer[] = [];
  for (let i = 0; i < 1024; i++) {
    dialers.push(await RawDialer.to(cluster, SCHEDULER_PORT));
    if (i % 2 === 0) dialers[i]?.write(encodeGreeting(""));
  }
  const refused = async (): Promise<boolean> => {
    const dialer = await RawDialer.to(cluster, SCHEDULER_PORT);
    dialer.write(encodeGreeting(""));
    await cluster.clock.advance(10);
    return dialer.keeper.isClosed;
  };
  assert.equal(await refused(), true);
  dialers[1]?.destroy();
  await cluster.clock.advance(10);
  assert.equal(await refused(), false);
  await stillWorks();
  await cluster.clock.advance(6000);
  assert.ok(dialers.every(({ keeper }) => keeper.isClosed));
  assert.equal(await refused(), false);
  await cluster.finalize();
});

/** A push of so many values to one key, as it is sent. */
function pushOf(values: Float32Array): Uint8Array {
  const parts = [metaBytes({ request: true, push: true, timestamp: 900 }, [8, 9]), BigUint64Array.of(5n), values];
  return Buffer.concat(
    parts.map(({ buffer, byteOffset, byteLength }, i) => frame(new Uint8Array(buffer, byteOffset, byteLength), i === 2)),
  );
}

test("a connection inside a message is ended when its node has a new incarnation: its memory is another's by then (IncomingConnections.Y4)", async () => {
  const { cluster, serverPort } = await started();
  const dialer = await RawDialer.to(cluster, serverPort);
  dialer.write(...handshake("ps9"), pushOf(new Float32Array(100_000)).subarray(0, 1000));
  await cluster.clock.advance(10);
  cluster.kill("worker-0");
  await cluster.clock.advance(8000);
  assert.equal(dialer.keeper.isClosed, false);
  const office = await cluster.run(cluster.startNode("worker", "worker-0-again"));
  await cluster.clock.advance(1000);
  assert.equal(dialer.keeper.isClosed, true);
  const kv = new KVWorker(office, 0);
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(5n), Float32Array.of(1))));
  await cluster.run(kv.wait(kv.pull(BigUint64Array.of(5n), out)));
  assert.equal(out[0], 1);
  await cluster.finalize();
});

test("a connection that stops inside a message does not hold up the next one of its node for more than 5 seconds (IncomingConnections.Y3)", async () => {
  const { cluster, serverPort, stillWorks } = await started();
  const dialers = [await RawDialer.to(cluster, serverPort), await RawDialer.to(cluster, serverPort)];
  for (const dialer of dialers) dialer.write(...handshake("ps9"));
  const values = new Float32Array(100_000).fill(1);
  const push = pushOf(values);
  const [first, second] = dialers as [RawDialer, RawDialer];
  first.write(push.subarray(0, 1000));
  await cluster.clock.advance(10);
  second.write(push);
  await cluster.clock.advance(4900);
  first.write(push.subarray(1000, 2000)); // it goes on
  await cluster.clock.advance(4900);
  assert.deepEqual([first.keeper.isClosed, second.keeper.isClosed], [false, false]);
  await cluster.clock.advance(5100);
  assert.deepEqual([first.keeper.isClosed, second.keeper.isClosed], [true, false]);
  assert.ok(cluster.logLines.some((line) => /server-0 warn .*inside a message, and worker 0 has another connection/.test(line)));
  const kv = new KVWorker(cluster.office("worker-0"), 0, 1);
  const out = new Float32Array(values.length);
  await cluster.run(kv.wait(kv.pull(BigUint64Array.of(5n), out)));
  assert.deepEqual(out, values);
  await stillWorks();
  await cluster.finalize();
});

test("keys and lens that no node of ps-lite could send are refused when their length is declared, and cost nothing", async () => {
  const { cluster, serverPort, stillWorks } = await started();
  const tooLong = new Uint8Array(9);
  tooLong[0] = 3; // long, and more to come
  new DataView(tooLong.buffer).setBigUint64(1, 2n ** 31n);
  const keys = frame(new Uint8Array(BigUint64Array.of(1n, 2n).buffer), false);
  const push = { request: true, push: true, timestamp: 1000 };
  const cases: readonly (readonly [RegExp, readonly Uint8Array[]])[] = [
    [/2147483648 bytes of keys/, [frame(metaBytes(push, [8, 9]), false)]],
    [/2147483648 bytes of values/, [frame(metaBytes(push, [8, 9, 3]), false), keys]],
    [/2147483648 bytes of lens/, [frame(metaBytes(push, [8, 9, 3]), false), keys, frame(new Uint8Array(8), false)]],
  ];
  for (const [pattern, parts] of cases) {
    const dialer = await RawDialer.to(cluster, serverPort);
    dialer.write(...handshake("ps9"), ...parts, tooLong, new Uint8Array(100_000));
    await cluster.clock.advance(20);
    assert.match(cluster.logLines.filter((line) => line.startsWith("server-0 error")).at(-1) ?? "", pattern);
    dialer.destroy(); // inside its message the node's other connections wait
    await stillWorks();
  }
  await cluster.finalize();
});

test("a registration from where nobody can be reached is refused by what it says, before the job is complete and after", async () => {
  const cluster = new PsliteCluster({ startTimeoutMs: 5000 });
  const starting = cluster.startNode("scheduler", "scheduler");
  const server = cluster.startNode("server", "server-0");
  await cluster.clock.advance(100);
  const refuses = async (): Promise<void> => {
    for (const hostname of ["", "a/b", "[::1]", "a b", "127.0.0.1\n", "\0", "x".repeat(300)]) {
      const dialer = await RawDialer.to(cluster, SCHEDULER_PORT);
      dialer.write(...handshake(""), registrationOf(hostname, 77));
      await cluster.clock.advance(50);
      assert.ok(dialer.keeper.isClosed, hostname);
      assert.match(cluster.logLines.at(-1) ?? "", /scheduler warn a connection ended .*cannot be reached at the host .*DMLC_NODE_HOST/);
    }
  };
  await refuses();
  const worker = cluster.startNode("worker", "worker-0");
  await cluster.run(Promise.all([starting, server, worker]));
  await refuses();
  await cluster.finalize();
});

test("only so many processes may wait for a rank (RegistrationService.G8), and one that is needed finds it when they have gone", async () => {
  const { cluster, stillWorks } = await started();
  const dialer = await RawDialer.to(cluster, SCHEDULER_PORT);
  dialer.write(...handshake(""));
  for (let i = 0; i < 1000; i++) dialer.write(registrationOf("192.0.2.9", 1 + (i >> 1), i & 1));
  await cluster.clock.advance(2000);
  assert.ok(dialer.keeper.isClosed);
  assert.equal(cluster.logLines.filter((line) => /a node of ps-lite registers .*192\.0\.2\.9/.test(line)).length, 258);
  assert.ok(cluster.logLines.some((line) => /scheduler warn .*258 processes wait for a rank already/.test(line)));
  await stillWorks();
  cluster.kill("server-0");
  await cluster.clock.advance(7000);
  new KVServer(await cluster.run(cluster.startNode("server", "server-1")), 0);
  assert.deepEqual(cluster.office("scheduler").deadNodes(), []);
  await cluster.finalize();
});
