// Calls of servers to workers under loss, duplication, reordering, partition, broken links and crashes.

import { test } from "node:test";
import { forSeeds } from "./seeds.ts";
import { runCalledWorkers, runCrashedCalls } from "./worker-functions.ts";

const SEEDS = 15;
const CRASHES = 15;

test(`a call of a server to a worker runs once and in order under loss, duplication, reordering and broken links, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, runCalledWorkers);
});

test(`it runs once at most and always ends when worker or server are killed meanwhile, for ${CRASHES} seeds`, async () => {
  await forSeeds({ from: 1, count: CRASHES }, runCrashedCalls);
});
