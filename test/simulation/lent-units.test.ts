// Goal: epochs are done whole, whatever happens to those who do them: the quick share; npm run soak takes many more
// seeds.

import { test } from "node:test";
import { runLentUnits } from "./lent-units.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 20;

test(`with links that break every unit is done exactly once, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, (seed) => runLentUnits(seed, { workers: false, scheduler: false }));
});

test(`a scheduler that is killed and restarted repeats nothing, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1001, count: SEEDS }, (seed) => runLentUnits(seed, { workers: false, scheduler: true }));
});

test(`the units of workers that die are done by others, and counted, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 2001, count: SEEDS }, (seed) => runLentUnits(seed, { workers: true, scheduler: false }));
});

test(`every unit is done when workers and the scheduler die, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 3001, count: SEEDS }, (seed) => runLentUnits(seed, { workers: true, scheduler: true }));
});

test(`workers that join a running epoch get units of it, and every batch in rounds stays one round, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 4001, count: SEEDS }, (seed) => runLentUnits(seed, { workers: false, scheduler: false, joins: true }));
});

test(`every unit is done when workers join while others and the scheduler die, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 5001, count: SEEDS }, (seed) => runLentUnits(seed, { workers: true, scheduler: true, joins: true }));
});
