// Replicated servers whose processes die, stop and are cut off: the quick share; npm run soak takes many more seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { drawFaults, type Fault, runFailover } from "./failover.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 24;

test(`no call fails and every update counts once when heads and standbys die, stop or are cut off, for ${SEEDS} seeds (Availability.I1, Availability.I5)`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => void (await runFailover(seed, drawFaults(seed))));
});

test("BSP gives the bits of a run in which nothing happens (Availability.I2, Availability.I6)", async () => {
  for (let seed = 1; seed <= 3; seed++) {
    const faults: readonly Fault[] = ["kill head", "kill head at an answer"];
    assert.deepEqual(await runFailover(seed, faults), await runFailover(seed, []), `seed ${seed}`);
  }
});

test("a head that hears at once that it was replaced and that it has no standby any more lets no answer go (Availability.I1)", async () => {
  await runFailover(18_000_077, ["hold log back", "kill head, then scheduler as it writes"]);
});
