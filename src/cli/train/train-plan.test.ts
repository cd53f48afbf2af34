// Goal: what contradicts itself is refused as a whole before anything starts; what is left out has its task's defaults.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { machineDefaults } from "./machine-defaults.ts";
import {
  consistencyText,
  parseConsistency,
  planTraining as planOn,
  reachedText,
  resumeCommand,
  samplesToVisit,
  stepsPerEpoch,
  stepsToMake,
  type TaskName,
  type TrainFlags,
  type TrainPlan,
} from "./train-plan.ts";

const CORES = 2;
const FLAGS: TrainFlags = { workers: 2, servers: 1, seed: 1, checkpoint: true };

/** On a machine of two cores. */
function planTraining(task: TaskName, flags: TrainFlags): TrainPlan {
  return planOn(task, flags, CORES);
}

function refusal(task: TaskName, flags: Partial<TrainFlags>): string {
  try {
    planTraining(task, { ...FLAGS, ...flags });
  } catch (error) {
    assert.ok(isWeighbridgeError(error, "BAD_CONFIG"), String(error));
    return error.message;
  }
  return assert.fail(`${JSON.stringify(flags)} was accepted`);
}

test("what is left out has the task's defaults", () => {
  const plan = planTraining("lenet", FLAGS);
  assert.deepEqual([plan.epochs, plan.batchSize, plan.consistency, plan.sampleCount], [1, 64, "bsp", 60_000]);
  assert.deepEqual(plan.startsAt, { epoch: 0, step: 0 });
  assert.equal(plan.checkpointDir, ".weighbridge/lenet");
  assert.equal(planTraining("lenet", { ...FLAGS, checkpoint: false }).checkpointDir, undefined);
});

test("consistencies are read and told alike", () => {
  for (const text of ["bsp", "asp", "ssp:0", "ssp:12"]) assert.equal(consistencyText(parseConsistency(text)!), text);
  for (const text of ["ssp", "ssp:", "ssp:-1", "ssp:1.5", "BSP", ""]) assert.equal(parseConsistency(text), undefined, text);
});

test("contradictions are named with both sides", () => {
  assert.match(refusal("lenet", { batchSize: 1 }), /--batch-size 1 leaves some of 2 workers/);
  assert.match(refusal("lenet", { limit: 10 }), /--limit 10 is less than one batch of 64/);
  assert.match(refusal("lenet", { cacheRows: 100 }), /lenet has no embedding/);
  assert.match(refusal("logistic", { cacheRows: 100, consistency: "asp" }), /--cache-rows needs --consistency bsp, not asp/);
  assert.match(refusal("lenet", { quiet: true, every: 1 }), /--quiet and --every 1/);
  assert.match(refusal("mf", { data: "/tmp" }), /--data: mf makes its data itself/);
  assert.match(refusal("lenet", { resume: "auto", checkpoint: false }), /--resume and --no-checkpoint/);
  assert.match(refusal("lenet", { checkpointDir: "x", checkpoint: false }), /--checkpoint-dir and --no-checkpoint/);
  assert.match(refusal("lenet", { checkpointEvery: "5steps", consistency: "asp" }), /--checkpoint-every needs --consistency bsp/);
  assert.match(refusal("mf", { checkpointEvery: "5steps", cacheRows: 100 }), /--checkpoint-every and --cache-rows contradict/);
  assert.match(refusal("lenet", { consistency: "bsb" }), /bsp, asp or ssp:N .* not bsb/);
  assert.match(refusal("mf", { devices: 2 }), /--devices 2: mf has embeddings/);
  assert.match(refusal("lenet", { devices: 2, overlap: true }), /--devices 2 and --overlap contradict/);
  assert.match(refusal("lenet", { devices: 3, batchSize: 4 }), /--batch-size 4 leaves some of 3 devices of 2 workers/);
  assert.match(refusal("lenet", { slowWorker: "2:5" }), /workers 0 to 1/);
  assert.match(refusal("lenet", { slowWorker: "fast" }), /RANK:FACTOR/);
});

test("a rate that is infinite or zero in float32 is refused, for every parameter that it is multiplied for", () => {
  assert.match(refusal("lenet", { learningRate: 1e39 }), /--learning-rate 1e\+39: the servers compute in float32, where this is infinite/);
  assert.match(refusal("wide-deep", { learningRate: 1e38 }), /infinite/);
  assert.match(refusal("mf", { learningRate: 1e-50 }), /zero/);
  assert.equal(planTraining("lenet", { ...FLAGS, learningRate: 1e38 }).learningRate, 1e38);
});

test("several contradictions are told together", () => {
  assert.equal(refusal("lenet", { batchSize: 1, quiet: true, every: 2 }).split("\n").length, 2);
});

test("steps and samples that are left are counted from where the job begins", () => {
  const plan = planTraining("lenet", { ...FLAGS, epochs: 3, limit: 1_000, batchSize: 300 });
  assert.equal(stepsPerEpoch(plan), 4);
  assert.equal(samplesToVisit(plan), 3_000);
  assert.equal(stepsToMake(plan), 12, "three of 300 samples and one of 100, three times");
  assert.equal(samplesToVisit({ ...plan, startsAt: { epoch: 1, step: 3 } }), 1_100);
  assert.equal(stepsToMake({ ...plan, startsAt: { epoch: 1, step: 3 } }), 5);
  assert.equal(samplesToVisit({ ...plan, startsAt: { epoch: 3, step: 0 } }), 0);
});

test("a worker that does another's parts too is where the job is, not at its own steps", () => {
  const event = { epoch: 2, step: 138, epochStep: 69 };
  assert.equal(reachedText(event), "at epoch 2 step 69");
});

test("a worker has one device unless the flags say more, and goes on with as many", () => {
  assert.equal(planTraining("lenet", FLAGS).devices, 1);
  const plan = planTraining("lenet", { ...FLAGS, devices: 2 });
  assert.equal(plan.devices, 2);
  assert.equal(resumeCommand(plan), "npx weighbridge train lenet --resume --devices 2");
});

test("what no flag says goes by the cores of the machine, and the command to resume with leaves it out there", () => {
  const flags: TrainFlags = { seed: 1, checkpoint: true };
  for (const cores of [1, 2, 16]) {
    const plan = planOn("lenet", flags, cores);
    const { servers, workers, devices, overlap } = plan;
    assert.deepEqual({ servers, workers, devices, overlap }, machineDefaults(cores));
    assert.equal(resumeCommand(plan), "npx weighbridge train lenet --resume");
  }
  assert.equal(
    resumeCommand(planOn("lenet", { ...flags, servers: 3, overlap: true }, 2)),
    "npx weighbridge train lenet --resume -s 3 --overlap",
  );
});

test("how to go on is told with all flags that are not the task's defaults", () => {
  assert.equal(resumeCommand(planTraining("lenet", FLAGS)), "npx weighbridge train lenet --resume");
  const flags = {
    limit: 640,
    seed: 3,
    consistency: "asp",
    learningRate: 0.1,
    batchSize: 32,
    checkpointDir: "here",
    workers: 4,
    servers: 2,
  };
  assert.equal(
    resumeCommand(planTraining("lenet", { ...FLAGS, ...flags, epochs: 2, overlap: true, data: "it's mine" })),
    "npx weighbridge train lenet --resume --epochs 2 -s 2 -w 4 --consistency asp --batch-size 32 --limit 640 --learning-rate 0.1 --seed 3 " +
      "--data 'it'\\''s mine' --overlap --checkpoint-dir here",
  );
  assert.equal(resumeCommand(planTraining("mf", { ...FLAGS, cacheRows: 100 })), "npx weighbridge train mf --resume --cache-rows 100");
  assert.equal(
    resumeCommand(planTraining("mf", { ...FLAGS, schedulerPort: 9700 })),
    "npx weighbridge train mf --resume --scheduler-port 9700",
  );
  assert.equal(
    resumeCommand(planTraining("mf", { ...FLAGS, checkpointEvery: "5steps" })),
    "npx weighbridge train mf --resume --checkpoint-every 5steps",
  );
});
