// Pushes count exactly once under loss, duplication, reordering, partition and broken links: the quick share; npm run soak takes many more seeds.

import { test } from "node:test";
import { runExactlyOnce } from "./exactly-once.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 600;

test(`pushes count exactly once under loss, duplication, reordering, partition and broken links, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, runExactlyOnce);
});
