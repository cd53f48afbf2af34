// Goal: BSP with N workers is one process on the same global batches: LeNet's weights are within 1e-5 of those of one
// process after 50 steps for N = 1, 2 and 4, and two runs of the same N have the same bits. Overlap changes when things
// travel, never what comes of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ImageDataset } from "../../src/faces/training/dataset.ts";
import { Model, type TrainOptions } from "../../src/faces/training/model.ts";
import { setParamPs } from "../../src/faces/training/network.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { createLenet, LENET_CLASSES } from "../../src/nn/models/lenet.ts";
import type { Sequential } from "../../src/nn/sequential.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { readMnist } from "../../src/node/datasets/mnist.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";

const BATCH = 16;
const STEPS = 50;
const dataset = new ImageDataset(readMnist("train", { countMax: BATCH * STEPS }));

function lenet(): { readonly network: Sequential; readonly model: Model } {
  const workspace = new Workspace();
  const network = createLenet(workspace, { sampleCountMax: BATCH });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: LENET_CLASSES, sampleCountMax: BATCH });
  setParamPs(network);
  return { network, model: new Model(network, { loss, optimizer: { type: "momentum", learningRate: 0.01, momentum: 0.9 } }) };
}

const weightsOf = (network: Sequential): Float32Array[] => network.parameters.map(({ values }) => values.slice());

async function trainAlone(options: Partial<TrainOptions> = {}): Promise<Float32Array[]> {
  const { network, model } = lenet();
  await model.train(1, dataset, { batchSize: BATCH, overlap: true, ...options });
  return weightsOf(network);
}

async function trainTogether(workers: number, options: Partial<TrainOptions> = {}): Promise<Float32Array[]> {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers });
  const trained = await Promise.all(
    cluster.sessions.map(async (session) => {
      const { network, model } = lenet();
      await model.train(1, dataset, { batchSize: BATCH, session, overlap: true, ...options });
      return weightsOf(network);
    }),
  );
  for (const weights of trained) assert.deepEqual(weights, trained[0], "after the last step all workers have the same weights");
  return trained[0]!;
}

function distance(some: readonly Float32Array[], others: readonly Float32Array[]): number {
  return Math.max(...some.map((values, i) => values.reduce((most, value, j) => Math.max(most, Math.abs(value - others[i]![j]!)), 0)));
}

test("after 50 steps the weights of N workers are within 1e-5 of those of one process, and the same in every run", async () => {
  const alone = await trainAlone();
  for (const workers of [1, 2, 4]) {
    const together = await trainTogether(workers);
    const far = distance(together, alone);
    assert.ok(far <= 1e-5, `${workers} workers: ${far}`);
    if (workers === 1) assert.equal(far, 0, "one worker adds nothing, so that not a bit differs");
    else assert.deepEqual(await trainTogether(workers), together, `${workers} workers, second run`);
  }
});

test("overlap changes no bit", async () => {
  const dense = { overlap: false };
  assert.deepEqual(await trainAlone(dense), await trainAlone());
  assert.deepEqual(await trainTogether(2, dense), await trainTogether(2));
});
