// task — something to learn, as `weighbridge train` runs it: a network with every weight on the servers, the data, and
// how to rate the result. Each worker of a job opens the same task from the same plan.

import type { Dataset } from "../../faces/training/dataset.ts";
import type { Metric } from "../../faces/training/metrics.ts";
import type { Loss, Network } from "../../faces/training/network.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import type { Result } from "./report.ts";

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
  /** Turns what `Model.eval` returned for the test samples into a result for people. */
  readonly resultOf: (values: Readonly<Record<string, number>>) => Result;
};
