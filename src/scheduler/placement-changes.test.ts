// placement-changes — Goal: nobody is told of a placement before every worker that lives is prepared for it, and no
// worker holds a change up for ever.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { ControlCluster } from "../testing/control-cluster.ts";

/** Workers answer PREPARE once they are let go, and servers at once. */
class Workers {
  readonly asked: string[] = [];
  readonly #waits = new Map<string, Deferred<void>>();

  constructor(cluster: ControlCluster, ...slow: readonly string[]) {
    for (const host of slow) this.#waits.set(host, new Deferred());
    cluster.prepare = async (host, { epoch, holdMs }) => {
      if (host.startsWith("w")) this.asked.push(holdMs === 0 ? `${host}: not ${epoch}` : `${host}: ${epoch}`);
      if (holdMs > 0) await this.#waits.get(host)?.promise;
    };
  }

  letGo(host: string): void {
    this.#waits.get(host)?.resolve();
    this.#waits.delete(host);
  }
}

test("a placement is moved to and told once every worker is prepared for its epoch (PlacementChanges.C1)", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers } = await cluster.formed();
  const workers = new Workers(cluster, "w1");
  const moved: number[] = [];
  const change = scheduler.publishPlacement({ policy: "range" }, ({ placement }) => moved.push(placement.epoch));
  await cluster.clock.advance(1000);
  assert.deepEqual(workers.asked.sort(), ["w0: 2", "w1: 2"]);
  assert.deepEqual([moved, servers[0]?.placement?.epoch], [[], 1]);
  workers.letGo("w1");
  await cluster.clock.runUntil(change);
  await cluster.clock.advance(100);
  assert.deepEqual([moved, servers[0]?.placement?.epoch], [[2], 2]);
});

test("a worker that is dead, or dies while it is waited for, holds no change up (PlacementChanges.C2)", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers } = await cluster.formed();
  const workers = new Workers(cluster, "w1");
  const change = scheduler.publishPlacement();
  await cluster.clock.advance(100);
  cluster.network.crash("w1");
  await cluster.clock.runUntil(change);
  await cluster.clock.runUntil(scheduler.publishPlacement());
  await cluster.clock.advance(100);
  assert.equal(servers[0]?.placement?.epoch, 3);
  assert.deepEqual(workers.asked.sort(), ["w0: 2", "w0: 3", "w1: 2"]);
});

test("a worker that leaves while it is waited for holds no change up (PlacementChanges.C2)", async () => {
  const cluster = new ControlCluster();
  const { scheduler, workers: memberships } = await cluster.formed();
  new Workers(cluster, "w1");
  const change = scheduler.publishPlacement();
  await cluster.clock.advance(100);
  await cluster.clock.runUntil(Promise.all([memberships[1]?.leave(), change]));
  assert.equal(scheduler.roster.placement?.epoch, 2);
});

test("a worker that joins while others are waited for is prepared too (PlacementChanges.C1)", async () => {
  const cluster = new ControlCluster();
  const { scheduler } = await cluster.formed();
  cluster.network.crash("w1");
  await cluster.clock.advance(6000);
  const workers = new Workers(cluster, "w0");
  const change = scheduler.publishPlacement();
  await cluster.clock.advance(100);
  await cluster.restarted("worker", "w1", { rank: 1 });
  workers.letGo("w0");
  await cluster.clock.runUntil(change);
  assert.deepEqual(workers.asked.sort(), ["w0: 2", "w1: 2"]);
});

test("a worker that lives and is not prepared in time ends the change with DEADLINE, which names it; the others hear that it does not come, and the next one does", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers } = await cluster.formed();
  const workers = new Workers(cluster, "w1");
  await cluster.fails(scheduler.publishPlacement(), "DEADLINE", /worker 1 to prepare for the placement of epoch 2/);
  await cluster.clock.advance(100);
  assert.equal(servers[0]?.placement?.epoch, 1);
  assert.ok(workers.asked.includes("w0: not 2") && workers.asked.includes("w1: not 2"), workers.asked.join());
  workers.letGo("w1");
  await cluster.clock.runUntil(scheduler.publishPlacement());
  assert.equal(scheduler.roster.placement?.epoch, 2);
});

test("a change whose parts cannot be moved is told nobody, and workers hear that it does not come", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers } = await cluster.formed();
  const workers = new Workers(cluster);
  const move = (): never => {
    throw new WeighbridgeError("ARENA_FULL", "no room for part 7");
  };
  await cluster.fails(scheduler.publishPlacement({}, move), "ARENA_FULL", /part 7/);
  await cluster.clock.advance(100);
  assert.deepEqual(workers.asked.sort(), ["w0: 2", "w0: not 2", "w1: 2", "w1: not 2"]);
  assert.equal(servers[0]?.placement?.epoch, 1);
});

test("a server that cannot go along with other servers ends the change at once, with its reason; other changes go on (PlacementChanges.C5)", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers } = await cluster.formed();
  const told: (readonly number[] | undefined)[] = [];
  cluster.prepare = async (host, { holdMs, servers: next }) => {
    if (host !== "s1" || holdMs === 0) return;
    told.push(next);
    if (next !== undefined) throw new WeighbridgeError("UNSUPPORTED", "an application cuts its requests itself");
  };
  await cluster.fails(scheduler.publishPlacement({ servers: [1] }), "UNSUPPORTED", /cuts its requests itself/);
  await cluster.clock.runUntil(scheduler.publishPlacement({ policy: "range" }));
  await cluster.clock.advance(100);
  assert.deepEqual(told, [[1], undefined]);
  assert.deepEqual([servers[0]?.placement?.epoch, servers[0]?.placement?.servers], [2, [0, 1]]);
});

test("a server that is loading a checkpoint is asked until it is prepared; one that stays so ends the change with DEADLINE, which names it (PlacementChanges.C4)", async () => {
  const cluster = new ControlCluster();
  const { scheduler, servers } = await cluster.formed();
  let isLoading = true;
  let calls = 0;
  cluster.prepare = async (host, { holdMs }) => {
    if (host !== "s1" || holdMs === 0 || !isLoading) return;
    calls++;
    throw new WeighbridgeError("QUEUE_FULL", "server 1 is loading", { retryable: true });
  };
  const change = scheduler.publishPlacement();
  await cluster.clock.advance(5000);
  assert.equal(scheduler.roster.placement?.epoch, 1);
  isLoading = false;
  await cluster.clock.runUntil(change);
  await cluster.clock.advance(100);
  assert.equal(servers[0]?.placement?.epoch, 2);
  isLoading = true;
  calls = 0;
  await cluster.fails(scheduler.publishPlacement(), "DEADLINE", /server 1 to prepare for the placement of epoch 3/);
  assert.ok(calls > 200 && calls < 500, `a minute of loading is worth ${calls} calls, each of which prepares all other servers`);
});
