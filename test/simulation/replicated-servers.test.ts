// Goal: a standby has the state of its head bit for bit, whatever workers do; one that differs leaves, one that has
// taken over obeys nobody, and what cannot be repeated is refused by name.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { type Log, SILENT_LOG } from "../../src/base/log.ts";
import { psFunction } from "../../src/contracts/ps-function.ts";
import { rowsPush } from "../../src/contracts/rows.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { PART_COUNT } from "../../src/keys/part.ts";
import type { Replica } from "../../src/server/replication/replica.ts";
import { digestOf } from "../../src/server/replication/state-digest.ts";
import type { Server } from "../../src/server/server.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

const HEAD = idOf("server", 0);
const STANDBY = idOf("standby", 0);

let cluster: SimCluster;
let session: Session;

before(async () => {
  cluster = new SimCluster({
    seed: 1,
    serverCount: 1,
    workerCount: 1,
    replicas: 2,
    settle: SETTLING,
    optionsOf: (node) => (roleOf(node) === "worker" ? {} : { digestEntries: 5 }),
  });
  await cluster.start();
  session = await cluster.run(Session.open(cluster.worker(0).node));
});

after(async () => {
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
});

const serverOf = (node: number): Server => cluster.office(node).server as Server;
const digests = (node: number): number[] => Array.from({ length: PART_COUNT }, (_, part) => digestOf(serverOf(node).parameters, part));

test("what was acknowledged is on both, bit for bit, also for DC-ASGD, links that carry less, and requests of many frames (Replica.I2, Availability.I2)", async () => {
  const noise = (length: number): Float32Array => Float32Array.from({ length }, (_, i) => Math.sin(i * 12.9898));
  const asgd = await cluster.run(
    session.tensor("asgd", { shape: [64], consistency: "asp", optimizer: { type: "dcAsgd", learningRate: 0.1, lambda: 0.5 } }),
  );
  const small = await cluster.run(
    session.embedding("small", { dim: 8, optimizer: { type: "adam" }, link: { push: "int8", pull: "fp16", keyCache: true } }),
  );
  const large = await cluster.run(session.embedding("large", { dim: 1, optimizer: "sum" }));
  const manyKeys = Array.from({ length: 200_000 }, (_, i) => i * 7);
  for (let step = 0; step < 3; step++) {
    await cluster.run(asgd.pull());
    await cluster.run(asgd.push(noise(64)));
    await cluster.run(small.push([1, 2, 3], noise(24)));
    await cluster.run(small.pull([1, 2, 3]));
    await cluster.run(large.push(manyKeys, noise(manyKeys.length)));
    session.clock();
    assert.deepEqual(digests(STANDBY), digests(HEAD));
  }
  assert.equal((await cluster.run(large.pull(manyKeys))).length, manyKeys.length);
  assert.deepEqual(
    [serverOf(STANDBY).replica?.repeater.applied, serverOf(HEAD).replica?.log.acknowledged],
    Array(2).fill(serverOf(HEAD).replica?.log.position),
  );
});

test("what a standby could not repeat is refused with UNSUPPORTED, by name", async () => {
  const kv = new KVServer(cluster.office(HEAD), 0);
  assert.throws(() => kv.setRequestHandle(() => {}), throwsCode("UNSUPPORTED", /handle of one's own for kv/));
  const touch = psFunction({ name: "touch", request: {}, response: {}, handler: () => ({}) });
  const nodes = {
    seed: 2,
    serverCount: 1,
    workerCount: 1,
    replicas: 2,
    settle: SETTLING,
    optionsOf: () => ({ functions: [touch] }) as never,
  };
  await assert.rejects(new SimCluster(nodes).start(), throwsCode("UNSUPPORTED", /the function touch changes state/));
  await assert.rejects(cluster.run(session.restore()), throwsCode("UNSUPPORTED", /a load of a checkpoint|wb\/checkpoint\/load/));
  await cluster.run(session.tensor("loaded", { shape: [4], optimizer: "sum" }));
  await assert.rejects(cluster.run(session.loadParameter("loaded", "saved")), throwsCode("UNSUPPORTED", /wb\/\S+ is not served/));
});

test("an update that a head refused is refused by the standby that takes over, also behind one that was applied (LoggedRequests.I5)", async () => {
  const own = new SimCluster({ seed: 3, serverCount: 1, workerCount: 1, replicas: 2, settle: SETTLING });
  await own.start();
  const worker = await own.run(Session.open(own.worker(0).node));
  const rows = await own.run(worker.embedding("rows", { dim: 1, optimizer: "sum", consistency: "asp" }));
  worker.clock();
  await own.run(rows.push([7], Float32Array.of(1)));
  own.network.partition(own.hostOf(HEAD), own.hostOf(idOf("worker", 0)), { isOneWay: true });
  const wrong = { parameter: 1, clock: 0, pushNumber: 1, scale: 1, keys: BigUint64Array.of(7n), gradients: Float32Array.of(9) };
  const refused = assert.rejects(worker.call(rowsPush, { key: 7n }, wrong), throwsCode("STALE_UPDATE", /clock 0/));
  await own.clock.advance(20);
  const applied = rows.push([7], Float32Array.of(5));
  await own.clock.advance(20);
  own.kill(HEAD);
  own.network.heal();
  await own.run(Promise.all([refused, applied]));
  worker.clock();
  assert.deepEqual([...(await own.run(rows.pull([7])))], [6]);
  await own.run(Promise.all(own.nodes().map((node) => own.running(node)?.close())));
});

test("a log is for a standby: no worker may send one, and a server that has taken over is FENCED from its head (Replica.I5)", () => {
  const replica = serverOf(STANDBY).replica as Replica;
  const { standbyLog } = replica;
  assert.throws(
    () => standbyLog.repeat({ worker: idOf("worker", 0), incarnation: 1 }, 1, new Uint8Array(0)),
    throwsCode("BAD_REQUEST", /not from worker 0/),
  );
  replica.isStandby = false;
  assert.throws(() => standbyLog.repeat({ worker: HEAD, incarnation: 1 }, 1, new Uint8Array(24)), throwsCode("FENCED", /has taken over/));
  replica.isStandby = true;
});

test("a head that was replaced, and does not know it, acknowledges nothing to a worker that does not know it either (ChainMember.I6)", async () => {
  const options = { seed: 4, serverCount: 1, workerCount: 2, replicas: 2, heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500 } as const;
  const own = new SimCluster({ ...options, settle: SETTLING });
  await own.start();
  const workers = await own.run(Promise.all([0, 1].map((rank) => Session.open(own.worker(rank).node))));
  const [first, second] = await own.run(
    Promise.all(workers.map((worker) => worker.embedding("rows", { dim: 1, optimizer: "sum", consistency: "asp" }))),
  );
  assert.ok(first !== undefined && second !== undefined);
  const one = Float32Array.of(1);
  await own.run(second.push([7], one));
  const scheduler = own.hostOf(SCHEDULER_ID);
  own.network.partition(own.hostOf(HEAD), scheduler);
  await own.clock.advance(400);
  own.network.partition(scheduler, own.hostOf(idOf("worker", 1)), { isOneWay: true });
  while ((own.office(STANDBY).server as Server).replica?.isStandby === true) own.clock.step();
  assert.equal(own.office(STANDBY).node.peer.channel(HEAD), undefined, "the link of the head before has ended");
  let isAcknowledged = false;
  const pushed = second.push([7], one).then(() => {
    isAcknowledged = true;
  });
  await own.run(first.push([7], one)); // by the new head
  await own.clock.advance(100);
  assert.ok(own.running(HEAD) !== undefined && !isAcknowledged, "the head before answers");
  assert.equal(own.running(HEAD)?.node.failure?.code, "FENCED", "it hears of it from the server that took over");
  own.network.heal();
  await own.run(pushed);
  for (const rows of [first, second]) assert.deepEqual([...(await own.run(rows.pull([7])))], [3]);
  await own.run(Promise.all(own.nodes().map((node) => own.running(node)?.close())));
});

test("a head that stops is replaced within the heartbeat timeout and 200 ms, also for a worker that was dialing it again by then", async () => {
  for (let seed = 10; seed < 16; seed++) {
    const options = { seed, serverCount: 1, workerCount: 1, replicas: 2, heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500 } as const;
    const impatient = seed % 2 === 0 ? { linkTimeoutMs: 100 } : {}; // it waits for the standby all the same
    const own = new SimCluster({ ...options, ...impatient, settle: SETTLING });
    await own.start();
    const worker = await own.run(Session.open(own.worker(0).node));
    const rows = await own.run(worker.embedding("rows", { dim: 1, optimizer: "sum", consistency: "asp" }));
    await own.run(rows.push([7], Float32Array.of(1)));
    await own.clock.advance(7 * seed);
    own.network.isolate(own.hostOf(HEAD));
    const stoppedAtMs = own.clock.nowMs();
    await own.run(rows.push([7], Float32Array.of(1)));
    const pauseMs = own.clock.nowMs() - stoppedAtMs;
    assert.ok(pauseMs <= 700, `seed ${seed}: ${pauseMs.toFixed()} ms`);
    own.network.heal();
    await own.run(Promise.all(own.nodes().map((node) => own.running(node)?.close())));
  }
});

test("a standby that could not repeat what it has acknowledged takes over from nobody (StandbyLog.I1)", async () => {
  const options = { seed: 5, serverCount: 1, workerCount: 1, replicas: 2, heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500 } as const;
  const own = new SimCluster({ ...options, settle: SETTLING });
  await own.start();
  const worker = await own.run(Session.open(own.worker(0).node));
  const rows = await own.run(worker.embedding("rows", { dim: 1, optimizer: "sum", consistency: "asp" }));
  await own.run(rows.push([7], Float32Array.of(1)));
  const replica = (own.office(STANDBY).server as Server).replica as Replica;
  let failedAt = 0;
  replica.repeater.repeat = (first) => {
    failedAt = first;
    // the scheduler decides before it can hear that the standby leaves
    own.network.partition(own.hostOf(STANDBY), own.hostOf(SCHEDULER_ID), { isOneWay: true });
    own.kill(HEAD);
    throw new Error("no room");
  };
  const pushed = rows.push([7], Float32Array.of(1)).catch(() => {});
  await own.clock.advance(300);
  assert.ok(failedAt > 0 && replica.standbyLog.hasFailed);
  const told = own.running(SCHEDULER_ID)?.node.roster.nodes.find(({ node }) => node === HEAD);
  assert.ok((told?.incarnation ?? 0) > 1, "the scheduler has told it to take over");
  assert.equal(replica.isStandby, true);
  own.network.heal();
  await own.run(Promise.all(own.nodes().map((node) => own.running(node)?.close())));
  await pushed;
});

test("a head whose process is gone is replaced as soon as nothing listens at its address (ServerProbe.H1)", async () => {
  for (let seed = 20; seed < 26; seed++) {
    const options = { seed, serverCount: 1, workerCount: 1, replicas: 2, heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500 } as const;
    const own = new SimCluster({ ...options, settle: SETTLING });
    await own.start();
    const worker = await own.run(Session.open(own.worker(0).node));
    const rows = await own.run(worker.embedding("rows", { dim: 1, optimizer: "sum", consistency: "asp" }));
    await own.run(rows.push([7], Float32Array.of(1)));
    const killedAtMs = own.clock.nowMs();
    own.kill(HEAD);
    await own.run(rows.push([7], Float32Array.of(1)));
    const pauseMs = own.clock.nowMs() - killedAtMs;
    assert.ok(pauseMs < 45, `seed ${seed}: ${pauseMs.toFixed()} ms`);
    await own.run(Promise.all(own.nodes().map((node) => own.running(node)?.close())));
  }
});

test("a head that is told to stop hands over: no call fails, and every update counts once (Availability.I5)", async () => {
  const own = new SimCluster({ seed: 6, serverCount: 1, workerCount: 1, replicas: 2, settle: SETTLING });
  await own.start();
  const worker = await own.run(Session.open(own.worker(0).node));
  const rows = await own.run(worker.embedding("rows", { dim: 1, optimizer: "sum", consistency: "asp" }));
  const pushes: Promise<void>[] = [];
  for (let i = 0; i < 20; i++) pushes.push(rows.push([7], Float32Array.of(1)));
  const left = own.office(HEAD).node.leave();
  for (let i = 0; i < 20; i++) pushes.push(rows.push([7], Float32Array.of(1)));
  await own.run(Promise.all([left, ...pushes]));
  assert.deepEqual([...(await own.run(rows.pull([7])))], [40]);
  assert.equal(own.scheduler.roster.nodes.find(({ node }) => node === HEAD)?.incarnation, 2, "the standby leads");
  await own.run(Promise.all(own.nodes().map((node) => own.running(node)?.close())));
});

test("a standby that runs out of memory leaves the chain, and pushes go on", async () => {
  const own = new SimCluster({
    seed: 5,
    serverCount: 1,
    workerCount: 1,
    replicas: 2,
    settle: SETTLING,
    optionsOf: (node) => (node === STANDBY ? { arenaBytesMax: 2 ** 21 } : {}),
  });
  await own.start();
  const worker = await own.run(Session.open(own.worker(0).node));
  const rows = await own.run(worker.embedding("rows", { dim: 64, optimizer: "sum", consistency: "asp" }));
  const keys = Array.from({ length: 1000 }, (_, key) => key);
  for (let step = 0; step < 12; step++) {
    const shifted = keys.map((key) => key + step * 1000);
    await own.run(rows.push(shifted, new Float32Array(64_000).fill(1)));
  }
  assert.deepEqual([...(await own.run(rows.pull([0, 11_999])))], Array(128).fill(1));
  assert.equal(own.scheduler.roster.nodes.find(({ node }) => node === STANDBY)?.state, "left");
  assert.equal((own.office(HEAD).server as Server).replica?.log.isOn, false);
  await own.run(Promise.all(own.nodes().map((node) => own.running(node)?.close())));
});

test("a standby that differs from its head leaves, and training goes on without it (Replica.I2)", async () => {
  const shared = await cluster.run(session.tensor("shared", { shape: [4], optimizer: "sum", consistency: "asp" }));
  await cluster.run(shared.push(new Float32Array(4).fill(1)));
  // Of whom its head knows nothing.
  serverOf(STANDBY).parameters.pacer.join({ worker: idOf("worker", 7), incarnation: 1 });
  for (let i = 0; i < 12; i++) await cluster.run(shared.push(new Float32Array(4).fill(1)));
  assert.deepEqual(await cluster.run(shared.pull()), new Float32Array(4).fill(13));
  assert.equal(serverOf(HEAD).replica?.log.isOn, false);
});

test("at the end of a job nobody warns that its standby, or its head, is gone, whichever leaves first, for 10 seeds", async () => {
  for (let seed = 1; seed <= 10; seed++) {
    const warnings: string[] = [];
    const warn = (message: string): void => void warnings.push(message);
    const log: Log = { ...SILENT_LOG, warn, error: warn };
    const network = { latencyMsMin: 0, latencyMsMax: 20 };
    const cluster = new SimCluster({ seed, serverCount: 2, workerCount: 1, replicas: 2, network, log, settle: SETTLING });
    await cluster.start();
    await cluster.finalize();
    assert.deepEqual(warnings, [], `seed ${seed}`);
  }
});

test("a head that holds its answers back, because neither its standby nor the scheduler is there, says so once a minute, and warns of no silent worker", async () => {
  const warnings: string[] = [];
  const put = (message: string): void => void warnings.push(message);
  const log: Log = { ...SILENT_LOG, info: put, warn: put, error: put };
  const cluster = new SimCluster({
    ...{ seed: 3, serverCount: 1, workerCount: 2, replicas: 2, settle: SETTLING },
    ...{ heartbeatIntervalMs: 100, heartbeatTimeoutMs: 1000, startTimeoutMs: 300_000 },
    optionsOf: (node) => (node === HEAD ? { log } : {}),
  });
  await cluster.start();
  const sessions = await cluster.run(Promise.all([0, 1].map(async (rank) => await Session.open(cluster.worker(rank).node))));
  let isOver = false;
  for (const session of sessions) {
    const tensor = await cluster.run(session.tensor("w", { shape: [4], optimizer: "sum", consistency: "asp" }));
    const push = (): void => {
      if (!isOver) tensor.push(new Float32Array(4), { timeoutMs: 5000 }).then(push, push);
    };
    push();
  }
  warnings.length = 0;
  cluster.kill(SCHEDULER_ID);
  cluster.kill(STANDBY);
  await cluster.clock.advance(150_000);
  isOver = true;
  const counts = Map.groupBy(warnings, (message) => message.replace(/sim:\S+/, "…"));
  const reason = "the standby does not take the log, and answers wait for it";
  assert.equal(counts.get(reason)?.length, 3, warnings.join("\n"));
  counts.delete(reason);
  assert.ok(
    [...counts.values()].every(({ length }) => length <= 2),
    warnings.join("\n"),
  );
});
