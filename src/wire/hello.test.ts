// Goal: two nodes are strangers exactly when what both say of their job differs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { jobConflict, jobId, jobNameOf } from "./hello.ts";

test("a job is its name and its run, and the name can be read off", () => {
  assert.equal(jobId("train", "r1"), "train/r1");
  assert.deepEqual(["train/r1", "train", ""].map(jobNameOf), ["train", "train", ""]);
});

test("names that differ contradict each other, runs only where both are said, and what is not said contradicts nothing", () => {
  for (const [one, other, conflict] of [
    ["a", "b", "name"],
    ["a/1", "b/1", "name"],
    ["a/1", "b", "name"],
    ["a/1", "a/2", "run"],
    ["a/1", "a/1", undefined],
    ["a/1", "a", undefined],
    ["a", "a", undefined],
    ["", "a/1", undefined],
    ["", "", undefined],
  ] as const) {
    assert.equal(jobConflict(one, other), conflict, `${one} and ${other}`);
    assert.equal(jobConflict(other, one), conflict, `${other} and ${one}`);
  }
});
