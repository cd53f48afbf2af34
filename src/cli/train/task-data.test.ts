// Goal: data that is not there is found out before anything starts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { requireData, requireSamples } from "./task-data.ts";
import { planTraining, type TaskName, type TrainFlags } from "./train-plan.ts";

function planOf(task: TaskName, flags: Partial<TrainFlags> = {}) {
  return planTraining(task, { workers: 2, servers: 2, seed: 1, checkpoint: true, overlap: false, ...flags });
}

test("what packages bring, what is named and what a task makes itself is there", () => {
  for (const task of ["lenet", "wide-deep", "logistic", "mf"] as const) requireData(planOf(task));
  requireData(planOf("lenet", { data: import.meta.dirname }));
});

test("a place that is not there is named", () => {
  assert.throws(() => requireData(planOf("lenet", { data: "/no/such/place" })), {
    code: "DATASET_MISSING",
    message: "/no/such/place is not there: --data says where the data of lenet is",
  });
});

test("packages that are not installed are named, with how to install them", () => {
  const resolve = (name: string): boolean => name !== "hyparquet";
  requireData(planOf("lenet"), resolve);
  assert.throws(() => requireData(planOf("logistic"), resolve), {
    code: "DATASET_MISSING",
    message: "logistic reads its data with the npm package hyparquet: npm install vega-datasets hyparquet",
  });
});

test("more samples than there are is told before anything starts, with how many there are", async () => {
  for (const [task, limit, text] of [
    ["lenet", 60_001, "--limit 60001: there are 60,000 digits, so lenet can train on at most 60,000"],
    [
      "logistic",
      3_000_000,
      "--limit 3000000: there are 3,000,000 flights, 40,000 of them to test with, so logistic can train on at most 2,960,000",
    ],
    [
      "wide-deep",
      2_960_001,
      "--limit 2960001: there are 3,000,000 flights, 40,000 of them to test with, so wide-deep can train on at most 2,960,000",
    ],
    ["mf", 2_000_000_000, "--limit 2000000000: no more than 10,000,000 ratings are made, so mf can train on at most 10,000,000"],
  ] as const) {
    await assert.rejects(requireSamples(planOf(task, { limit })), { code: "BAD_CONFIG", message: text });
  }
});

test("as many samples as there are can be trained on, and what cannot be counted is left to who reads it", async () => {
  await requireSamples(planOf("lenet", { limit: 60_000 }));
  await requireSamples(planOf("logistic", { limit: 2_960_000 }));
  await requireSamples(planOf("lenet", { data: import.meta.dirname }));
  await requireSamples(planOf("logistic", { data: import.meta.filename }));
});
