// Durable servers that die and come back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { DurableStage, runBlackouts, runComebacks } from "./durable.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 1;

test(`after everything has died at once, every acknowledged update is there, bit for bit, for ${SEEDS} seed (DurableLog.D2)`, async () => {
  let refills = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    refills += await runBlackouts(seed);
  });
  assert.ok(refills > 0, "the state was written anew meanwhile");
});

test(`servers that are not durable, and are stopped and started again, fail no call, and count every update once, for ${SEEDS} seed (PlannedStop.P1)`, async () => {
  let comebacks = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    comebacks += await runComebacks(seed, { leaves: true });
  });
  assert.ok(comebacks > SEEDS, `${comebacks} comebacks`);
});

test(`servers that die and come back fail no call, and count every update once, for ${SEEDS} seed`, async () => {
  let comebacks = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    comebacks += await runComebacks(seed);
  });
  assert.ok(comebacks > SEEDS, `${comebacks} comebacks`);
});

test(`so it is while parts move between durable servers, for ${SEEDS} seed (PartsExchange.E4)`, async () => {
  const moves: Changes = { count: 0 };
  let comebacks = 0;
  await forSeeds({ from: 3, count: SEEDS }, async (seed) => {
    comebacks += await runComebacks(seed, { moves });
  });
  assert.ok(comebacks > SEEDS && moves.count > SEEDS, `${comebacks} comebacks, ${moves.count} changes`);
});

test("durable servers join and leave a running job; one that joined comes back with its parts, and one that leaves for good is not waited for", async () => {
  const stage = new DurableStage(4, { isCalm: true });
  const { cluster } = stage;
  const [session] = await stage.start();
  assert.ok(session !== undefined);
  const keys = Array.from({ length: 200 }, (_, i) => i);
  const rows = await cluster.run(session.embedding("rows", { dim: 1, optimizer: { type: "sum" } }));
  const pull = async (): Promise<number> => (await cluster.run(rows.pull(keys))).reduce((sum, value) => sum + value, 0);
  await cluster.run(rows.push(keys, new Float32Array(keys.length).fill(1)));
  const { node } = cluster.scheduler;
  assert.ok(node instanceof SchedulerNode);
  const { scaling } = node.scheduler;
  const added = idOf("server", 2);
  const out = await cluster.run(scaling.request({ to: 3 }));
  await cluster.run(cluster.startNode(added));
  assert.deepEqual(await cluster.run(scaling.ended(out)), { number: out, outcome: "done" });
  await cluster.run(rows.push(keys, new Float32Array(keys.length).fill(1)));
  stage.kill(added, { power: true });
  const office = await cluster.run(cluster.startNode(added));
  assert.equal(await pull(), 2 * keys.length);
  const left = office.finalize();
  const back = await cluster.run(scaling.request({ leave: [2] }));
  await cluster.run(left);
  assert.deepEqual(await cluster.run(scaling.ended(back)), { number: back, outcome: "done" });
  assert.equal(await pull(), 2 * keys.length);
  assert.deepEqual(cluster.scheduler.roster.placement?.servers, [0, 1]);
  await stage.close();
});
