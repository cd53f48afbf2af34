// training-job — runs a training: starts the processes of its cluster, shows what they print, and reports how it ended.

import { dirname, resolve } from "node:path";
import { ownEnvironment } from "../../node/config/config-environment.ts";
import type { KeyName, Role } from "../../node/config/node-config.ts";
import { engineFlags } from "../../node/engine-flags.ts";
import { forgetLastJob } from "../../node/last-job.ts";
import { Job } from "../../node/launcher/job.ts";
import { type JobPlan, modulePath, type Program, planJob } from "../../node/launcher/job-plan.ts";
import { LineStream, tagLines } from "../../node/launcher/node-output.ts";
import type { NodeProcess, ProcessEnd } from "../../node/launcher/node-process.ts";
import { FAILED_EXIT_CODE } from "../../node/launcher/process-errors.ts";
import { RESUME_AUTO } from "../command-parts.ts";
import { atFreePort, copyLostText, exitCodeOf, forwardEnds, givenUpText, schedulerText, serverLostText } from "../launch.ts";
import { printNotice } from "../notices.ts";
import type { StandardOutput } from "../standard-output.ts";
import { causeText, closingOf, endLines, shortCause } from "./closing-lines.ts";
import { measureAlone } from "./compared-process.ts";
import { parseReport } from "./report.ts";
import { continueRun, createRun, tidyRun } from "./run-directory.ts";
import { requireData, requireSamples } from "./task-data.ts";
import { defaultDirectory, stepsDone, type TrainPlan } from "./train-plan.ts";
import { findProgress } from "./training-progress.ts";
import { nearPath, TrainingScreen } from "./training-screen.ts";

/** Short: when a process of a training exits, it has nothing left to do. */
const EXIT_GRACE_MS = 1000;
/**
 * The keys that a training reads from the environment's configuration: how nodes work. Which nodes there are, and
 * where, comes from its own flags.
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
  "sharedMemory",
  "logLevel",
  "logFormat",
];

/** A plan, and where its checkpoints are. */
export type Run = {
  readonly plan: TrainPlan;
  /** Where it saves, absolute; left out if it does not save. */
  readonly directory?: string;
  /** The checkpoint that it continues from. */
  readonly resumedFrom?: string;
};

export type RunOptions = {
  /** Where to resume from. */
  readonly resume?: string | undefined;
  /** Whether one process makes the same training first. */
  readonly compares: boolean;
};

/**
 * Returns the exit code. Throws, before anything starts, if the plan, the directory for checkpoints or the data is
 * wrong, or the port is taken.
 */
export async function runTraining(wanted: TrainPlan, { resume, compares }: RunOptions, output: StandardOutput): Promise<number> {
  requireData(wanted);
  await requireSamples(wanted);
  const { schedulerPort } = (await atFreePort((port) => planProcesses({ plan: wanted }, port))).scheduler;
  const aloneRate = compares ? await measureAlone(wanted) : undefined; // it may be ended: nothing has to be tidied yet
  const run = resume === undefined ? newRun(wanted) : await resumedRun(wanted, resume);
  const { processes, scheduler, serversOf, workerOf } = planProcesses(run, schedulerPort);
  const { plan, directory, resumedFrom } = run;
  const where = { runDirectory: directory, resumedFrom, scheduler: schedulerText(scheduler), aloneRate };
  const screen = new TrainingScreen({ out: process.stdout, plan, ...where });
  screen.open();
  const job = new Job({
    processes,
    serversOf,
    workerOf,
    onAdded: ({ name }) => screen.note(`${name} is started`),
    onServerLost: (end) => screen.note(serverLostText(end)),
    attach: (node) => showOutput(node, screen),
    isDispensable: (end, running) => isDispensable(end, running, screen),
    onCopyLost: (end) => screen.note(copyLostText(end)),
    onGivenUp: ({ name }, why) => screen.note(givenUpText(name, why)),
    isReasonPrinted: true,
    exitGraceMs: EXIT_GRACE_MS,
    reasonFor: (culprit) => shortCause(causeText(culprit, screen.position)),
  });
  const release = forwardEnds(job, output);
  const outcome = await job.outcome;
  release();
  forgetLastJob();
  if (directory !== undefined) await tidyRun(directory);
  const hasResult = screen.close(outcome.kind === "incomplete" ? outcome.names : []);
  const { position, isTraining } = screen;
  const checkpoint = screen.checkpoint ?? (resumedFrom === undefined ? undefined : nearPath(resumedFrom));
  for (const line of endLines({ outcome, hasResult, position, plan, checkpoint, isTraining })) printNotice(line);
  // A training may lose workers: its summary names them.
  if (outcome.kind === "done" || outcome.kind === "incomplete") return hasResult ? 0 : FAILED_EXIT_CODE;
  return exitCodeOf(outcome);
}

function newRun(plan: TrainPlan): Run {
  return plan.checkpointDir === undefined ? { plan } : { plan, directory: resolve(createRun(plan.checkpointDir)) };
}

/**
 * Continues a run, or a checkpoint, that is named, or the newest run of the directory for checkpoints. The next ones
 * are saved beside the one that it continues from; if later ones are there, in a run of their own. What is named, and a
 * directory for checkpoints besides, are read and written.
 */
async function resumedRun(plan: TrainPlan, resume: string): Promise<Run> {
  const given = resume === RESUME_AUTO ? (plan.checkpointDir ?? "") : resume;
  const { position, path } = await findProgress({ ...plan, checkpointDir: given });
  const { checkpointDir: chosen = "" } = plan;
  if (resume !== RESUME_AUTO && chosen !== defaultDirectory(plan.task))
    return { plan: { ...plan, startsAt: position }, directory: resolve(createRun(chosen)), resumedFrom: path };
  const directory = await continueRun(path, stepsDone(plan, position));
  const beside = resolve(given) === path ? dirname(given) : given;
  const checkpointDir = directory === dirname(path) ? beside : nearPath(dirname(directory));
  return { plan: { ...plan, startsAt: position, checkpointDir }, directory, resumedFrom: path };
}

/** `schedulerPort`: unless the plan names one. Throws BAD_CONFIG. */
export function planProcesses({ plan, directory, resumedFrom }: Run, schedulerPort: number, env: NodeJS.ProcessEnv = process.env): JobPlan {
  return planJob({
    commandLine: {
      servers: plan.servers,
      workers: plan.workers,
      ...(plan.workersMax === undefined ? {} : { workersMax: plan.workersMax }),
      replicas: plan.replicas,
      ...(plan.logFormat === undefined ? {} : { logFormat: plan.logFormat }),
      ...(plan.schedulerPort === undefined ? {} : { schedulerPort: plan.schedulerPort }),
      ...(directory === undefined ? {} : { checkpointDir: directory }),
      ...(resumedFrom === undefined ? {} : { restore: resumedFrom }),
    },
    env: ownEnvironment(env, READ_KEYS),
    defaults: { schedulerPort, logLevel: "error", stateDir: "none" },
    programOf: ({ role }) => programOf(role, plan),
  });
}

/** Without `launched`: a training process watches its launcher itself. */
function programOf(role: Role, plan: TrainPlan): Program {
  return [process.execPath, ...engineFlags(role), modulePath(import.meta.url, "./training-node"), JSON.stringify(plan)];
}

/**
 * The job continues without a worker that was killed, while others are left. A worker that ended by itself shows that
 * something is wrong with the job.
 */
function isDispensable({ plan, signal }: ProcessEnd, running: readonly NodeProcess["plan"][], screen: TrainingScreen): boolean {
  const others = running.filter(({ role }) => role === "worker").length;
  if (plan.role !== "worker" || signal === null || others === 0 || !screen.isTraining) return false;
  screen.note(`${plan.name} was ended by ${signal}; the job goes on with ${others} worker${others === 1 ? "" : "s"}`);
  return true;
}

/**
 * Shows reports on the screen, and other lines with the tag of their process; lines of the scheduler about other nodes
 * get no tag.
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
