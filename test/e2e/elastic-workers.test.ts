// elastic-workers — Goal: two workers train LeNet, three more join the running job, two of the five are killed, and the
// result is that of two workers: no step fails, and the accuracy is the same within .3 points (docs/decisions/0074).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster } from "./cluster.ts";

const ACCURACY = /^accuracy (\d+\.\d+) after (\d+) retries$/;

async function accuracyOfTwo(): Promise<number> {
  await using cluster = await Cluster.create({ servers: 1, workers: 2 });
  const others = [cluster.scheduler(), cluster.server(0)];
  const workers = [0, 1].map((rank) => cluster.worker(rank, "elastic-lenet"));
  await workers[0]!.says(/^epoch 2 step \d+$/);
  const [, accuracy] = await workers[0]!.says(ACCURACY);
  for (const node of [...workers, ...others]) await node.succeeds();
  return Number(accuracy);
}

test("2 workers become 5 and then 3 while they train LeNet: no failed step, and the accuracy of 2", async () => {
  const expected = await accuracyOfTwo();
  await using cluster = await Cluster.create({ servers: 1, workers: "2..5" });
  cluster.scheduler();
  cluster.server(0);
  const workers = [0, 1].map((rank) => cluster.worker(rank, "elastic-lenet"));
  await workers[0]!.says(/^epoch 1 step \d+$/, 10);
  const added = [2, 3, 4].map(() => cluster.newcomer("elastic-lenet"));
  for (const worker of added) await worker.says(/^epoch \d step \d+$/, 3); // all five have shares of batches
  const [, rank = ""] = await added[0]!.says(/^worker (\d) of the job$/);
  assert.ok(["2", "3", "4"].includes(rank), rank);
  for (const worker of added.slice(1)) await worker.kill();
  await workers[0]!.says(/^epoch 2 step \d+$/);
  const accuracies = await Promise.all([...workers, added[0]!].map((worker) => worker.says(ACCURACY)));
  for (const [, accuracy, retries] of accuracies) {
    assert.ok(Math.abs(Number(accuracy) - expected) <= 0.3, `${accuracy} %, and ${expected} % with two workers`);
    assert.equal(retries, "0", "no step failed");
  }
  for (const worker of [...workers, added[0]!]) await worker.succeeds(); // the scheduler and the server wait for the dead
});
