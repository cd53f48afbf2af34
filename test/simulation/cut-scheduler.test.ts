// Goal: see cut-scheduler.ts, at the seeds of the default run.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CUT_FAULTS, runCutScheduler } from "./cut-scheduler.ts";
import { forSeeds } from "./seeds.ts";

for (const fault of CUT_FAULTS)
  for (const replicas of [1, 2] as const) {
    const copies = replicas === 2 ? "a replicated job" : "a job";
    test(`a scheduler that was ${fault}, and comes back after 6 to 9 s, hurts nobody in ${copies} that trains: the bits are those of a calm run`, async () => {
      await forSeeds({ from: 1, count: 1 }, async (seed) => {
        const calm = await runCutScheduler(seed, { replicas, work: "train" });
        const cut = await runCutScheduler(seed, { replicas, work: "train", fault });
        assert.deepEqual(cut.bits, calm.bits);
      });
    });
    test(`a scheduler that was ${fault}, and comes back after 6 to 9 s, hurts nobody in ${copies} that rests`, async () => {
      await forSeeds({ from: 1, count: 2 }, async (seed) => {
        const { lines } = await runCutScheduler(seed, { replicas, work: "rest", fault });
        const said = lines.filter((line) => line.startsWith("warn no node has been heard"));
        assert.equal(said.length, fault.startsWith("stopped") ? 0 : 1, `the log says it once: ${lines.join("\n")}`);
      });
    });
  }
