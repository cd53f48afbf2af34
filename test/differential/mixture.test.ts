// Goal: optimizers, row types, consistencies, links, caches, numbers of servers, both placements, changes and
// checkpoints, mixed by chance, come to what a plain model does (mixture.ts). test/soak has more seeds.

import { test } from "node:test";
import { forSeeds } from "../simulation/seeds.ts";
import { runMixture } from "./mixture.ts";

const SEEDS = 4;
const CHANGING_SEEDS = 1;

test(`${SEEDS} jobs of drawn parameters and calls read what a plain model makes of the same calls, on a ring and in ranges in turn`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => await runMixture(seed, { isChanging: false }));
});

test(`so does ${CHANGING_SEEDS} job whose parts move from server to server all the time`, async () => {
  await forSeeds({ from: 101, count: CHANGING_SEEDS }, async (seed) => await runMixture(seed, { isChanging: true }));
});
