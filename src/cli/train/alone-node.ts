// alone-node — the script of the process with which `weighbridge train --compare` compares a job: the same training in
// one process, with all parameters in it, for as long as its argument says. It reports how fast it was, and ends with
// its launcher.

import type { TrainingCallback } from "../../faces/training/callbacks/callback.ts";
import { FAILED_EXIT_CODE } from "../../node/launcher/process-errors.ts";
import { Model } from "../../node/training-devices.ts";
import { causeOf } from "./process-end.ts";
import { sendReport } from "./report.ts";
import { openTask } from "./task-of-plan.ts";
import type { TrainPlan } from "./train-plan.ts";

const [planJson = "", milliseconds = ""] = process.argv.slice(2);

/** Steps a second of a training that lasts so long, or until its end. */
async function train(plan: TrainPlan, ms: number): Promise<number> {
  const { network, loss, optimizer, training } = await openTask(plan);
  const model = new Model(network, { loss, optimizer, seed: plan.seed });
  let untilMs = Infinity;
  const timer: TrainingCallback = {
    begin: () => {
      untilMs = performance.now() + ms;
    },
    stepEnd: () => performance.now() < untilMs,
  };
  const { batchSize, seed: shuffleSeed, startsAt } = plan;
  const options = { batchSize, shuffleSeed, firstEpoch: startsAt.epoch, firstStep: startsAt.step, callbacks: [timer] };
  const { stepCount, seconds } = await model.train(plan.epochs, training, options);
  return stepCount / seconds;
}

process.stdin.on("close", () => process.exit()).resume();
try {
  const plan = JSON.parse(planJson) as TrainPlan;
  sendReport({ kind: "alone", stepsPerSec: await train({ ...plan, workers: 1, cacheRows: 0 }, Number(milliseconds)) });
  process.exit();
} catch (error) {
  process.stderr.write(`weighbridge: the one process that --compare runs stopped: ${causeOf(error)}\n`);
  process.exit(FAILED_EXIT_CODE);
}
