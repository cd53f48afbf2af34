// scheduler.test — Goal: in small clusters of a Scheduler and Memberships on a simulated network deaths are known in
// time, slots are taken over any number of times, barriers count members, and the end of a job reaches everybody.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Membership } from "../cluster/membership.ts";
import { STATUS } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import { ControlCluster, HEARTBEAT_TIMEOUT_MS, SCHEDULER_ADDRESS, stateOf } from "../testing/control-cluster.ts";
import { Group } from "../wire/node-id.ts";
import { deadNodes } from "../wire/roster.ts";

test("a silent node is dead for everybody within the timeout, and nobody else is", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  await cluster.clock.advance(10_000);
  cluster.network.crash("s1", { silent: true });
  await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS - 1100);
  assert.equal(stateOf(workers[0] as Membership, 10), "alive 1");
  await cluster.clock.advance(1200);
  for (const membership of [servers[0], ...workers] as Membership[]) assert.deepEqual(deadNodes(membership.roster), [10]);
  assert.deepEqual(scheduler.deadNodes(), [10]);
});

test("a scheduler that was held up takes nobody for dead who connects again, and finds out who is (Scheduler.D2)", async () => {
  const HELD_UP_MS = 20_000;
  const cluster = new ControlCluster();
  const { clock, network } = cluster;
  let heldUpUntilMs = 0;
  const late: Clock = {
    nowMs: () => clock.nowMs(),
    after: (delayMs, fire) => clock.after(delayMs, () => void clock.after(heldUpUntilMs - clock.nowMs(), fire)),
    soon: (run) => clock.soon(run),
    afterInput: (run) => clock.afterInput(run),
  };
  const { scheduler, workers } = await cluster.formed({ clock: late });
  const dead: number[] = [];
  scheduler.onRoster((roster) => dead.push(...deadNodes(roster)));
  await clock.advance(10_000);
  heldUpUntilMs = clock.nowMs() + HELD_UP_MS;
  network.isolate("scheduler");
  await clock.advance(HELD_UP_MS / 2);
  network.crash("s1", { silent: true });
  await clock.advance(HELD_UP_MS / 2);
  network.heal("scheduler");
  await clock.advance(HEARTBEAT_TIMEOUT_MS - 100);
  assert.deepEqual(dead, []);
  await clock.advance(200);
  assert.deepEqual(dead, [10]);
  assert.deepEqual(deadNodes(workers[0]!.roster), [10]);
});

test("a scheduler whose nodes are all killed at once ends the job, though it hears of no node that they are gone (SilenceVerdicts.S6)", async () => {
  const START_TIMEOUT_MS = 20_000;
  const cluster = new ControlCluster();
  const { clock, network } = cluster;
  const { scheduler } = await cluster.formed({ startTimeoutMs: START_TIMEOUT_MS });
  scheduler.barrier(Group.ALL, 0, {}, true).catch(() => {}); // it is done itself, as its command is
  scheduler.finished.catch(() => {});
  await clock.advance(10_000);
  const killedAtMs = clock.nowMs();
  for (const host of ["s0", "s1", "w0", "w1"]) network.crash(host);
  await clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
  assert.equal(scheduler.status().silence?.of, "all");
  const error = await clock.runUntil(scheduler.failed, { untilMs: clock.nowMs() + 60_000 });
  assert.equal(error.code, "NODE_DEAD");
  assert.ok(clock.nowMs() - killedAtMs <= 3 * HEARTBEAT_TIMEOUT_MS + START_TIMEOUT_MS + 2100, `${clock.nowMs() - killedAtMs} ms`);
});

test("without heartbeats a closed link tells of a death, after a grace", async () => {
  const cluster = new ControlCluster();
  const { workers } = await cluster.formed({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  await cluster.clock.advance(60_000);
  cluster.network.crash("s1");
  await cluster.clock.advance(4900);
  assert.deepEqual(deadNodes(workers[0]!.roster), []);
  await cluster.clock.advance(200);
  assert.deepEqual(deadNodes(workers[0]!.roster), [10]);
});

test("a node that was stopped and goes on is alive again, in the same incarnation", async () => {
  const cluster = new ControlCluster();
  const { servers, workers } = await cluster.formed();
  cluster.network.isolate("s1");
  await cluster.clock.advance(10_000);
  assert.equal(stateOf(workers[0] as Membership, 10), "dead 1");
  cluster.network.heal("s1");
  await cluster.clock.advance(3000);
  for (const membership of [...servers, ...workers]) assert.equal(stateOf(membership, 10), "alive 1");
  assert.equal(servers[1]?.fatal, undefined);
});

test("a node that was stopped and replaced is told so when it goes on", async () => {
  const cluster = new ControlCluster();
  const { servers } = await cluster.formed();
  cluster.network.isolate("s1");
  await cluster.clock.advance(10_000);
  const replacement = await cluster.restarted("server", "s1b");
  assert.deepEqual([replacement.node, replacement.incarnation, replacement.recovery], [10, 2, true]);
  const fatal: WeighbridgeError[] = [];
  servers[1]?.onFatal((error) => fatal.push(error));
  cluster.network.heal("s1");
  await cluster.clock.advance(5000);
  assert.deepEqual(
    fatal.map(({ code }) => code),
    ["FENCED"],
  );
  assert.equal(stateOf(servers[0] as Membership, 10), "alive 2");
});

test("a restarted node takes its rank back, the fourth time as well as the first", async () => {
  const cluster = new ControlCluster();
  const { workers } = await cluster.formed();
  for (let holder = 2; holder <= 5; holder++) {
    cluster.network.crash("s1");
    await cluster.clock.advance(200);
    const again = await cluster.restarted("server", "s1", holder % 2 === 0 ? { rank: 1 } : {});
    assert.deepEqual([again.node, again.incarnation, again.recovery], [10, holder, true]);
    await cluster.clock.advance(100);
    for (const worker of workers) assert.equal(stateOf(worker, 10), `alive ${holder}`);
  }
});

test("a node whose link to the scheduler went silent dials again", async () => {
  const cluster = new ControlCluster();
  const { scheduler, workers } = await cluster.formed();
  cluster.network.crash("scheduler", { silent: true });
  await cluster.clock.advance(1500); // A heartbeat is on its way to nobody, on a link that nobody closes.
  const restarted = await cluster.scheduler();
  await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS + 2000);
  assert.equal(restarted.job, scheduler.job);
  assert.deepEqual([restarted.deadNodes(), workers[0]?.fatal], [[], undefined]);
});

test("a newcomer without a rank waits a moment for a node whose link broke to come back", async () => {
  const cluster = new ControlCluster();
  const { servers } = await cluster.formed();
  const spare = cluster.node("server", "spare", { startTimeoutMs: 8000 });
  await cluster.clock.advance(100);
  cluster.network.breakLinks("s1");
  await cluster.clock.advance(5000);
  assert.equal(stateOf(servers[0] as Membership, 10), "alive 1");
  cluster.network.crash("s1");
  await cluster.clock.runUntil(spare.joined, { untilMs: cluster.clock.nowMs() + 1100 });
  assert.equal(spare.membership.node, 10);
});

test("a newcomer that asks for a living node's rank is refused, and the job goes on", async () => {
  const cluster = new ControlCluster();
  const { workers, servers } = await cluster.formed();
  const second = cluster.node("worker", "w-second", { rank: 0 });
  await cluster.fails(second.joined, "RANK_TAKEN", /worker 0 \("w-second"\) requests the rank of worker 0 \("w0"\), which is alive/);
  const barriers = [...workers, ...servers].map((membership) => membership.barrier(6, 0));
  await cluster.clock.runUntil(Promise.all(barriers));
});

test("a newcomer that asks for a stopped node's rank gets it once that one is dead", async () => {
  const cluster = new ControlCluster();
  await cluster.formed();
  cluster.network.isolate("s1");
  await cluster.clock.advance(100);
  const second = await cluster.restarted("server", "s1b", { rank: 1 });
  assert.deepEqual([second.node, second.incarnation], [10, 2]);
  assert.ok(cluster.clock.nowMs() <= HEARTBEAT_TIMEOUT_MS + 200);
});

test("a worker that comes to the running job joins it with other counts, and knows then what the job began with", async () => {
  const cluster = new ControlCluster();
  await cluster.formed();
  const third = await cluster.restarted("worker", "w2", { workerCount: 5, serverCount: 1 });
  assert.deepEqual([third.node, third.incarnation, third.counts], [13, 1, { serverCount: 2, workerCount: 2 }]);
  cluster.network.crash("scheduler");
  const scheduler = await cluster.scheduler();
  await cluster.clock.advance(3000);
  assert.deepEqual([third.fatal, scheduler.status().nodes.some(({ node, linked }) => node === 13 && linked)], [undefined, true]);
});

test("a newcomer too many waits for a slot until its deadline, and is told who holds them", async () => {
  const cluster = new ControlCluster();
  await cluster.formed({ startTimeoutMs: 4000, workerCountMax: 2 });
  const spare = cluster.node("worker", "spare");
  const reason = /no rank for worker \("spare"\) after 4000 ms: all worker ranks are held, by worker 0 \("w0"\), worker 1 \("w1"\)/;
  await cluster.fails(spare.joined, "DEADLINE", reason);
});

test("a barrier lets all members go together, with the scheduler among them", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  let passed = 0;
  const entries = [...servers, ...workers].map((membership) => membership.barrier(Group.ALL, 0).then(() => passed++));
  await cluster.clock.advance(3000);
  assert.equal(passed, 0);
  await cluster.clock.runUntil(Promise.all([...entries, scheduler.barrier(Group.ALL, 0)]));
  assert.equal(passed, 4);
});

/** Nodes that are done, and wait for the others to leave. */
async function leaves(membership: Membership): Promise<void> {
  await membership.barrier(Group.ALL, 0, {}, true);
  await membership.leave();
}

test("a cluster that serves lets its workers leave together, and its servers stay until it is told to end", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers, workers } = await cluster.formed({ serves: true });
  assert.ok(
    servers.every(({ serves }) => serves),
    "they learn it from the scheduler",
  );
  let goneServers = 0;
  const serving = servers.map((server) => leaves(server).then(() => goneServers++));
  const [w0, w1] = workers as [Membership, Membership];
  let isGone = false;
  const first = leaves(w0).then(() => (isGone = true));
  await cluster.clock.advance(3000);
  assert.equal(isGone, false, "worker 1 is not done");
  await cluster.clock.runUntil(Promise.all([first, leaves(w1)]));
  await cluster.clock.advance(200_000);
  assert.deepEqual([goneServers, scheduler.status().phase], [0, "running"]);
  assert.equal(await cluster.clock.runUntil(scheduler.tryEndServing()), true);
  await cluster.clock.runUntil(Promise.all([...serving, scheduler.barrier(Group.ALL, 0, {}, true), scheduler.finished]));
});

test("a cluster that serves does not end in order when a server has died unnoticed, and says so within two heartbeat timeouts (Scheduler.D6)", async () => {
  const cluster = new ControlCluster({ workerCount: 0 });
  const { scheduler, servers } = await cluster.formed({ serves: true });
  for (const server of servers) leaves(server).catch(() => {});
  await cluster.clock.advance(3000);
  cluster.network.crash("s0");
  const fromMs = cluster.clock.nowMs();
  assert.equal(await cluster.clock.runUntil(scheduler.tryEndServing()), false);
  assert.ok(cluster.clock.nowMs() - fromMs <= 2 * HEARTBEAT_TIMEOUT_MS);
  assert.equal(scheduler.status().phase, "running");
});

test("a cluster that serves does not end in order when a server is replaced meanwhile by one that has nothing (Scheduler.D6)", async () => {
  const cluster = new ControlCluster({ workerCount: 0 });
  const { scheduler, servers } = await cluster.formed({ serves: true });
  for (const server of servers) leaves(server).catch(() => {});
  await cluster.clock.advance(3000);
  cluster.network.crash("s0");
  const ends = scheduler.tryEndServing();
  leaves(await cluster.restarted("server", "s0", { rank: 0 })).catch(() => {});
  assert.equal(await cluster.clock.runUntil(ends), false);
});

test("a server that comes while the job ends does not hold up the end: it is refused when all others have left (Roster.R4)", async () => {
  const cluster = new ControlCluster({ workerCount: 0 });
  const { scheduler, servers } = await cluster.formed({ serves: true });
  for (const server of servers) server.barrier(Group.ALL, 0, {}, true).catch(() => {});
  assert.equal(await cluster.clock.runUntil(scheduler.tryEndServing()), true);
  cluster.network.crash("s0");
  const { joined } = cluster.node("server", "s0", { rank: 0 });
  await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
  const left = servers[1]?.leave();
  await cluster.clock.runUntil(Promise.all([left, scheduler.finished]));
  await cluster.fails(joined, "NO_ROUTE", /the job is over/);
});

test("in a cluster that serves the last worker waits for one that died as long as a start may take, and no longer", async () => {
  const cluster = new ControlCluster({ serverCount: 1 });
  const { scheduler, workers } = await cluster.formed({ serves: true, startTimeoutMs: 10_000 });
  cluster.network.crash("w1");
  let isGone = false;
  const last = leaves(workers[0] as Membership).then(() => (isGone = true));
  await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS / 2 + 9000);
  assert.equal(isGone, false, "it may be started again");
  await cluster.clock.runUntil(last);
  await cluster.clock.advance(200_000);
  assert.equal(scheduler.status().phase, "running");
});

test("a member that dies inside a barrier fails the others within the detection time; with its successor they pass", async () => {
  const cluster = new ControlCluster({ workerCount: 3 });
  const { workers } = await cluster.formed();
  const [w0, w1, w2] = workers as [Membership, Membership, Membership];
  w1.barrier(Group.WORKERS, 0).catch(() => {});
  await cluster.clock.advance(100);
  cluster.network.crash("w1");
  const startedAtMs = cluster.clock.nowMs();
  await cluster.fails(w0.barrier(Group.WORKERS, 0), "NODE_DEAD", /worker 1 died/);
  assert.ok(cluster.clock.nowMs() - startedAtMs <= HEARTBEAT_TIMEOUT_MS + 10);
  await cluster.fails(w0.barrier(Group.WORKERS, 0), "NODE_DEAD", /worker 1 died/);
  const again = await cluster.restarted("worker", "w1");
  let passed = false;
  const waiting = Promise.all([w0, w2].map((worker) => worker.barrier(Group.WORKERS, 0))).then(() => {
    passed = true;
  });
  await cluster.clock.advance(3000);
  assert.equal(passed, false); // the old incarnation's entry is not counted
  await cluster.clock.runUntil(Promise.all([waiting, again.barrier(Group.WORKERS, 0)]));
});

test("a member that dies inside a barrier and is back before anybody noticed has to enter it again", async () => {
  const cluster = new ControlCluster();
  const { workers } = await cluster.formed();
  workers[0]?.barrier(Group.WORKERS, 0).catch(() => {}); // dies with its process
  await cluster.clock.advance(100);
  cluster.network.crash("w0");
  await cluster.clock.advance(10);
  const again = await cluster.restarted("worker", "w0", { rank: 0 });
  let isPast = false;
  const passing = (workers[1] as Membership).barrier(Group.WORKERS, 0).then(() => {
    isPast = true;
  });
  await cluster.clock.advance(2000);
  assert.equal(isPast, false, "the entry of the incarnation that is over was counted");
  await cluster.clock.runUntil(Promise.all([passing, again.barrier(Group.WORKERS, 0)]), { untilMs: 10_000 });
});

test("a barrier survives broken links, and a caller that gave up comes back to the same barrier", async () => {
  const cluster = new ControlCluster();
  const { workers } = await cluster.formed();
  const [w0, w1] = workers as [Membership, Membership];
  await cluster.fails(w0.barrier(Group.WORKERS, 0, { timeoutMs: 500 }), "DEADLINE", /barrier of group 4/);
  cluster.network.breakLinks("w0");
  await cluster.clock.runUntil(w1.barrier(Group.WORKERS, 0)); // counts the entry that still stands
  await cluster.clock.advance(1000);
  await cluster.clock.runUntil(w0.barrier(Group.WORKERS, 0, { timeoutMs: 1 }));
  const next = [w0, w1].map((worker) => worker.barrier(Group.WORKERS, 0));
  await cluster.clock.runUntil(Promise.all(next));
});

test("nodes that left are not missing, and the scheduler knows when all have", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  const [w0, w1] = workers as [Membership, Membership];
  await cluster.clock.runUntil(w1.leave());
  await cluster.clock.runUntil(w0.barrier(Group.WORKERS, 0));
  await cluster.clock.advance(20_000);
  assert.deepEqual([deadNodes(w0.roster), stateOf(w0, 11)], [[], "left 1"]);
  const rest = Promise.all([w0, ...servers].map((membership) => membership.leave()));
  await cluster.clock.runUntil(rest);
  await cluster.clock.runUntil(scheduler.finished, { untilMs: cluster.clock.nowMs() + 10 });
});

test("the scheduler ends when all others have left and the rest is dead", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 2 });
  const { scheduler, servers, workers } = await cluster.formed();
  cluster.network.crash("w1");
  await cluster.clock.advance(10_000);
  const left = Promise.all([workers[0], servers[0]].map((membership) => membership?.leave()));
  await cluster.clock.runUntil(left);
  await cluster.clock.runUntil(scheduler.finished);
});

test("a job that is aborted tells every node why", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  scheduler.abort(new WeighbridgeError("HANDLER_FAILED", "worker 0 ended with exit code 3"));
  await cluster.fails(scheduler.finished, "HANDLER_FAILED", /exit code 3/);
  for (const membership of [...servers, ...workers]) {
    assert.equal(membership.fatal?.message, "worker 0 ended with exit code 3");
    await cluster.fails(membership.barrier(Group.ALL, 0), "HANDLER_FAILED", /exit code 3/);
  }
  await cluster.clock.runUntil(scheduler.close());
});

test("status is answered to anybody, also while the cluster forms", async () => {
  const cluster = new ControlCluster();
  await cluster.scheduler();
  const waiting = cluster.node("server", "s0", { rank: 1 });
  await cluster.clock.advance(2000);
  const peer = cluster.peer("console");
  const channel = peer.dial(1, SCHEDULER_ADDRESS, 0);
  const forming = await cluster.clock.runUntil(callJson(channel, STATUS, {}, cluster.clock));
  assert.deepEqual([forming.phase, forming.nodes.length], ["forming", 0]);
  assert.deepEqual(forming.waiting, [{ role: "server", rank: 1, address: "sim://s0:9000", label: "s0", packageVersion: undefined }]);
  const rest = [cluster.node("server", "s1"), cluster.node("worker", "w0"), cluster.node("worker", "w1")];
  await cluster.clock.runUntil(Promise.all([waiting, ...rest].map(({ joined }) => joined)));
  await cluster.clock.advance(2500);
  const running = await cluster.clock.runUntil(callJson(channel, STATUS, {}, cluster.clock));
  assert.deepEqual([running.phase, running.job, running.waiting.length], ["running", "job", 0]);
  assert.deepEqual(
    running.nodes.map(({ node, state, linked }) => `${node} ${state} ${linked}`),
    ["9 alive true", "11 alive true", "8 alive true", "10 alive true"],
  );
  for (const { heartbeatAgeMs } of running.nodes) assert.ok(heartbeatAgeMs !== undefined && heartbeatAgeMs <= 1000);
});
