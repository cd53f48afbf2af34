// scheduler-start.test — Goal: a cluster forms when all have registered; whatever is wrong with that reaches every
// process, and nobody waits for ever.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Log, LogFields } from "../base/log.ts";
import { SILENT_LOG } from "../base/log.ts";
import { groupMembers } from "../cluster/group-members.ts";
import { ControlCluster } from "../testing/control-cluster.ts";
import { Group } from "../wire/node-id.ts";
import { deadNodes } from "../wire/roster.ts";

test("a cluster forms once everybody has registered, and everybody knows everybody", async () => {
  const cluster = new ControlCluster();
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
    assert.deepEqual(groupMembers(membership.roster, Group.ALL), [9, 11, 8, 10, 1]);
    assert.equal(membership.entry(8)?.address, "sim://s-first:9000");
    assert.equal(membership.job, "job/1");
    assert.equal(membership.recovery, false);
    assert.deepEqual(deadNodes(membership.roster), []);
  }
});

test("nodes may start before the scheduler", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  await cluster.clock.advance(30_000);
  await cluster.scheduler();
  await cluster.clock.runUntil(Promise.all(nodes.map(({ joined }) => joined)), { untilMs: 35_000 });
});

test("a node that finds no scheduler names the address, the problem and the fix", async () => {
  const cluster = new ControlCluster();
  const { joined } = cluster.node("worker", "w0", { startTimeoutMs: 3000 });
  await cluster.fails(
    joined,
    "SCHEDULER_UNREACHABLE",
    /sim:\/\/scheduler:9000 after 3000 ms \(nothing answers.*start one there, or correct the address: connect\(address\).*WEIGHBRIDGE_SCHEDULER_HOST.*DMLC_PS_ROOT_URI/,
  );
  assert.equal(cluster.clock.nowMs(), 3000);
});

test("a node that finds no scheduler for two seconds says so once; one that waits for others does not", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
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
  const cluster = new ControlCluster();
  await cluster.scheduler();
  const { joined } = cluster.node("worker", "w0", { startTimeoutMs: 3000 });
  await cluster.clock.advance(100);
  cluster.network.isolate("scheduler");
  await cluster.fails(joined, "DEADLINE", /gave this node no rank within 3000 ms/);
});

test("counts that differ end the start on every process, naming the culprit and the fix", async () => {
  const cluster = new ControlCluster();
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
  const cluster = new ControlCluster();
  const scheduler = await cluster.scheduler();
  scheduler.onFailed(() => scheduler.close());
  const nodes = [cluster.node("server", "s0"), cluster.node("server", "s1"), cluster.node("worker", "w0", { serverCount: 1 })];
  const late = cluster.node("worker", "w1", { startTimeoutMs: 1000 });
  for (const { joined } of [...nodes, late]) await cluster.fails(joined, "COUNT_MISMATCH", /"w0"/);
});

test("two nodes with one rank end the start on every process, naming both", async () => {
  const cluster = new ControlCluster();
  const scheduler = await cluster.scheduler();
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0", { rank: 1 }), cluster.node("worker", "w1", { rank: 1 })];
  for (const { joined } of nodes) await cluster.fails(joined, "RANK_TAKEN", /"w\d" and "w\d" both ask to be worker 1; give each/);
  await cluster.fails(scheduler.finished, "RANK_TAKEN", /worker 1/);
});

test("a rank out of range, and one node too many, end the start", async () => {
  for (const [culprits, code, reason] of [
    [[{ rank: 2 }], "BAD_CONFIG", /worker 2 \("w0"\) requests rank 2, but the highest rank of 2 is 1/],
    [[{}, {}, {}], "COUNT_MISMATCH", /one too many: the cluster has 2 workers/],
  ] as const) {
    const cluster = new ControlCluster();
    const scheduler = await cluster.scheduler();
    const nodes = [cluster.node("server", "s0"), ...culprits.map((options, index) => cluster.node("worker", `w${index}`, options))];
    for (const { joined } of nodes) await cluster.fails(joined, code, reason);
    await cluster.fails(scheduler.ready, code, reason);
  }
});

test("a cluster that is not complete in time tells everybody who is missing", async () => {
  const cluster = new ControlCluster();
  const scheduler = await cluster.scheduler({ startTimeoutMs: 10_000 });
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  const reason =
    /not complete after 10000 ms: 1 of 2 servers \("s0"\) and 1 of 2 workers \("w0"\) registered, missing: server 1, worker 1; start what is missing/;
  for (const { joined } of nodes) await cluster.fails(joined, "DEADLINE", reason);
  assert.ok(cluster.clock.nowMs() < 10_100);
  await cluster.fails(scheduler.ready, "DEADLINE", reason);
});

test("a node that dies while the cluster forms is not waited for by its old name, and may start again", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
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
    const cluster = new ControlCluster({ seed });
    await cluster.scheduler();
    const nodes = [cluster.node("server", "s0"), cluster.node("server", "s1"), cluster.node("worker", "w0")];
    await cluster.clock.advance(100);
    nodes.push(cluster.node("worker", "w1"));
    await cluster.clock.advance(seed / 4);
    for (const host of ["s0", "s1", "w0"]) cluster.network.breakLinks(host);
    await cluster.clock.runUntil(Promise.all(nodes.map(({ joined }) => joined)), { untilMs: 10_000 });
    const slots = nodes.map(({ membership }) => `${membership.node}/${membership.incarnation}`).sort();
    assert.deepEqual(slots, ["10/1", "11/1", "8/1", "9/1"], `seed ${seed}`);
  }
});

test("the version of the package that each node runs is in the roster, in the status and in the log, which warns of another one", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  const lines: string[] = [];
  const note = (message: string, fields?: LogFields): void => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: note, info: note, warn: (message, fields) => note(`warning: ${message}`, fields), error: note };
  const scheduler = await cluster.scheduler({ peer: cluster.peer("scheduler", "0.2.0"), log });
  const server = cluster.node("server", "s0", { packageVersion: "0.2.0" });
  await cluster.clock.advance(100);
  assert.deepEqual(
    scheduler.status().waiting.map(({ packageVersion }) => packageVersion),
    ["0.2.0"],
  );
  const worker = cluster.node("worker", "w0", { packageVersion: "0.1.9" });
  await cluster.clock.runUntil(Promise.all([server.joined, worker.joined]));
  for (const { nodes } of [server.membership.roster, worker.membership.roster, scheduler.status()])
    assert.deepEqual(
      nodes.map(({ packageVersion }) => packageVersion),
      ["0.1.9", "0.2.0"],
    );
  assert.equal(scheduler.status().packageVersion, "0.2.0");
  assert.ok(lines.some((line) => /^a node has its rank .*"node":"server 0".*"packageVersion":"0.2.0"/.test(line)));
  const warnings = lines.filter((line) => line.startsWith("warning: "));
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /another version of the package .*"worker 0","packageVersion":"0.1.9","scheduler":"0.2.0"/);
});

test("a node whose own start timeout is shorter than the scheduler's names the ranks that are missing", async () => {
  const cluster = new ControlCluster({ serverCount: 2, workerCount: 2 });
  await cluster.scheduler();
  cluster.node("server", "s0", { rank: 1 });
  const { joined } = cluster.node("worker", "w0", { startTimeoutMs: 2000 });
  await cluster.fails(joined, "DEADLINE", /gave this node no rank within 2000 ms: .*; missing: server 0, worker 1$/);
  assert.ok(cluster.clock.nowMs() < 4000);
});

test("a node that was told another job's name is refused with an error that names both, and the job goes on without it", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  const scheduler = await cluster.scheduler({ jobId: "mnist/1" });
  const stranger = cluster.node("worker", "w9", { job: "ctr" });
  await cluster.fails(stranger.joined, "WRONG_JOB", /a worker of job "ctr" has come to a node of job "mnist"/);
  const server = cluster.node("server", "s0", { job: "mnist" });
  const worker = cluster.node("worker", "w0");
  await cluster.clock.runUntil(Promise.all([server.joined, worker.joined]));
  assert.deepEqual([server.membership.job, worker.membership.job], ["mnist/1", "mnist/1"], "who was told no name takes the scheduler's");
  assert.equal(scheduler.status().job, "mnist");
});

test("the job's name outlives its scheduler, and a scheduler of another job is not taken for the next one", async () => {
  const cluster = new ControlCluster({ serverCount: 1, workerCount: 1 });
  await cluster.scheduler({ jobId: "mnist/1" });
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  await cluster.clock.runUntil(Promise.all(nodes.map(({ joined }) => joined)));
  cluster.network.crash("scheduler");
  const next = await cluster.scheduler({ jobId: "mnist/2" });
  await cluster.clock.advance(5000);
  assert.deepEqual([next.job, next.isResumed], ["mnist/1", true], "the same run goes on");
  cluster.network.crash("scheduler");
  await cluster.scheduler({ jobId: "ctr/1" });
  await cluster.clock.advance(5000);
  for (const { membership } of nodes) assert.equal(membership.fatal, undefined, "the job goes on, and waits for the right one");
  cluster.network.crash("scheduler");
  const right = await cluster.scheduler({ jobId: "mnist/3" });
  await cluster.clock.advance(5000);
  assert.deepEqual([right.job, right.isResumed, right.deadNodes()], ["mnist/1", true, []]);
});
