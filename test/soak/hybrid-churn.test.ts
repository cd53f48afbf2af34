// Hybrid trainings whose workers die and come back, again and again: many rounds find what one does not
// (test/training/churn.test.ts has one of each).

import { test } from "node:test";
import { workerComesBack, workerDies } from "../training/churn-cases.ts";

const ROUNDS = Number(process.env.SOAK_ROUNDS ?? 20);
const SETUPS = [{ isHybrid: true }, { isHybrid: true, vocabCacheSize: 10 }];

for (let round = 1; round <= ROUNDS; round++) {
  for (const setup of SETUPS) {
    const name = "vocabCacheSize" in setup ? "hybrid, cached" : "hybrid";
    test(`a worker that dies leaves its units to the others, ${name}, round ${round}`, { timeout: 120_000 }, async () => {
      await workerDies(setup);
    });
    test(`a worker that is started again takes part in what is left, ${name}, round ${round}`, { timeout: 120_000 }, async () => {
      await workerComesBack(setup);
    });
  }
}
