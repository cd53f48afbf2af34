// launched-job — a launcher's job of real processes, each a line of JavaScript: what the tests of jobs share.

import { Job, type JobOptions } from "../../src/node/launcher/job.ts";
import type { ProcessPlan } from "../../src/node/launcher/job-plan.ts";
import type { NodeProcess } from "../../src/node/launcher/node-process.ts";

/** Runs until it is ended. */
export const WAIT = "setInterval(() => {}, 1000); console.log('up')";
export const RESTART = { timesMax: 2, delayMs: 100, delayMsMax: 100, steadyMs: 60_000, roles: ["scheduler", "server", "worker"] } as const;

export function processPlan(name: string, code: string): ProcessPlan {
  return { name, role: "worker", ranks: [0], program: [process.execPath, "-e", code], env: {} };
}

/** A job whose processes tell when they are up, and what they wrote. */
export function startJob(
  plans: readonly ProcessPlan[],
  options: Partial<JobOptions> = {},
): { job: Job; up: Promise<unknown>; processes: NodeProcess[] } {
  const processes: NodeProcess[] = [];
  const ups: Promise<unknown>[] = [];
  const attach = (started: NodeProcess): void => {
    processes.push(started);
    ups.push(new Promise((resolve) => started.stdout.once("data", resolve)));
  };
  return { job: new Job({ processes: plans, attach, ...options }), up: Promise.all(ups), processes };
}
