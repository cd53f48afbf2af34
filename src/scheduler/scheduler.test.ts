// scheduler.test — Goal: small clusters of a Scheduler and Memberships on a simulated network, from formation to farewell: every error
// reaches every process, deaths are known in time, places are taken over any number of times, and the scheduler itself may be restarted.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { STATUS } from "../peer/control-messages.ts";
import { ask } from "../peer/json-call.ts";
import { Membership, type MembershipOptions } from "../peer/membership.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/plain-read-buffers.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { SimNetwork } from "../testing/sim-network.ts";
import { Group, type Role } from "../wire/node-id.ts";
import { Scheduler, type SchedulerOptions } from "./scheduler.ts";

const SCHEDULER_ADDRESS = "sim://scheduler:9000";
const HEARTBEAT_TIMEOUT_MS = 5000;

type NodeOptions = Partial<Pick<MembershipOptions, "log" | "rank" | "serverCount" | "workerCount" | "startTimeoutMs" | "schedulerAddress">>;

class TestCluster {
  readonly clock = new SimClock();
  readonly network: SimNetwork;
  readonly serverCount: number;
  readonly workerCount: number;
  readonly #readBuffers = new PlainReadBuffers();
  #starts = 0;

  constructor({ serverCount = 2, workerCount = 2, seed = 1 } = {}) {
    this.network = new SimNetwork({ clock: this.clock, seed });
    this.serverCount = serverCount;
    this.workerCount = workerCount;
  }

  peer(host: string): Peer {
    return new Peer({
      transport: this.network.host(host),
      clock: this.clock,
      log: SILENT_LOG,
      readBuffers: this.#readBuffers,
      acceptsAnonymous: true,
    });
  }

  async scheduler(options: Partial<SchedulerOptions> = {}): Promise<Scheduler> {
    const { serverCount, workerCount, clock } = this;
    const start = ++this.#starts;
    const scheduler = new Scheduler({
      peer: this.peer("scheduler"),
      clock,
      log: SILENT_LOG,
      serverCount,
      workerCount,
      heartbeatIntervalMs: 1000,
      heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS,
      startTimeoutMs: 60_000,
      incarnation: start,
      jobId: `job-${start}`,
      ...options,
    });
    await scheduler.start(SCHEDULER_ADDRESS);
    return scheduler;
  }

  /** A node on a host of its own, and its join on the way. */
  node(role: Role, host: string, options: NodeOptions = {}): { membership: Membership; joined: Promise<void> } {
    const membership = new Membership({
      peer: this.peer(host),
      clock: this.clock,
      log: SILENT_LOG,
      role,
      rank: undefined,
      address: `sim://${host}:9000`,
      label: host,
      serverCount: this.serverCount,
      workerCount: this.workerCount,
      schedulerAddress: SCHEDULER_ADDRESS,
      startTimeoutMs: 60_000,
      token: `${host}#${++this.#starts}`,
      ...options,
    });
    const joined = membership.join();
    joined.catch(() => {});
    return { membership, joined };
  }

  /** Everybody, joined: servers s0, s1 and workers w0, w1 by rank. */
  async formed(options: Partial<SchedulerOptions> = {}) {
    const scheduler = await this.scheduler(options);
    const servers = Array.from({ length: this.serverCount }, (_, rank) => this.node("server", `s${rank}`, { rank }));
    const workers = Array.from({ length: this.workerCount }, (_, rank) => this.node("worker", `w${rank}`, { rank }));
    await this.clock.runUntil(Promise.all([...servers, ...workers].map(({ joined }) => joined)));
    const memberships = (nodes: typeof servers): Membership[] => nodes.map(({ membership }) => membership);
    return { scheduler, servers: memberships(servers), workers: memberships(workers) };
  }

  /** A new process on a host that crashed. */
  async restarted(role: Role, host: string, options: NodeOptions = {}): Promise<Membership> {
    const { membership, joined } = this.node(role, host, options);
    await this.clock.runUntil(joined, { untilMs: this.clock.nowMs() + 60_000 });
    return membership;
  }

  async fails(promise: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
    const outcome = promise.then(
      () => assert.fail("it did not fail"),
      (error: unknown) => {
        assert.ok(isWeighbridgeError(error, code), `${code} expected, but: ${String(error)}`);
        assert.match(error.message, message);
      },
    );
    await this.clock.runUntil(outcome, { untilMs: this.clock.nowMs() + 120_000 });
  }
}

function stateOf(membership: Membership, node: number): string {
  const entry = membership.entry(node);
  return `${entry?.state} ${entry?.incarnation}`;
}

test("a cluster forms once everybody has registered, and everybody knows everybody", async () => {
  const cluster = new TestCluster();
  const scheduler = await cluster.scheduler();
  const early = [cluster.node("worker", "w-late", {}), cluster.node("server", "s-any"), cluster.node("server", "s-first", { rank: 0 })];
  let answered = 0;
  const count = (): number => answered++;
  for (const { joined } of early) joined.then(count, count);
  await cluster.clock.advance(10_000);
  assert.equal(answered, 0);
  const last = cluster.node("worker", "w-zero", { rank: 0 });
  await cluster.clock.runUntil(Promise.all([...early, last].map(({ joined }) => joined)));
  await cluster.clock.runUntil(scheduler.ready);
  assert.deepEqual(
    [...early, last].map(({ membership }) => membership.node),
    [11, 10, 8, 9],
  );
  for (const { membership } of [...early, last]) {
    assert.deepEqual(membership.members(Group.ALL), [9, 11, 8, 10, 1]);
    assert.equal(membership.entry(8)?.address, "sim://s-first:9000");
    assert.equal(membership.job, "job-1");
    assert.equal(membership.recovery, false);
    assert.deepEqual(membership.deadNodes(), []);
  }
});

test("nodes may start before the scheduler", async () => {
  const cluster = new TestCluster({ serverCount: 1, workerCount: 1 });
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  await cluster.clock.advance(30_000);
  await cluster.scheduler();
  await cluster.clock.runUntil(Promise.all(nodes.map(({ joined }) => joined)), { untilMs: 35_000 });
});

test("a node that finds no scheduler names the address, the problem and the fix", async () => {
  const cluster = new TestCluster();
  const { joined } = cluster.node("worker", "w0", { startTimeoutMs: 3000 });
  await cluster.fails(joined, "SCHEDULER_UNREACHABLE", /sim:\/\/scheduler:9000 after 3000 ms \(nobody answers.*DMLC_PS_ROOT_URI/);
  assert.equal(cluster.clock.nowMs(), 3000);
});

test("a node that finds no scheduler for two seconds says so once; one that waits for others does not", async () => {
  const cluster = new TestCluster({ serverCount: 1, workerCount: 1 });
  const warnings: string[] = [];
  const log = { ...SILENT_LOG, warn: (message: string) => void warnings.push(message) };
  cluster.node("server", "s0", { log });
  await cluster.clock.advance(1999);
  assert.deepEqual(warnings, []);
  await cluster.clock.advance(20_000);
  assert.deepEqual(warnings.splice(0), ["waiting for the scheduler at sim://scheduler:9000"]);
  await cluster.scheduler();
  cluster.node("server", "s1", { log });
  await cluster.clock.advance(20_000);
  assert.deepEqual(warnings, []);
});

test("a node whose scheduler is stopped does not hang", async () => {
  const cluster = new TestCluster();
  await cluster.scheduler();
  const { joined } = cluster.node("worker", "w0", { startTimeoutMs: 3000 });
  await cluster.clock.advance(100);
  cluster.network.isolate("scheduler");
  await cluster.fails(joined, "DEADLINE", /gave this node no place within 3000 ms/);
});

test("counts that differ end the start on every process, naming the culprit and the fix", async () => {
  const cluster = new TestCluster();
  const scheduler = await cluster.scheduler();
  const first = cluster.node("server", "s0");
  await cluster.clock.advance(100);
  const culprit = cluster.node("worker", "w0", { workerCount: 3 });
  const reason =
    /worker \("w0"\) was started for 2 servers and 3 workers, but the scheduler and "s0" for 2 servers and 2 workers.*DMLC_NUM_/;
  await cluster.fails(first.joined, "COUNT_MISMATCH", reason);
  await cluster.fails(culprit.joined, "COUNT_MISMATCH", reason);
  const late = cluster.node("server", "s1");
  await cluster.fails(late.joined, "COUNT_MISMATCH", reason);
  await cluster.fails(scheduler.ready, "COUNT_MISMATCH", reason);
  assert.match((await scheduler.failed).message, reason);
  await cluster.clock.runUntil(scheduler.close());
});

test("a scheduler that is closed on its failure still tells everybody", async () => {
  const cluster = new TestCluster();
  const scheduler = await cluster.scheduler();
  scheduler.onFailed(() => scheduler.close());
  const nodes = [cluster.node("server", "s0"), cluster.node("server", "s1"), cluster.node("worker", "w0", { serverCount: 1 })];
  const late = cluster.node("worker", "w1", { startTimeoutMs: 1000 });
  for (const { joined } of [...nodes, late]) await cluster.fails(joined, "COUNT_MISMATCH", /"w0"/);
});

test("two nodes with one rank end the start on every process, naming both", async () => {
  const cluster = new TestCluster();
  const scheduler = await cluster.scheduler();
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0", { rank: 1 }), cluster.node("worker", "w1", { rank: 1 })];
  for (const { joined } of nodes) await cluster.fails(joined, "RANK_TAKEN", /"w\d" and "w\d" both ask to be worker 1; give each/);
  await cluster.fails(scheduler.finished, "RANK_TAKEN", /worker 1/);
});

test("a rank out of range, and one node too many, end the start", async () => {
  for (const [culprits, code, reason] of [
    [[{ rank: 2 }], "BAD_CONFIG", /worker 2 \("w0"\) asks for rank 2, but ranks of 2 end at 1/],
    [[{}, {}, {}], "COUNT_MISMATCH", /one too many: the cluster has 2 workers/],
  ] as const) {
    const cluster = new TestCluster();
    const scheduler = await cluster.scheduler();
    const nodes = [cluster.node("server", "s0"), ...culprits.map((options, index) => cluster.node("worker", `w${index}`, options))];
    for (const { joined } of nodes) await cluster.fails(joined, code, reason);
    await cluster.fails(scheduler.ready, code, reason);
  }
});

test("a cluster that is not complete in time tells everybody who is missing", async () => {
  const cluster = new TestCluster();
  const scheduler = await cluster.scheduler({ startTimeoutMs: 10_000 });
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  const reason = /not complete after 10000 ms: 1 of 2 servers \("s0"\) and 1 of 2 workers \("w0"\) registered/;
  for (const { joined } of nodes) await cluster.fails(joined, "DEADLINE", reason);
  assert.ok(cluster.clock.nowMs() < 10_100);
  await cluster.fails(scheduler.ready, "DEADLINE", reason);
});

test("a node that dies while the cluster forms is not waited for by its old name, and may start again", async () => {
  const cluster = new TestCluster({ serverCount: 1, workerCount: 1 });
  await cluster.scheduler();
  cluster.node("worker", "w0", { rank: 0 });
  await cluster.clock.advance(100);
  cluster.network.crash("w0");
  await cluster.clock.advance(100);
  const again = cluster.node("worker", "w0", { rank: 0 });
  const server = cluster.node("server", "s0");
  await cluster.clock.runUntil(Promise.all([again.joined, server.joined]), { untilMs: 10_000 });
});

test("a link that breaks while a node waits or is being answered makes no second node of it", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const cluster = new TestCluster({ seed });
    await cluster.scheduler();
    const nodes = [cluster.node("server", "s0"), cluster.node("server", "s1"), cluster.node("worker", "w0")];
    await cluster.clock.advance(100);
    nodes.push(cluster.node("worker", "w1"));
    await cluster.clock.advance(seed / 4);
    for (const host of ["s0", "s1", "w0"]) cluster.network.breakLinks(host);
    await cluster.clock.runUntil(Promise.all(nodes.map(({ joined }) => joined)), { untilMs: 10_000 });
    const places = nodes.map(({ membership }) => `${membership.node}/${membership.incarnation}`).sort();
    assert.deepEqual(places, ["10/1", "11/1", "8/1", "9/1"], `seed ${seed}`);
  }
});

test("a silent node is dead for everybody within the timeout, and nobody else is", async () => {
  const cluster = new TestCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  await cluster.clock.advance(10_000);
  cluster.network.crash("s1", { silent: true });
  await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS - 1100);
  assert.equal(stateOf(workers[0] as Membership, 10), "alive 1");
  await cluster.clock.advance(1200);
  for (const membership of [servers[0], ...workers] as Membership[]) assert.deepEqual(membership.deadNodes(), [10]);
  assert.deepEqual(scheduler.deadNodes(), [10]);
});

test("without heartbeats a closed link tells of a death, after a grace", async () => {
  const cluster = new TestCluster();
  const { workers } = await cluster.formed({ heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 });
  await cluster.clock.advance(60_000);
  cluster.network.crash("s1");
  await cluster.clock.advance(4900);
  assert.deepEqual(workers[0]?.deadNodes(), []);
  await cluster.clock.advance(200);
  assert.deepEqual(workers[0]?.deadNodes(), [10]);
});

test("a node that was stopped and goes on is alive again, in the same life", async () => {
  const cluster = new TestCluster();
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
  const cluster = new TestCluster();
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
  const cluster = new TestCluster();
  const { workers } = await cluster.formed();
  for (let life = 2; life <= 5; life++) {
    cluster.network.crash("s1");
    await cluster.clock.advance(200);
    const again = await cluster.restarted("server", "s1", life % 2 === 0 ? { rank: 1 } : {});
    assert.deepEqual([again.node, again.incarnation, again.recovery], [10, life, true]);
    await cluster.clock.advance(100);
    for (const worker of workers) assert.equal(stateOf(worker, 10), `alive ${life}`);
  }
});

test("a node whose link to the scheduler went silent dials again", async () => {
  const cluster = new TestCluster();
  const { scheduler, workers } = await cluster.formed();
  cluster.network.crash("scheduler", { silent: true });
  await cluster.clock.advance(1500); // A heartbeat is on its way to nobody, on a link that nobody closes.
  const restarted = await cluster.scheduler();
  await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS + 2000);
  assert.equal(restarted.job, scheduler.job);
  assert.deepEqual([restarted.deadNodes(), workers[0]?.fatal], [[], undefined]);
});

test("a newcomer without a rank waits a moment for a node whose link broke to come back", async () => {
  const cluster = new TestCluster();
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
  const cluster = new TestCluster();
  const { workers, servers } = await cluster.formed();
  const second = cluster.node("worker", "w-second", { rank: 0 });
  await cluster.fails(second.joined, "RANK_TAKEN", /worker 0 \("w-second"\) asks for the place of worker 0 \("w0"\), which is alive/);
  const wrong = cluster.node("worker", "w-wrong", { workerCount: 5 });
  await cluster.fails(wrong.joined, "COUNT_MISMATCH", /2 servers and 5 workers, but the scheduler for 2 servers and 2 workers/);
  const barriers = [...workers, ...servers].map((membership) => membership.barrier(6, 0));
  await cluster.clock.runUntil(Promise.all(barriers));
});

test("a newcomer that asks for a stopped node's rank gets it once that one is dead", async () => {
  const cluster = new TestCluster();
  await cluster.formed();
  cluster.network.isolate("s1");
  await cluster.clock.advance(100);
  const second = await cluster.restarted("server", "s1b", { rank: 1 });
  assert.deepEqual([second.node, second.incarnation], [10, 2]);
  assert.ok(cluster.clock.nowMs() <= HEARTBEAT_TIMEOUT_MS + 200);
});

test("a newcomer too many waits for a place until its deadline, and is told who holds them", async () => {
  const cluster = new TestCluster();
  await cluster.formed({ startTimeoutMs: 4000 });
  const spare = cluster.node("worker", "spare");
  const reason = /no place for worker \("spare"\) after 4000 ms: all worker places are held, by worker 0 \("w0"\), worker 1 \("w1"\)/;
  await cluster.fails(spare.joined, "DEADLINE", reason);
});

test("a barrier lets all members go together, with the scheduler among them", async () => {
  const cluster = new TestCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  let passed = 0;
  const entries = [...servers, ...workers].map((membership) => membership.barrier(Group.ALL, 0).then(() => passed++));
  await cluster.clock.advance(3000);
  assert.equal(passed, 0);
  await cluster.clock.runUntil(Promise.all([...entries, scheduler.barrier(Group.ALL, 0)]));
  assert.equal(passed, 4);
});

test("a member that dies inside a barrier fails the others within the detection time; with its successor they pass", async () => {
  const cluster = new TestCluster({ workerCount: 3 });
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
  assert.equal(passed, false); // the old life's entry is not counted
  await cluster.clock.runUntil(Promise.all([waiting, again.barrier(Group.WORKERS, 0)]));
});

test("a barrier survives broken links, and a caller that gave up comes back to the same barrier", async () => {
  const cluster = new TestCluster();
  const { workers } = await cluster.formed();
  const [w0, w1] = workers as [Membership, Membership];
  await cluster.fails(w0.barrier(Group.WORKERS, 0, { deadlineMs: 500 }), "DEADLINE", /barrier of group 4/);
  cluster.network.breakLinks("w0");
  await cluster.clock.runUntil(w1.barrier(Group.WORKERS, 0)); // counts the entry that still stands
  await cluster.clock.advance(1000);
  await cluster.clock.runUntil(w0.barrier(Group.WORKERS, 0, { deadlineMs: 1 }));
  const next = [w0, w1].map((worker) => worker.barrier(Group.WORKERS, 0));
  await cluster.clock.runUntil(Promise.all(next));
});

test("nodes that left are not missing, and the scheduler knows when all have", async () => {
  const cluster = new TestCluster();
  const { scheduler, servers, workers } = await cluster.formed();
  const [w0, w1] = workers as [Membership, Membership];
  await cluster.clock.runUntil(w1.leave());
  await cluster.clock.runUntil(w0.barrier(Group.WORKERS, 0));
  await cluster.clock.advance(20_000);
  assert.deepEqual([w0.deadNodes(), stateOf(w0, 11)], [[], "left 1"]);
  const rest = Promise.all([w0, ...servers].map((membership) => membership.leave()));
  await cluster.clock.runUntil(rest);
  await cluster.clock.runUntil(scheduler.finished, { untilMs: cluster.clock.nowMs() + 10 });
});

test("the scheduler ends when all others have left and the rest is dead", async () => {
  const cluster = new TestCluster({ serverCount: 1, workerCount: 2 });
  const { scheduler, servers, workers } = await cluster.formed();
  cluster.network.crash("w1");
  await cluster.clock.advance(10_000);
  const left = Promise.all([workers[0], servers[0]].map((membership) => membership?.leave()));
  await cluster.clock.runUntil(left);
  await cluster.clock.runUntil(scheduler.finished);
});

test("a scheduler may be restarted: nodes go on, keep their places and learn of changes again", async () => {
  const cluster = new TestCluster();
  const { servers, workers } = await cluster.formed();
  for (let restart = 0; restart < 3; restart++) {
    cluster.network.crash("scheduler");
    await cluster.clock.advance(20_000);
    for (const membership of [...servers, ...workers]) assert.deepEqual([membership.deadNodes(), membership.fatal], [[], undefined]);
    const scheduler = await cluster.scheduler();
    await cluster.clock.advance(20_000);
    assert.equal(scheduler.job, "job-1");
    assert.deepEqual(scheduler.deadNodes(), []);
    assert.ok(scheduler.status().nodes.every(({ linked, incarnation }) => linked && incarnation === 1));
  }
  cluster.network.crash("s1");
  await cluster.clock.advance(6000);
  for (const worker of workers) assert.equal(stateOf(worker, 10), "dead 1");
});

test("a scheduler that is restarted in the middle of a barrier lets nobody go early and nobody wait", async () => {
  const cluster = new TestCluster();
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
    const cluster = new TestCluster({ serverCount: 1, workerCount: 3, seed });
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

test("a node that does not come back after a restart of the scheduler is dead in time, and a newcomer gets its place, not another's", async () => {
  const cluster = new TestCluster();
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

test("a scheduler restarted with other counts takes no node down, and one restarted rightly takes them back", async () => {
  const cluster = new TestCluster();
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
  const cluster = new TestCluster({ serverCount: 1, workerCount: 1 });
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

test("a job that is aborted tells every node why", async () => {
  const cluster = new TestCluster();
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
  const cluster = new TestCluster();
  await cluster.scheduler();
  const waiting = cluster.node("server", "s0", { rank: 1 });
  await cluster.clock.advance(2000);
  const peer = cluster.peer("console");
  const channel = peer.dial(1, SCHEDULER_ADDRESS, 0);
  const forming = await cluster.clock.runUntil(ask(channel, STATUS, {}, cluster.clock));
  assert.deepEqual([forming.phase, forming.nodes.length], ["forming", 0]);
  assert.deepEqual(forming.waiting, [{ role: "server", rank: 1, address: "sim://s0:9000", label: "s0" }]);
  const rest = [cluster.node("server", "s1"), cluster.node("worker", "w0"), cluster.node("worker", "w1")];
  await cluster.clock.runUntil(Promise.all([waiting, ...rest].map(({ joined }) => joined)));
  await cluster.clock.advance(2500);
  const running = await cluster.clock.runUntil(ask(channel, STATUS, {}, cluster.clock));
  assert.deepEqual([running.phase, running.job, running.waiting.length], ["running", "job-1", 0]);
  assert.deepEqual(
    running.nodes.map(({ node, state, linked }) => `${node} ${state} ${linked}`),
    ["9 alive true", "11 alive true", "8 alive true", "10 alive true"],
  );
  for (const { heartbeatAgeMs } of running.nodes) assert.ok(heartbeatAgeMs !== undefined && heartbeatAgeMs <= 1000);
});
