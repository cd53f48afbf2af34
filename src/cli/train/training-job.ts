// training-job — runs a training: the processes of its cluster, what they say on the screen, and how it ended.

import { dirname, resolve } from "node:path";
import { ownEnvironment } from "../../node/config/config-environment.ts";
import type { KeyName, Role } from "../../node/config/node-config.ts";
import { engineFlags } from "../../node/engine-flags.ts";
import { freePort } from "../../node/launcher/free-port.ts";
import { Job } from "../../node/launcher/job.ts";
import { type JobPlan, modulePath, type Program, planJob } from "../../node/launcher/job-plan.ts";
import { LineStream, tagLines } from "../../node/launcher/node-output.ts";
import type { NodeProcess, ProcessEnd } from "../../node/launcher/node-process.ts";
import { FAILED_EXIT_CODE } from "../../node/launcher/process-errors.ts";
import { deadText, exitCodeOf, forwardEnds, schedulerTexts } from "../launch.ts";
import type { StandardOutput } from "../standard-output.ts";
import { causeText, closingOf, endLines, shortCause } from "./closing-lines.ts";
import { parseReport } from "./report.ts";
import { continueRun, createRun, tidyRun } from "./run-directory.ts";
import { requireData, requireSamples } from "./task-data.ts";
import { stepsDone, type TrainPlan } from "./train-plan.ts";
import { findProgress } from "./training-progress.ts";
import { nearPath, TrainingScreen } from "./training-screen.ts";

const LOOPBACK = "127.0.0.1";
/**
 * What a training hears of the environment's configuration: how nodes work. Which nodes there are, and where, is for
 * its own flags to say.
 */
const READ_KEYS: readonly KeyName[] = [
  "job",
  "transport",
  "socketDir",
  "placement",
  "heartbeatIntervalMs",
  "heartbeatTimeoutMs",
  "startTimeoutMs",
  "requestTimeoutMs",
  "resendTimeoutMs",
  "linkTimeoutMs",
  "faults.dropPercent",
  "faults.duplicatePercent",
  "faults.reorderPercent",
  "faults.delayMs",
  "faults.seed",
  "outboxMessagesMax",
  "outboxBytesMax",
  "arenaBytesMax",
  "wakefulLoop",
  "logLevel",
];

/** A plan, and where its checkpoints lie. */
export type Run = {
  readonly plan: TrainPlan;
  /** Where it saves, absolute; left out when it does not. */
  readonly directory?: string;
  /** The checkpoint that it goes on from. */
  readonly resumedFrom?: string;
};

/**
 * Returns the exit code. Throws, before anything starts, what is wrong with the plan, the place for checkpoints, or the
 * data.
 */
export async function runTraining(wanted: TrainPlan, isResumed: boolean, output: StandardOutput): Promise<number> {
  requireData(wanted);
  await requireSamples(wanted);
  const run = isResumed ? await resumedRun(wanted) : newRun(wanted);
  const { processes, scheduler } = await planProcesses(run);
  const { plan, directory, resumedFrom } = run;
  const where = { runDirectory: directory, resumedFrom, ...schedulerTexts(scheduler) };
  const screen = new TrainingScreen({ out: process.stdout, plan, ...where });
  screen.open();
  const job = new Job({
    processes,
    attach: (node) => showOutput(node, screen),
    isDispensable: (end, running) => isDispensable(end, running, screen),
    onDeadProcess: ({ name }) => screen.note(deadText(name)),
    wordFor: (culprit) => shortCause(causeText(culprit, screen.position)),
  });
  const release = forwardEnds(job, output);
  const outcome = await job.outcome;
  release();
  if (directory !== undefined) await tidyRun(directory);
  const hasResult = screen.close();
  const { position, isTraining } = screen;
  const checkpoint = screen.checkpoint ?? (resumedFrom === undefined ? undefined : nearPath(resumedFrom));
  for (const line of endLines({ outcome, hasResult, position, plan, checkpoint, isTraining })) process.stderr.write(`${line}\n`);
  return outcome.kind === "done" && !hasResult ? FAILED_EXIT_CODE : exitCodeOf(outcome);
}

function newRun(plan: TrainPlan): Run {
  return plan.checkpointDir === undefined ? { plan } : { plan, directory: resolve(createRun(plan.checkpointDir)) };
}

/**
 * Where --checkpoint-dir names a checkpoint, what follows lies beside it; in a run of its own where later ones lie
 * there.
 */
async function resumedRun(plan: TrainPlan): Promise<Run> {
  const { position, path } = await findProgress(plan);
  const given = plan.checkpointDir ?? "";
  const directory = await continueRun(path, stepsDone(plan, position));
  const beside = resolve(given) === path ? dirname(given) : given;
  const checkpointDir = directory === dirname(path) ? beside : nearPath(dirname(directory));
  return { plan: { ...plan, startsAt: position, checkpointDir }, directory, resumedFrom: path };
}

/** Throws BAD_CONFIG. */
export async function planProcesses({ plan, directory, resumedFrom }: Run, env: NodeJS.ProcessEnv = process.env): Promise<JobPlan> {
  return planJob({
    commandLine: {
      serverCount: plan.servers,
      workerCount: plan.workers,
      ...(directory === undefined ? {} : { checkpointDir: directory }),
      ...(resumedFrom === undefined ? {} : { restore: resumedFrom }),
    },
    env: ownEnvironment(env, READ_KEYS),
    defaults: { schedulerPort: await freePort(LOOPBACK), logLevel: "error" },
    programOf: ({ role }) => programOf(role, plan),
  });
}

/** Without `launched`: a training process watches its launcher itself. */
function programOf(role: Role, plan: TrainPlan): Program {
  return [process.execPath, ...engineFlags(role), modulePath(import.meta.url, "./training-node"), JSON.stringify(plan)];
}

/**
 * A worker that was killed is done without while others are there. One that ended itself says what is wrong with the
 * job.
 */
function isDispensable({ plan, signal }: ProcessEnd, running: readonly NodeProcess["plan"][], screen: TrainingScreen): boolean {
  const others = running.filter(({ role }) => role === "worker").length;
  if (plan.role !== "worker" || signal === null || others === 0 || !screen.isTraining) return false;
  screen.note(`${plan.name} was ended by ${signal}; the job goes on with ${others} worker${others === 1 ? "" : "s"}`);
  return true;
}

/**
 * Reports go to the screen, and so does, with its tag, what is none; what the scheduler says of the others needs none.
 */
function showOutput({ plan, stdout, stderr }: NodeProcess, screen: TrainingScreen): void {
  const tagged = tagLines(plan, process.stdout);
  const take = (line: string): undefined => {
    const report = parseReport(line);
    const closing = closingOf(plan.name, line);
    if (report !== undefined) screen.show(report);
    else if (closing !== undefined) screen.note(tagged(closing));
    else screen.note(plan.role === "scheduler" ? line : tagged(line));
  };
  stdout.pipe(new LineStream(take)).resume();
  stderr.pipe(new LineStream(take)).resume();
}
