// Parts move between servers with standbys while heads and standbys die: the quick share; npm run soak takes many more
// seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runBits, undisturbedReads } from "./changing-placement.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 2;

test(`BSP gives the same bits for every optimizer while parts move between replicated servers whose heads and standbys die, for ${SEEDS} seeds (PartsExchange.E4)`, async () => {
  const expected = await undisturbedReads();
  let count = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    count += await runBits(seed, expected, "parts", { isReplicated: true });
  });
  assert.ok(count > SEEDS, `${count} changes`);
});
