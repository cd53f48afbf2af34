// tables-programs — Goal: whatever programs of several processes, threads and tables do, and whatever happens to their
// links and to one of them, reads keep to the bounds of a plain model, nothing hangs, and in the end every increment is
// there once. Many more seeds: test/soak/tables.test.ts.

import { test } from "node:test";
import { runProgramSeeds } from "./tables-programs.ts";

const MODELS = [{}, { consistencyModel: "SSPPush" }, { consistencyModel: "SSPAggr" }, { aggressiveClock: true }] as const;

for (const [trouble, text] of [
  ["none", "while nothing happens"],
  ["losses", "while frames are lost, doubled and swapped"],
  ["cuts", "while links to servers are cut for a while"],
  ["death", "while a process is declared dead and returns"],
  ["kill", "while a process is killed"],
  ["failover", "while the head of a server is killed and its standby goes on"],
  ["refill", "while a standby is filled and takes over"],
] as const)
  test(`programs of 2 processes × 3 threads on 2 tables read what a model allows and lose nothing ${text}`, async () => {
    const operations = trouble === "death" ? 400 : 150;
    for (const [index, config] of MODELS.entries()) await runProgramSeeds(1 + index, 2, { trouble, config, operations });
  });
