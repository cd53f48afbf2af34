// Goal: a guest that was never silent outlives its scheduler, whoever resumes first, and whenever the scheduler ends.
// docs/decisions/0069.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, isGuest, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { WorkerNode } from "../../src/worker/worker-node.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";

const DEADLINE = { timeoutMs: 20_000 };
const TIMEOUT_MS = 400;
const ONE = Float32Array.of(1);

async function started(seed = 1): Promise<SimCluster> {
  const cluster = new SimCluster({
    ...{ seed, serverCount: 2, workerCount: 2, settle: SETTLING },
    ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: TIMEOUT_MS, network: { latencyMsMin: 0, latencyMsMax: 2 } },
  });
  await cluster.start();
  return cluster;
}

async function push(cluster: SimCluster, guest: WorkerNode): Promise<number> {
  const session = await cluster.run(Session.open(guest, DEADLINE));
  const rows = await cluster.run(session.embedding("rows", { dim: 1, consistency: "asp", optimizer: { type: "sum" }, ...DEADLINE }));
  await cluster.run(rows.push([1], ONE, DEADLINE));
  return (await cluster.run(rows.pull([1], DEADLINE)))[0] as number;
}

function ordersOf<T>(all: readonly T[]): T[][] {
  if (all.length === 0) return [[]];
  return all.flatMap((first) => ordersOf(all.filter((other) => other !== first)).map((others) => [first, ...others]));
}

/** The scheduler is started again, and these hosts reach it one after the other. */
async function restart(cluster: SimCluster, order: readonly string[]): Promise<void> {
  cluster.kill(SCHEDULER_ID);
  for (const host of order) cluster.network.isolate(host);
  const starting = cluster.startNode(SCHEDULER_ID);
  for (const host of order) {
    await cluster.clock.advance(50);
    cluster.network.heal(host);
  }
  await cluster.run(starting);
  await cluster.clock.advance(2 * TIMEOUT_MS);
}

test("a guest goes on with a scheduler that is started again, in whichever order nodes resume", async () => {
  for (const order of ordersOf(["server-0", "server-1", "worker-0", "guest"])) {
    const cluster = await started();
    const guest = await cluster.run(cluster.startGuest("guest"));
    assert.equal(await push(cluster, guest), 1);
    cluster.kill(idOf("worker", 1)); // The last change is everybody's: workers have the version that servers have.
    await cluster.clock.advance(2 * TIMEOUT_MS);
    await restart(cluster, order);
    assert.equal(guest.failure, undefined, `${order.join(" ")}: ${guest.failure?.message}`);
    assert.equal(await push(cluster, guest), 2, order.join(" "));
    await cluster.run(guest.close());
  }
});

test("a guest that comes while servers resume stays, though a later one of them brings a newer list", async () => {
  const cluster = await started();
  // Server 1 hears of a guest more than server 0.
  cluster.network.partition("scheduler", "server-0");
  const guest = await cluster.run(cluster.startGuest("guest"));
  await cluster.clock.advance(20);
  cluster.kill(SCHEDULER_ID);
  cluster.network.heal();
  cluster.network.isolate("server-1");
  const starting = cluster.startNode(SCHEDULER_ID);
  await cluster.clock.advance(100);
  const newcomer = await cluster.run(cluster.startGuest("newcomer"));
  cluster.network.heal();
  await cluster.run(starting);
  await cluster.clock.advance(2 * TIMEOUT_MS);
  for (const each of [guest, newcomer]) assert.equal(each.failure, undefined, String(each.failure));
  assert.deepEqual([await push(cluster, guest), await push(cluster, newcomer)], [1, 2]);
});

/** The scheduler is killed at some moment while a guest comes. */
async function killed(seed: number): Promise<void> {
  const cluster = await started(seed);
  for (const host of ["server-0", "server-1"]) cluster.network.partition("scheduler", host, { isOneWay: cluster.random.chance(0.5) });
  const coming = cluster.startGuest("guest");
  coming.catch(() => {});
  await cluster.clock.advance(cluster.random.below(12));
  cluster.kill(SCHEDULER_ID);
  cluster.network.heal();
  await cluster.clock.advance(cluster.random.below(100));
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  const guest = await cluster.run(coming);
  await cluster.clock.advance(2 * TIMEOUT_MS);
  assert.equal(guest.failure, undefined, String(guest.failure));
  assert.equal(await push(cluster, guest), 1);
  const { node } = cluster.server(0);
  const known = [...node.peer.channels()].filter(({ id }) => isGuest(id)).map(({ id }) => id);
  assert.deepEqual(known, [guest.id]);
}

test("a guest that has its number keeps it, whenever the scheduler is killed while it comes, for 15 seeds", async () => {
  await forSeeds({ from: 1, count: 15 }, killed);
});
