// The embedding cache under loss, duplication, reordering and broken links, for one to three servers and two or three
// workers.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Changes } from "../../src/testing/change-placement.ts";
import { runEmbeddingCache } from "./embedding-cache.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 20;
const CHANGING_SEEDS = 1;

test(`no cached row is staler than its bound, own updates show, and every update counts once, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => await runEmbeddingCache(seed));
});

test(`so it is while parts move from server to server, for ${CHANGING_SEEDS} seeds`, async () => {
  const changes: Changes = { count: 0 };
  await forSeeds({ from: 106, count: CHANGING_SEEDS }, async (seed) => await runEmbeddingCache(seed, changes));
  assert.ok(changes.count > CHANGING_SEEDS, `${changes.count} changes`);
});
