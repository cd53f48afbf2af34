// launch — runs a whole cluster on this machine: starts the processes, shows their output, ends them together.

import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Command, Option } from "commander";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { requireWritableDirectory } from "../node/checkpoint/checkpoint-directory.ts";
import { findCheckpoint } from "../node/checkpoint/find-checkpoint.ts";
import { schedulerAddress } from "../node/config/node-addresses.ts";
import type { NodeConfig } from "../node/config/node-config.ts";
import { requireDurable } from "../node/durable/durable-directory.ts";
import { functionModulePath } from "../node/function-module.ts";
import { freePort } from "../node/launcher/free-port.ts";
import { type GivenUp, Job, type JobOutcome, type RestartRules } from "../node/launcher/job.ts";
import { type JobPlan, type Program, planJob } from "../node/launcher/job-plan.ts";
import { LineStream, tagLines } from "../node/launcher/node-output.ts";
import { endText, type NodeProcess, type ProcessEnd } from "../node/launcher/node-process.ts";
import { jobExitCode } from "../node/launcher/process-errors.ts";
import { realClock } from "../node/real-clock.ts";
import { SocketTransport } from "../node/transport/socket-transport.ts";
import { addConfigFlags, configFlags, type Flags, helpText, type Invocation } from "./command-parts.ts";
import { ReportedErrors } from "./reported-errors.ts";
import { isModule, ownProgram, programOf } from "./script.ts";
import { isReaderGone, outputExitCode, outputText, type StandardOutput } from "./standard-output.ts";

/** Keys of a single node, which the launcher sets. */
const NODE_KEYS = ["role", "rank", "port", "advertiseHost", "host", "nodeId"];
/**
 * One server holds the parameters of a job that fits one machine; more of them would take cores from the workers. A
 * scheduler that ends, ends the job here: nobody starts another one that could use its state, unless that is asked for.
 */
const DEFAULTS = { logLevel: "warn", serverCount: 1, stateDir: "none" } as const;
const LOOPBACK = "127.0.0.1";
const RESTART: RestartRules = {
  timesMax: 5,
  delayMs: 500,
  delayMsMax: 8000,
  steadyMs: 60_000,
  roles: ["scheduler", "server", "worker"],
};
/** Nodes of ps-lite do not come back to a scheduler that was started again. */
const RESTART_BESIDE_PSLITE: RestartRules = { ...RESTART, roles: ["server", "worker"] };
const INTERRUPTS: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

const HELP = `
Every process runs the script, which learns its role, rank and cluster from the environment (start() of weighbridge/node reads it;
WEIGHBRIDGE_* and DMLC_* variables are set). Start a script that is only a worker, such as one that calls connect() of weighbridge, with
--worker-only: the built-in scheduler and servers then run beside it. That server holds the tensors and embeddings that the workers
create, and sums what KVWorkers push to application 0. A script that Node does not run is run as a command. Without a
script the scheduler and the servers are started, and wait for workers that you start.

The job ends when all processes have ended. When one fails, or on Ctrl-C, the others are ended too. So is a process that was declared dead
(it was stopped, or did not answer for --heartbeat-timeout-ms) once all others have ended well.

With --restart on-failure, processes that fail once the cluster is complete are started again, each with its rank, up to five times in a
row. What a server held is gone unless it has a standby (--replicas 2) or goes on from a checkpoint (--resume, --checkpoint-every). The
scheduler goes on from its state, and training goes on meanwhile.

With --durable DIR the servers write every update to DIR before they acknowledge it. When the job was killed, the same command brings it
back with all of them; the script runs from its beginning, and finds its parameters as they were.

Examples:
  $ weighbridge launch -w 2 script.ts
  $ weighbridge launch -s 2 -w 4 --worker-only -- train.ts --epochs 3
  $ weighbridge launch -s 2 -w 2..5 --worker-only -- train.ts    (weighbridge scale --workers 5 starts three more)
  $ weighbridge launch -s 8 -w 2 --threads 4 --transport unix --worker-only -- train.ts
  $ weighbridge launch -w 2 --restart on-failure --checkpoint-dir ckpt --checkpoint-every 60s --keep 3 --resume ckpt --worker-only -- train.ts
  $ weighbridge launch -s 2 -w 2 -- python3 train.py`;

export function launchCommand(invocation: Invocation): Command {
  const command = new Command("launch")
    .summary("start a whole cluster on this machine")
    .description(
      "Starts one scheduler, the given number of workers, and one server or as many as given, on this machine, each in a process of its own.",
    )
    .usage("-w <count> [-s <count>] [options] -- <script> [args...]")
    .argument("[script]", "what every process runs")
    .argument("[args...]", "its arguments")
    .passThroughOptions()
    .option("--worker-only", "run the script in workers only")
    .addOption(new Option("--restart <when>", "start processes again that fail: on-failure, or never").choices(["on-failure", "never"]))
    .option("--port, --scheduler-port <port>", "the scheduler's port; any free one when left out")
    .addHelpText("after", helpText(HELP))
    .action(async (script: string | undefined, args: string[], flags: Flags) => {
      const isRestarted = flags.restart === "on-failure";
      using state = isRestarted ? temporaryState() : undefined;
      const plan = await plannedJob({ script, args, flags, stateDir: state?.path }, invocation);
      checkServers(plan.scheduler);
      const beginning = await checkFiles(plan.scheduler);
      await checkSchedulerAddress(plan.scheduler);
      const { scheduler, statusCommand } = schedulerTexts(plan.scheduler);
      process.stderr.write(`weighbridge: scheduler at ${scheduler}; look at the cluster with: ${statusCommand}\n`);
      if (beginning !== undefined) process.stderr.write(`weighbridge: ${beginning}\n`);
      if (script === undefined && plan.scheduler.workerCount > 0) printHowToJoin(plan.scheduler);
      const restart = plan.scheduler.van === "weighbridge" ? RESTART : RESTART_BESIDE_PSLITE;
      invocation.exitCode = await runJob(plan, invocation.output, isRestarted ? restart : undefined);
    });
  return addConfigFlags(command, { except: [...NODE_KEYS, "schedulerPort"], defaults: DEFAULTS });
}

/** A directory for the state of a scheduler that this launcher starts again; removed with the job. */
function temporaryState(): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "weighbridge-launch-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

type LaunchRequest = {
  readonly script: string | undefined;
  readonly args: readonly string[];
  readonly flags: Flags;
  /** Where the scheduler keeps its state, unless the configuration names another place. */
  readonly stateDir?: string | undefined;
};

/** Chooses a free port if no port is given. Throws BAD_CONFIG. */
async function plannedJob({ script, args, flags, stateDir }: LaunchRequest, { isVerbose }: Invocation): Promise<JobPlan> {
  const workerOnly = flags.workerOnly === true;
  return planJob({
    commandLine: configFlags(flags),
    env: process.env,
    defaults: { ...DEFAULTS, ...(stateDir === undefined ? {} : { stateDir }), schedulerPort: await freePort(LOOPBACK) },
    programOf: (config) => programFor(config, script, args, { workerOnly, isVerbose }),
  });
}

/** A job needs a server to hold its parameters. Throws BAD_CONFIG. */
function checkServers({ serverCount }: NodeConfig): void {
  if (serverCount > 0) return;
  throw new WeighbridgeError("BAD_CONFIG", "a launch needs at least 1 server, which holds the parameters, not 0: set --server-count (-s)");
}

/**
 * Checks once, before any server starts, the files that all of them read and the directory they write to. Returns what
 * the servers begin with, in words; undefined if no checkpoint is asked for. Throws BAD_CONFIG.
 */
async function checkFiles({ functions, restore, resume, checkpointDir, durable }: NodeConfig): Promise<string | undefined> {
  if (durable !== undefined) requireDurable(durable);
  if (checkpointDir !== undefined) requireWritableDirectory(checkpointDir);
  if (functions !== undefined) functionModulePath(functions);
  const from = restore ?? resume;
  if (from === undefined) return undefined;
  try {
    return `the servers begin with ${await findCheckpoint(resolve(from))}`;
  } catch (cause) {
    if (resume !== undefined && isWeighbridgeError(cause, "CHECKPOINT_MISSING"))
      return `no checkpoint in ${resolve(from)} yet: the servers begin empty`;
    throw new WeighbridgeError("BAD_CONFIG", `--${restore === undefined ? "resume" : "restore"}: ${reasonOf(cause)}`, { cause });
  }
}

/** The nodes of this job would otherwise talk to whatever else listens there. Throws PORT_IN_USE or BAD_CONFIG. */
export async function checkSchedulerAddress(scheduler: NodeConfig): Promise<void> {
  const transport = new SocketTransport({ clock: realClock() });
  const listener = await transport.listen(schedulerAddress(scheduler), () => {
    throw new WeighbridgeError("NO_ROUTE", "the scheduler has not been started yet", { retryable: true });
  });
  await listener.close();
}

function programFor(
  { role, threads }: NodeConfig,
  script: string | undefined,
  args: readonly string[],
  { workerOnly, isVerbose }: { readonly workerOnly: boolean; readonly isVerbose: boolean },
): Program | undefined {
  const launched = { role, isVerbose };
  if (role === "worker") return script === undefined ? undefined : programOf(launched, script, args);
  if (script === undefined || workerOnly) return ownProgram(launched);
  if (role === "scheduler" || threads === 1) return programOf(launched, script, args);
  if (isModule(script)) return ownProgram(launched, "--", script, ...args);
  throw new WeighbridgeError(
    "BAD_CONFIG",
    `--threads ${threads} needs a script that Node runs, but ${script} is a command; leave --threads out`,
  );
}

function printHowToJoin({ workerCount, workerCountMax, schedulerHost, schedulerPort, serverCount }: NodeConfig): void {
  const range = workerCountMax === undefined ? workerCount : `${workerCount}..${workerCountMax}`;
  const how = `weighbridge worker -s ${serverCount} -w ${range} --scheduler-host ${schedulerHost} --scheduler-port ${schedulerPort}`;
  const workers = workerCount === 1 ? "1 worker; start it" : `${workerCount} workers; start each`;
  process.stderr.write(`weighbridge: waiting for ${workers} with: ${how} script.ts\n`);
}

/** The address of a job's scheduler, and the command that shows its status. */
export function schedulerTexts(config: NodeConfig): { readonly scheduler: string; readonly statusCommand: string } {
  const { transport, van, schedulerHost, schedulerPort } = config;
  const host = schedulerHost === LOOPBACK ? "" : ` --scheduler-host ${schedulerHost}`;
  const socket = transport === "unix" ? ` --transport unix${van === "weighbridge" ? "" : ` --van ${van}`}` : "";
  return {
    scheduler: transport === "unix" ? schedulerAddress(config) : `${schedulerHost}:${schedulerPort}`,
    statusCommand: `npx weighbridge status${host} --scheduler-port ${schedulerPort}${socket}`,
  };
}

/** Runs the job and passes its output on. Returns the exit code. */
async function runJob({ processes, serversOf, workerOf }: JobPlan, output: StandardOutput, restart?: RestartRules): Promise<number> {
  process.stdout.setMaxListeners(0);
  process.stderr.setMaxListeners(0);
  const errors = new ReportedErrors();
  const job = new Job({
    processes,
    serversOf,
    workerOf,
    onAdded: ({ name }) => process.stderr.write(`weighbridge: ${name} is started\n`),
    onServerLost: (end) => process.stderr.write(`weighbridge: ${serverLostText(end)}\n`),
    restart,
    onRestart: (end, delayMs) => {
      const when = delayMs === 0 ? "at once" : `in ${delayMs} ms`;
      process.stderr.write(`weighbridge: ${endText(end)}; it is started again ${when}\n`);
    },
    attach: (node) => showOutput(node, errors),
    onFailure: (culprit) => errors.addReason(culprit),
    onCopyLost: (end) => process.stderr.write(`weighbridge: ${copyLostText(end)}\n`),
    onGivenUp: ({ name }, why) => process.stderr.write(`weighbridge: ${givenUpText(name, why)}\n`),
  });
  const release = forwardEnds(job, output);
  const outcome = await job.outcome;
  release();
  if (outcome.kind === "unseen" && !isReaderGone(outcome.error))
    process.stderr.write(`weighbridge: ${outputText(outcome.error)}; the job was ended\n`);
  if (outcome.kind === "interrupted") process.stderr.write(`weighbridge: ended by ${outcome.signal}\n`);
  if (outcome.kind === "failed") {
    await errors.shown(); // so that the last line says what happened, whatever the others write while they are ended
    process.stderr.write(`weighbridge: ${endText(outcome.culprit)}\n`);
  }
  return exitCodeOf(outcome);
}

/** About a process that is ended because it does not end by itself. */
export function givenUpText(name: string, why: GivenUp): string {
  const reason = why === "dead" ? "was declared dead, and all others are done" : "was asked to leave, and has not (session.leaving)";
  return `${name} ${reason}: it is ended now`;
}

/** About a server that the job did not have yet. */
export function serverLostText(end: ProcessEnd): string {
  return `${endText(end)}; the job goes on without it`;
}

/** About one of two processes with the same servers. */
export function copyLostText(end: ProcessEnd): string {
  return `${endText({ ...end, reason: undefined })}; the job goes on with the other process of ${end.plan.name}`;
}

/**
 * Ctrl-C and similar signals end all processes, and so does output that cannot be written. Returns a function that
 * stops this.
 */
export function forwardEnds(job: Job, output: StandardOutput): () => void {
  const onSignal = (signal: NodeJS.Signals): void => job.interrupt(signal);
  for (const signal of INTERRUPTS) process.on(signal, onSignal);
  const release = output.onError((error) => job.loseOutput(error, outputText(error)));
  return () => {
    release();
    for (const signal of INTERRUPTS) process.off(signal, onSignal);
  };
}

export function exitCodeOf(outcome: JobOutcome): number {
  switch (outcome.kind) {
    case "done":
      return 0;
    case "failed":
      return jobExitCode(outcome.culprit);
    case "interrupted":
      return 128 + constants.signals[outcome.signal];
    case "unseen":
      return outputExitCode(outcome.error);
  }
}

function showOutput({ plan, stdout, stderr, ended }: NodeProcess, errors: ReportedErrors): void {
  const lines = errors.reader(ended, tagLines(plan, process.stderr), (line) => process.stderr.write(`${line}\n`));
  stdout.pipe(new LineStream(tagLines(plan, process.stdout))).pipe(process.stdout, { end: false });
  stderr.pipe(new LineStream(lines)).pipe(process.stderr, { end: false });
}
