// Replicated servers come to a running job and leave it: the quick share of the seeds; npm run soak takes many more.

import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import type { ServerNode } from "../../src/server/server-node.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { runScalingReplicas, type ScalingReplicas, SPARE, trainWhile } from "./scaling-replicas.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 3;

/** "0 1, 0 1": the ranks of live heads, and of standbys that have everything. */
function ranks({ cluster }: ScalingReplicas): string {
  const ofRole = (role: string): string =>
    cluster.scheduler.roster.nodes
      .filter((node) => node.role === role && node.state === "alive" && node.isFilling !== true)
      .map(({ rank }) => rank)
      .join(" ");
  return `${ofRole("server")}, ${ofRole("standby")}`;
}

suite("replicated servers that come and leave", () => {
  let expected: readonly Float32Array[] = [];

  before(async () => {
    expected = await trainWhile(1, async () => {});
  });

  test("one rank becomes three, and then two: sums are whole, and BSP has the bits of a run whose servers stay", async () => {
    const bsp = await trainWhile(2, async (job) => {
      assert.deepEqual([await job.scaleTo(3), ranks(job)], [{ number: 1, outcome: "done" }, "0 1 2, 0 1 2"]);
      assert.deepEqual([await job.scaleTo(2), ranks(job)], [{ number: 2, outcome: "done" }, "0 1, 0 1"]);
    });
    assert.deepEqual(bsp, expected);
  });

  test(`the same while heads, standbys and schedulers die, for ${SEEDS} seeds`, async () => {
    let done = 0;
    await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
      done += await runScalingReplicas(seed, expected);
    });
    assert.ok(done > SEEDS, `${done} changes were done`);
  });

  test("a standby of a rank that leaves does so at once: it writes no log, so that nothing waits to be taken", async () => {
    const bsp = await trainWhile(8, async (job) => {
      const { cluster } = job;
      assert.equal((await job.scaleTo(3)).outcome, "done");
      const copies = (["server", "standby"] as const).map((role) => cluster.office(idOf(role, 2)).node as ServerNode);
      const standby = copies.find(({ server }) => server.replica?.isStandby === true);
      const log = standby?.server.replica?.log;
      assert.deepEqual([log?.isOn, log?.position, log?.whenCommitted()], [false, 0, undefined]);
      const fromMs = cluster.clock.nowMs();
      assert.deepEqual([await job.scaleTo(2), ranks(job)], [{ number: 2, outcome: "done" }, "0 1, 0 1"]);
      assert.ok(cluster.clock.nowMs() - fromMs < 5000, `it took ${cluster.clock.nowMs() - fromMs} ms of the simulation`);
    });
    assert.deepEqual(bsp, expected);
  });

  test("a rank whose second process does not come is taken back, and its first one leaves", async () => {
    const bsp = await trainWhile(3, async (job) => {
      job.started = ["server"];
      const { outcome, reason } = await job.scaleTo(2);
      assert.equal(outcome, "rolledBack");
      assert.match(reason ?? "", /^waited \d+ ms for standby 1 to come$/);
      assert.equal(ranks(job), "0, 0");
    });
    assert.deepEqual(bsp, expected);
  });

  test("a process that nobody asked for is a spare, and stands by where a standby has died; two of them make a rank", async () => {
    const bsp = await trainWhile(4, async (job) => {
      job.started = [];
      for (const spare of [0, 1, 2]) job.startCopy(idOf("server", SPARE + spare));
      await job.cluster.clock.advance(100);
      assert.deepEqual([job.spareCount, ranks(job)], [3, "0, 0"]);
      assert.ok(job.kill("standby", 0));
      await job.cluster.clock.advance(600);
      assert.deepEqual([job.spareCount, ranks(job)], [2, "0, 0"]);
      const { outcome, reason } = await job.scaleTo(2);
      assert.deepEqual([outcome, job.spareCount, ranks(job)], ["done", 0, "0 1, 0 1"], reason);
    });
    assert.deepEqual(bsp, expected);
  });

  test("a head that dies while parts come to its rank, or go from it, is taken over, and the change goes on (Scaling.S5)", async () => {
    for (const [to, rank] of [
      [3, 1],
      [3, 0],
      [1, 1],
    ] as const) {
      const bsp = await trainWhile(5, async (job) => {
        if (to === 1) await job.scaleTo(2);
        const number = await job.ask(to);
        await job.reaches("a part that has moved", ({ current }) => (current?.moved ?? 0) > 0);
        assert.ok(job.kill("server", rank));
        assert.deepEqual(await job.ended(number), { number, outcome: "done" });
      });
      assert.deepEqual(bsp, expected, `server ${rank} on the way to ${to}`);
    }
  });

  test("a head that dies just before a change is asked for keeps nobody from it: its standby answers", async () => {
    const bsp = await trainWhile(6, async (job) => {
      assert.ok(job.kill("server", 0));
      const number = await job.cluster.run(job.scaling.request({ to: 2 }));
      assert.deepEqual(await job.ended(number), { number, outcome: "done" });
    });
    assert.deepEqual(bsp, expected);
  });

  test("a standby of a rank that leaves, and dies meanwhile, holds nothing up; nobody stays behind (AddedServers.A3)", async () => {
    for (const role of ["standby", "server"] as const) {
      const bsp = await trainWhile(7, async (job) => {
        await job.scaleTo(2);
        const number = await job.ask(1);
        await job.reaches("the leaving", ({ current }) => current?.step === "leaving");
        assert.ok(job.kill(role, 1));
        const atMs = job.cluster.clock.nowMs();
        assert.deepEqual(await job.ended(number), { number, outcome: "done" });
        assert.ok(job.cluster.clock.nowMs() - atMs < 1000, "it was not waited for");
        assert.equal(ranks(job), "0, 0");
      });
      assert.deepEqual(bsp, expected);
    }
  });

  test("a scheduler that dies at any step of a change goes on with it", async () => {
    for (const step of ["waiting", "moving", "leaving"] as const) {
      const bsp = await trainWhile(8, async (job) => {
        if (step === "leaving") await job.scaleTo(2);
        const number = await job.ask(step === "leaving" ? 1 : 2);
        await job.reaches(step, ({ current }) => current?.step === step);
        job.killScheduler();
        assert.deepEqual(await job.ended(number), { number, outcome: "done" });
        assert.equal(ranks(job), step === "leaving" ? "0, 0" : "0 1, 0 1");
      });
      assert.deepEqual(bsp, expected, step);
    }
  });

  test("a standby whose head dies before the scheduler hears that it has everything takes no log of the next head (StandbyLog.I7)", async () => {
    const bsp = await trainWhile(9, async (job) => {
      const number = await job.ask(2);
      await job.reaches("the filling", ({ current }) => current?.fillingStandbys?.length === 1);
      const { clock, network } = job.cluster;
      const head = job.entry("server", 1)?.label ?? "";
      await clock.advance(10); // the head has heard of its standby
      network.partition("scheduler", head, { breakLinks: false });
      await clock.advance(150);
      assert.ok(job.kill("server", 1));
      network.heal("scheduler", head);
      job.refill(1); // it leads, and meets the standby of the one before
      clock.after(700, () => job.startCopy(idOf("standby", 1)));
      assert.deepEqual(await job.ended(number), { number, outcome: "done" });
      assert.equal(ranks(job), "0 1, 0 1");
    });
    assert.deepEqual(bsp, expected);
  });

  test("a standby that hears first that its slot is free, and then that it takes over, stays", async () => {
    const bsp = await trainWhile(10, async (job) => {
      await job.scaleTo(2);
      const number = await job.ask(1);
      await job.reaches("the leaving", ({ current }) => current?.step === "leaving");
      assert.ok(job.kill("server", 0)); // the roster of that waits until the one before is answered
      assert.deepEqual(await job.ended(number), { number, outcome: "done" });
      await job.cluster.clock.advance(500);
      assert.equal(ranks(job), "0, ");
      assert.ok(job.cluster.running(SCHEDULER_ID) !== undefined);
    });
    assert.deepEqual(bsp, expected);
  });
});
