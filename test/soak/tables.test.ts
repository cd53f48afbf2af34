// tables — Goal: as test/simulation/tables-programs.test.ts, tables-snapshots.test.ts and
// src/node/tables-threads.test.ts, for many seeds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { forSeeds } from "../simulation/seeds.ts";
import { runProgramSeeds } from "../simulation/tables-programs.ts";
import { runMovingSnapshots } from "../simulation/tables-snapshots.ts";
import { runThreadPrograms } from "../support/table-programs.ts";

const MODELS = [{}, { consistencyModel: "SSPPush" }, { consistencyModel: "SSPAggr" }, { aggressiveClock: true }] as const;

for (const config of MODELS) {
  for (const trouble of ["none", "losses", "cuts", "death", "kill", "failover", "refill"] as const)
    test(`programs on tables read what a model allows, for 100 seeds: ${trouble}, ${JSON.stringify(config)}`, async () => {
      await runProgramSeeds(1, 100, { trouble, config, operations: trouble === "death" ? 400 : 150 });
    });
  test(`snapshots are exact while parts move, for 20 seeds: ${JSON.stringify(config)}`, async () => {
    const tally = { taken: 0, asked: 0, changes: { count: 0 } };
    await forSeeds({ from: 1, count: 20 }, async (seed) => await runMovingSnapshots(seed, config, tally));
    assert.equal(tally.taken, tally.asked, "snapshots that were taken");
  });
  test(`threads of the system read what a model allows, for 30 seeds: ${JSON.stringify(config)}`, async () => {
    for (let seed = 1; seed <= 30; seed++) await runThreadPrograms(seed, config);
  });
}
