// Nodes that die and links that are cut while the placement changes: whoever waits is served, or told who died
// (Availability.I7). The quick share; npm run soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runPlacementCrashes } from "./placement-crashes.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 6;

test(`whoever dies, and whichever links are cut, at whichever phase of a change of the placement: calls settle, acknowledged = applied, and all nodes agree, for ${SEEDS} seeds`, async () => {
  const totals = { told: 0, givenUp: 0 };
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const { told, givenUp } = await runPlacementCrashes(seed);
    totals.told += told;
    totals.givenUp += givenUp;
  });
  assert.ok(totals.told >= SEEDS && totals.givenUp >= SEEDS, `${totals.told} changes were told, ${totals.givenUp} given up`);
});
