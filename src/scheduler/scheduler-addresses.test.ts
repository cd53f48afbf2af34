// scheduler-addresses.test — Goal: nodes that know several addresses find the scheduler at whichever it is, and obey no
// scheduler of an older term.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import type { Membership } from "../cluster/membership.ts";
import { ControlCluster } from "../testing/control-cluster.ts";
import { Group } from "../wire/node-id.ts";

const ADDRESSES = { schedulerAddress: "sim://first:9000", otherSchedulers: ["sim://second:9000", "sim://third:9000"] };
const COUNTS = { serverCount: 1, workerCount: 2 };

async function formed(cluster: ControlCluster): Promise<Membership[]> {
  const hosts = [["server", "s0"] as const, ["worker", "w0"] as const, ["worker", "w1"] as const];
  const nodes = hosts.map(([role, host]) => cluster.node(role, host, { ...ADDRESSES, rank: Number(host[1]) }));
  await cluster.clock.runUntil(Promise.all(nodes.map(({ joined }) => joined)));
  return nodes.map(({ membership }) => membership);
}

async function pass(cluster: ControlCluster, nodes: readonly Membership[]): Promise<void> {
  const entries = nodes.map((node) => node.barrier(Group.WORKERS | Group.SERVERS, 0));
  await cluster.clock.runUntil(Promise.all(entries), { untilMs: cluster.clock.nowMs() + 5000 });
}

test("nodes start with a scheduler that is not at the first address, and find each that takes over, wherever it is", async () => {
  const cluster = new ControlCluster(COUNTS);
  await cluster.scheduler({}, "second");
  const nodes = await formed(cluster);
  let host = "second";
  for (const next of ["third", "first", "third", "second", "second"]) {
    cluster.network.crash(host);
    await cluster.clock.advance(700);
    await cluster.scheduler({}, next);
    await pass(cluster, nodes);
    host = next;
  }
  for (const { fatal, job } of nodes) assert.deepEqual([fatal, job], [undefined, "job/1"]);
});

test("nodes find a scheduler that takes over within a second, however long they have looked in vain", async () => {
  const cluster = new ControlCluster(COUNTS);
  await cluster.scheduler({}, "first");
  const nodes = await formed(cluster);
  cluster.network.crash("first");
  await cluster.clock.advance(30_000);
  const scheduler = await cluster.scheduler({}, "third");
  const startedAtMs = cluster.clock.nowMs();
  while (scheduler.status().nodes.filter(({ linked }) => linked).length < nodes.length) {
    await cluster.clock.advance(50);
    assert.ok(cluster.clock.nowMs() - startedAtMs < 1200, "a round of three addresses");
  }
});

test("a scheduler that wakes up after another one took over is obeyed by nobody", async () => {
  const cluster = new ControlCluster(COUNTS);
  const old = await cluster.scheduler({}, "first");
  const nodes = await formed(cluster);
  cluster.network.isolate("first");
  await cluster.clock.advance(10_000);
  const next = await cluster.scheduler({}, "second");
  await cluster.clock.advance(3000);
  cluster.network.heal("first");
  const epoch = next.roster.placement?.epoch;
  old.publishPlacement({ policy: "range" }).catch(() => {}); // nobody prepares for it
  await cluster.clock.advance(20_000);
  old.abort(new WeighbridgeError("ABORTED", "the old scheduler ends the job"));
  await cluster.clock.advance(5000);
  for (const { fatal, placement } of nodes) assert.deepEqual([fatal, placement?.epoch], [undefined, epoch]);
  await pass(cluster, nodes);
});
