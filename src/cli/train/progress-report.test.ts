// Goal: losses of the first steps and then of every n-th, from the worker that speaks for all; progress over epochs,
// now and then.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { StepEvent } from "../../faces/training/callbacks/callback.ts";
import { ProgressReport } from "./progress-report.ts";
import type { WorkerReport } from "./report.ts";
import { planTraining, type TrainPlan } from "./train-plan.ts";

const PLAN = planTraining("lenet", { workers: 1, servers: 1, seed: 1, checkpoint: false, overlap: false, epochs: 2, every: 5 });

function event(epoch: number, step: number, epochStep = step): StepEvent {
  const shares = { waitShare: epoch / 10, sendShare: epoch / 100 };
  const exchange = { clock: step, reachedAtMs: 40 * step, waitsFromMs: 40 * step + 1, waitedMs: 2.5 };
  const steps = { epoch, epochCount: 2, step, stepCount: 10, epochStep, globalStep: 10 * (epoch - 1) + epochStep };
  return { ...steps, loss: step, samplesPerSec: 640, stepsPerSec: 10, ...shares, exchange };
}

type Run = {
  readonly plan?: TrainPlan;
  readonly isReporter?: boolean;
  readonly stepMs?: number;
  readonly epochStepOf?: (step: number) => number;
};

function run(options: Run): WorkerReport[] {
  const { plan = PLAN, isReporter = true, stepMs = 40, epochStepOf = (step) => step } = options;
  const reports: WorkerReport[] = [];
  let nowMs = 0;
  const report = new ProgressReport({
    plan,
    rank: 0,
    isReporter: () => isReporter,
    send: (told) => reports.push(told),
    now: () => nowMs,
    machineMs: 5000,
  });
  for (const epoch of [1, 2]) {
    for (let step = 1; step <= 10; step++, nowMs += stepMs) report.stepEnd(event(epoch, step, epochStepOf(step)));
    report.epochEnd({ ...event(epoch, 10), seconds: 1, repeatedCount: 0, isMissed: false });
  }
  return reports;
}

const lossSteps = (reports: readonly WorkerReport[]): string[] =>
  reports.flatMap((report) => (report.kind === "loss" ? [`${report.epoch}.${report.step}`] : []));

test("tells the first losses, then every n-th", () => {
  assert.deepEqual(lossSteps(run({})), ["1.1", "1.2", "1.3", "1.5", "1.10", "2.5", "2.10"]);
  assert.deepEqual(lossSteps(run({ plan: { ...PLAN, every: 0 } })), []);
});

test("parts that are made up for, for a worker that died, tell no loss", () => {
  const plan = { ...PLAN, every: 2 };
  assert.deepEqual(lossSteps(run({ plan, epochStepOf: (step) => Math.ceil(step / 2) })), ["1.1", "1.2", "1.4", "2.2", "2.4"]);
});

test("a worker that takes some batches and not others tells the loss of the first that it takes from every n-th on", () => {
  assert.deepEqual(lossSteps(run({ epochStepOf: (step) => 3 * step })), [
    "1.3",
    "1.6",
    "1.9",
    "1.12",
    "1.15",
    "1.21",
    "1.27",
    "1.30",
    "2.6",
    "2.12",
    "2.15",
    "2.21",
    "2.27",
    "2.30",
  ]);
});

test("who does not speak for all tells its progress alone", () => {
  const reports = run({ isReporter: false });
  assert.deepEqual(lossSteps(reports), []);
  assert.ok(reports.some(({ kind }) => kind === "progress"));
});

test("progress goes on over epochs, and not more often than ten times a second", () => {
  const told = run({}).flatMap((report) => (report.kind === "progress" ? [report] : []));
  assert.equal(told.length, 7); // 20 steps of 40 ms
  const last = told.at(-1)!;
  assert.deepEqual([last.epoch, last.step, last.sampleCount], [2, 9, 640 + 576]);
  assert.ok(Math.abs(last.seconds - 1.9) < 1e-9);
  assert.ok(Math.abs(last.waitShare - (0.1 + 0.2 * 0.9) / 1.9) < 1e-9, `${last.waitShare}`);
  assert.ok(Math.abs(last.sendShare - last.waitShare / 10) < 1e-9, `${last.sendShare}`);
});

test("each exchange is told once, in microseconds of the machine's clock", () => {
  const told = run({}).flatMap((report) => (report.kind === "progress" ? report.exchanges : []));
  assert.deepEqual(
    told.map(([clock]) => clock),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  );
  assert.deepEqual(told[1], [2, 5_080_000, 5_081_000, 2500]);
});

test("a run that goes on counts its steps from the epoch's beginning", () => {
  const reports = run({ plan: { ...PLAN, startsAt: { epoch: 0, step: 100 } }, epochStepOf: (step) => 100 + step });
  assert.deepEqual(lossSteps(reports).slice(0, 4), ["1.101", "1.102", "1.103", "1.105"]);
});
