// Goal: a node of ours in the place of one of theirs says what theirs said in the recordings with acknowledgements,
// recovery and two nodes of each role; and what ps-lite's scheduler could not do, ours does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { SERVERS_FIRST_MS } from "../../src/pslite/barrier-releases.ts";
import { SETTLE_MS } from "../../src/pslite/restarted-nodes.ts";
import { PsCommand, type PsMeta, type PsNode, PsRole } from "../../src/pslite/wire/ps-meta.ts";
import { PsliteCluster } from "../../src/testing/pslite-cluster.ts";
import { Group } from "../../src/wire/node-id.ts";
import { barrierEntry, controlsTo, dialed, registration, serverAt, workerAt } from "./pslite-nodes.ts";
import { messageBytes, messagesOf, metasOf } from "./pslite-notes.ts";
import { hexOf, RawDialer, RawListener, readRecording, sentBy } from "./pslite-recording.ts";
import { type WorkerOfOurs, workerOfOurs } from "./pslite-worker.ts";

/** The order in which nodes of a role are told is nobody's promise, nor what ps-lite does not initialise. */
function maskControl(meta: PsMeta): void {
  if (meta.command === PsCommand.NONE) return;
  meta.timestamp = 0;
  meta.barrierGroup = 0;
}

test("our scheduler gives two servers and two workers of theirs the same ranks, whoever comes first, and opens the same barriers", async () => {
  const recording = readRecording("twobytwo");
  const cluster = new PsliteCluster({ serverCount: 2, workerCount: 2, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  const places = ["SERVER:9601", "SERVER:9602", "WORKER:9603", "WORKER:9604"] as const;
  const listeners: RawListener[] = [];
  for (const place of places) listeners.push(await RawListener.at(cluster, Number(place.slice(-4))));
  const starting = cluster.startNode("scheduler", "scheduler");
  await cluster.clock.advance(10);
  for (const connection of ["57620", "57594", "57606", "57578"])
    (await RawDialer.to(cluster, 9600)).write(...sentBy(recording, connection, "SCHED:9600"));
  await cluster.clock.advance(200);
  const connections = ["57646", "57626", "57638", "57622"]; // of the nodes in the order of `places`
  const dialers: RawDialer[] = [];
  for (const connection of connections) {
    const dialer = await RawDialer.to(cluster, 9600);
    dialers.push(dialer);
    dialer.write(...sentBy(recording, connection, "SCHED:9600").slice(0, 3)); // up to the barrier of the start
  }
  const office = await cluster.run(starting);
  const ending = office.finalize();
  for (const [i, dialer] of dialers.entries()) {
    dialer.write(...sentBy(recording, connections[i] as string, "SCHED:9600").slice(3));
    await cluster.clock.advance(20);
  }
  await cluster.clock.advance(200);
  for (const [i, fromScheduler] of ["57870", "39964", "51462", "60414"].entries()) {
    const place = places[i] as string;
    const theirs = messagesOf(hexOf(sentBy(recording, fromScheduler, place)), maskControl);
    assert.deepEqual(messagesOf(listeners[i]?.connections[0]?.hex ?? "", maskControl), theirs, place);
  }
  for (const dialer of dialers) dialer.destroy();
  await cluster.run(office.close());
  await cluster.run(Promise.allSettled([ending]));
});

test("with PS_RESEND our server acknowledges what theirs acknowledged, with the same signatures", async () => {
  const recording = readRecording("resend");
  const cluster = new PsliteCluster({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0, resendTimeoutMs: 1000 });
  const scheduler = await RawListener.at(cluster, 9600);
  const worker = await RawListener.at(cluster, 9602);
  const starting = cluster.startNode("server", "server-0");
  await cluster.clock.advance(100);
  const fromScheduler = sentBy(recording, "55324", "SERVER:9601");
  const schedulerDials = await RawDialer.to(cluster, 9601);
  const schedulerSays = async (from: number, to: number): Promise<void> => {
    schedulerDials.write(...fromScheduler.slice(from, to));
    await cluster.clock.advance(20);
  };
  await schedulerSays(0, 3); // greeting, READY, the list of nodes
  await cluster.clock.advance(SETTLE_MS - 50);
  const hasEntered = (): boolean => controlsTo(scheduler).some(({ command }) => command === PsCommand.BARRIER);
  assert.ok(!hasEntered(), "before theirs acknowledges, an entry would be counted twice (BarrierEntries.T3)");
  await cluster.clock.advance(50);
  assert.ok(hasEntered());
  await schedulerSays(3, 5); // our entry is acknowledged, and the barrier is over
  const office = await cluster.run(starting);
  new KVServer(office, 0);
  const workerDials = await RawDialer.to(cluster, 9601);
  for (const bytes of sentBy(recording, "55336", "SERVER:9601")) {
    workerDials.write(bytes);
    await cluster.clock.advance(20);
  }
  const again = office.barrier(0, Group.ALL);
  await cluster.clock.advance(20);
  await schedulerSays(5, 7);
  await cluster.run(again);
  const ending = office.finalize();
  await cluster.clock.advance(20);
  await schedulerSays(7, 9);
  await cluster.run(ending);

  assert.equal(scheduler.connections[1]?.hex, hexOf(sentBy(recording, "37268", "SCHED:9600")), "to the scheduler, byte for byte");
  const withoutLens = (meta: PsMeta): void => {
    meta.dataTypes.length = Math.min(2, meta.dataTypes.length);
  };
  const told = messagesOf(worker.connections[0]?.hex ?? "", withoutLens);
  const lens = told.splice(-2); // ours always tells them
  assert.deepEqual(lens, ["part 3, the last", "0100000001000000"]);
  const theirs = messagesOf(hexOf(sentBy(recording, "53336", "WORKER:9602")));
  assert.deepEqual(
    told.map((line) => line.replace(", the last", "")),
    theirs.map((line) => line.replace(", the last", "")),
  );
});

test("our server's heartbeats are theirs, and our scheduler answers heartbeats as theirs did", async () => {
  const recording = readRecording("recovery");
  const mask = (meta: PsMeta): void => {
    meta.timestamp = 0; // how many came before
  };
  const isHeartbeat = (line: string): boolean => line.startsWith("HEARTBEAT ");
  const theirs = (from: string, to: string): string | undefined =>
    messagesOf(hexOf(sentBy(recording, from, to)), mask).find((line) => isHeartbeat(line));

  const timing = { heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 3000 };
  const first = new PsliteCluster(timing);
  const schedulerListens = await RawListener.at(first, 9600);
  const startingServer = first.startNode("server", "server-0");
  await first.clock.advance(100);
  await RawListener.at(first, 9602);
  const fromScheduler = sentBy(recording, "47942", "SERVER1:9601");
  const schedulerDials = await RawDialer.to(first, 9601);
  schedulerDials.write(...fromScheduler.slice(0, 3));
  await first.clock.advance(100);
  schedulerDials.write(...fromScheduler.slice(3, 4)); // the barrier of the start is over
  const server = await first.run(startingServer);
  await first.clock.advance(1500);
  const said = messagesOf(schedulerListens.connections[1]?.hex ?? "", mask).filter(isHeartbeat);
  assert.deepEqual(said.slice(0, 1), [theirs("53606", "SCHED:9600")]);
  await first.run(server.close());

  const second = new PsliteCluster({ ...timing, startBarrier: false });
  await RawListener.at(second, 9601);
  const workerListens = await RawListener.at(second, 9602);
  const startingScheduler = second.startNode("scheduler", "scheduler");
  await second.clock.advance(10);
  for (const node of [serverAt(9601), workerAt(9602)]) (await dialed(second, 9600, "")).write(registration(node));
  const scheduler = await second.run(startingScheduler);
  await second.clock.advance(100);
  const worker = await dialed(second, 9600, "ps9");
  worker.write(messageBytes({ command: PsCommand.HEARTBEAT, nodes: [workerAt(9602, { id: 9 })], timestamp: 2 }));
  await second.clock.advance(20);
  assert.deepEqual(messagesOf(workerListens.connections[0]?.hex ?? "", mask).filter(isHeartbeat), [theirs("52012", "WORKER:9602")]);
  await second.run(scheduler.close());
});

test("our scheduler replaces a server of theirs as theirs did, and a second and a third time, which ended theirs", async () => {
  const recording = readRecording("recovery");
  const cluster = new PsliteCluster({ heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 3000, startBarrier: false });
  const workerListens = await RawListener.at(cluster, 9602);
  let serverListens = await RawListener.at(cluster, 9601);
  const starting = cluster.startNode("scheduler", "scheduler");
  await cluster.clock.advance(10);
  for (const node of [serverAt(9601), workerAt(9602)]) (await dialed(cluster, 9600, "")).write(registration(node));
  const office = await cluster.run(starting);
  await cluster.clock.advance(100);
  const worker = await dialed(cluster, 9600, "ps9");
  let server = await dialed(cluster, 9600, "ps8");
  const live = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      worker.write(messageBytes({ command: PsCommand.HEARTBEAT, nodes: [workerAt(9602, { id: 9 })], timestamp: second }));
      await cluster.clock.advance(1000);
    }
  };
  for (const port of [9603, 9604, 9605]) {
    await cluster.clock.advance(10);
    await serverListens.kill();
    server.destroy();
    await live(5);
    assert.deepEqual(office.deadNodes(), [8]);
    const before = controlsTo(workerListens).length;
    serverListens = await RawListener.at(cluster, port);
    (await dialed(cluster, 9600, "")).write(registration(serverAt(port)));
    await cluster.clock.advance(100);
    const isAdded = ({ command }: { readonly command: number }): boolean => command === PsCommand.ADD_NODE;
    assert.equal(
      controlsTo(workerListens).slice(before).some(isAdded),
      false,
      "a node that does not know its id must not be asked (RestartedNodes.N1)",
    );
    server = await dialed(cluster, 9600, "ps8");
    await live(1);
    assert.deepEqual(office.deadNodes(), [], `after the server at ${port} came`);
    const told = controlsTo(workerListens).slice(before);
    const added = told.filter(isAdded);
    assert.deepEqual(added, [{ command: PsCommand.ADD_NODE, nodes: [serverAt(port, { id: 8, isRecovery: true })] }]);
    const [list] = controlsTo(serverListens);
    const scheduler = { ...serverAt(9600, { id: 1 }), role: PsRole.SCHEDULER };
    assert.equal(list?.command, PsCommand.ADD_NODE);
    assert.deepEqual(new Set(list?.nodes), new Set([serverAt(port, { id: 8, isRecovery: true }), workerAt(9602, { id: 9 }), scheduler]));
    if (port !== 9603) continue;
    const theirs = sentBy(recording, "33552", "SERVER2:9603");
    const [theirList] = metasOf(hexOf(theirs));
    assert.deepEqual(new Set(list?.nodes), new Set(theirList?.nodes));
  }
  await cluster.run(office.close());
});

test("a server and a worker of theirs that come at one time in new incarnations hear of each other when they can be asked (RegistrationService.G5)", async () => {
  for (const order of [
    ["server", "worker"],
    ["worker", "server"],
  ]) {
    const cluster = new PsliteCluster({ heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 3000, startBarrier: false });
    const listeners = [await RawListener.at(cluster, 9601), await RawListener.at(cluster, 9602)];
    const starting = cluster.startNode("scheduler", "scheduler");
    await cluster.clock.advance(10);
    for (const node of [serverAt(9601), workerAt(9602)]) (await dialed(cluster, 9600, "")).write(registration(node));
    const office = await cluster.run(starting);
    await cluster.clock.advance(100);
    for (const listener of listeners) await listener.kill();
    await cluster.clock.advance(5000);
    assert.deepEqual(new Set(office.deadNodes()), new Set([8, 9]));

    const [server, worker] = [await RawListener.at(cluster, 9603), await RawListener.at(cluster, 9604)];
    for (const role of order) {
      (await dialed(cluster, 9600, "")).write(registration(role === "server" ? serverAt(9603) : workerAt(9604)));
      await cluster.clock.advance(20);
    }
    const [newServer, newWorker] = [serverAt(9603, { id: 8, isRecovery: true }), workerAt(9604, { id: 9, isRecovery: true })];
    const knows = (listener: RawListener, node: PsNode): boolean =>
      controlsTo(listener).some(({ nodes }) => nodes.some((other) => isDeepStrictEqual(other, node)));
    assert.ok(knows(server, newWorker), "the server knows where to answer before the worker asks");
    assert.deepEqual(controlsTo(server)[0]?.nodes.length, 3, "its own list comes first");
    assert.deepEqual(
      controlsTo(worker),
      [],
      "who would ask a dead server, or one that has not settled, has no list (RegistrationService.G6)",
    );
    await dialed(cluster, 9600, "ps8");
    await cluster.clock.advance(SETTLE_MS - 50);
    assert.ok(!knows(worker, newServer), "the worker does not ask before the server has settled (RestartedNodes.N4)");
    await cluster.clock.advance(100);
    assert.ok(knows(worker, newServer));
    assert.deepEqual(controlsTo(worker)[0]?.nodes.length, 3);
    await cluster.run(office.close());
  }
});

test("a process with two customers is two workers under the id of the first, and its barriers count both", async () => {
  const cluster = new PsliteCluster({ serverCount: 1, workerCount: 2, heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  const serverListens = await RawListener.at(cluster, 9601);
  const workerListens = await RawListener.at(cluster, 9602);
  const starting = cluster.startNode("scheduler", "scheduler");
  await cluster.clock.advance(10);
  (await dialed(cluster, 9600, "")).write(registration(serverAt(9601)));
  const anonymous = await dialed(cluster, 9600, "");
  anonymous.write(registration(workerAt(9602)), registration(workerAt(9602, { customerId: 1 })));
  await cluster.clock.advance(200);
  for (const listener of [serverListens, workerListens]) {
    const [list, ...more] = controlsTo(listener);
    assert.deepEqual(more, [], "a process is told once");
    assert.deepEqual(
      list?.nodes.map(({ id, customerId }) => [id, customerId]),
      [
        [8, 0],
        [9, 0],
        [9, 1],
        [1, 0],
      ],
    );
  }
  const server = await dialed(cluster, 9600, "ps8");
  const worker = await dialed(cluster, 9600, "ps9");
  const barrier = (customerId: number): Uint8Array => barrierEntry(Group.ALL, customerId);
  server.write(barrier(0));
  worker.write(barrier(0), barrier(0));
  await cluster.clock.advance(100);
  assert.equal(controlsTo(serverListens).length, 1, "one customer is missing, however often the other says that it is there");
  worker.write(barrier(1));
  const office = await cluster.run(starting);
  const commandsTo = (listener: RawListener): number[] => controlsTo(listener).map(({ command }) => command);
  const both = [PsCommand.ADD_NODE, PsCommand.BARRIER];
  await cluster.clock.advance(SERVERS_FIRST_MS / 2);
  assert.deepEqual(
    [commandsTo(serverListens), commandsTo(workerListens)],
    [both, [PsCommand.ADD_NODE]],
    "servers hear it first (BarrierReleases.X1)",
  );
  await cluster.clock.advance(SERVERS_FIRST_MS);
  assert.deepEqual([commandsTo(serverListens), commandsTo(workerListens)], [both, both]);
  await cluster.run(office.close());
});

/** A worker of ours with a server that a test plays, which has dialed it. */
async function workerWithServer(): Promise<WorkerOfOurs & { readonly answers: RawDialer }> {
  const worker = await workerOfOurs();
  return { ...worker, answers: await dialed(worker.cluster, 9602, "ps8") };
}

test("under their scheduler our worker gives their servers time to set their handles, at the start and in a new incarnation (BarrierEntries.T2, SchedulerClient.C4)", async () => {
  const { cluster, kv, server, scheduler, answers, beginMs } = await workerWithServer();
  assert.ok(beginMs >= SERVERS_FIRST_MS, `it began after ${beginMs} ms`);
  await server.kill();
  answers.destroy();
  const replacement = await RawListener.at(cluster, 9603);
  scheduler.write(messageBytes({ command: PsCommand.ADD_NODE, nodes: [serverAt(9603, { id: 8, isRecovery: true })], timestamp: 9 }));
  const push = async (): Promise<void> => await kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1)), { timeoutMs: 1000 });
  const pushes = [push()];
  await cluster.clock.advance(SETTLE_MS - 50);
  assert.equal(replacement.connections.length, 0);
  await cluster.clock.advance(200);
  await assert.rejects(cluster.run(push()), /server 0 was started again/);
  pushes.push(push());
  await cluster.clock.advance(20);
  const metas = replacement.connections.flatMap(({ hex }) => metasOf(hex));
  assert.ok(metas.some(({ push: isPush }) => isPush));
  await cluster.run(kv.office.close());
  await cluster.run(Promise.allSettled(pushes));
});

test("an answer that does not fit its request fails it with a reason, and the next one is answered", async () => {
  const { cluster, kv, answers } = await workerWithServer();
  const keys = BigUint64Array.of(1n, 2n);
  const keyBytes = new Uint8Array(keys.buffer);
  const floats = new Uint8Array(Float32Array.of(1, 2).buffer);
  const out = new Float32Array(2);
  const cases: readonly (readonly [RegExp, readonly number[], readonly Uint8Array[]])[] = [
    [/USE_KEY32/, [7, 9], [new Uint8Array(Uint32Array.of(1, 2).buffer), floats]],
    [/answered with 1 keys, but 2 were requested/, [8, 9], [keyBytes.subarray(0, 8), floats]],
    [/12 bytes|3 values|6 bytes|length/i, [8, 9], [keyBytes, new Uint8Array(12)]],
    [/./, [8, 9], [keyBytes]],
  ];
  for (const [pattern, types, parts] of cases) {
    const timestamp = kv.pull(keys, out);
    await cluster.clock.advance(20);
    answers.write(messageBytes({ pull: true, head: 0, appId: 0, customerId: 0, timestamp }, types, parts));
    await assert.rejects(cluster.run(kv.wait(timestamp)), (error) => isWeighbridgeError(error) && pattern.test(error.message));
  }
  const timestamp = kv.pull(keys, out);
  await cluster.clock.advance(20);
  // Nobody asked.
  answers.write(messageBytes({ pull: true, head: 0, appId: 0, customerId: 0, timestamp: 99 }, [8, 9], [keyBytes, floats]));
  answers.write(messageBytes({ pull: true, head: 0, appId: 0, customerId: 0, timestamp }, [8, 9], [keyBytes, floats]));
  await cluster.run(kv.wait(timestamp));
  assert.deepEqual([...out], [1, 2]);
  await cluster.run(kv.office.close());
});

test("what waits behind a large push leaves by priority, the highest first, and in its order within one (p3)", async () => {
  const { cluster, kv, server } = await workerWithServer();
  const key = BigUint64Array.of(1n);
  kv.push(key, new Float32Array(2 ** 21));
  for (const priority of [0, 0, 5, -3, 5, 1]) kv.push(key, Float32Array.of(1), { priority });
  await cluster.clock.advance(100);
  const metas = server.connections.flatMap(({ hex }) => metasOf(hex));
  assert.deepEqual(
    metas.map(({ priority, timestamp }) => [priority, timestamp]),
    [
      [5, 3],
      [5, 5],
      [1, 6],
      [0, 0],
      [0, 1],
      [0, 2],
      [-3, 4],
    ],
  );
  await cluster.run(kv.office.close());
});
