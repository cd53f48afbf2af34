// Goal: LossMonitor and TimeMonitor print MindSpore's lines; ModelCheckpoint saves when it is due, keeps as many as
// asked for, saves what was learned last, and after an error nothing (ModelCheckpoint.C1 to C5).

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Deferred } from "../../../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../../base/errors.ts";
import { SILENT_LOG } from "../../../base/log.ts";
import { LossMonitor, type StepEvent, TimeMonitor, type TrainingView } from "./callback.ts";
import { ModelCheckpoint, type ModelCheckpointOptions } from "./model-checkpoint.ts";

const EVENT: StepEvent = {
  epoch: 1,
  epochCount: 2,
  step: 1,
  stepCount: 5,
  epochStep: 1,
  globalStep: 1,
  loss: 2.3022871,
  samplesPerSec: 1,
  stepsPerSec: 1,
  waitShare: 0,
  sendShare: 0,
};
const stepOf = (step: number): StepEvent => ({ ...EVENT, step, epochStep: step, globalStep: step, loss: step });

test("the loss is printed in MindSpore's words, the first one and then every n-th", () => {
  const lines: string[] = [];
  new LossMonitor(1, (line) => lines.push(line)).stepEnd(EVENT);
  assert.deepEqual(lines.splice(0), ["epoch: 1 step: 1, loss is 2.302287"]);
  const thinned = new LossMonitor(3, (line) => lines.push(line));
  for (let step = 1; step <= 7; step++) thinned.stepEnd(stepOf(step));
  assert.deepEqual(
    lines.splice(0).map((line) => line.replace(/,.*/, "")),
    ["epoch: 1 step: 1", "epoch: 1 step: 3", "epoch: 1 step: 6"],
  );
  new LossMonitor(0, (line) => lines.push(line)).stepEnd(EVENT);
  assert.deepEqual(lines, []);
  assert.throws(
    () => new LossMonitor(-1),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
  );
});

test("of each global step the loss is printed once, also where a worker makes up for another's parts", () => {
  const lines: string[] = [];
  const monitor = new LossMonitor(2, (line) => lines.push(line.replace(/,.*/, "")));
  for (const [i, epochStep] of [1, 2, 2, 2, 3, 3, 4].entries()) monitor.stepEnd({ ...EVENT, step: i + 1, epochStep });
  monitor.stepEnd({ ...EVENT, epoch: 2, epochStep: 4 });
  monitor.stepEnd({ ...EVENT, epoch: 2, epochStep: 5 });
  assert.deepEqual(lines, ["epoch: 1 step: 1", "epoch: 1 step: 2", "epoch: 1 step: 4", "epoch: 2 step: 5"]);
});

test("the time of an epoch is printed in MindSpore's words", () => {
  const lines: string[] = [];
  new TimeMonitor((line) => lines.push(line)).epochEnd({ ...stepOf(4), seconds: 2, repeatedCount: 0, isMissed: false });
  new TimeMonitor((line) => lines.push(line)).epochEnd({ ...stepOf(0), seconds: 2, repeatedCount: 0, isMissed: true });
  assert.deepEqual(lines, ["epoch time: 2000.000 ms, per step time: 500.000 ms"]);
});

type Saved = { readonly names: Set<string>; readonly jobs: string[] };

function stage(
  view: Partial<TrainingView> = {},
  options: Partial<ModelCheckpointOptions> = {},
): { readonly saved: Saved; readonly view: TrainingView; readonly callback: ModelCheckpoint } {
  const saved: Saved = { names: new Set(), jobs: [] };
  const files = {
    write: async (name: string): Promise<string> => {
      saved.names.add(name);
      return await Promise.resolve(name);
    },
    remove: async (name: string): Promise<void> => {
      saved.names.delete(name);
      await Promise.resolve();
    },
  };
  const whole: TrainingView = {
    rank: 0,
    isDistributed: false,
    keepsRows: false,
    checkpoint: async ({ job }) => {
      saved.jobs.push(job);
      return await Promise.resolve({ path: job, step: 1 });
    },
    log: SILENT_LOG,
    encode: async () => await Promise.resolve(new Uint8Array(1)),
    ...view,
  };
  return { saved, view: whole, callback: new ModelCheckpoint({ prefix: "net", files, ...options }) };
}

test("saves every n steps and at the end, and keeps the newest", async () => {
  const { saved, view, callback } = stage({}, { everySteps: 2, keepMax: 2 });
  for (let step = 1; step <= 7; step++) await callback.stepEnd(stepOf(step), view);
  assert.deepEqual([...saved.names], ["net-1_4.safetensors", "net-1_6.safetensors"]);
  await callback.end(view);
  assert.deepEqual([...saved.names], ["net-1_6.safetensors", "net-1_7.safetensors"]);
});

test("without a number of steps it saves at the end of every epoch, and not twice at the end", async () => {
  const { saved, view, callback } = stage();
  await callback.stepEnd(stepOf(1), view);
  await callback.epochEnd({ ...stepOf(0), seconds: 1, repeatedCount: 0, isMissed: true }, view);
  assert.equal(saved.names.size, 0, "it was over when this worker came");
  await callback.epochEnd({ ...stepOf(1), seconds: 1, repeatedCount: 0, isMissed: false }, view);
  await callback.end(view);
  assert.deepEqual([...saved.names], ["net-1_1.safetensors"]);
});

test("after an error nothing is saved", async () => {
  const { saved, view, callback } = stage();
  await callback.stepEnd(stepOf(1), view);
  await callback.end(view, new WeighbridgeError("NOT_FINITE", "the loss is NaN"));
  assert.equal(saved.names.size, 0);
});

test("only worker 0 saves; what lives on servers is saved by them while training goes on, one at a time", async () => {
  const held = new Deferred<void>();
  const jobs: string[] = [];
  const checkpoint: TrainingView["checkpoint"] = async ({ job }) => {
    jobs.push(job);
    await held.promise;
    return { path: job, step: 1 };
  };
  const encode: TrainingView["encode"] = async () => await Promise.resolve(undefined);
  const { saved, view, callback } = stage({ isDistributed: true, checkpoint, encode }, { everySteps: 1 });
  await callback.stepEnd(stepOf(1), view);
  await callback.stepEnd(stepOf(2), view);
  assert.deepEqual([jobs.length, saved.names.size], [1, 0], "the second step was passed over");
  held.resolve();
  await callback.end(view);
  assert.equal(jobs.length, 2, "what was learned since is saved at the end");
  const other = stage({ rank: 1, isDistributed: true, checkpoint });
  await other.callback.stepEnd(stepOf(1), other.view);
  await other.callback.end(other.view);
  assert.equal(jobs.length, 2);
});

test("a checkpoint that fails is told at the end, and one that somebody else takes just now is not", async () => {
  const failing = async (code: "CHECKPOINT_IO" | "QUEUE_FULL"): Promise<void> => {
    const checkpoint: TrainingView["checkpoint"] = () => Promise.reject(new WeighbridgeError(code, "no"));
    const { view, callback } = stage({ isDistributed: true, checkpoint });
    await callback.stepEnd(stepOf(1), view);
    await callback.end(view);
  };
  await assert.rejects(failing("CHECKPOINT_IO"), (error) => isWeighbridgeError(error, "CHECKPOINT_IO"));
  await failing("QUEUE_FULL");
});

test("a save of the servers that fails is told at once, and the next that is due is tried (ModelCheckpoint.C4)", async () => {
  let isFull = true;
  const jobs: string[] = [];
  const failures: unknown[] = [];
  const checkpoint: TrainingView["checkpoint"] = async ({ job }) => {
    if (isFull) throw new WeighbridgeError("CHECKPOINT_IO", "no space");
    jobs.push(job);
    return await Promise.resolve({ path: job, step: 1 });
  };
  const { view, callback } = stage({ isDistributed: true, checkpoint }, { everySteps: 1, onFailed: (error) => failures.push(error) });
  await callback.stepEnd(stepOf(1), view);
  await turn();
  assert.ok(failures.length === 1 && isWeighbridgeError(failures[0], "CHECKPOINT_IO"));
  isFull = false;
  await callback.stepEnd(stepOf(2), view);
  await callback.end(view);
  assert.deepEqual([jobs.length, failures.length], [1, 1]);
});

test("a save of the servers that fails is a warning in the log of the training where nothing else takes it", async (t) => {
  const warnings: unknown[] = [];
  const log = { ...SILENT_LOG, warn: (...line: unknown[]) => void warnings.push(line) };
  const { mock } = t.mock.method(console, "warn", () => {});
  const checkpoint = () => Promise.reject(new WeighbridgeError("CHECKPOINT_IO", "no space"));
  const { view, callback } = stage({ isDistributed: true, checkpoint, log }, { everySteps: 1 });
  await callback.stepEnd(stepOf(3), view);
  await turn();
  assert.deepEqual(warnings, [["no checkpoint was saved", { step: "1_3", reason: "no space" }]]);
  assert.equal(mock.callCount(), 0);
});

test("a cut is asked for before the next step, and before this worker's own file is written", async () => {
  const happened: string[] = [];
  const checkpoint: TrainingView["checkpoint"] = async () => {
    happened.push("cut");
    return await Promise.resolve({ path: "there", step: 1 });
  };
  const encode: TrainingView["encode"] = async () => {
    await turn();
    happened.push("encoded");
    return new Uint8Array(1);
  };
  const write = async (name: string): Promise<string> => {
    happened.push("file");
    return await Promise.resolve(name);
  };
  const files = { write, remove: () => Promise.resolve() };
  const { view, callback } = stage({ isDistributed: true, checkpoint, encode }, { everySteps: 1, files });
  await callback.stepEnd(stepOf(1), view);
  assert.deepEqual(happened, ["encoded", "cut", "file"]);
});

test("rows that workers keep are saved at ends of epochs, which wait for it, and at no step (ModelCheckpoint.C5)", async () => {
  const early = stage({ isDistributed: true, keepsRows: true }, { everySteps: 1 });
  assert.throws(
    () => early.callback.begin(early.view),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /every 1 steps .* cached rows/.test(error.message),
  );
  const held = new Deferred<{ readonly path: string; readonly step: number }>();
  const { view, callback } = stage({ isDistributed: true, keepsRows: true, checkpoint: () => held.promise });
  callback.begin(view);
  await callback.stepEnd(stepOf(1), view);
  let isOver = false;
  const over = callback.epochEnd({ ...stepOf(1), seconds: 1, repeatedCount: 0, isMissed: false }, view).then(() => {
    isOver = true;
  });
  await turn();
  assert.equal(isOver, false);
  held.resolve({ path: "there", step: 1 });
  await over;
});

test("refuses options that cannot be", () => {
  for (const options of [{ everySteps: 0 }, { keepMax: 0 }, { prefix: "../x" }, { keepmax: 1 }]) {
    assert.throws(
      () => stage({}, options),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
  }
});
