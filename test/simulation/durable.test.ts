// Durable servers that die and come back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runBlackouts, runComebacks } from "./durable.ts";
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
