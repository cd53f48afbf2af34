// The embedding cache under loss, duplication, reordering and broken links, for one to three servers and two or three workers.

import { test } from "node:test";
import { runEmbeddingCache } from "./embedding-cache.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 30;

test(`no cached row is staler than its bound, own updates show, and every update counts once, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, runEmbeddingCache);
});
