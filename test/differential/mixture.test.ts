// Goal: optimizers, consistencies, links, caches, numbers of servers, both placements, changes and checkpoints, mixed by chance, come to what a plain model does (mixture.ts).
// test/soak has more seeds.

import { test } from "node:test";
import { forSeeds } from "../simulation/seeds.ts";
import { runMixture } from "./mixture.ts";

const SEEDS = 4;

test(`${SEEDS} jobs of drawn parameters and calls read what a plain model makes of the same calls, on a ring and in ranges in turn`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, runMixture);
});
