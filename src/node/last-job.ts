// last-job — the file .weighbridge/job.json: which job was last started from this directory, and where its scheduler
// is. The scheduler's process writes it, whatever command started it; commands that are given no address read it. The
// same record stands in the user's directory, under running/, so that `stop` finds the process of a job of this machine
// that was started elsewhere.
//
// Invariants:
//   LastJob.L1. It names the job by its id and the scheduler's term: another job at the same address is not taken for
//       it, nor another run of the job (isSameJob, and the handshake with `job`).
//   LastJob.L2. A job that has ended leaves no file, unless it was killed. It removes no other job's.
//   LastJob.L3. A directory that cannot be written is no error: commands then need an address, or the default port.
//   LastJob.L4. A process is signalled only while its scheduler answers with the term that the record has: the process
//       that wrote it runs, and so does the launcher that it would not outlive.

import { channel, subscribe } from "node:diagnostics_channel";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Address } from "../transport/transport.ts";
import type { StatusReply } from "../wire/control.ts";
import { userDirectory } from "./state/user-directory.ts";

export type LastJob = {
  /** `NAME/RUN`. */
  readonly job: string;
  /** Of the scheduler that wrote this. */
  readonly term: number;
  /** Where schedulers of the job may be. */
  readonly addresses: readonly Address[];
  readonly process?: SchedulerProcess | undefined;
};

/** Where the scheduler runs, and which process started the whole job. */
export type SchedulerProcess = {
  readonly host: string;
  readonly pid: number;
  /** Left out: the scheduler was started by itself. */
  readonly launcher?: number | undefined;
};

/** A scheduler of this process publishes its LastJob here: the script may have loaded another copy of the package. */
export const SCHEDULER_CHANNEL = "weighbridge:scheduler";

const DIRECTORY = ".weighbridge";
const FILE = "job.json";
const RUNNING = "running";

function pathIn(directory: string): string {
  return join(directory, DIRECTORY, FILE);
}

/**
 * Writes the records of the scheduler that this process will be, and removes them when the process exits. `launcher`:
 * the process that started the job, and ends it when it is signalled. The first call of a process counts.
 */
export function recordScheduler({
  launcher,
  directory = resolve(),
}: {
  readonly launcher?: number;
  readonly directory?: string;
} = {}): void {
  if (channel(SCHEDULER_CHANNEL).hasSubscribers) return;
  let own: LastJob | undefined;
  const { pid } = process;
  subscribe(SCHEDULER_CHANNEL, (message) => {
    const last = message as LastJob; // published by scheduler-root.ts
    if (own?.job === last.job && own.term === last.term) return;
    if (own === undefined) {
      process.once("exit", () => {
        forgetLastJob(directory);
        removeFile(runningPath(pid));
      });
    }
    own = { ...last, process: { host: hostname(), pid, ...(launcher === undefined ? {} : { launcher }) } };
    writeLastJob(own, directory);
    writeRecord(own, runningPath(pid));
  });
}

/**
 * The process of the job whose scheduler has this term (LastJob.L4); undefined if no process of this user wrote one.
 */
export function schedulerProcess(term: number, directory: string = resolve()): SchedulerProcess | undefined {
  const records = [readLastJob(directory), ...runningJobs()];
  return records.find((record) => record?.term === term)?.process;
}

/** Of the jobs of this user, wherever on this machine they were started. */
export function recordDirectory(): string {
  return join(userDirectory(), RUNNING);
}

function runningPath(pid: number): string {
  return join(recordDirectory(), `${pid}.json`);
}

/** Those of this user. Removes what processes have left that a signal ended. */
function runningJobs(): readonly LastJob[] {
  const directory = recordDirectory();
  try {
    return readdirSync(directory).flatMap((name) => {
      const path = join(directory, name);
      const record = readRecord(path);
      if (record?.process?.host === hostname() && !isAlive(record.process.pid)) removeFile(path);
      return record === undefined ? [] : [record];
    });
  } catch {
    return []; // LastJob.L3
  }
}

/** Whether there is such a process, of whichever user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

export function writeLastJob(last: LastJob, directory: string = resolve()): void {
  writeRecord(last, pathIn(directory));
}

function writeRecord(last: LastJob, path: string): void {
  const written = `${path}.${process.pid}`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(written, `${JSON.stringify(last, null, 2)}\n`);
    renameSync(written, path);
  } catch {
    removeFile(written);
  }
}

/** Undefined: none was started here, or it has ended. */
export function readLastJob(directory: string = resolve()): LastJob | undefined {
  return readRecord(pathIn(directory));
}

function readRecord(path: string): LastJob | undefined {
  try {
    const last: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isLastJob(last) ? last : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Removes the file if it is of a job whose scheduler, or launcher, is this process (LastJob.L2), and records of the
 * dead.
 */
export function forgetLastJob(directory: string = resolve()): void {
  runningJobs();
  const { host, pid, launcher } = readLastJob(directory)?.process ?? {};
  if (host === hostname() && (pid === process.pid || launcher === process.pid)) removeFile(pathIn(directory));
}

function removeFile(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // LastJob.L3
  }
}

/**
 * Whether the scheduler that answered is the job's, once the handshake with its id has passed. While a job forms, the
 * handshake compares names alone: then the term decides.
 */
export function isSameJob({ term }: LastJob, status: Pick<StatusReply, "phase" | "term">): boolean {
  return status.phase !== "forming" || status.term === term;
}

function isLastJob(value: unknown): value is LastJob {
  if (typeof value !== "object" || value === null) return false;
  const { job, term, addresses, process: own } = value as Partial<Record<keyof LastJob, unknown>>;
  const areAddresses = Array.isArray(addresses) && addresses.length > 0 && addresses.every((address) => typeof address === "string");
  return typeof job === "string" && typeof term === "number" && areAddresses && (own === undefined || isSchedulerProcess(own));
}

function isSchedulerProcess(value: unknown): value is SchedulerProcess {
  if (typeof value !== "object" || value === null) return false;
  const { host, pid, launcher } = value as Partial<Record<keyof SchedulerProcess, unknown>>;
  // Numbers of 0 and below name groups of processes.
  const isPid = (number: unknown): boolean => Number.isSafeInteger(number) && Number(number) > 0;
  return typeof host === "string" && isPid(pid) && (launcher === undefined || isPid(launcher));
}
