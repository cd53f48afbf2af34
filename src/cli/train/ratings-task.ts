// ratings-task — matrix factorisation: a rating is the product of two short vectors, the user's and the item's. The
// ratings come from a known truth, so the best possible error is known.

import { ArrayDataset } from "../../faces/training/dataset.ts";
import { MeanSquaredError } from "../../faces/training/metrics.ts";
import { EmbeddingNetwork } from "../../faces/training/networks/embedding-network.ts";
import { dotOfHalves } from "../../nn/layers/dot-of-halves.ts";
import { SquaredError } from "../../nn/losses/squared-error.ts";
import { Workspace } from "../../nn/workspace.ts";
import { drawRatings, ITEM_COUNT, NOISE, USER_COUNT } from "../../node/datasets/ratings.ts";
import { number } from "../terminal-text.ts";
import type { Result } from "./report.ts";
import type { Task } from "./task.ts";
import { type TrainPlan, unitSizeMax } from "./train-plan.ts";

const TEST_COUNT = 30_000;
const WIDTH = 8;
/** Of the truth, not of the training: workers and runs with other seeds learn from the same ratings. */
const TRUTH_SEED = 20;
/** How far above the noise the error may be. */
const EXCESS = 1.12;

export function openRatingsTask(plan: TrainPlan): Task {
  const { sampleCount, cacheRows, learningRate } = plan;
  const { users, items, scores, count } = drawRatings({ count: sampleCount + TEST_COUNT, seed: TRUTH_SEED });
  const ids = new Uint32Array(2 * count);
  for (let i = 0; i < count; i++) ids.set([users[i]!, USER_COUNT + items[i]!], 2 * i);
  const samples = (from: number, to: number): ArrayDataset =>
    new ArrayDataset({ labels: scores.subarray(from, to), ids: { idsPerSample: 2, list: ids.subarray(2 * from, 2 * to) } });
  const workspace = new Workspace();
  const sampleCountMax = unitSizeMax(plan);
  const network = new EmbeddingNetwork(workspace, {
    lookup: {
      name: "tastes",
      vocabSize: USER_COUNT + ITEM_COUNT,
      dim: WIDTH,
      idsPerSample: 2,
      sampleCountMax,
      initializer: { type: "normal", std: 0.3 },
      ...(cacheRows > 0 ? { target: "DEVICE" as const, vocabCacheSize: cacheRows } : {}),
    },
    layers: [dotOfHalves()],
  });
  const cached = cacheRows > 0 ? `, ${number(cacheRows)} rows cached by each worker` : "";
  return {
    dataText: `${number(sampleCount)} ratings, ${number(USER_COUNT)} users, ${number(ITEM_COUNT)} items; ${number(TEST_COUNT)} to test with`,
    modelText: `matrix factorisation, width ${WIDTH}${cached}; adam, rate ${learningRate}`,
    network,
    loss: new SquaredError(workspace, { sampleCountMax }),
    optimizer: () => ({ type: "adam", learningRate }),
    metrics: { squaredError: new MeanSquaredError() },
    training: samples(0, sampleCount),
    test: samples(sampleCount, count),
    resultOf: ({ squaredError = Infinity }) => ratingsResult(Math.sqrt(squaredError)),
  };
}

export function ratingsResult(error: number): Result {
  return {
    facts: [["error", `${error.toFixed(4)} on ratings it never saw; the best possible is the noise, ${NOISE}`]],
    objective: {
      text: `an error of at most ${EXCESS} times the noise, ${(EXCESS * NOISE).toFixed(3)}`,
      isReached: error <= EXCESS * NOISE,
    },
  };
}
