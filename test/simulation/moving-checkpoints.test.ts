// Checkpoints that are saved and restored while parts move: the quick share; npm run soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Changes } from "../../src/testing/change-placement.ts";
import { runMovingCheckpoints } from "./moving-checkpoints.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 2;

test(`while parts move, every checkpoint has each row once and is a float64 model at the cut, and so is what is restored, for ${SEEDS} seeds`, async () => {
  const changes: Changes = { count: 0 };
  let [savedCount, refusedCount] = [0, 0];
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const { saved, refused } = await runMovingCheckpoints(seed, changes);
    savedCount += saved;
    refusedCount += refused;
  });
  assert.equal(refusedCount, 0, "cuts and changes wait for each other");
  assert.ok(savedCount > SEEDS && changes.count > 10 * SEEDS, `${savedCount} checkpoints, ${changes.count} changes`);
});
