// run-directory — gives each run a directory of its own for its checkpoints, so that a run neither resumes from another
// run's checkpoints by mistake nor removes them in favour of new ones.
//
//   <directory>/run-1/step-000938        a run and its checkpoint
//   <directory>/run-2/step-000500
//
// Invariants:
//   RunDirectory.R1. A new run gets a directory that no other run has, also when several begin at once.
//   RunDirectory.R2. A resumed run saves beside the checkpoint that it continues from, unless a later one is there:
//       then it gets a directory of its own.
//   RunDirectory.R3. A run that saved nothing leaves no directory.

import { existsSync, mkdirSync, readdirSync, rmdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { CheckpointDirectory, requireWritableDirectory, unwritableError } from "../../node/checkpoint/checkpoint-directory.ts";
import { findCheckpoint } from "../../node/checkpoint/find-checkpoint.ts";

const RUN_NAME = /^run-([1-9]\d{0,8})$/;

/** Creates the directory of a new run and returns its path. Throws BAD_CONFIG if it cannot be written. */
export function createRun(directory: string): string {
  prepareCheckpointTarget(directory);
  for (let run = (runsIn(directory)[0] ?? 0) + 1; ; run++) {
    const path = join(directory, runName(run));
    try {
      mkdirSync(path);
      return path;
    } catch (thrown) {
      // RunDirectory.R1: another run was faster.
      if (!isError(thrown, "EEXIST")) throw unwritableError(directory, thrown);
    }
  }
}

/**
 * Where a run saves that continues from this checkpoint, which has `stepsDone` steps over all epochs (RunDirectory.R2).
 * Throws BAD_CONFIG if that cannot be written.
 */
export async function continueRun(checkpoint: string, stepsDone: number): Promise<string> {
  const run = dirname(checkpoint);
  const newest = (await new CheckpointDirectory({ root: run }).list()).at(-1);
  if (newest !== undefined && newest.step > stepsDone) return createRun(RUN_NAME.test(basename(run)) ? dirname(run) : run);
  prepareCheckpointTarget(run);
  return run;
}

/**
 * The newest checkpoint of the newest run that has one, or of the directory itself if it has no runs. Throws
 * CHECKPOINT_MISSING.
 */
export async function newestCheckpoint(directory: string): Promise<string> {
  for (const run of runsIn(directory)) {
    const newest = (await new CheckpointDirectory({ root: join(directory, runName(run)) }).list()).at(-1);
    if (newest !== undefined) return newest.path;
  }
  return await findCheckpoint(directory);
}

/**
 * Call it when no process of the run is left: removes incomplete checkpoints, and the run's directory if nothing else
 * is in it (RunDirectory.R3).
 */
export async function tidyRun(runDirectory: string): Promise<void> {
  try {
    await new CheckpointDirectory({ root: runDirectory }).removeLeftovers();
    rmdirSync(runDirectory);
  } catch {
    // It has checkpoints, or the disk is gone: neither needs repair here.
  }
}

/** Newest first. */
function runsIn(directory: string): number[] {
  try {
    return readdirSync(directory)
      .flatMap((name) => RUN_NAME.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => b - a);
  } catch {
    return []; // The search for a checkpoint there reports what is wrong.
  }
}

function runName(run: number): string {
  return `run-${run}`;
}

function isError(thrown: unknown, code: string): boolean {
  return thrown instanceof Error && "code" in thrown && thrown.code === code;
}

/** Creates the directory if it is missing. Throws BAD_CONFIG if it cannot be written. */
export function prepareCheckpointTarget(path: string): void {
  requireWritableDirectory(path);
  try {
    createWithParents(resolve(path));
  } catch (thrown) {
    throw unwritableError(path, thrown);
  }
}

/** One level at a time: Node's recursive mkdir never returns if the system reports ENOENT for the parent (/proc). */
function createWithParents(directory: string): void {
  if (existsSync(directory)) return;
  createWithParents(dirname(directory));
  mkdirSync(directory);
}
