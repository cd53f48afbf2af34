// replicated-training — Goal: heads, standbys and the scheduler are killed and stopped while LeNet (in step) and Wide &
// Deep (asynchronous) train: nothing is lost, counted twice or computed otherwise. Ten strikes; test/soak/replicas has
// 250.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { strikesOf, strikeTraining } from "./struck-training.ts";

suite("replicated training", { concurrency: 2 }, () => {
  for (const { task, workers, seed, scheduler } of [
    { task: "lenet", workers: 2, seed: 1, scheduler: "SIGKILL" },
    { task: "wide-deep", workers: 1, seed: 7, scheduler: "SIGSTOP" },
  ] as const)
    test(`${task} trains on while 4 processes are killed and 1 is stopped, seed ${seed}`, async () => {
      const struck = await strikeTraining({ task, workers, seed, strikes: strikesOf({ kills: 4, stops: 1 }) });
      assert.equal(
        [...struck.values()].reduce((sum, count) => sum + count, 0),
        5,
      );
      assert.ok(struck.has(`${scheduler} of a scheduler`), [...struck.keys()].join(", "));
    });
});
