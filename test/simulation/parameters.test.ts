// Parameters under loss, duplication, reordering and broken links: the quick share; npm run soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runParameters } from "./parameters.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 60;

test(`pushes to parameters count once, reads keep their bounds and see their own writes, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => void (await runParameters(seed)));
});

test("BSP gives the same bits whatever the network does", async () => {
  for (let seed = 1; seed <= 5; seed++) {
    const one = await runParameters(seed, seed);
    assert.deepEqual(await runParameters(seed, 1000 + seed), one, `seed ${seed}`);
  }
});
