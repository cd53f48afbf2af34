// scheduler-restart.test — Goal: the scheduler itself may be restarted: nodes go on, keep their slots and pass their
// barriers together.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Membership } from "../cluster/membership.ts";
import { ControlCluster, HEARTBEAT_TIMEOUT_MS, SCHEDULER_ADDRESS, stateOf } from "../testing/control-cluster.ts";
import { Group } from "../wire/node-id.ts";
import { deadNodes } from "../wire/roster.ts";

test("a scheduler may be restarted: nodes go on, keep their slots and learn of changes again", async () => {
  const cluster = new ControlCluster();
  const { servers, workers } = await cluster.formed();
  for (let restart = 0; restart < 3; restart++) {
    cluster.network.crash("scheduler");
    await cluster.clock.advance(20_000);
    for (const membership of [...servers, ...workers]) assert.deepEqual([deadNodes(membership.roster), membership.fatal], [[], undefined]);
    const scheduler = await cluster.scheduler();
    await cluster.clock.advance(20_000);
    assert.equal(scheduler.job, "job/1");
    assert.deepEqual(scheduler.deadNodes(), []);
    assert.ok(scheduler.status().nodes.every(({ linked, incarnation }) => linked && incarnation === 1));
  }
  cluster.network.crash("s1");
  await cluster.clock.advance(6000);
  for (const worker of workers) assert.equal(stateOf(worker, 10), "dead 1");
});

test("a scheduler that is restarted in the middle of a barrier lets nobody go early and nobody wait", async () => {
  const cluster = new ControlCluster();
  const { servers, workers } = await cluster.formed();
  const group = Group.WORKERS | Group.SERVERS;
  const [last, ...early] = [...workers, ...servers] as [Membership, ...Membership[]];
  for (let round = 0; round < 3; round++) {
    let passed = 0;
    const entries = early.map((membership) => membership.barrier(group, 0).then(() => passed++));
    await cluster.clock.advance(1000);
    cluster.network.crash("scheduler");
    await cluster.clock.advance(2000);
    await cluster.scheduler();
    await cluster.clock.advance(3000);
    assert.equal(passed, 0);
    await cluster.clock.runUntil(Promise.all([...entries, last.barrier(group, 0)]), { untilMs: cluster.clock.nowMs() + 1000 });
  }
});

test("for 60 seeds, a scheduler that dies while it lets nodes go leaves nobody a round behind", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const cluster = new ControlCluster({ serverCount: 1, workerCount: 3, seed });
    const { workers } = await cluster.formed();
    const passed: number[] = [];
    const run = async (worker: Membership, index: number): Promise<void> => {
      for (let round = 1; round <= 3; round++) {
        await worker.barrier(Group.WORKERS, 0);
        passed[index] = round;
      }
    };
    const runs = Promise.all(workers.map((worker, index) => run(worker, index)));
    await cluster.clock.advance(seed / 10);
    cluster.network.crash("scheduler");
    await cluster.scheduler();
    await cluster.clock.runUntil(runs, { untilMs: cluster.clock.nowMs() + 4000 });
    assert.deepEqual(passed, [3, 3, 3], `seed ${seed}`);
  }
});

test("a node that does not come back after a restart of the scheduler is dead in time, and a newcomer gets its slot, not another's", async () => {
  const cluster = new ControlCluster();
  const { workers } = await cluster.formed();
  cluster.network.crash("scheduler");
  cluster.network.crash("s1");
  cluster.network.isolate("s0"); // slow to come back
  await cluster.clock.advance(1000);
  const newcomer = cluster.node("server", "s-new");
  const scheduler = await cluster.scheduler();
  await cluster.clock.advance(3000);
  assert.deepEqual(scheduler.deadNodes(), []);
  cluster.network.heal("s0");
  await cluster.clock.runUntil(newcomer.joined, { untilMs: cluster.clock.nowMs() + HEARTBEAT_TIMEOUT_MS });
  assert.deepEqual([newcomer.membership.node, newcomer.membership.incarnation, newcomer.membership.recovery], [10, 2, true]);
  await cluster.clock.advance(100);
  assert.equal(stateOf(workers[0] as Membership, 10), "alive 2");
  assert.equal(stateOf(workers[0] as Membership, 8), "alive 1");
});

test("a restarted scheduler takes a worker back that was added, although the first node that resumes has not heard of it", async () => {
  const cluster = new ControlCluster();
  const rules = { workerCountMax: 3, heartbeatIntervalMs: 0 }; // so that nobody waits for w0 to be heard
  await cluster.formed(rules);
  cluster.network.isolate("w0");
  const added = await cluster.restarted("worker", "w2");
  assert.equal(added.node, 13);
  cluster.network.crash("scheduler");
  for (const host of ["s0", "s1", "w1", "w2"]) cluster.network.isolate(host);
  const scheduler = await cluster.scheduler(rules);
  cluster.network.breakLinks("w0"); // what was on its way is lost
  await cluster.clock.advance(10);
  cluster.network.heal("w0");
  await cluster.clock.advance(2000);
  assert.deepEqual([scheduler.isResumed, scheduler.status().nodes.some(({ node }) => node === 13)], [true, false]);
  for (const host of ["s0", "s1", "w1", "w2"]) cluster.network.heal(host);
  await cluster.clock.advance(2000);
  assert.deepEqual([added.fatal, scheduler.deadNodes()], [undefined, []]);
  assert.ok(scheduler.status().nodes.every(({ linked, incarnation }) => linked && incarnation === 1));
  assert.ok(scheduler.status().nodes.some(({ node }) => node === 13));
});

test("a worker that joins a resumed job begins at once, unless the others stand at the barrier of the start", async () => {
  for (const areStanding of [false, true]) {
    const cluster = new ControlCluster();
    const { servers, workers } = await cluster.formed({ workerCountMax: 3 });
    const standing = areStanding ? [...servers, ...workers].map((membership) => membership.barrier(Group.ALL, 0)) : [];
    for (const entry of standing) entry.catch(() => {}); // the scheduler does not enter in this test
    cluster.network.crash("scheduler");
    await cluster.scheduler({ workerCountMax: 3 });
    await cluster.clock.advance(3000);
    assert.equal((await cluster.restarted("worker", "w2")).recovery, !areStanding);
  }
});

test("a scheduler restarted with other counts takes no node down, and one restarted rightly takes them back", async () => {
  const cluster = new ControlCluster();
  const { workers } = await cluster.formed();
  for (const workerCount of [3, 1]) {
    cluster.network.crash("scheduler");
    const wrong = await cluster.scheduler({ workerCount });
    await cluster.fails(
      wrong.ready,
      "COUNT_MISMATCH",
      /was started for 2 servers and 2 workers, but the scheduler for 2 servers and [13] /,
    );
    await cluster.clock.runUntil(wrong.close());
  }
  cluster.network.crash("scheduler");
  await cluster.scheduler();
  await cluster.clock.runUntil(Promise.all(workers.map((worker) => worker.barrier(Group.WORKERS, 0))));
  for (const worker of workers) assert.equal(worker.fatal, undefined);
});

test("a node of another job is told that this scheduler is not its own", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  const { workers } = await cluster.formed();
  cluster.network.isolate("w0");
  cluster.network.crash("scheduler");
  cluster.network.crash("s0");
  await cluster.scheduler();
  const fresh = [cluster.node("server", "s0"), cluster.node("worker", "w0b")];
  await cluster.clock.runUntil(Promise.all(fresh.map(({ joined }) => joined)), { untilMs: cluster.clock.nowMs() + 1000 });
  cluster.network.heal("w0");
  await cluster.clock.advance(10_000);
  assert.equal(workers[0]?.fatal?.code, "FENCED");
});

test("a scheduler that is restarted on a machine whose clock is behind goes on with a higher incarnation than the one before", async () => {
  const cluster = new ControlCluster();
  const { servers, workers } = await cluster.formed({ incarnation: 1_000_000 });
  for (const incarnation of [500_000, 1, 900_000]) {
    cluster.network.crash("scheduler");
    await cluster.clock.advance(2000);
    const scheduler = await cluster.scheduler({ incarnation });
    await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS + 1000);
    assert.deepEqual([scheduler.job, scheduler.isResumed, scheduler.deadNodes()], ["job/1", true, []]);
    assert.ok(scheduler.status().nodes.every(({ linked }) => linked));
    const barrier = [...servers, ...workers].map((membership) => membership.barrier(Group.WORKERS | Group.SERVERS, 0));
    await cluster.clock.runUntil(Promise.all(barrier), { untilMs: cluster.clock.nowMs() + 1000 });
  }
});

test("a scheduler that is restarted while the cluster forms, with a clock that is behind, is registered with", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  await cluster.scheduler({ incarnation: 1_000_000 });
  const server = cluster.node("server", "s0");
  await cluster.clock.advance(1000);
  cluster.network.crash("scheduler");
  const scheduler = await cluster.scheduler({ incarnation: 7 });
  await cluster.clock.advance(2000);
  const worker = cluster.node("worker", "w0");
  await cluster.clock.runUntil(Promise.all([server.joined, worker.joined]), { untilMs: cluster.clock.nowMs() + 2000 });
  assert.equal(scheduler.isResumed, false);
});

test("a scheduler that nodes have left for a newer one does not take a higher incarnation than that one", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  const { scheduler } = await cluster.formed({ incarnation: 5 });
  const dialer = cluster.peer("elsewhere");
  const worker = scheduler.roster.nodes.find(({ role }) => role === "worker");
  Object.assign(dialer, { id: worker?.node, incarnation: worker?.incarnation, token: worker?.token, job: scheduler.job });
  dialer.dial(1, SCHEDULER_ADDRESS, 9); // as a node that knows incarnation 9
  const problems: string[] = [];
  dialer.events = { unreachable: (_, error) => problems.push(error.message) };
  await cluster.clock.advance(100);
  assert.match(problems[0] ?? "", /older incarnation of the scheduler/);
});

test("what a node asked before it had its rank does not stay open when its link broke meanwhile", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  await cluster.scheduler();
  const { membership, joined } = cluster.node("server", "s0");
  await cluster.clock.advance(100);
  const missing = membership.missing();
  cluster.network.partition("s0", "scheduler", { breakLinks: true });
  await cluster.clock.advance(100);
  cluster.network.heal();
  assert.match(await cluster.clock.runUntil(missing), /worker 0/);
  const worker = cluster.node("worker", "w0");
  await cluster.clock.runUntil(Promise.all([joined, worker.joined]));
  await cluster.clock.advance(100);
  assert.equal(membership.isBusy, false);
});
