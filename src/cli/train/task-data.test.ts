// Goal: data that is not there is found out before anything starts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { requireData } from "./task-data.ts";
import { planTraining, type TaskName, type TrainFlags } from "./train-plan.ts";

function planOf(task: TaskName, flags: Partial<TrainFlags> = {}) {
  return planTraining(task, { workers: 2, servers: 2, seed: 1, checkpoint: true, overlap: true, ...flags });
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
