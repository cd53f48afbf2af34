// Goal: a node knows who it is, who is there and who is dead, meets the others at barriers, and starts and leaves with
// them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { MemoryCluster } from "../../testing/memory-cluster.ts";
import { SimCluster } from "../../testing/sim-cluster.ts";
import { startOffice } from "../../testing/start-office.ts";
import { Group, idOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";
import type { Postoffice } from "./postoffice.ts";

const hasCode =
  (code: ErrorCode, message = /./) =>
  (error: unknown): boolean =>
    isWeighbridgeError(error, code) && message.test(error.message);

function officesOf(cluster: MemoryCluster): Postoffice[] {
  const servers = Array.from({ length: cluster.serverCount }, (_, rank) => cluster.server(rank));
  const workers = Array.from({ length: cluster.workerCount }, (_, rank) => cluster.worker(rank));
  return [cluster.scheduler, ...servers, ...workers];
}

test("every node knows its role, rank and id, and the counts", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, workerCount: 2 });
  assert.deepEqual(
    officesOf(cluster).map(({ role, myRank, nodeId, isScheduler, isServer, isWorker, numServers, numWorkers, isRecovery }) =>
      [role, myRank, nodeId, isScheduler, isServer, isWorker, numServers, numWorkers, isRecovery].join(" "),
    ),
    [
      "scheduler 0 1 true false false 2 2 false",
      "server 0 8 false true false 2 2 false",
      "server 1 10 false true false 2 2 false",
      "worker 0 9 false false true 2 2 false",
      "worker 1 11 false false true 2 2 false",
    ],
  );
  await cluster.finalize();
});

test("a Postoffice is an object: whole clusters live side by side in one process", async () => {
  const [a, b] = [await MemoryCluster.start(), await MemoryCluster.start({ workerCount: 2 })];
  for (const cluster of [a, b]) new KVServer(cluster.server(), 0);
  const [one, two] = [new KVWorker(a.worker(), 0), new KVWorker(b.worker(1), 0)];
  await a.run(one.wait(one.push(BigUint64Array.of(1n), Float32Array.of(5))));
  const out = new Float32Array(1);
  await b.run(two.wait(two.pull(BigUint64Array.of(1n), out)));
  assert.equal(out[0], 0, "the other cluster's values are elsewhere");
  await a.finalize();
  await b.finalize();
});

test("groups name their members: workers, servers, the scheduler; a node is its own group", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, workerCount: 3 });
  for (const office of officesOf(cluster)) {
    assert.deepEqual(office.nodeIds(Group.SCHEDULER), [1]);
    assert.deepEqual(office.nodeIds(Group.SERVERS), [8, 10]);
    assert.deepEqual(office.nodeIds(Group.WORKERS), [9, 11, 13]);
    assert.deepEqual(office.nodeIds(Group.SERVERS | Group.SCHEDULER), [8, 10, 1]);
    assert.deepEqual(office.nodeIds(Group.ALL), [9, 11, 13, 8, 10, 1]);
    assert.deepEqual(office.nodeIds(11), [11]);
    assert.deepEqual(office.nodeIds(0), []);
  }
});

test("ranks and ids are ps-lite's", async () => {
  const worker = (await MemoryCluster.start()).worker();
  assert.deepEqual(
    [0, 1, 5].map((rank) => worker.serverRankToId(rank)),
    [8, 10, 18],
  );
  assert.deepEqual(
    [0, 1, 5].map((rank) => worker.workerRankToId(rank)),
    [9, 11, 19],
  );
  assert.deepEqual(
    [1, 8, 9, 18, 19].map((node) => worker.idToRank(node)),
    [0, 0, 0, 5, 5],
  );
});

test("server key ranges cover every key, in order of rank", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 3 });
  for (const office of officesOf(cluster)) {
    const ranges = office.serverKeyRanges();
    assert.equal(ranges.length, 3);
    assert.deepEqual([ranges[0]?.begin, ranges[2]?.end], [0n, 2n ** 64n]);
    assert.equal(ranges[1]?.begin, (2n ** 64n - 1n) / 3n);
  }
});

test("server key ranges are those of the servers that the placement names, also once it names others", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 3 });
  const [scheduler] = officesOf(cluster).flatMap((office) => office.scheduler ?? []);
  await cluster.run(scheduler?.publishPlacement({ servers: [0, 2] }, () => {}) ?? Promise.resolve());
  await cluster.clock.advance(1000);
  for (const office of officesOf(cluster)) {
    const ranges = office.serverKeyRanges();
    assert.deepEqual([ranges.length, ranges[1]?.end], [2, 2n ** 64n]);
  }
});

test("a barrier lets nobody through before the last of its group, again and again", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, workerCount: 3 });
  for (let round = 0; round < 3; round++) {
    let passed = 0;
    const enter = (rank: number): Promise<number> =>
      cluster
        .worker(rank)
        .barrier(0, Group.WORKERS)
        .then(() => passed++);
    const waits = [enter(0), enter(2)];
    await cluster.clock.advance(100);
    assert.equal(passed, 0);
    await cluster.run(Promise.all([...waits, enter(1)]));
    assert.equal(passed, 3);
  }
});

test("barriers of different groups and customers do not meet", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, workerCount: 2 });
  const enter = (customer: number, group: number): Promise<void>[] =>
    [cluster.worker(0), cluster.worker(1)].map((office) => office.barrier(customer, group));
  const apart = [0, 1].map((rank) => cluster.worker(rank).barrier(rank + 1, Group.WORKERS, { timeoutMs: 50 }));
  for (const outcome of await cluster.run(Promise.allSettled(apart)))
    assert.ok(outcome.status === "rejected" && hasCode("DEADLINE", /barrier/)(outcome.reason));
  await cluster.run(Promise.all(enter(3, Group.WORKERS)));
  const withServers = enter(0, Group.WORKERS | Group.SERVERS);
  const servers = [cluster.server(0), cluster.server(1)].map((office) => office.barrier(0, Group.WORKERS | Group.SERVERS));
  await cluster.run(Promise.all([...withServers, ...servers]));
});

test("a barrier of a group that does not exist, or that this node is no member of, is refused; a wait can be aborted", async () => {
  const cluster = await MemoryCluster.start();
  for (const group of [0, 8, -1, 1.5, Number.NaN])
    await assert.rejects(cluster.worker().barrier(0, group), hasCode("BAD_ARGUMENT", /no group/), `${group}`);
  await assert.rejects(cluster.worker().barrier(0, Group.SERVERS), hasCode("BAD_ARGUMENT", /no member/));
  const controller = new AbortController();
  const wait = cluster.server().barrier(9, Group.ALL, { signal: controller.signal });
  controller.abort();
  await assert.rejects(wait, hasCode("ABORTED"));
});

test("without the start barrier a node returns when the cluster is complete, though others still wait at theirs", async () => {
  const cluster = new MemoryCluster();
  const scheduler = cluster.startNode("scheduler", 0);
  const server = cluster.startNode("server", 0);
  const worker = await cluster.run(cluster.startNode("worker", 0, { startBarrier: false }));
  assert.equal(worker.nodeId, 9);
  let isStarted = false;
  const mark = (): void => {
    isStarted = true;
  };
  server.then(mark, mark);
  await cluster.clock.advance(1000);
  assert.equal(isStarted, false);
  await cluster.run(Promise.all([worker.barrier(0, Group.ALL), scheduler, server]));
});

test("counts that are no numbers are refused before anything starts", async () => {
  for (const count of [Number.NaN, -1, 1.5, Infinity]) {
    const cluster = new MemoryCluster();
    for (const options of [{ serverCount: count }, { workerCount: count }])
      await assert.rejects(cluster.startNode("worker", 0, options), hasCode("BAD_ARGUMENT", /Count must be/), `${count}`);
  }
});

test("a cluster without servers has barriers and SimpleApps, but no KVWorker", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 0, workerCount: 2 });
  await cluster.run(Promise.all([0, 1].map((rank) => cluster.worker(rank).barrier(0, Group.WORKERS))));
  assert.throws(() => new KVWorker(cluster.worker(0), 0), hasCode("BAD_ARGUMENT", /none/));
  await cluster.finalize();
});

test("a start that fails leaves nothing running on any node", async () => {
  const cluster = new MemoryCluster({ startTimeoutMs: 1000 });
  const starts = [cluster.startNode("scheduler", 0), cluster.startNode("server", 0)];
  const outcomes = await cluster.run(Promise.allSettled(starts));
  for (const outcome of outcomes) {
    assert.ok(outcome.status === "rejected");
    assert.ok(hasCode("DEADLINE", /0 of 1 worker/)(outcome.reason), String(outcome.reason));
  }
  await cluster.clock.run({ maxEvents: 10_000 });
  assert.equal(cluster.clock.pendingCount, 0, "no timer is left");
});

test("a node whose start barrier fails, because another died in it, stops its heartbeats", async () => {
  const cluster = new SimCluster({ seed: 3, serverCount: 1, workerCount: 1 });
  const scheduler = cluster.startNode(SCHEDULER_ID);
  const server = cluster.startNode(idOf("server", 0));
  const dying = await cluster.run(
    startOffice({
      role: "worker",
      serverCount: 1,
      workerCount: 1,
      schedulerAddress: "sim://scheduler:1",
      transport: cluster.network.host("dying"),
      clock: cluster.clock,
      startBarrier: false,
    }),
  );
  cluster.network.crash("dying");
  dying.close().catch(() => {});
  const outcomes = await cluster.run(Promise.allSettled([scheduler, server]));
  for (const outcome of outcomes) assert.ok(outcome.status === "rejected" && hasCode("NODE_DEAD", /worker 0/)(outcome.reason));
  await cluster.clock.run({ maxEvents: 100_000 });
  assert.equal(cluster.clock.pendingCount, 0, "no timer is left");
});

test("finalize lets nobody leave before all are done, and then nothing is left running", async () => {
  const cluster = await MemoryCluster.start({ workerCount: 2 });
  new KVServer(cluster.server(), 0);
  const kv = new KVWorker(cluster.worker(1), 0);
  const early = [cluster.scheduler, cluster.server(), cluster.worker(0)].map((office) => office.finalize());
  let left = 0;
  const count = (): number => left++;
  for (const leaving of early) leaving.then(count, count);
  await cluster.clock.advance(5000);
  assert.equal(left, 0);
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1))));
  await cluster.run(Promise.all([...early, cluster.worker(1).finalize()]));
  assert.equal(left, 3);
  await cluster.clock.run({ maxEvents: 10_000 });
  assert.equal(cluster.clock.pendingCount, 0, "no timer is left");
});

test("a wait for the others at the end has a deadline as any other, and the node is closed when it passes", async () => {
  const cluster = await MemoryCluster.start();
  const missing = /missing: the scheduler, server 0$/;
  await assert.rejects(cluster.run(cluster.worker().finalize({ timeoutMs: 700 })), hasCode("DEADLINE", missing));
  await assert.rejects(cluster.run(cluster.worker().barrier(0, Group.WORKERS)), (error) => isWeighbridgeError(error));
});

test("a deadline of the last barrier names the nodes that have not come to it, on every role", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, workerCount: 2 });
  const early = [cluster.scheduler, cluster.server(1), cluster.worker(0)].map((office) => office.finalize({ timeoutMs: 700 }));
  for (const outcome of await cluster.run(Promise.allSettled(early))) {
    assert.ok(outcome.status === "rejected");
    assert.ok(hasCode("DEADLINE", /missing: server 0, worker 1$/)(outcome.reason), String(outcome.reason));
  }
});

test("exit callbacks are called once, in order, after the barrier, whatever one of them throws", async () => {
  const cluster = await MemoryCluster.start();
  const events: string[] = [];
  const office = cluster.worker();
  office.registerExitCallback(() => events.push("first"));
  office.registerExitCallback(() => {
    throw new Error("my own fault");
  });
  office.registerExitCallback(() => events.push("third"));
  const leaving = office.finalize();
  await cluster.clock.advance(1000);
  assert.deepEqual(events, []);
  await cluster.run(Promise.all([leaving, office.finalize(), cluster.server().finalize(), cluster.scheduler.finalize()]));
  await cluster.run(office.close());
  assert.deepEqual(events, ["first", "third"]);
  assert.ok(cluster.logLines.includes("error an exit callback failed"));
});

test("close leaves without waiting for anybody, also out of a finalize that waits; the others go on", async () => {
  const cluster = await MemoryCluster.start({ workerCount: 2 });
  new KVServer(cluster.server(), 0);
  const waiting = cluster.worker(0).finalize();
  await cluster.clock.advance(10);
  const closed = cluster.worker(0).close();
  await assert.rejects(cluster.run(waiting), hasCode("ABORTED"));
  await cluster.run(closed);
  await cluster.clock.advance(1); // the others hear of it no earlier than the one who left hears that it may go
  assert.deepEqual(cluster.worker(1).nodeIds(Group.WORKERS), [11]);
  assert.deepEqual(cluster.worker(1).deadNodes(), []);
  const kv = new KVWorker(cluster.worker(1), 0);
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1))));
  await cluster.run(Promise.all([cluster.worker(1), cluster.server(), cluster.scheduler].map((office) => office.finalize())));
});

test("a node can be left to a scope", async () => {
  const cluster = new MemoryCluster();
  const others = [cluster.startNode("scheduler", 0), cluster.startNode("server", 0)];
  let office: Postoffice | undefined;
  const scope = async (): Promise<void> => {
    await using worker = await cluster.startNode("worker", 0);
    office = worker;
    await worker.barrier(0, Group.WORKERS);
  };
  await cluster.run(Promise.all([scope(), ...others]));
  assert.deepEqual(cluster.scheduler.nodeIds(Group.WORKERS), []);
  await assert.rejects(cluster.run(office?.barrier(0, Group.WORKERS) ?? assert.fail()), (error) => isWeighbridgeError(error));
});

test("dead nodes are known everywhere within the time; who takes a dead one's place knows that it recovered", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 2, workerCount: 2, heartbeatIntervalMs: 200, heartbeatTimeoutMs: 2000 });
  await cluster.start();
  const serverId = idOf("server", 1);
  cluster.kill(serverId);
  await cluster.clock.advance(2500);
  for (const node of [SCHEDULER_ID, 8, 9, 11]) {
    assert.deepEqual(cluster.office(node).deadNodes(), [serverId]);
    assert.deepEqual(cluster.office(node).nodeIds(Group.SERVERS), [8, 10], "a dead node may come back");
  }
  const back = await cluster.run(cluster.startNode(serverId));
  assert.deepEqual([back.nodeId, back.myRank, back.isRecovery], [serverId, 1, true]);
  await cluster.clock.advance(100);
  for (const node of [SCHEDULER_ID, 8, 9, 11]) assert.deepEqual(cluster.office(node).deadNodes(), []);
  assert.equal(cluster.worker(0).isRecovery, false);
  await cluster.finalize();
});

test("a barrier whose member dies fails with its name; with its successor it is passed", async () => {
  const cluster = new SimCluster({ seed: 6, serverCount: 1, workerCount: 2 });
  await cluster.start();
  const wait = cluster.worker(0).barrier(0, Group.WORKERS);
  await cluster.clock.advance(100);
  cluster.kill(idOf("worker", 1));
  await assert.rejects(cluster.run(wait), hasCode("NODE_DEAD", /worker 1/));
  const back = await cluster.run(cluster.startNode(idOf("worker", 1)));
  await cluster.run(Promise.all([cluster.worker(0).barrier(0, Group.WORKERS), back.barrier(0, Group.WORKERS)]));
});

test("who waits to leave waits for the successor of a node that dies, whichever time it dies", async () => {
  const cluster = new SimCluster({ seed: 11, serverCount: 1, workerCount: 2 });
  await cluster.start();
  const leaving = [SCHEDULER_ID, 8, 9].map((node) => cluster.office(node).finalize());
  for (let holder = 2; holder <= 4; holder++) {
    await cluster.clock.advance(500);
    cluster.kill(idOf("worker", 1));
    await cluster.clock.advance(5000);
    const back = await cluster.run(cluster.startNode(idOf("worker", 1)));
    assert.equal(back.isRecovery, true);
  }
  await cluster.run(Promise.all([...leaving, cluster.worker(1).finalize()]));
});

test("who waits to leave fails by the name of a dead node that nobody starts again", async () => {
  const cluster = new SimCluster({ seed: 12, serverCount: 1, workerCount: 2, startTimeoutMs: 10_000 });
  await cluster.start();
  const leaving = [SCHEDULER_ID, 8, 9].map((node) => cluster.office(node).finalize());
  const outcomes = Promise.all(
    leaving.map((left) =>
      left.then(
        () => undefined,
        (error: unknown) => error,
      ),
    ),
  );
  cluster.kill(idOf("worker", 1));
  for (const error of await cluster.run(outcomes)) assert.ok(hasCode("NODE_DEAD", /worker 1/)(error), String(error));
  assert.ok(cluster.clock.nowMs() < 20_000);
});

test("who waits to leave asks once: the entry outlives the death of another node and its return", async () => {
  const cluster = new SimCluster({ seed: 14, serverCount: 1, workerCount: 2, heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 3000 });
  await cluster.start();
  const leaving = [SCHEDULER_ID, 8, 9].map((node) => cluster.office(node).finalize());
  await cluster.clock.advance(100);
  cluster.kill(idOf("worker", 1));
  await cluster.clock.advance(5000);
  assert.deepEqual(cluster.scheduler.deadNodes(), [11]);
  const { metrics } = cluster.office(9);
  const before = metrics.framesSent;
  await cluster.clock.advance(10_000);
  assert.ok(metrics.framesSent - before <= 12, `${metrics.framesSent - before} frames in 10 s are more than the heartbeats`);
  const back = await cluster.run(cluster.startNode(idOf("worker", 1)));
  await cluster.run(Promise.all([...leaving, back.finalize()]));
});

test("a dead worker that nobody starts again does not end the job of those who still work", async () => {
  const cluster = new SimCluster({ seed: 13, serverCount: 1, workerCount: 2, startTimeoutMs: 10_000 });
  await cluster.start();
  new KVServer(cluster.server(0), 0);
  const waiting = [SCHEDULER_ID, 8].map((node) => cluster.office(node).finalize());
  const outcomes = Promise.allSettled(waiting);
  cluster.kill(idOf("worker", 1));
  await cluster.clock.advance(60_000);
  const kv = new KVWorker(cluster.worker(0), 0);
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1))));
  await assert.rejects(cluster.run(cluster.worker(0).finalize()), hasCode("NODE_DEAD", /everybody else is done, and worker 1 died/));
  for (const outcome of await cluster.run(outcomes)) assert.equal(outcome.status, "rejected");
});

test("all leave well without a dead node once the scheduler is told that it will not come back, and are asked only when they are done", async () => {
  const dismissals: (readonly string[])[] = [];
  const onOnlyDead = (names: readonly string[], dismiss: () => void): void => {
    dismissals.push(names);
    dismiss();
  };
  const optionsOf = (node: number) => (node === SCHEDULER_ID ? { onOnlyDead } : {});
  const cluster = new SimCluster({ seed: 14, serverCount: 1, workerCount: 2, startTimeoutMs: 60_000, optionsOf });
  await cluster.start();
  const waiting = [SCHEDULER_ID, 8].map((node) => cluster.office(node).finalize());
  cluster.kill(idOf("worker", 1));
  await cluster.clock.advance(20_000);
  assert.deepEqual(dismissals, [], "worker 0 is at work");
  await cluster.run(Promise.all([...waiting, cluster.worker(0).finalize()]));
  assert.deepEqual(dismissals, [["worker 1"]]);
  assert.ok(cluster.clock.nowMs() < 30_000);
});

test("servers and the scheduler that leave with the living stay for the workers that are alive", async () => {
  const cluster = new SimCluster({ seed: 14, serverCount: 1, workerCount: 3 });
  await cluster.start();
  new KVServer(cluster.server(0), 0);
  let leftCount = 0;
  for (const node of [SCHEDULER_ID, 8]) {
    const left = (): void => void leftCount++;
    cluster.office(node).finalize({ barrier: "living" }).then(left, left);
  }
  cluster.kill(idOf("worker", 1));
  await cluster.clock.advance(20_000);
  assert.equal(leftCount, 0, "workers 0 and 2 are at work");
  const kv = new KVWorker(cluster.worker(0), 0);
  await cluster.run(kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1))));
  await cluster.run(Promise.all([0, 2].map((rank) => cluster.worker(rank).finalize({ barrier: "living" }))));
});

test("a barrier of all nodes that was passed a moment ago, as that of the start, does not make them done", async () => {
  const dismissals: (readonly string[])[] = [];
  const onOnlyDead = (names: readonly string[]): void => void dismissals.push(names);
  const optionsOf = (node: number) => (node === SCHEDULER_ID ? { onOnlyDead } : {});
  const cluster = new SimCluster({ seed: 14, serverCount: 1, workerCount: 2, heartbeatTimeoutMs: 500, optionsOf });
  await cluster.start();
  for (const node of [SCHEDULER_ID, 8])
    cluster
      .office(node)
      .finalize()
      .catch(() => {});
  cluster.kill(idOf("worker", 1));
  await cluster.clock.advance(5000);
  assert.deepEqual(dismissals, [], "worker 0 is at work");
});

test("a call on a server that dies fails with its name, and reaches the one that takes its place (Router.R2)", async () => {
  const cluster = new SimCluster({ seed: 8, serverCount: 2, workerCount: 1 });
  await cluster.start();
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 0).setRequestHandle(() => {});
  const kv = new KVWorker(cluster.worker(0), 0);
  const key = BigUint64Array.of(2n ** 64n - 1n);
  const push = kv.push(key, Float32Array.of(1));
  await cluster.clock.advance(50);
  cluster.kill(idOf("server", 1));
  await assert.rejects(cluster.run(kv.wait(push)), hasCode("NODE_DEAD", /server 1/));
  await assert.rejects(cluster.run(kv.wait(kv.push(key, Float32Array.of(1)))), hasCode("NODE_DEAD", /server 1 is dead/));
  await cluster.run(kv.room());
  new KVServer(await cluster.run(cluster.startNode(idOf("server", 1))), 0);
  await cluster.clock.advance(100);
  await assert.rejects(cluster.run(kv.wait(kv.push(key, Float32Array.of(1)))), hasCode("NODE_DEAD", /server 1 was started again/));
  await cluster.run(kv.wait(kv.push(key, Float32Array.of(1))));
});

test("a node that was replaced fails every call with that reason from then on (ClusterNode.N2)", async () => {
  const cluster = new SimCluster({ seed: 9, serverCount: 1, workerCount: 2 });
  await cluster.start();
  new KVServer(cluster.server(0), 0);
  const office = cluster.worker(0);
  const kv = new KVWorker(office, 0);
  const pushed = (): Promise<void> => cluster.run(kv.wait(kv.push(BigUint64Array.of(1n), Float32Array.of(1))));
  await pushed();
  cluster.network.isolate("worker-0");
  await cluster.clock.advance(5000);
  const successor = await cluster.run(
    startOffice({
      role: "worker",
      rank: 0,
      serverCount: 1,
      workerCount: 2,
      schedulerAddress: "sim://scheduler:1",
      transport: cluster.network.host("elsewhere"),
      clock: cluster.clock,
      label: "the successor",
    }),
  );
  assert.equal(successor.isRecovery, true);
  cluster.network.heal("worker-0");
  await cluster.clock.advance(10_000);
  assert.equal(office.failure?.code, "FENCED");
  await assert.rejects(pushed(), hasCode("FENCED"));
  await assert.rejects(office.barrier(0, Group.WORKERS), hasCode("FENCED"));
  await cluster.run(office.close());
});

test("a start that ends at its own deadline names the nodes that are missing, on the scheduler as well", async () => {
  const cluster = new MemoryCluster({ serverCount: 2, workerCount: 2 });
  const deadline = { timeoutMs: 3000 };
  const starts = [
    cluster.startNode("scheduler", 0, deadline),
    cluster.startNode("server", 1, { timeoutMs: 30_000 }),
    cluster.startNode("worker", 0, deadline),
  ];
  const missing = /^waited 3000 ms for the start of the cluster of memory:\/\/scheduler; missing: server 0, worker 1$/;
  for (const start of starts) start.catch(() => {});
  await assert.rejects(cluster.run(starts[2] as Promise<Postoffice>), hasCode("DEADLINE", missing));
  await assert.rejects(cluster.run(starts[0] as Promise<Postoffice>), hasCode("DEADLINE", missing));
  assert.ok(cluster.clock.nowMs() < 4000);
  await assert.rejects(cluster.run(starts[1] as Promise<Postoffice>), hasCode("DEADLINE"));
});

test("a start that ends at its own deadline without a scheduler says why none could be reached", async () => {
  const cluster = new MemoryCluster({ serverCount: 1, workerCount: 1 });
  const start = cluster.startNode("worker", 0, { timeoutMs: 3000 });
  start.catch(() => {});
  const unreached =
    /^waited 3000 ms for the start of the cluster of memory:\/\/scheduler; missing: the scheduler \(.*memory:\/\/scheduler.*\)$/;
  await assert.rejects(cluster.run(start), hasCode("DEADLINE", unreached));
});

/** A checkpoint that can be opened once, to be looked at; what is in it turns out to be torn. */
function tornCheckpoint(): () => Promise<SnapshotSource> {
  let isOpened = false;
  return async () => {
    if (isOpened) throw new WeighbridgeError("CHECKPOINT_TORN", "shard 0 is too short");
    isOpened = true;
    return { close: async () => {} } as SnapshotSource; // nothing else is asked of it
  };
}

test("a server that cannot begin with what it was to restore tells the others why at once", async () => {
  const cluster = new MemoryCluster({ serverCount: 2, workerCount: 1 });
  const starts = [
    cluster.startNode("scheduler", 0),
    cluster.startNode("server", 0),
    cluster.startNode("worker", 0),
    cluster.startNode("server", 1, { restoreFrom: tornCheckpoint() }),
  ];
  for (const start of starts) start.catch(() => {});
  await assert.rejects(cluster.run(starts[3] as Promise<Postoffice>), hasCode("CHECKPOINT_TORN", /^shard 0 is too short$/));
  const reason = /server 1 \("server 1"\) cannot take part: shard 0 is too short$/;
  for (const start of starts.slice(0, 3)) await assert.rejects(cluster.run(start), hasCode("CHECKPOINT_TORN", reason));
  assert.ok(cluster.clock.nowMs() < 5000);
});

test("a server that takes another's place and cannot begin ends alone: the job goes on without it", async () => {
  const cluster = new SimCluster({
    seed: 1,
    serverCount: 2,
    workerCount: 1,
    optionsOf: () => (isLate ? { restoreFrom: tornCheckpoint() } : {}),
  });
  let isLate = false;
  await cluster.start();
  isLate = true;
  const server = idOf("server", 1);
  cluster.kill(server);
  await assert.rejects(cluster.run(cluster.startNode(server)), hasCode("CHECKPOINT_TORN"));
  await cluster.clock.advance(3000);
  assert.equal(cluster.worker(0).failure, undefined);
  assert.deepEqual([cluster.scheduler.failure, cluster.server(0).failure], [undefined, undefined]);
  isLate = false;
  await cluster.run(cluster.startNode(server));
  await cluster.finalize();
});
