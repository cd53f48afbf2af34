// Pushes count exactly once under loss, duplication, reordering, partition and broken links: the quick share; npm run
// soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Changes } from "../../src/testing/change-placement.ts";
import { runExactlyOnce } from "./exactly-once.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 60;
const CHANGING_SEEDS = 3;

test(`pushes count exactly once under loss, duplication, reordering, partition and broken links, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => await runExactlyOnce(seed));
});

test(`so they do while the placement changes, for ${CHANGING_SEEDS} seeds`, async () => {
  const changes: Changes = { count: 0 };
  await forSeeds({ from: 1001, count: CHANGING_SEEDS }, async (seed) => await runExactlyOnce(seed, changes));
  assert.ok(changes.count > CHANGING_SEEDS, `${changes.count} changes`);
});
