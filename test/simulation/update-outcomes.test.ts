// What errors say of updates, compared with what the servers have: the quick share; npm run soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { forSeeds } from "./seeds.ts";
import { runUpdateOutcomes, type Tally, type Weather } from "./update-outcomes.ts";

const SEEDS = 8;
const WEATHERS: Readonly<Record<Weather, string>> = {
  links: "links are cut, lost and broken",
  moving: "parts move from server to server",
  failover: "heads of replicated servers are killed",
};

for (const weather of Object.keys(WEATHERS) as Weather[]) {
  test(`the outcome of a failed update is what the servers have when ${WEATHERS[weather]}, for ${SEEDS} seeds`, async () => {
    const tally: Tally = new Map();
    await forSeeds({ from: 1, count: SEEDS }, async (seed) => await runUpdateOutcomes(seed, { weather, tally }));
    const told = JSON.stringify([...tally]);
    for (const outcome of ["not-applied", "unknown", "unknown, then applied"])
      assert.ok((tally.get(outcome) ?? 0) > 0, `${outcome}: ${told}`);
  });
}

test("updates that are repeated while their errors are retryable, or settle as not applied, count once", async () => {
  const tally: Tally = new Map();
  await forSeeds({ from: 101, count: SEEDS }, async (seed) => await runUpdateOutcomes(seed, { weather: "links", tally, repeats: true }));
  assert.ok((tally.get("repeated") ?? 0) > 0, JSON.stringify([...tally]));
});
