// training — Goal: what training is to reach, at full size, in real processes: one epoch of MNIST with eight workers
// and eight servers; SSP and ASP beside BSP with a slow worker; the stated objectives of the other tasks. Some minutes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Processes } from "../e2e/processes.ts";

const TRAIN_MS = 600_000;
/** How far the accuracy may lie below that of BSP, in points. */
const POINTS_MAX = 0.5;

type Trained = { readonly figure: number; readonly seconds: number; readonly isReached: boolean };

async function train(...args: readonly (string | number)[]): Promise<Trained> {
  await using processes = new Processes();
  const job = processes.weighbridge(["train", ...args, "--quiet", "--no-checkpoint"]);
  await job.succeeds(TRAIN_MS);
  const [, seconds] = await job.says(/^ {2}[✓•] [\d,]+ steps in (\d+\.\d) s$/);
  const [, figure] = await job.says(/^ {2}(?:accuracy|AUC|error) +(\d+\.\d+)/);
  const [, reached] = await job.says(/^ {2}objective .*: (reached|not reached)$/);
  return { figure: Number(figure), seconds: Number(seconds), isReached: reached === "reached" };
}

test("LeNet reaches 97.5 % after one epoch with the defaults, whatever the seed", async () => {
  for (const seed of [1, 2, 3, 4]) {
    const { figure, isReached } = await train("lenet", "--seed", seed);
    assert.ok(isReached, `seed ${seed}: ${figure} %`);
  }
});

test("eight workers and eight servers reach 97 % after one epoch", async () => {
  const { figure } = await train("lenet", "-s", 8, "-w", 8);
  assert.ok(figure >= 97, `${figure} %`);
});

test("with a worker that is five times slower, SSP and ASP come within half a point of BSP, in less time where nobody comes to the bound", async () => {
  const slow = ["lenet", "--slow-worker", "1:5", "--consistency"] as const;
  const bsp = await train(...slow, "bsp");
  for (const consistency of ["ssp:4", "ssp:200", "asp"]) {
    const { figure, seconds } = await train(...slow, consistency);
    assert.ok(figure >= bsp.figure - POINTS_MAX, `${consistency}: ${figure} %, bsp ${bsp.figure} %`);
    const isPaced = consistency === "ssp:4"; // the fast ones wait for the slow one all the time
    assert.ok(isPaced || seconds < bsp.seconds, `${consistency}: ${seconds} s, bsp ${bsp.seconds} s`);
  }
});

for (const task of ["logistic", "mf", "wide-deep"]) {
  test(`${task} reaches its objective with its defaults`, async () => {
    const { figure, isReached } = await train(task);
    assert.ok(isReached, `${figure}`);
  });
}

test("Wide & Deep learns the same from all its flights with rows that workers keep as without", async () => {
  const [plain, cached] = [await train("wide-deep"), await train("wide-deep", "--cache-rows", 4_000)];
  assert.equal(cached.figure, plain.figure);
});
