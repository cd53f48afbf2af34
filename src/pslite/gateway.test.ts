// Goal: whatever the kv face does over our own protocol it does over ps-lite's, between nodes of ours; and nothing
// hangs when one is gone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { fetchStatus } from "../cli/cluster-client.ts";
import { KVServer } from "../faces/kv/kv-server.ts";
import { KVWorker } from "../faces/kv/kv-worker.ts";
import { SimpleApp } from "../faces/kv/simple-app.ts";
import { PsliteCluster } from "../testing/pslite-cluster.ts";
import { throwsCode } from "../testing/throws-code.ts";
import type { Values } from "../wire/kv-message.ts";
import { Group } from "../wire/node-id.ts";

const KEY_LAST = 2n ** 64n - 1n;
const keysOf = (...keys: readonly bigint[]): BigUint64Array => BigUint64Array.from(keys);
const ascending = (count: number, step: bigint): BigUint64Array => BigUint64Array.from({ length: count }, (_, i) => BigInt(i) * step);

/** A cluster whose servers sum, and a worker of it. */
async function started(options: ConstructorParameters<typeof PsliteCluster>[0] = {}): Promise<{ cluster: PsliteCluster; kv: KVWorker }> {
  const cluster = await PsliteCluster.start(options);
  for (let rank = 0; rank < (options.serverCount ?? 1); rank++) new KVServer(cluster.office(`server-${rank}`), 0);
  return { cluster, kv: new KVWorker(cluster.office("worker-0"), 0) };
}

test("pushes, pulls and pushPulls of every size end up in the right values", async () => {
  const { cluster, kv } = await started({ serverCount: 2 });
  const sizes = [
    [1, 1],
    [3, 7],
    [1000, 1],
    [1000, 64],
    [10_000, 17],
    [1, 4095],
    [1, 4096],
    [2, 200_000],
    [3, 131_072],
    [40_000, 1],
    [140_000, 1],
  ] as const;
  for (const [index, [keyCount, width]] of sizes.entries()) {
    const keys = ascending(keyCount, KEY_LAST / BigInt(keyCount + 1));
    // Every size has keys of its own.
    for (let i = 0; i < keys.length; i++) keys[i] = (keys[i] as bigint) + BigInt(index);
    const vals = Float32Array.from({ length: keyCount * width }, (_, i) => (i % 1001) - 3);
    const outs = new Float32Array(vals.length);
    await cluster.run(kv.wait(kv.push(keys, vals)));
    for (let round = 0; round < 2; round++) {
      outs.fill(-1);
      await cluster.run(kv.wait(kv.pull(keys, outs)));
      assert.deepEqual(outs, vals, `${keyCount} × ${width}, pull ${round}`);
    }
    await cluster.run(kv.wait(kv.pushPull(keys, vals, outs)));
    assert.deepEqual(
      outs,
      vals.map((value) => 2 * value),
      `${keyCount} × ${width}, pushPull`,
    );
  }
  await cluster.finalize();
  assert.deepEqual(
    cluster.logLines.filter((line) => /(warn|error) /.test(line)),
    [],
  );
});

test("values of different lengths keep them, long ones too", async () => {
  const { cluster, kv } = await started({ serverCount: 2 });
  const keys = keysOf(1n, 5n, 9n, KEY_LAST);
  const lens = Int32Array.of(3, 70_000, 1, 200_000);
  const vals = Float32Array.from({ length: 270_004 }, (_, i) => i % 997);
  await cluster.run(kv.wait(kv.push(keys, vals, { lens })));
  const pairs = await cluster.run(kv.pullPairs(keys));
  assert.deepEqual([pairs.lens, pairs.vals], [lens, vals]);
  const outs = new Float32Array(vals.length);
  await cluster.run(kv.wait(kv.pushPull(keys, vals, outs, { lens })));
  assert.deepEqual(
    outs,
    vals.map((value) => 2 * value),
  );
  const [out, outLens] = [new Float32Array(3), new Int32Array(1)];
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out, { lens: outLens })));
  assert.deepEqual([[...out], [...outLens]], [[0, 2, 4], [3]]);
  await cluster.finalize();
});

test("a pull never overtakes an earlier push of its worker, without waiting in between", async () => {
  const { cluster, kv } = await started();
  const out = new Float32Array(1);
  for (let i = 1; i <= 200; i++) {
    kv.push(keysOf(7n), Float32Array.of(1));
    const timestamp = kv.pull(keysOf(7n), out);
    if (i % 20 !== 0) continue;
    await cluster.run(kv.wait(timestamp));
    assert.equal(out[0], i);
  }
  await cluster.finalize();
});

test("a handle gets whole requests of every type, with command, sender and timestamp, and its failure reaches the caller", async () => {
  const cluster = await PsliteCluster.start();
  const server = new KVServer(cluster.office("server-0"), 3);
  const seen: unknown[] = [];
  server.setRequestHandle((meta, { keys, vals }) => {
    seen.push([meta.cmd, meta.push, meta.pull, meta.sender, meta.timestamp, meta.customerId, vals.constructor.name, vals.length]);
    if (meta.cmd === 13) throw new Error("unlucky");
    server.response(meta, { keys, vals: meta.push ? vals : new Float64Array(keys.length).fill(0.5) });
  });
  const kv = new KVWorker(cluster.office("worker-0"), 3, 2);
  const keys = ascending(300_000, 3n);
  const vals = new Float64Array(300_000).fill(1.25);
  const outs = new Float64Array(300_000);
  await cluster.run(kv.wait(kv.pushPull(keys, vals, outs, { cmd: -5 })));
  assert.deepEqual(outs, vals);
  await cluster.run(kv.wait(kv.pull(keys, outs, { cmd: 9, priority: -1 })));
  assert.ok(outs.every((value) => value === 0.5));
  for (const values of [Int32Array.of(-1, 2), Uint32Array.of(1, 2), Uint8Array.of(1, 2), BigInt64Array.of(-1n, 2n)] as Values[]) {
    const room = new (values.constructor as new (length: number) => Values)(2);
    await cluster.run(kv.wait(kv.pushPull(keysOf(1n, 2n), values, room)));
    assert.deepEqual(room, values);
  }
  await assert.rejects(
    cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1), { cmd: 13 }))),
    (error) => isWeighbridgeError(error, "HANDLER_FAILED") && /server 0: .*unlucky/.test(error.message),
  );
  assert.deepEqual(seen.slice(0, 2), [
    [-5, true, true, 9, 0, 2, "Float64Array", 300_000],
    [9, false, true, 9, 1, 2, "Float64Array", 0],
  ]);
  await cluster.finalize();
});

test("what the default handle refuses fails at the caller, by its code", async () => {
  const { cluster, kv } = await started();
  await cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1, 2))));
  await assert.rejects(cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1)))), throwsCode("VALUE_LENGTH"));
  await assert.rejects(cluster.run(kv.wait(kv.pull(keysOf(1n), new Float32Array(3)))), throwsCode("VALUE_LENGTH"));
  await assert.rejects(cluster.run(kv.wait(kv.push(keysOf(2n), Float64Array.of(1)))), throwsCode("UNSUPPORTED"));
  const out = new Float32Array(2);
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  assert.deepEqual([...out], [1, 2]);
  await cluster.finalize();
});

test("double and 32-bit integers are summed without a handle, with lens too", async () => {
  for (const vals of [Float64Array.of(0.25, -3, 1e300, 4), Int32Array.of(1, -3, 2, 4)]) {
    const { cluster, kv } = await started({ serverCount: 2 });
    const keys = keysOf(1n, 2n, KEY_LAST);
    const lens = Int32Array.of(1, 2, 1);
    for (let i = 0; i < 2; i++) await cluster.run(kv.wait(kv.push(keys, vals, { lens })));
    const outs = vals.slice();
    await cluster.run(kv.wait(kv.pushPull(keys, vals, outs, { lens })));
    const sums = vals.map((value) => 3 * value);
    assert.deepEqual(outs, sums);
    const [pulled, pulledLens] = [vals.slice(), new Int32Array(3)];
    await cluster.run(kv.wait(kv.pull(keys, pulled, { lens: pulledLens })));
    assert.deepEqual([pulled, pulledLens], [sums, lens]);
    await cluster.finalize();
  }
});

test("a key that nobody pushed reads as one zero, as ps-lite has it, and as its value once somebody did", async () => {
  const { cluster, kv } = await started();
  const out = Float32Array.of(5);
  await cluster.run(kv.wait(kv.pull(keysOf(4n), out)));
  await cluster.run(kv.wait(kv.pull(keysOf(4n), out)));
  assert.deepEqual([...out], [0]);
  await cluster.run(kv.wait(kv.push(keysOf(4n), Float32Array.of(1, 2, 3))));
  const wide = new Float32Array(3);
  await cluster.run(kv.wait(kv.pull(keysOf(4n), wide)));
  assert.deepEqual([...wide], [1, 2, 3]);
  await cluster.finalize();
});

test("SimpleApp talks in every direction, with large bodies, and hears of failures", async () => {
  const cluster = await PsliteCluster.start({ serverCount: 2, workerCount: 2 });
  const names = ["scheduler", "server-0", "server-1", "worker-0", "worker-1"];
  const apps = new Map(names.map((name) => [name, new SimpleApp(cluster.office(name), 5, 0)]));
  for (const app of apps.values())
    app.setRequestHandle((data, self) => {
      if (data.head === 13) throw new Error("no");
      self.response(data, data.body);
    });
  for (const [name, receiver, count, byteCount] of [
    ["scheduler", Group.SERVERS + Group.WORKERS, 4, 300_000],
    ["server-1", Group.WORKERS, 2, 1024 * 1024 + 1],
    ["worker-0", Group.SERVERS + Group.SCHEDULER, 3, 3_000_000],
  ] as const) {
    const body = new Uint8Array(byteCount).map((_, i) => i);
    const app = apps.get(name);
    let answers = 0;
    app?.setResponseHandle((data) => {
      assert.deepEqual([data.head, data.body], [7, body]);
      answers++;
    });
    await cluster.run(app?.wait(app.request(7, body, receiver)) ?? assert.fail());
    assert.equal(answers, count, name);
  }
  const app = apps.get("worker-1");
  await assert.rejects(cluster.run(app?.wait(app.request(13, "x", 8)) ?? assert.fail()), (error) =>
    isWeighbridgeError(error, "HANDLER_FAILED"),
  );
  await cluster.finalize();
});

test("ranks that are asked for are given, barriers of groups are passed, and counts that differ end the start", async () => {
  const cluster = new PsliteCluster({ serverCount: 1, workerCount: 2 });
  const [, , first, second] = await cluster.run(
    Promise.all([
      cluster.startNode("scheduler", "scheduler"),
      cluster.startNode("server", "server-0"),
      cluster.startNode("worker", "one", { rank: 1 }),
      cluster.startNode("worker", "zero", { rank: 0 }),
    ]),
  );
  assert.deepEqual([first.myRank, second.myRank], [1, 0]);
  for (let round = 0; round < 3; round++)
    await cluster.run(Promise.all([first.barrier(0, Group.WORKERS), second.barrier(0, Group.WORKERS)]));
  await cluster.finalize();

  const other = new PsliteCluster({ serverCount: 1, workerCount: 1 });
  const starts = [
    other.startNode("scheduler", "scheduler"),
    other.startNode("server", "server-0", { workerCount: 2 }),
    other.startNode("worker", "worker-0"),
  ];
  for (const result of await other.run(Promise.allSettled(starts))) {
    assert.equal(result.status, "rejected");
    assert.ok(isWeighbridgeError(result.reason, "COUNT_MISMATCH"), String(result.reason));
  }
});

test("a cluster that is not complete in time says who is there and who is not", async () => {
  const cluster = new PsliteCluster({ serverCount: 2, workerCount: 1, startTimeoutMs: 3000 });
  const starts = [cluster.startNode("scheduler", "scheduler"), cluster.startNode("server", "server-0")];
  const [scheduler] = await cluster.run(Promise.allSettled(starts));
  assert.equal(scheduler?.status, "rejected");
  assert.match(String(scheduler?.reason), /1 of 2 servers \("server-0"\) and 0 of 1 worker registered/);
});

test("a server that dies fails what waits for it, at once if it was sent, and names it; the others go on", async () => {
  const { cluster, kv } = await started({ serverCount: 2 });
  const names = [8, 10].map((node) => (cluster.office("server-0").nodeId === node ? "server-0" : "server-1"));
  const dead = names[1] as string;
  const beginMs = cluster.clock.nowMs();
  const isDead = (error: unknown): boolean => isWeighbridgeError(error, "NODE_DEAD") && error.message.includes("server 1");
  new KVServer(cluster.office(dead), 1).setRequestHandle(() => {}); // never answers
  const slow = new KVWorker(cluster.office("worker-0"), 1);
  const waiting = slow.wait(slow.push(keysOf(KEY_LAST), Float32Array.of(1)));
  waiting.catch(() => {});
  await cluster.clock.advance(50);
  cluster.kill(dead);
  await assert.rejects(cluster.run(waiting), isDead);
  assert.ok(cluster.clock.nowMs() - beginMs < 1000, "without waiting for its death to be certain");
  await assert.rejects(cluster.run(kv.wait(kv.push(keysOf(KEY_LAST), Float32Array.of(1)))), isDead);
  await cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1))));
  await cluster.clock.advance(6000);
  assert.deepEqual(cluster.office("worker-0").deadNodes(), [10]);
  assert.deepEqual(cluster.office("scheduler").deadNodes(), [10]);
  await assert.rejects(cluster.run(kv.wait(kv.push(keysOf(KEY_LAST), Float32Array.of(1)))), isDead);
});

test("without its scheduler a job pushes on, and a barrier fails once that has been away for the start's time", async () => {
  const { cluster, kv } = await started({ workerCount: 2, startTimeoutMs: 8000 });
  const waiting = cluster.office("worker-1").barrier(0, Group.WORKERS);
  waiting.catch(() => {}); // looked at below
  await cluster.clock.advance(100);
  cluster.kill("scheduler");
  const killedAtMs = cluster.clock.nowMs();
  await cluster.run(kv.wait(kv.push(keysOf(1n, KEY_LAST), Float32Array.of(1, 2))));
  await assert.rejects(cluster.run(waiting), (error) => isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"));
  assert.ok(cluster.clock.nowMs() - killedAtMs < 10_000, "in time");
  const out = new Float32Array(2);
  await cluster.run(kv.wait(kv.pull(keysOf(1n, KEY_LAST), out)));
  assert.deepEqual([...out], [1, 2]);
});

test("a server is replaced under its old id, a second time too, and is used again", async () => {
  const { cluster, kv } = await started({ serverCount: 2, heartbeatIntervalMs: 500, heartbeatTimeoutMs: 2000 });
  let name = cluster.office("server-0").nodeId === 10 ? "server-0" : "server-1";
  for (let holder = 2; holder <= 3; holder++) {
    cluster.kill(name);
    await cluster.clock.advance(4000);
    name = `server-incarnation-${holder}`;
    const office = await cluster.run(cluster.startNode("server", name));
    assert.deepEqual([office.nodeId, office.isRecovery], [10, true]);
    new KVServer(office, 0);
    await cluster.clock.advance(3000);
    assert.deepEqual(cluster.office("worker-0").deadNodes(), []);
    const pushed = (): Promise<void> => cluster.run(kv.wait(kv.push(keysOf(1n, KEY_LAST), Float32Array.of(1, 2))));
    await assert.rejects(pushed(), (error) => isWeighbridgeError(error, "NODE_DEAD") && /server 1 was started again/.test(error.message));
    await pushed();
    const out = new Float32Array(2);
    await cluster.run(kv.wait(kv.pull(keysOf(1n, KEY_LAST), out)));
    assert.deepEqual([...out], [holder - 1, 2], "the other server kept its values");
  }
  await cluster.finalize();
});

test("a process whose node has a new incarnation is dialed no more (RegistrationService.G9)", async () => {
  const { cluster } = await started({ heartbeatIntervalMs: 500, heartbeatTimeoutMs: 2000 });
  const address = cluster.office("server-0").roster.nodes.find(({ role }) => role === "server")?.address ?? assert.fail();
  cluster.kill("server-0");
  await cluster.clock.advance(4000);
  const office = await cluster.run(cluster.startNode("server", "server-0-again"));
  await cluster.clock.advance(1000);
  let dialCount = 0;
  const listener = await cluster.transport("a stranger").listen(address, () => {
    dialCount++;
    throw new Error("nobody lives here");
  });
  await cluster.clock.advance(5000);
  assert.equal(dialCount, 0);
  await listener.close();
  assert.equal(office.nodeId, 8);
  await cluster.finalize();
});

test("several applications and customers of one node are kept apart", async () => {
  const { cluster, kv } = await started({ serverCount: 2 });
  for (const rank of [0, 1]) new KVServer(cluster.office(`server-${rank}`), 3);
  const worker = cluster.office("worker-0");
  const others = [new KVWorker(worker, 0, 1), new KVWorker(worker, 3), new KVWorker(worker, 3, 7)];
  const keys = keysOf(1n, KEY_LAST);
  const all = [kv, ...others];
  const pushes = all.flatMap((each, i) => [each.push(keys, Float32Array.of(1, 2)), each.push(keys, Float32Array.of(10 ** i, 0))]);
  assert.deepEqual(pushes, [0, 1, 0, 1, 0, 1, 0, 1], "each customer counts its own requests");
  for (const each of all) for (const timestamp of [0, 1]) await cluster.run(each.wait(timestamp));
  const read = async (each: KVWorker): Promise<number[]> => {
    const out = new Float32Array(2);
    await cluster.run(each.wait(each.pull(keys, out)));
    return [...out];
  };
  const sums = [
    [1 + 1 + 1 + 10, 4],
    [1 + 1 + 100 + 1000, 4],
  ];
  assert.deepEqual([await read(kv), await read(others[0] as KVWorker)], [sums[0], sums[0]]);
  assert.deepEqual([await read(others[1] as KVWorker), await read(others[2] as KVWorker)], [sums[1], sums[1]]);
  await cluster.finalize();
});

test("connections that break are made again within 150 ms (RemoteProcess.B1), and what is asked from then on is answered", async () => {
  const { cluster, kv } = await started();
  await cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1))));
  const links = cluster.links.get("worker-0") ?? assert.fail();
  for (let times = 0; times < 3; times++) {
    const before = links.length;
    for (const link of links) link.destroy();
    await cluster.clock.advance(150);
    assert.ok(links.length > before, "somebody dialed again");
    await cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1))));
  }
  const out = new Float32Array(1);
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  assert.equal(out[0], 4);
  assert.deepEqual(cluster.office("scheduler").deadNodes(), []);
  await cluster.finalize();
});

test("with resending on, messages may be lost anywhere, and every push counts once", async () => {
  for (const seed of [1, 2, 3]) {
    const cluster = await PsliteCluster.start({ serverCount: 2, resendTimeoutMs: 50, dropPercent: 20, seed });
    for (const rank of [0, 1]) new KVServer(cluster.office(`server-${rank}`), 0);
    const kv = new KVWorker(cluster.office("worker-0"), 0);
    const second = new KVWorker(cluster.office("worker-0"), 0, 1);
    const keys = keysOf(1n, KEY_LAST);
    const timestamps = Array.from({ length: 40 }, () => kv.push(keys, Float32Array.of(1, 2)));
    for (let i = 0; i < 40; i++) await cluster.run(second.wait(second.push(keys, Float32Array.of(1, 2))));
    for (const timestamp of timestamps) await cluster.run(kv.wait(timestamp));
    const out = new Float32Array(2);
    await cluster.run(kv.wait(kv.pull(keys, out)));
    assert.deepEqual([...out], [80, 160], `seed ${seed}`);
    await cluster.finalize();
  }
});

test("the scheduler's status is told in our own protocol, over the same port", async () => {
  const { cluster } = await started();
  const { clock } = cluster;
  const asking = fetchStatus({ address: "tcp://127.0.0.1:9600", timeoutMs: 1000, transport: cluster.transport("status"), clock });
  const { phase, nodes } = await cluster.run(asking);
  assert.deepEqual(
    [phase, nodes.map(({ role, linked }) => [role, linked])],
    [
      "running",
      [
        ["worker", true],
        ["server", true],
      ],
    ],
  );
  await cluster.finalize();
});

test("a node whose connections with the scheduler broke while it stood at a barrier hears that it is over, and is no round ahead", async () => {
  const { cluster } = await started({ workerCount: 2 });
  const [first, second] = [cluster.office("worker-0"), cluster.office("worker-1")];
  for (let round = 1; round <= 3; round++) {
    const waiting = first.barrier(0, Group.WORKERS);
    await cluster.clock.advance(100);
    for (const name of ["worker-0", "scheduler"]) for (const link of cluster.links.get(name) ?? []) link.destroy();
    await cluster.clock.advance(round === 2 ? 0 : 300); // in the second round it is over before the node is back
    const [order, enter] = [[] as string[], second.barrier(0, Group.WORKERS)];
    await cluster.run(Promise.all([waiting, enter]));
    const early = first.barrier(0, Group.WORKERS).then(() => order.push("passed"));
    await cluster.clock.advance(3000);
    order.push("entered");
    await cluster.run(Promise.all([early, second.barrier(0, Group.WORKERS)]));
    assert.deepEqual(order, ["entered", "passed"]);
  }
  await cluster.finalize();
});

test("a job behind ps-lite's protocol neither scales nor changes its workers, and is told why", async () => {
  const { cluster } = await started({ serverCount: 2 });
  const { scheduler } = cluster.office("scheduler");
  assert.ok(scheduler !== undefined);
  await assert.rejects(scheduler.scaling.request({ add: 1 }), throwsCode("UNSUPPORTED", /ps-lite's protocol \(--van\)/));
  assert.throws(() => scheduler.workers.request({ add: 1 }), throwsCode("BAD_REQUEST", /no more and no fewer/));
  await cluster.finalize();
});

test("no frame of ours is written or parsed for a node that speaks ps-lite's protocol", async () => {
  const { cluster, kv } = await started();
  const out = new Float32Array(200_000);
  for (let i = 0; i < 3; i++) await cluster.run(kv.wait(kv.push(keysOf(1n), new Float32Array(200_000).fill(1))));
  await cluster.run(kv.wait(kv.pull(keysOf(1n), out)));
  assert.equal(out[199_999], 3);
  for (const name of ["scheduler", "server-0", "worker-0"]) assert.equal(cluster.office(name).metrics.framesReceived, 0, name);
  await cluster.finalize();
});

test("while a channel holds its input, messages that were read already wait too, and come in their order", async () => {
  const cluster = await PsliteCluster.start();
  const server = new KVServer(cluster.office("server-0"), 0);
  const seen: number[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  server.setRequestHandle((meta) => {
    seen.push(meta.cmd);
    if (meta.cmd === 1) cluster.gateways.get("server-0")?.conversationOf(9)?.channel?.holdInput(promise);
    server.response(meta);
  });
  const kv = new KVWorker(cluster.office("worker-0"), 0);
  const push = (cmd: number): number => kv.push(keysOf(1n), Float32Array.of(1), { cmd });
  await cluster.run(kv.wait(push(0)));
  const timestamps = [1, 2, 3, 4, 5].map((cmd) => push(cmd));
  await cluster.clock.advance(1000);
  assert.deepEqual(seen, [0, 1]);
  resolve();
  for (const timestamp of timestamps) await cluster.run(kv.wait(timestamp));
  assert.deepEqual(seen, [0, 1, 2, 3, 4, 5]);
  await cluster.finalize();
});

test("what a channel holds back comes over its next link, also when nothing ended the hold (IncomingConnections.Y5)", async () => {
  const cluster = await PsliteCluster.start();
  const server = new KVServer(cluster.office("server-0"), 0);
  const conversation = cluster.gateways.get("server-0")?.conversationOf(9);
  server.setRequestHandle((meta) => {
    if (meta.cmd === 1) conversation?.channel?.holdInput(new Promise(() => {}));
    server.response(meta);
  });
  const kv = new KVWorker(cluster.office("worker-0"), 0);
  const push = (cmd: number): number => kv.push(keysOf(1n), Float32Array.of(1), { cmd });
  await cluster.run(kv.wait(push(1)));
  const held = push(2);
  await cluster.clock.advance(1000);
  conversation?.break(undefined);
  await cluster.run(kv.wait(held, { timeoutMs: 1000 }));
  await cluster.finalize();
});

test("a scheduler that is started again is told nothing, and who waits hears that the job has to be started anew", async () => {
  const { cluster, kv } = await started({ workerCount: 2, startTimeoutMs: 8000 });
  const waiting = cluster.office("worker-1").barrier(0, Group.WORKERS);
  waiting.catch(() => {}); // looked at below
  await cluster.clock.advance(100);
  cluster.kill("scheduler");
  await cluster.clock.advance(1000);
  cluster.startNode("scheduler", "scheduler-2").catch(() => {}); // it is never complete
  await assert.rejects(
    cluster.run(waiting),
    (error) => isWeighbridgeError(error, "SCHEDULER_UNREACHABLE") && /started later.*start it anew/.test(error.message),
  );
  await cluster.run(kv.wait(kv.push(keysOf(1n), Float32Array.of(1))));
  assert.deepEqual(
    cluster.logLines.filter((line) => /^scheduler-2 .*registers/.test(line)),
    [],
  );
});
