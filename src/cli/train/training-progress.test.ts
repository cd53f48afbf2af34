// Goal: a training goes on where its checkpoint says, and only with the plan that the checkpoint was made with.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { planTraining, type TrainPlan } from "./train-plan.ts";
import { findProgress, positionOf, progressNote } from "./training-progress.ts";

const PLAN = planTraining("lenet", { workers: 2, servers: 2, seed: 1, checkpoint: true, overlap: false, epochs: 3, limit: 640 });

test("a note leads back to its place, whatever the number of servers and workers", () => {
  for (const position of [
    { epoch: 0, step: 3 },
    { epoch: 1, step: 0 },
    { epoch: 2, step: 9 },
  ]) {
    const plan: TrainPlan = { ...PLAN, servers: 3, workers: 1 };
    assert.deepEqual(positionOf(plan, JSON.parse(JSON.stringify(progressNote(PLAN, position))), "here"), position);
  }
});

test("the end of an epoch is the beginning of the next", () => {
  assert.deepEqual(positionOf(PLAN, progressNote(PLAN, { epoch: 0, step: 10 }), "here"), { epoch: 1, step: 0 });
});

test("another plan is refused with what differs", () => {
  const note = progressNote(PLAN, { epoch: 1, step: 0 });
  assert.throws(() => positionOf({ ...PLAN, batchSize: 32 }, note, "here"), throwsCode("BAD_CONFIG", /--batch-size was 64, and is 32 now/));
  assert.throws(() => positionOf({ ...PLAN, seed: 2 }, note, "here"), throwsCode("BAD_CONFIG", /seed was 1, and is 2 now/));
  assert.throws(
    () => positionOf({ ...PLAN, consistency: "asp" }, note, "here"),
    throwsCode("BAD_CONFIG", /consistency was bsp, and is asp now/),
  );
});

test("without bsp the servers count the workers' updates: their number has to stay", () => {
  const asp: TrainPlan = { ...PLAN, consistency: "asp" };
  const note = progressNote(asp, { epoch: 1, step: 0 });
  assert.deepEqual(positionOf(asp, note, "here"), { epoch: 1, step: 0 });
  assert.throws(() => positionOf({ ...asp, workers: 3 }, note, "here"), throwsCode("BAD_CONFIG", /workers was 2, and is 3 now/));
});

test("a training that is over wants more epochs", () => {
  assert.throws(() => positionOf(PLAN, progressNote(PLAN, { epoch: 3, step: 0 }), "here"), throwsCode("BAD_CONFIG", /after epoch 3/));
});

test("a checkpoint of somebody else is foreign, a directory without one says so", async () => {
  assert.throws(() => positionOf(PLAN, undefined, "here"), throwsCode("CHECKPOINT_FOREIGN", /here was not saved by weighbridge train/));
  await assert.rejects(findProgress({ ...PLAN, checkpointDir: "/no/such/place" }), (error) => isWeighbridgeError(error));
});
