// Durable servers that die and come back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { type Blackouts, CRASHES, DurableStage, runBlackouts, runComebacks } from "./durable.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 1;

test("after everything has died at once, every acknowledged update is there, bit for bit, for 2 seeds (DurableLog.D2)", async () => {
  const found: Blackouts[] = [];
  for (const seed of [3, 2]) await forSeeds({ from: seed, count: 1 }, async () => void found.push(await runBlackouts(seed)));
  // The first one ends at its first crash, with a step that was found in part; the second has all crashes.
  assert.ok(
    found.some(({ crashes }) => crashes === 1),
    "a step was found in part",
  );
  assert.ok(
    found.some(({ crashes, refills }) => crashes === CRASHES && refills > 0),
    "everything died several times, and the state was written anew meanwhile",
  );
});

test("a durable server whose link breaks before it hears its rank gets it again, and hears of the workers that come then (Peer.P9)", async () => {
  const { crashes, registeredTwice } = await runBlackouts(23, { breakChance: 0.05 });
  assert.equal(crashes, CRASHES);
  assert.ok(registeredTwice > 0, "a server got one rank twice in one incarnation");
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
