// Which known name somebody probably meant.

import assert from "node:assert/strict";
import { test } from "node:test";
import { didYouMean, editDistance, isSlip, nearestName } from "./nearest-name.ts";

test("counts insertions, deletions, replacements and swaps of neighbours", () => {
  assert.equal(editDistance("port", "port"), 0);
  assert.equal(editDistance("prt", "port"), 1);
  assert.equal(editDistance("poort", "port"), 1);
  assert.equal(editDistance("pert", "port"), 1);
  assert.equal(editDistance("oprt", "port"), 1);
  assert.equal(editDistance("", "port"), 4);
  assert.equal(editDistance("port", ""), 4);
});

test("finds the nearest name whatever its letter case", () => {
  assert.equal(nearestName("WORKERCOUNT", ["serverCount", "workerCount"]), "workerCount");
  assert.equal(nearestName("DMLC_PS_ROT_PORT", ["DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT"]), "DMLC_PS_ROOT_PORT");
});

test("prefers a name with the same beginning to one that is merely short", () => {
  assert.equal(nearestName("workers", ["role", "port", "workerCount"]), "workerCount");
});

test("takes initials for the name that has them", () => {
  assert.equal(nearestName("lr", ["type", "learningRate", "l1"]), "learningRate");
  assert.equal(nearestName("wd", ["width", "weightDecay"]), "weightDecay");
});

test("finds nothing among no candidates", () => {
  assert.equal(nearestName("port", []), undefined);
});

test("calls up to two edits a slip, and only one in a name of up to seven letters", () => {
  assert.ok(isSlip("MS_SCHD_HSOT", "MS_SCHED_HOST"));
  assert.ok(!isSlip("MS_SCD_HSOT", "MS_SCHED_HOST"));
  assert.ok(isSlip("MS_ROLES", "MS_ROLE"));
  assert.ok(!isSlip("MS_NODE", "MS_ROLE"));
});

test("asks for the nearest name, and nothing where no text was typed or there is none", () => {
  assert.equal(didYouMean("adma", ["sgd", "adam"]), "; did you mean adam?");
  for (const typed of [undefined, null, 7, "", {}]) assert.equal(didYouMean(typed, ["sgd"]), "");
  assert.equal(didYouMean("adma", []), "");
});
