// Goal: what a task says its model is worth: figures as they are, and the objective reached at its edge and not below.

import assert from "node:assert/strict";
import { test } from "node:test";
import { NOISE } from "../../node/datasets/ratings.ts";
import { flightsResult } from "./flights-task.ts";
import { lenetResult } from "./lenet-task.ts";
import { ratingsResult } from "./ratings-task.ts";

test("digits: the accuracy, and of each digit what it is taken for most often", () => {
  const counts = new Uint32Array(100);
  counts.set([8, 0, 2, 0, 0, 0, 1], 0); // eight zeros right, two taken for 2, one for 6
  counts[11] = 5;
  const { facts, table, objective } = lenetResult(0.975, counts, 16);
  assert.deepEqual(facts, [["accuracy", "97.50 % of 16 digits it never saw"]]);
  assert.deepEqual(table?.[1], ["0", "72.7 %", "2", "2", "11"]);
  assert.deepEqual(table?.[2], ["1", "100.0 %", "-", "0", "5"]);
  assert.deepEqual(table?.[3], ["2", "-", "-", "0", "0"]); // there was none
  assert.equal(objective.isReached, true);
  assert.equal(lenetResult(0.9749, counts, 16).objective.isReached, false);
});

test("flights: AUC, and the log loss beside that of a guess", () => {
  const { facts, objective } = flightsResult({ auc: 0.63, loss: 0.4, lateShare: 0.5, aim: 0.63 });
  assert.match(facts[0]![1], /^0\.6300/);
  assert.match(facts[1]![1], /^0\.4000; knowing only that 50\.0 % are late, 0\.6931$/);
  assert.equal(objective.isReached, true);
  assert.equal(flightsResult({ auc: 0.6299, loss: 0.4, lateShare: 0.5, aim: 0.63 }).objective.isReached, false);
});

test("ratings: the error beside the noise that nobody can foretell", () => {
  assert.equal(ratingsResult(NOISE).objective.isReached, true);
  assert.equal(ratingsResult(2 * NOISE).objective.isReached, false);
});
