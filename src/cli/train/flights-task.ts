// flights-task — predicts from what is known before departure which flights will be late: by sparse logistic regression
// with FTRL, or by Wide & Deep. Tested on flights that came after the training flights.

import { ArrayDataset } from "../../faces/training/dataset.ts";
import { AreaUnderCurve } from "../../faces/training/metrics.ts";
import type { Network } from "../../faces/training/network.ts";
import { EmbeddingNetwork } from "../../faces/training/networks/embedding-network.ts";
import { WideDeepNetwork } from "../../faces/training/networks/wide-deep-network.ts";
import { BinaryCrossEntropy } from "../../nn/losses/binary-cross-entropy.ts";
import { Workspace } from "../../nn/workspace.ts";
import { FEATURES_PER_FLIGHT, flightFeatures, readFlights } from "../../node/datasets/flights.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import { number, percent } from "../terminal-text.ts";
import type { Result } from "./report.ts";
import type { Task } from "./task.ts";
import { FLIGHTS_TEST_COUNT as TEST_COUNT } from "./task-data.ts";
import { TASKS, type TrainPlan, unitSizeMax } from "./train-plan.ts";

const WIDTH = 8;
const HIDDEN: readonly number[] = [64, 32];

/**
 * The AUC that each model reaches with its own defaults; what is known before departure says no more about the next
 * days.
 */
const AREA = { logistic: 0.62, "wide-deep": 0.63 } as const;

type FlightsTaskName = keyof typeof AREA;

/** Throws DATASET_MISSING, DATASET_FOREIGN or DATASET_TORN, and BAD_ARGUMENT for more flights than there are. */
export async function openFlightsTask(plan: TrainPlan & { readonly task: FlightsTaskName }): Promise<Task> {
  const { sampleCount, task } = plan;
  const flights = await readFlights({ count: sampleCount + TEST_COUNT, path: plan.data });
  const { ids, late, vocabSize } = flightFeatures(flights);
  const samples = (from: number, to: number): ArrayDataset =>
    new ArrayDataset({
      labels: late.subarray(from, to),
      ids: { idsPerSample: FEATURES_PER_FLIGHT, list: ids.subarray(from * FEATURES_PER_FLIGHT, to * FEATURES_PER_FLIGHT) },
    });
  const workspace = new Workspace();
  const lateCount = late.subarray(sampleCount).reduce((sum, label) => sum + label, 0);
  return {
    dataText: `${number(sampleCount)} flights to train on, the next ${number(TEST_COUNT)} to test with`,
    modelText: `${modelText(plan)}; ${number(vocabSize)} features`,
    network: networkOf(workspace, plan, vocabSize),
    loss: new BinaryCrossEntropy(workspace, { sampleCountMax: unitSizeMax(plan) }),
    optimizer: (name) => optimizerOf(plan, name),
    metrics: { auc: new AreaUnderCurve() },
    training: samples(0, sampleCount),
    test: samples(sampleCount, flights.count),
    resultOf: ({ auc = 0, loss = 0 }) => flightsResult({ auc, loss, lateShare: lateCount / TEST_COUNT, aim: AREA[task] }),
  };
}

function networkOf(workspace: Workspace, plan: TrainPlan, vocabSize: number): Network {
  const { task, cacheRows } = plan;
  const common = {
    vocabSize,
    idsPerSample: FEATURES_PER_FLIGHT,
    sampleCountMax: unitSizeMax(plan),
    ...(cacheRows > 0 ? { target: "DEVICE" as const, vocabCacheSize: cacheRows } : {}),
  };
  if (task === "wide-deep") return new WideDeepNetwork(workspace, { ...common, dim: WIDTH, hidden: HIDDEN });
  const zeros = { type: "constant", value: 0 } as const;
  return new EmbeddingNetwork(workspace, { lookup: { ...common, name: "features", dim: 1, combine: "sum", initializer: zeros } });
}

/**
 * FTRL was made for sums over a batch; the mean of a batch is smaller by its size, and l1 and l2 would weigh more
 * against it.
 */
function optimizerOf({ task, learningRate }: TrainPlan, name: string): OptimizerSpec {
  if (task === "logistic") return { type: "ftrl", alpha: learningRate, beta: 0.001, l1: 1e-4, l2: 1e-4 };
  const isTable = name.startsWith("deep.") || name.startsWith("wide.");
  return isTable ? { type: "adagrad", learningRate: TASKS[task].rateFactor * learningRate } : { type: "adam", learningRate };
}

function modelText({ task, cacheRows, learningRate }: TrainPlan): string {
  const cached = cacheRows > 0 ? `, ${number(cacheRows)} rows cached by each worker` : "";
  if (task === "logistic") return `logistic regression, FTRL, alpha ${learningRate}${cached}`;
  return `Wide & Deep, width ${WIDTH}, layers ${HIDDEN.join(", ")}; rate ${learningRate}${cached}`;
}

type FlightsQuality = { readonly auc: number; readonly loss: number; readonly lateShare: number; readonly aim: number };

export function flightsResult({ auc, loss, lateShare, aim }: FlightsQuality): Result {
  const guess = -(lateShare * Math.log(lateShare) + (1 - lateShare) * Math.log(1 - lateShare));
  return {
    facts: [
      ["AUC", `${auc.toFixed(4)}: how likely a late flight outscores another; a guess: 0.5`],
      ["log loss", `${loss.toFixed(4)}; knowing only that ${percent(lateShare)} are late, ${guess.toFixed(4)}`],
    ],
    objective: { text: `an AUC of at least ${aim}`, isReached: auc >= aim },
  };
}
