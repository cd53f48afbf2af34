// start-failure.test — Goal: a node that cannot take its place is waited for by nobody, and is itself not kept from ending.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { ControlCluster, SCHEDULER_ADDRESS } from "../testing/control-cluster.ts";
import { type StartFailure, tellStartFailure } from "./start-failure.ts";

const TAKEN = new WeighbridgeError("PORT_IN_USE", "cannot listen on tcp://192.0.2.1:7000: it is taken");

function missing(cluster: ControlCluster): StartFailure {
  const { clock, serverCount, workerCount } = cluster;
  const node = { role: "server", rank: 1, label: "s1", serverCount, workerCount } as const;
  return { peer: cluster.peer("s1"), clock, log: SILENT_LOG, schedulerAddress: SCHEDULER_ADDRESS, node };
}

test("while a cluster forms everybody ends with the reason, those that come a little later as well", async () => {
  const cluster = new ControlCluster();
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  const told = tellStartFailure(missing(cluster), TAKEN); // before there is a scheduler
  await cluster.clock.advance(1000);
  const scheduler = await cluster.scheduler();
  await cluster.clock.runUntil(told);
  const reason = /^(the scheduler: )?server 1 \("s1"\) cannot take part: cannot listen on tcp:\/\/192\.0\.2\.1:7000: it is taken$/;
  nodes.push(cluster.node("worker", "w1"));
  for (const { joined } of nodes) await cluster.fails(joined, "PORT_IN_USE", reason);
  await cluster.fails(scheduler.ready, "PORT_IN_USE", reason);
  assert.ok(cluster.clock.nowMs() < 4000, `it took ${cluster.clock.nowMs()} ms`);
});

test("a cluster that is complete goes on, and the place stays free for another", async () => {
  const cluster = new ControlCluster();
  const { scheduler, workers } = await cluster.formed();
  cluster.network.crash("s1");
  await cluster.clock.advance(100);
  await cluster.clock.runUntil(tellStartFailure(missing(cluster), TAKEN));
  const again = await cluster.restarted("server", "s1b", { rank: 1 });
  assert.deepEqual([again.node, again.incarnation], [10, 2]);
  assert.deepEqual([scheduler.status().phase, workers[0]?.fatal], ["running", undefined]);
});

test("without a scheduler it gives up after a while", async () => {
  const cluster = new ControlCluster();
  await cluster.clock.runUntil(tellStartFailure(missing(cluster), TAKEN), { untilMs: 10_000 });
  assert.equal(cluster.clock.nowMs(), 5000);
});
