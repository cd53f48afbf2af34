// A cluster lives through the deaths of its nodes: the quick share; npm run soak takes many more seeds.

import { test } from "node:test";
import { runCrashes } from "./crashes.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 50;

test(`a cluster lives through the deaths of its nodes, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, runCrashes);
});
