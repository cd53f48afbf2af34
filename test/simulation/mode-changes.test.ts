// Changes of consistency over a bad network, through the whole stack; the pure decisions, over far more operations, are
// in staleness.test.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Changes } from "../../src/testing/change-placement.ts";
import { runModeChanges, runNamedChanges } from "./mode-changes.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 15;

test(`whoever changes what and when, every push counts once on every server, for ${SEEDS} seeds`, async () => {
  let changes = 0;
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    changes += await runModeChanges(seed);
  });
  assert.ok(changes > 100, `${changes} changes`);
});

test("changes at named clocks begin there on every server, and BSP clocks give the same bits whatever the network and the number of servers", async () => {
  for (let seed = 1; seed <= 4; seed++) {
    const one = await runNamedChanges(seed, seed, 1);
    assert.deepEqual(await runNamedChanges(seed, 1000 + seed, 3), one, `seed ${seed}`);
  }
});

test("so it is while parts move from server to server", async () => {
  const moves: Changes = { count: 0 };
  await forSeeds({ from: 101, count: 1 }, async (seed) => void (await runModeChanges(seed, moves)));
  for (let seed = 1; seed <= 1; seed++)
    assert.deepEqual(await runNamedChanges(seed, 2000 + seed, 3, moves), await runNamedChanges(seed, seed, 1), `seed ${seed}`);
  assert.ok(moves.count > 3, `${moves.count} changes of the placement`);
});
