// scaling.test — Goal: servers come to a running job and leave it, by what was asked of the scheduler: who gets a rank,
// who waits, who leaves and when, over deaths and restarts of the scheduler. docs/decisions/0073.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import type { Scaling } from "../../src/scheduler/scaling.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import { SimCluster, type SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

function clusterOf(options: Partial<SimClusterOptions> = {}): SimCluster {
  return new SimCluster({
    ...{ seed: 1, serverCount: 2, workerCount: 1, settle: SETTLING },
    ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500, startTimeoutMs: 3000 },
    ...options,
  });
}

function scalingOf(cluster: SimCluster): Scaling {
  const { node } = cluster.scheduler;
  assert.ok(node instanceof SchedulerNode);
  return node.scheduler.scaling;
}

/** "0 alive, 1 alive". */
function servers(cluster: SimCluster): string {
  const { nodes } = cluster.scheduler.roster;
  const entries = nodes.filter(({ role }) => role === "server").map(({ rank, state }) => `${rank} ${state}`);
  return entries.join(", ");
}

/** Started, and waiting for the last barrier, as `weighbridge server` does. */
async function serve(cluster: SimCluster, rank: number): Promise<{ readonly office: Postoffice; readonly ended: Promise<void> }> {
  const office = await cluster.startNode(idOf("server", rank));
  return { office, ended: office.finalize() };
}

test("servers that were asked for get their ranks, and those that are to leave end well", async () => {
  const cluster = clusterOf();
  await cluster.start();
  const ends = [0, 1].map((rank) => cluster.server(rank).finalize());
  const scaling = scalingOf(cluster);
  await cluster.run(scaling.request({ to: 4 }));
  const [third, fourth] = await cluster.run(Promise.all([serve(cluster, 2), serve(cluster, 3)]));
  await cluster.clock.advance(200);
  assert.deepEqual(scaling.report().ended, [{ number: 1, outcome: "done" }]);
  assert.deepEqual(cluster.scheduler.roster.placement?.servers, [0, 1, 2, 3]);
  assert.ok(third !== undefined && fourth !== undefined);
  await cluster.run(scaling.request({ leave: [0, 3] }));
  await cluster.run(Promise.all([ends[0], fourth.ended])); // they end without an error
  await cluster.clock.advance(200);
  assert.equal(servers(cluster), "1 alive, 2 alive");
  assert.deepEqual(cluster.scheduler.roster.placement?.servers, [1, 2]);
  await cluster.run(Promise.all([cluster.scheduler.finalize(), cluster.worker(0).finalize(), ends[1], third.ended]));
});

test("a server that nobody asked for waits as a spare, says so, and gets a rank when one is asked for", async () => {
  const lines: string[] = [];
  const warn = (message: string): void => void lines.push(message);
  const log = { debug: () => {}, info: () => {}, warn, error: () => {} };
  const cluster = clusterOf({ log });
  await cluster.start();
  const spare = serve(cluster, 2);
  await cluster.clock.advance(60_000); // longer than a start may take
  assert.ok(lines.some((line) => /waiting as a spare: all 2 servers .* `weighbridge scale --servers 3`/.test(line)));
  await cluster.run(scalingOf(cluster).request({ to: 3 }));
  await cluster.run(spare);
  await cluster.clock.advance(200);
  assert.equal(servers(cluster), "0 alive, 1 alive, 2 alive");
});

test("a spare keeps no job from ending, and is told that it was not needed", async () => {
  const cluster = clusterOf();
  await cluster.start();
  const spare = serve(cluster, 2);
  spare.catch(() => {});
  await cluster.clock.advance(100);
  const offices = [SCHEDULER_ID, idOf("server", 0), idOf("server", 1), idOf("worker", 0)].map((node) => cluster.office(node));
  await cluster.run(Promise.all(offices.map((office) => office.finalize())));
  await assert.rejects(cluster.run(spare), (error: unknown) => isWeighbridgeError(error, "CLOSED") && /was not needed/.test(error.message));
});

test("whoever waits for a change that is under way when the job ends is told so", async () => {
  const cluster = clusterOf();
  await cluster.start();
  const scaling = scalingOf(cluster);
  const number = await cluster.run(scaling.request({ to: 3 }));
  const ended = scaling.ended(number);
  const offices = [SCHEDULER_ID, idOf("server", 0), idOf("server", 1), idOf("worker", 0)].map((node) => cluster.office(node));
  await cluster.run(
    Promise.all([
      ...offices.map((office) => office.finalize()),
      assert.rejects(ended, (error: unknown) => isWeighbridgeError(error, "CLOSED") && /the job has ended/.test(error.message)),
    ]),
  );
});

test("when no server comes, the change is taken back; one that came leaves, and one that comes later waits", async () => {
  const cluster = clusterOf();
  await cluster.start();
  const scaling = scalingOf(cluster);
  await cluster.run(scaling.request({ to: 4, timeoutMs: 5000 }));
  const third = await cluster.run(serve(cluster, 2));
  await cluster.clock.advance(6000);
  await cluster.run(third.ended);
  assert.match(scaling.report().ended[0]?.reason ?? "", /server 3 to come/);
  assert.equal(servers(cluster), "0 alive, 1 alive");
  const late = serve(cluster, 3);
  await cluster.clock.advance(1000);
  assert.equal(servers(cluster), "0 alive, 1 alive");
  late.catch(() => {});
});

test("a new server that dies before it has parts ends neither the job nor the change: another one takes its rank", async () => {
  const cluster = clusterOf();
  await cluster.start();
  const scaling = scalingOf(cluster);
  await cluster.run(scaling.request({ to: 4 }));
  const first = await cluster.run(serve(cluster, 2));
  first.ended.catch(() => {}); // it is killed
  cluster.kill(idOf("server", 2));
  await cluster.clock.advance(1000);
  await cluster.run(Promise.all([serve(cluster, 2), serve(cluster, 3)]));
  await cluster.clock.advance(500);
  assert.deepEqual(scaling.report().ended, [{ number: 1, outcome: "done" }]);
  assert.equal(servers(cluster), "0 alive, 1 alive, 2 alive, 3 alive");
});
