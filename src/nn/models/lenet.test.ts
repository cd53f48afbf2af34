// Goal: LeNet learns. A few hundred steps of plain gradient descent in one process, without servers, read most digits
// that it has not seen; and the same seed gives the same bits, so that whatever differs later is not the network's
// doing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readMnist } from "../../node/datasets/mnist.ts";
import type { Activations } from "../activations.ts";
import { Batches } from "../batches.ts";
import type { LabelledImages } from "../labelled-images.ts";
import { canFuse, openLayerKernels } from "../layer-kernels.ts";
import { SoftmaxCrossEntropy } from "../losses/softmax-cross-entropy.ts";
import { initializeParameters } from "../parameter.ts";
import type { Sequential } from "../sequential.ts";
import { Workspace } from "../workspace.ts";
import { createLenet, LENET_CLASSES } from "./lenet.ts";

const BATCH = 32;
const LEARNING_RATE = 0.05;

type Trained = { readonly network: Sequential; readonly losses: readonly number[] };

function train(images: LabelledImages, options: { seed: number; stepCount: number; isFused?: boolean }): Trained {
  const { seed, stepCount, isFused = canFuse() } = options;
  const workspace = new Workspace({ openKernels: (arena) => openLayerKernels(arena, isFused) });
  const network = createLenet(workspace, { sampleCountMax: BATCH });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: LENET_CLASSES, sampleCountMax: BATCH });
  const batches = new Batches({ sampleCount: images.count, batchSize: BATCH, seed });
  const labels = new Uint8Array(BATCH);
  initializeParameters(workspace, network.parameters, seed);
  const losses: number[] = [];
  for (let step = 0; step < stepCount; step++) {
    images.read(batches.at(0, step), network.input, labels);
    losses.push(loss.compute(network.forward({ isTraining: true }), labels));
    network.backward(loss.gradient);
    for (const { address, gradientAddress, values } of network.parameters) {
      workspace.vectors.axpy(address, gradientAddress, -LEARNING_RATE, values.length);
    }
  }
  return { network, losses };
}

/** The share of the first `count` digits that is read right. */
function accuracyOf(network: Sequential, images: LabelledImages, count: number): number {
  const [labels, classes] = [new Uint8Array(BATCH), new Uint8Array(BATCH)];
  let rightCount = 0;
  for (let start = 0; start < count; start += BATCH) {
    const size = Math.min(BATCH, count - start);
    images.read(
      Uint32Array.from({ length: size }, (_, i) => start + i),
      network.input,
      labels,
    );
    predictClasses(network.forward({ isTraining: false }), classes);
    for (let i = 0; i < size; i++) if (classes[i] === labels[i]) rightCount++;
  }
  return rightCount / count;
}

test("300 steps of 32 digits bring the accuracy on 2,000 others from about 0.1 to above 0.9", () => {
  const [digits, others] = [readMnist("train"), readMnist("test")];
  const before = accuracyOf(train(digits, { seed: 1, stepCount: 0 }).network, others, 2_000);
  const { network, losses } = train(digits, { seed: 1, stepCount: 300 });
  const after = accuracyOf(network, others, 2_000);
  assert.ok(before < 0.3, `untrained: ${before}`);
  assert.ok(after > 0.9, `trained: ${after}`);
  assert.ok(losses.every(Number.isFinite));
});

test("the same seed gives the same bits, another one others", () => {
  const digits = readMnist("train");
  const weights = (seed: number): Float32Array[] =>
    train(digits, { seed, stepCount: 10 }).network.parameters.map(({ values }) => values.slice());
  const first = weights(5);
  assert.deepEqual(weights(5), first);
  assert.notDeepEqual(weights(6), first);
});

test("with and without fused products, 5 steps lead to weights within 1e-5", {
  skip: canFuse() ? false : "this engine has no relaxed SIMD",
}, () => {
  const digits = readMnist("train");
  const weights = (isFused: boolean): Float32Array[] =>
    train(digits, { seed: 5, stepCount: 5, isFused }).network.parameters.map(({ values }) => values);
  const [fused, plain] = [weights(true), weights(false)];
  for (const [i, values] of fused.entries()) {
    for (const [j, value] of values.entries()) {
      const other = plain[i]![j]!;
      assert.ok(Math.abs(value - other) < 1e-5, `parameter ${i} at ${j}: ${value} and ${other}`);
    }
  }
  assert.notDeepEqual(fused, plain, "the two builds round differently, or one of them was not used");
});

/** The index of the greatest logit of each sample, of equals the first, into `classes`. */
function predictClasses(logits: Activations, classes: Uint8Array): void {
  const { values, sampleCount, floatsPerSample } = logits;
  for (let i = 0; i < sampleCount; i++) {
    let best = 0;
    for (let j = 1; j < floatsPerSample; j++) {
      if (values[i * floatsPerSample + j]! > values[i * floatsPerSample + best]!) best = j;
    }
    classes[i] = best;
  }
}
