// Goal: changes of the servers read as sentences.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ScalingReport, ScalingView } from "../wire/scaling.ts";
import { changeText, endText, scalingLines, workersText } from "./scaling-text.ts";

const VIEW: ScalingView = { number: 3, direction: "out", step: "waiting", from: [0, 1], to: [0, 1, 2, 3], awaited: [2, 3], waitMs: 48_000 };
const REPORT: ScalingReport = { wishedCount: 2, shares: [], queued: [], ended: [] };

test("each step has its words", () => {
  assert.equal(changeText(VIEW), "change 3, 2 servers to 4: waiting for server/2, server/3, 48.0 s left");
  const steps = (["moving", "rollingBack"] as const).map((step) => changeText({ ...VIEW, step, parts: 2048, moved: 1024 }));
  assert.deepEqual(steps, [
    "change 3, 2 servers to 4: moving parts, 1,024 of 2,048",
    "change 3, 2 servers to 4: taking it back, 1,024 of 2,048",
  ]);
  assert.equal(changeText({ ...VIEW, step: "moving", from: [0] }), "change 3, 1 server to 4: moving parts");
  assert.equal(changeText({ ...VIEW, step: "leaving", to: [1], direction: "in" }), "change 3, 2 servers to 1: server/0 leaving");
});

test("of replicated servers both processes of a rank are waited for, and a standby that is there until it is filled", () => {
  const waiting = (view: Partial<ScalingView>): string =>
    changeText({ ...VIEW, awaited: [], awaitedStandbys: [], fillingStandbys: [], ...view }).replace(/^.*: /, "");
  assert.equal(waiting({ awaited: [3], awaitedStandbys: [2, 3] }), "waiting for server/3, standby/2, standby/3 (3 processes), 48.0 s left");
  assert.equal(
    waiting({ awaitedStandbys: [3], fillingStandbys: [2] }),
    "waiting for standby/3 (1 process), standby/2 to be filled, 48.0 s left",
  );
  assert.equal(waiting({ fillingStandbys: [2] }), "waiting for standby/2 to be filled, 48.0 s left");
});

test("a status has the change under way and how many follow, or the last one if it did not do what was asked", () => {
  assert.deepEqual(scalingLines({ ...REPORT, current: VIEW, queued: [4, 5] }), [`${changeText(VIEW)}; 2 more changes will follow`]);
  const end = { number: 1, outcome: "rolledBack", reason: "no server came" } as const;
  assert.deepEqual(scalingLines({ ...REPORT, ended: [end] }), ["change 1 was rolled back: no server came"]);
  assert.deepEqual(scalingLines({ ...REPORT, ended: [end, { number: 2, outcome: "done" }] }), []);
  assert.equal(endText({ number: 2, outcome: "failed", reason: "x" }), "change 2 has failed: x");
});

test("the number of workers, who is waited for and who leaves", () => {
  const report = { presentCount: 2, leaving: [], countMin: 2, countMax: 5 };
  assert.equal(workersText(report), "2 workers");
  assert.equal(workersText({ ...report, wishedCount: 5 }), "2 of 5 workers: waiting for 3");
  assert.equal(workersText({ ...report, wishedCount: 5, waitMs: 48_000 }), "2 of 5 workers: waiting for 3, 48.0 s left");
  assert.equal(workersText({ ...report, wishedCount: 2, isBack: true, leaving: [2] }), "2 workers: taking it back, worker/2 leaving");
  assert.equal(workersText({ ...report, wishedCount: 2, leaving: [2, 3] }), "2 workers: worker/2, worker/3 leaving");
  assert.equal(workersText({ ...report, wishedCount: 3, leaving: [3] }), "2 of 3 workers: waiting for 1, worker/3 leaving");
  const quiet = { wishedCount: 1, shares: [], queued: [], ended: [] };
  const ended = { outcome: "rolledBack", reason: "2 of 5 workers were there after 60000 ms" } as const;
  assert.deepEqual(scalingLines({ ...quiet, workers: { ...report, ended } }), [
    "the change of the workers was rolled back: 2 of 5 workers were there after 60000 ms",
  ]);
  assert.deepEqual(scalingLines({ ...quiet, workers: { ...report, ended: { outcome: "done" } } }), []);
  assert.deepEqual(scalingLines({ ...quiet, workers: report }), []);
  assert.deepEqual(scalingLines({ ...quiet, workers: { ...report, wishedCount: 5 } }), ["2 of 5 workers: waiting for 3"]);
});
