// lenet-task — LeNet-5 on MNIST. Momentum, with a rate that falls over the first epoch: one epoch then reaches what
// takes several with a constant rate.

import { ImageDataset } from "../../faces/training/dataset.ts";
import { Confusion } from "../../faces/training/metrics.ts";
import { parametersOf } from "../../faces/training/network.ts";
import { SoftmaxCrossEntropy } from "../../nn/losses/softmax-cross-entropy.ts";
import { createLenet, LENET_CLASSES } from "../../nn/models/lenet.ts";
import { Workspace } from "../../nn/workspace.ts";
import { readMnist } from "../../node/datasets/mnist.ts";
import { number, percent } from "../terminal-text.ts";
import type { Result } from "./report.ts";
import type { Task } from "./task.ts";
import { type TrainPlan, unitSizeMax, updatesPerEpoch } from "./train-plan.ts";

const ACCURACY = 0.975;
/** The share of the learning rate that is left after the first epoch. */
const RATE_FLOOR = 0.1;

/** Throws DATASET_MISSING, DATASET_FOREIGN or DATASET_TORN. */
export function openLenetTask(plan: TrainPlan): Task {
  const workspace = new Workspace();
  const sampleCountMax = unitSizeMax(plan);
  const network = createLenet(workspace, { sampleCountMax });
  const confusion = new Confusion(LENET_CLASSES);
  const training = new ImageDataset(readMnist("train", { directory: plan.data, countMax: plan.sampleCount }), {
    sampleCount: plan.sampleCount,
  });
  const test = new ImageDataset(readMnist("test", { directory: plan.data }));
  const schedule = { type: "cosine", steps: updatesPerEpoch(plan), floor: RATE_FLOOR } as const;
  const weightCount = parametersOf(network).reduce((sum, { values }) => sum + values.length, 0);
  return {
    dataText: `MNIST, ${number(training.sampleCount)} digits to train on, ${number(test.sampleCount)} to test with`,
    modelText: `LeNet-5, ${number(weightCount)} weights, all on the servers; momentum, rate ${plan.learningRate}`,
    network,
    loss: new SoftmaxCrossEntropy(workspace, { classCount: LENET_CLASSES, sampleCountMax }),
    optimizer: () => ({ type: "momentum", learningRate: plan.learningRate, momentum: 0.9, schedule }),
    metrics: { accuracy: confusion },
    training,
    test,
    resultOf: ({ accuracy = 0 }) => lenetResult(accuracy, confusion.counts, test.sampleCount),
  };
}

/** `counts[a · 10 + b]` is how many digits a were classified as b. */
export function lenetResult(accuracy: number, counts: Uint32Array, testCount: number): Result {
  return {
    facts: [["accuracy", `${percent(accuracy, 2)} of ${number(testCount)} digits it never saw`]],
    table: [
      ["digit", "right", "else mostly taken for", "times", "of"],
      ...Array.from({ length: LENET_CLASSES }, (_, digit) => digitRow(counts, digit)),
    ],
    objective: { text: `an accuracy of at least ${percent(ACCURACY)}`, isReached: accuracy >= ACCURACY },
  };
}

function digitRow(counts: Uint32Array, digit: number): string[] {
  const row = [...counts.subarray(digit * LENET_CLASSES, (digit + 1) * LENET_CLASSES)];
  const count = row.reduce((sum, value) => sum + value, 0);
  const wrong = row.with(digit, 0);
  const most = Math.max(...wrong);
  const right = percent(count === 0 ? undefined : row[digit]! / count);
  return [String(digit), right, most === 0 ? "-" : String(wrong.indexOf(most)), String(most), String(count)];
}
