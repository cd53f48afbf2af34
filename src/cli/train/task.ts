// task — something to learn, as `weighbridge train` runs it: a network with every weight on the servers, the data, and
// what the result is worth. Each worker of a job opens the same one from the same plan.

import type { Dataset } from "../../faces/training/dataset.ts";
import type { Metric } from "../../faces/training/metrics.ts";
import type { Loss, Network } from "../../faces/training/network.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import type { Result } from "./report.ts";
import { stepsPerEpoch, type TrainPlan } from "./train-plan.ts";

export type Task = {
  /** For people. */
  readonly dataText: string;
  readonly modelText: string;
  readonly network: Network;
  readonly loss: Loss;
  readonly optimizer: (parameterName: string) => OptimizerSpec;
  readonly metrics: Readonly<Record<string, Metric>>;
  readonly training: Dataset;
  /** Samples that it is not trained on. */
  readonly test: Dataset;
  /** What `Model.eval` said about the test samples, for people. */
  readonly resultOf: (values: Readonly<Record<string, number>>) => Result;
};

/** Samples of one worker's part of a batch. */
export function unitSizeMax({ batchSize, workers }: TrainPlan): number {
  return Math.ceil(batchSize / workers);
}

/** Updates that a server applies in an epoch: with bsp one for all workers together, otherwise one for each. */
export function updatesPerEpoch(plan: TrainPlan): number {
  return stepsPerEpoch(plan) * (plan.consistency === "bsp" ? 1 : plan.workers);
}
