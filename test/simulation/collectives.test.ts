// Workers that reduce among themselves, over bad links and through deaths: the quick share; npm run soak takes many
// more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runChurn, runReduces } from "./collectives.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 20;

test(`sums, exchanges and broadcasts come out exactly over links that lose, double, swap and break, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, runReduces);
});

test(`workers that are left go on when nodes die, for ${SEEDS} seeds`, async () => {
  let sums = 0;
  let reforms = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const { sumCount, reformCount } = await runChurn(seed);
    sums += sumCount;
    reforms += reformCount;
  });
  assert.ok(sums > SEEDS && reforms > SEEDS / 2, `${sums} sums and ${reforms} generations after a death: too few to show anything`);
});
