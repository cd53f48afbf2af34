// run-directory — where the checkpoints of one run lie: in a directory of their own, so that nobody takes another run's
// for them, goes on from those by mistake, or has them removed in favour of new ones.
//
//   <directory>/run-1/step-000938        a run, and what it saved
//   <directory>/run-2/step-000500
//
// Invariants:
//   R1. A run that begins anew gets a directory that no other has, also when several begin at once.
//   R2. One that goes on saves where the checkpoint lies that it goes on from, unless a later one lies there: then it
//       gets a directory of its own, beside.
//   R3. A run that saved nothing leaves no directory.

import { existsSync, mkdirSync, readdirSync, rmdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { CheckpointDirectory, requireWritableDirectory, unwritableError } from "../../node/checkpoint/checkpoint-directory.ts";
import { findCheckpoint } from "../../node/checkpoint/find-checkpoint.ts";

const RUN_NAME = /^run-([1-9]\d{0,8})$/;

/** Creates the directory of a new run, and returns its path. Throws BAD_CONFIG when nothing can be saved there. */
export function createRun(directory: string): string {
  prepareCheckpointTarget(directory);
  for (let run = (runsIn(directory)[0] ?? 0) + 1; ; run++) {
    const path = join(directory, runName(run));
    try {
      mkdirSync(path);
      return path;
    } catch (thrown) {
      if (!isError(thrown, "EEXIST")) throw unwritableError(directory, thrown); // R1: another run was faster
    }
  }
}

/**
 * Where a run saves that goes on from this checkpoint, `stepsDone` steps of all epochs being in it (R2). Throws
 * BAD_CONFIG when nothing can be saved there.
 */
export async function continueRun(checkpoint: string, stepsDone: number): Promise<string> {
  const run = dirname(checkpoint);
  const newest = (await new CheckpointDirectory({ root: run }).list()).at(-1);
  if (newest !== undefined && newest.step > stepsDone) return createRun(RUN_NAME.test(basename(run)) ? dirname(run) : run);
  prepareCheckpointTarget(run);
  return run;
}

/**
 * The newest checkpoint of the newest run that has one; in a directory without runs, its own. Throws
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
 * When no process of the run is there any more: removes what was never completed, and the run's directory where nothing
 * else was in it (R3).
 */
export async function tidyRun(runDirectory: string): Promise<void> {
  try {
    await new CheckpointDirectory({ root: runDirectory }).removeLeftovers();
    rmdirSync(runDirectory);
  } catch {
    // There are checkpoints in it, or the disk is gone: neither is ours to mend.
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
    return []; // Whoever looks for a checkpoint there is told what is wrong.
  }
}

function runName(run: number): string {
  return `run-${run}`;
}

function isError(thrown: unknown, code: string): boolean {
  return thrown instanceof Error && "code" in thrown && thrown.code === code;
}

/** Creates the directory where it is missing. Throws BAD_CONFIG when it cannot be written to. */
export function prepareCheckpointTarget(path: string): void {
  requireWritableDirectory(path);
  try {
    createWithParents(resolve(path));
  } catch (thrown) {
    throw unwritableError(path, thrown);
  }
}

/**
 * One by one: Node's own way to make parents never returns where the system says that there is no such place (/proc).
 */
function createWithParents(directory: string): void {
  if (existsSync(directory)) return;
  createWithParents(dirname(directory));
  mkdirSync(directory);
}
