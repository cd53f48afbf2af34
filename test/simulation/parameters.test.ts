// Parameters under loss, duplication, reordering and broken links: the quick share; npm run soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import { runParameters } from "./parameters.ts";
import { forSeeds } from "./seeds.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const SEEDS = 40;
const CHANGING_SEEDS = 1;
const DIFFERENT_SEEDS = 30;

test(`pushes to parameters count once, reads keep their bounds and see their own writes, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => void (await runParameters(seed)));
});

test(`so they do while parts move from server to server, for ${CHANGING_SEEDS} seeds, and BSP gives the same bits as if none did`, async () => {
  const changes: Changes = { count: 0 };
  await forSeeds({ from: 1, count: CHANGING_SEEDS }, async (seed) => {
    assert.deepEqual(await runParameters(seed, 2000 + seed, changes), await runParameters(seed));
  });
  assert.ok(changes.count > CHANGING_SEEDS, `${changes.count} changes`);
});

test("BSP gives the same bits whatever the network does", async () => {
  for (let seed = 1; seed <= 5; seed++) {
    const one = await runParameters(seed, seed);
    assert.deepEqual(await runParameters(seed, 1000 + seed), one, `seed ${seed}`);
  }
});

test(`of two workers that describe a parameter differently at the same time one has it, on every server, for ${DIFFERENT_SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: DIFFERENT_SEEDS }, async (seed) => {
    const cluster = await stormyCluster(new Random(seed), { seed, serverCount: 3, workerCount: 2 });
    const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
    const made = await cluster.run(
      Promise.allSettled(sessions.map((session, i) => session.tensor("w", { shape: [i + 1], optimizer: "sum" }))),
    );
    const [tensor, ...more] = made.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    assert.ok(tensor !== undefined && more.length === 0, `${made.filter(({ status }) => status === "fulfilled").length} have it`);
    const [refusal] = made.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as unknown] : []));
    assert.ok(isWeighbridgeError(refusal, "SPEC_MISMATCH"), String(refusal));
    for (const session of sessions) {
      const specs = await cluster.run(session.parameters());
      assert.deepEqual(
        specs.map((spec) => spec.kind === "tensor" && spec.shape),
        [tensor.shape],
      );
    }
  });
});
