// units — Goal: an epoch is done whole by real processes, although one of them is killed in the middle, or the
// scheduler is.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Cluster } from "./cluster.ts";

/** As in worker/unit-feed.ts. */
const LEASE_MAX = 64;

suite("units of an epoch", { concurrency: 2 }, () => {
  for (const assignment of ["even", "free"]) {
    test(`a worker is killed in the middle of its units: the other does the rest (${assignment})`, async () => {
      await using cluster = await Cluster.create({ servers: 1, workers: 2 });
      const scheduler = cluster.scheduler();
      const server = cluster.server(0);
      const worker = cluster.worker(0, "units", "--assignment", assignment);
      const victim = cluster.worker(1, "units", "--assignment", assignment, "--stall");
      await victim.says(/^begins \d+$/, 3);
      await victim.kill();
      const [, least, most, repeated] = await worker.says(/^over: each (\d+) to (\d+) times, (\d+) repeated$/);
      assert.equal(Number(least), 1, "every unit was done");
      assert.ok(Number(most) <= 2, worker.transcript);
      // How much it had in stock depends on how fast it was; a lease is the most.
      assert.ok(
        Number(repeated) >= 1 && Number(repeated) <= 1 + LEASE_MAX,
        `${repeated} repeated: the one it was at, and what it had in stock`,
      );
      // It comes back, finds the epoch over, and leaves with the others.
      const restarted = cluster.worker(1, "units", "--assignment", assignment);
      await restarted.says(/^over: each 1 to \d times/);
      for (const node of [worker, restarted, server, scheduler]) await node.succeeds();
    });
  }

  test("the scheduler is killed and restarted in the middle of an epoch: nothing is done twice", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 2 });
    const killed = cluster.scheduler();
    const server = cluster.server(0);
    const workers = [cluster.worker(0, "units"), cluster.worker(1, "units")];
    for (const worker of workers) await worker.says(/^begins \d+$/, 5);
    await killed.kill();
    const scheduler = cluster.scheduler();
    for (const worker of workers) await worker.says(/^over: each 1 to 1 times, 0 repeated$/);
    for (const node of [...workers, server, scheduler]) await node.succeeds();
  });
});
