// launch — runs a whole cluster on this machine: starts the processes, shows their output, ends them together.

import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Command, Option } from "commander";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { requireWritableDirectory } from "../node/checkpoint/checkpoint-directory.ts";
import { findCheckpoint } from "../node/checkpoint/find-checkpoint.ts";
import { SCHEDULER_PORT, schedulerAddress } from "../node/config/node-addresses.ts";
import type { NodeConfig } from "../node/config/node-config.ts";
import { requireDurable } from "../node/durable/durable-directory.ts";
import { functionModulePath } from "../node/function-module.ts";
import { forgetLastJob } from "../node/last-job.ts";
import { freePort, portOrFree } from "../node/launcher/free-port.ts";
import { type GivenUp, Job, type JobOutcome, type RestartRules } from "../node/launcher/job.ts";
import { type JobPlan, type Program, planJob } from "../node/launcher/job-plan.ts";
import { LineStream, tagLines } from "../node/launcher/node-output.ts";
import { endText, type NodeProcess, type ProcessEnd } from "../node/launcher/node-process.ts";
import { FAILED_EXIT_CODE, jobExitCode } from "../node/launcher/process-errors.ts";
import { realClock } from "../node/real-clock.ts";
import { SocketTransport } from "../node/transport/socket-transport.ts";
import { addConfigFlags, addHelp, configFlags, type Flags, type HelpTexts, type Invocation, portOption } from "./command-parts.ts";
import { printNotice, STATUS_COMMAND } from "./notices.ts";
import { ReportedErrors } from "./reported-errors.ts";
import { hasServerHandle, isModule, type Launched, ownProgram, programOf } from "./script.ts";
import { isReaderGone, outputExitCode, outputText, type StandardOutput } from "./standard-output.ts";

/** Keys of a single node, which the launcher sets. */
const NODE_KEYS = ["role", "rank", "listenPort", "advertiseHost", "host", "nodeId"];
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

const HELP: HelpTexts = {
  about: "Without a script it waits for workers that you start.",
  more: `Scheduler, servers and workers are processes of their own. Each worker runs the script, which learns its role, rank and cluster from the environment (connect() of weighbridge and start() of
weighbridge/node read it; WEIGHBRIDGE_* and DMLC_* variables are set). A built-in server holds the tensors and embeddings that the workers
create, and sums what KVWorkers push to application 0. With --all-roles the script is one program for every role, as programs of ps-lite are.
A script that Node does not run is run as a command. Without a script the scheduler and the servers are started, and wait for workers that
you start.

The job ends when all processes have ended. When one fails, or on Ctrl-C, the others are ended too. A process that was declared dead (it was
stopped, or did not answer for --heartbeat-timeout) is ended once all others have ended well: a line names it, and the job exits with 1.
So it does when a worker ends without session.close(): the others do not wait for it, and a line names it at once.

With -w 0 there are no workers: the cluster serves guests until it gets SIGTERM, or Ctrl-C, and then ends in order, with exit code 0. With --serve
it does so once its last worker has left. The next signal ends it at once.

With --restart on-failure, processes that fail once the cluster is complete are started again, each with its rank, up to five times in a
row. What a server held is gone unless it has a standby (--replicas 2) or resumes from a checkpoint (--resume, --checkpoint-every). The
scheduler resumes from its state, and training continues meanwhile.

With --durable DIR the servers write every update to DIR before they acknowledge it. When the job was killed, the same command brings it
back with all of them; the script runs from its beginning, and finds its parameters as they were.

More examples:
  $ weighbridge launch -s 8 -w 2 --threads 4 --transport unix -- train.ts
  $ weighbridge launch -s 2 -w 2 --all-roles -- python3 train.py
  $ weighbridge launch -w 2 --restart on-failure --checkpoint-dir ckpt --checkpoint-every 60s --keep 3 --resume -- train.ts`,
  examples: [
    "launch -w 2 train.ts",
    "launch -s 2 -w 2..5 -- train.ts --epochs 3",
    "launch -w 2 --checkpoint-dir ckpt --resume -- train.ts",
    "launch -s 2 -w 0                  # without workers, for guests",
  ],
};

const COMMON_KEYS: readonly string[] = [
  ...["serverCount", "workerCount", "replicas", "functions", "checkpointDir", "checkpointEvery", "resume", "durable"],
];

export function launchCommand(invocation: Invocation): Command {
  const keys = { common: COMMON_KEYS, except: [...NODE_KEYS, "schedulerPort"], defaults: DEFAULTS };
  const command = addConfigFlags(new Command("launch"), invocation, keys)
    .summary("start a whole cluster on this machine")
    .description("Starts a whole cluster on this machine, whose workers run the script.")
    .usage("-w <count> [-s <count>] [options] [script] [args...]")
    .argument("[script]")
    .argument("[args...]")
    .passThroughOptions()
    .option("--all-roles", "run the script in scheduler and servers, too")
    .addOption(new Option("--worker-only", "the default").conflicts("allRoles").hideHelp())
    .addOption(new Option("--restart <when>", "on-failure: start processes again that fail").choices(["on-failure", "never"]))
    .addOption(portOption(`${SCHEDULER_PORT} if free, else any`))
    .action(async (script: string | undefined, args: string[], flags: Flags) => {
      const isRestarted = flags.restart === "on-failure";
      using state = isRestarted ? temporaryState() : undefined;
      const plan = await atFreePort((schedulerPort) =>
        plannedJob({ script, args, flags, schedulerPort, stateDir: state?.path }, invocation),
      );
      checkCounts(plan.scheduler, script);
      checkRoles(script, flags);
      const beginning = await checkFiles(plan.scheduler);
      printNotice(`scheduler at ${schedulerText(plan.scheduler)}, for ${STATUS_COMMAND}`);
      if (beginning !== undefined) printNotice(beginning);
      if (script === undefined && plan.scheduler.workerCount > 0) printHowToJoin(plan.scheduler);
      if (plan.scheduler.workerCount === 0 && plan.scheduler.serve === "on") printHowToConnect(plan.scheduler);
      const restart = plan.scheduler.van === "weighbridge" ? RESTART : RESTART_BESIDE_PSLITE;
      invocation.exitCode = await runJob(plan, invocation.output, isRestarted ? restart : undefined);
    });
  return addHelp(command, invocation, HELP);
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
  /** Unless the configuration names another one. */
  readonly schedulerPort: number;
  /** Where the scheduler keeps its state, unless the configuration names another place. */
  readonly stateDir?: string | undefined;
};

/** Throws BAD_CONFIG. */
function plannedJob({ script, args, flags, schedulerPort, stateDir }: LaunchRequest, { isVerbose }: Invocation): JobPlan {
  const allRoles = flags.allRoles === true;
  return planJob({
    commandLine: configFlags(flags),
    env: process.env,
    defaults: { ...DEFAULTS, ...(stateDir === undefined ? {} : { stateDir }), schedulerPort },
    programOf: (config) => programFor(config, script, args, { allRoles, isVerbose, isRestarted: flags.restart === "on-failure" }),
  });
}

/** A job needs a server to hold its parameters, and a worker to run a script. Throws BAD_CONFIG. */
function checkCounts({ serverCount, workerCount }: NodeConfig, script: string | undefined): void {
  if (workerCount === 0 && script !== undefined)
    throw new WeighbridgeError("BAD_CONFIG", `there are no workers (-w 0) to run ${script}; leave it out, or start workers`);
  if (serverCount > 0) return;
  throw new WeighbridgeError("BAD_CONFIG", "a launch needs at least 1 server, which holds the parameters, not 0: set --servers (-s)");
}

/** Throws BAD_CONFIG for a server's handle in a script that only workers would run; `--worker-only` insists. */
function checkRoles(script: string | undefined, { allRoles, workerOnly }: Flags): void {
  if (allRoles === true || workerOnly === true || script === undefined || !hasServerHandle(script)) return;
  const problem = `${script} gives a KVServer a handle, but would run in the workers alone, and the built-in servers sum what is pushed`;
  throw new WeighbridgeError("BAD_CONFIG", `${problem}: add --all-roles, or --worker-only if they are to sum`);
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

/**
 * The plan of a job whose scheduler gets the wished port if that is free, otherwise any, unless its configuration
 * names one. Throws PORT_IN_USE for that one, and BAD_CONFIG.
 */
export async function atFreePort(planAt: (schedulerPort: number) => JobPlan, wished: number = SCHEDULER_PORT): Promise<JobPlan> {
  const plan = planAt(await portOrFree(LOOPBACK, wished));
  try {
    await checkSchedulerAddress(plan.scheduler);
    return plan;
  } catch (thrown) {
    // a Unix socket of that name, or another address of this machine
    const other = planAt(await freePort(LOOPBACK));
    if (!isWeighbridgeError(thrown, "PORT_IN_USE") || other.scheduler.schedulerPort === plan.scheduler.schedulerPort) throw thrown;
    await checkSchedulerAddress(other.scheduler);
    return other;
  }
}

/** The nodes of this job would otherwise talk to whatever else listens there. Throws PORT_IN_USE or BAD_CONFIG. */
async function checkSchedulerAddress(scheduler: NodeConfig): Promise<void> {
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
  { allRoles, ...how }: Omit<Launched, "role"> & { readonly allRoles: boolean },
): Program | undefined {
  const launched = { role, ...how };
  if (role === "worker") return script === undefined ? undefined : programOf(launched, script, args);
  if (script === undefined || !allRoles) return ownProgram(launched);
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
  printNotice(`waiting for ${workers} with: ${how} script.ts`);
}

function printHowToConnect({ transport, schedulerHost, schedulerPort }: NodeConfig): void {
  const how = transport === "unix" ? 'connect({ role: "guest", … })' : `connect("weighbridge://${schedulerHost}:${schedulerPort}")`;
  printNotice(`serving guests, ${how}, until Ctrl-C or SIGTERM`);
}

/** The address of a job's scheduler. */
export function schedulerText(config: NodeConfig): string {
  const { transport, schedulerHost, schedulerPort } = config;
  if (transport === "unix") return schedulerAddress(config);
  return `${schedulerHost.includes(":") ? `[${schedulerHost}]` : schedulerHost}:${schedulerPort}`;
}

/** Runs the job and passes its output on. Returns the exit code. */
async function runJob(
  { scheduler, processes, serversOf, workerOf }: JobPlan,
  output: StandardOutput,
  restart?: RestartRules,
): Promise<number> {
  process.stdout.setMaxListeners(0);
  process.stderr.setMaxListeners(0);
  const errors = new ReportedErrors();
  let lost: string | undefined;
  const job = new Job({
    processes,
    serversOf,
    workerOf,
    onAdded: ({ name }) => printNotice(`${name} is started`),
    onServerLost: (end) => printNotice(serverLostText(end)),
    restart,
    onRestart: (end, delayMs) => {
      const when = delayMs === 0 ? "at once" : `in ${delayMs} ms`;
      printNotice(`${endText(end)}; it is started again ${when}`);
    },
    attach: (node) => showOutput(node, errors, output),
    onFailure: (culprit) => errors.addReason(culprit),
    onCopyLost: (end) => printNotice(copyLostText(end)),
    onLastCopyLost: ({ plan }) => {
      if (scheduler.durable === undefined) lost = plan.name;
    },
    serves: scheduler.serve === "on",
    onOrderlyEnd: (signal) => printNotice(`${signal}: the cluster ends in order; send it again to end it at once`),
    onUnclosed: (name) => printNotice(`${name} ended without session.close()`),
    onGivenUp: ({ name }, why) => {
      const result = why === "dead" ? ", and the job exits with 1" : "";
      printNotice(`${givenUpText(name, why)}${result}`);
    },
  });
  const release = forwardEnds(job, output);
  const outcome = await job.outcome;
  release();
  forgetLastJob();
  if (outcome.kind === "unseen" && !isReaderGone(outcome.error)) printNotice(`${outputText(outcome.error)}; the job was ended`);
  if (outcome.kind === "interrupted") printNotice(`ended by ${outcome.signal}`);
  if (outcome.kind === "failed") {
    await errors.shown(); // so that the last line says what happened, whatever the others write while they are ended
    printNotice(endText(outcome.culprit));
    if (lost !== undefined && scheduler.replicas === 2) printNotice(await bothLostText(lost, scheduler.checkpointDir));
  }
  return exitCodeOf(outcome);
}

const GIVEN_UP: Readonly<Record<GivenUp, string>> = {
  dead: "was declared dead, and all others are done",
  unwanted: "was asked to leave, and has not",
  late: "was started again, and the job has ended well without it",
};

/** About a process that is ended because it does not end by itself. */
export function givenUpText(name: string, why: GivenUp): string {
  return `${name} ${GIVEN_UP[why]}: it is ended now`;
}

/** About a server that the job did not have yet. */
export function serverLostText(end: ProcessEnd): string {
  return `${endText(end)}; the job goes on without it`;
}

/** About one of two processes with the same servers. */
export function copyLostText(end: ProcessEnd): string {
  return `${endText({ ...end, reason: undefined })}; the job goes on with the other process of ${end.plan.name}`;
}

/** About a server whose two processes have failed. Names the newest checkpoint, if there is one. */
export async function bothLostText(server: string, checkpointDir: string | undefined): Promise<string> {
  const ended = `both processes of ${server} have ended, and what it held`;
  if (checkpointDir === undefined) return `${ended} is lost: the job has no --checkpoint-dir`;
  try {
    return `${ended} since the last checkpoint, ${await findCheckpoint(checkpointDir)}, is lost`;
  } catch (thrown) {
    return `${ended} is lost: ${reasonOf(thrown)}`;
  }
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
    case "incomplete":
      return FAILED_EXIT_CODE;
    case "failed":
      return jobExitCode(outcome.culprit);
    case "interrupted":
      return 128 + constants.signals[outcome.signal];
    case "unseen":
      return outputExitCode(outcome.error);
  }
}

/** Once the reader of the output has gone nothing more is said: not by processes that are ended for it, either. */
function showOutput({ plan, stdout, stderr, ended }: NodeProcess, errors: ReportedErrors, output: StandardOutput): void {
  const isHeard = (): boolean => output.error === undefined || !isReaderGone(output.error);
  const lines = errors.reader(ended, tagLines(plan, process.stderr), (line) => {
    if (isHeard()) process.stderr.write(`${line}\n`);
  });
  stdout.pipe(new LineStream(tagLines(plan, process.stdout))).pipe(process.stdout, { end: false });
  stderr.pipe(new LineStream((line) => (isHeard() ? lines(line) : undefined))).pipe(process.stderr, { end: false });
}
