// What workers do with each other, and beside plain pushes and pulls, while parts move: the quick share; npm run soak
// takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Changes } from "../../src/testing/change-placement.ts";
import { runMovingParts } from "./moving-parts.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 2;

for (const changing of ["parts", "servers"] as const)
  test(`while ${changing === "parts" ? "parts move" : "servers come and go"}, pushes with pulls, raw rows, encoded links, data, SSP groups, partial reduces, collectives, rendezvous and barriers are exact, for ${SEEDS} seeds`, async () => {
    const changes: Changes = { count: 0 };
    await forSeeds({ from: 1, count: SEEDS }, async (seed) => await runMovingParts(seed, changes, changing));
    assert.ok(changes.count > SEEDS, `${changes.count} changes`);
  });
