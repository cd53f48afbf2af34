// Goal: what does not fit a network is refused before the first step, with what was expected and what was found.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { LabelledImages } from "../../nn/labelled-images.ts";
import { dense } from "../../nn/layers/dense.ts";
import { BinaryCrossEntropy } from "../../nn/losses/binary-cross-entropy.ts";
import { SoftmaxCrossEntropy } from "../../nn/losses/softmax-cross-entropy.ts";
import { Sequential } from "../../nn/sequential.ts";
import { Workspace } from "../../nn/workspace.ts";
import { ArrayDataset, type ArrayDatasetOptions, checkDataset, type Dataset, ImageDataset } from "./dataset.ts";
import { EmbeddingNetwork } from "./networks/embedding-network.ts";

const workspace = new Workspace();
const network = new Sequential(workspace, { inputShape: [2, 3], sampleCountMax: 4, layers: [dense({ outputs: 3 })] });
const loss = new SoftmaxCrossEntropy(workspace, { classCount: 3, sampleCountMax: 4 });

const fits = (dataset: Dataset): void => checkDataset(dataset, network, loss);
const values = (count: number): NonNullable<ArrayDatasetOptions["values"]> => ({ shape: [2, 3], floats: new Float32Array(6 * count) });

function refuses(run: () => void, message: RegExp): void {
  assert.throws(run, (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && message.test(error.message));
}

test("takes what fits", () => {
  fits(new ArrayDataset({ labels: [0, 1, 2], values: values(3) }));
  fits(new ImageDataset(new LabelledImages({ shape: [2, 3], pixels: new Uint8Array(12), labels: Uint8Array.of(0, 2), classCount: 3 })));
});

test("names the shapes where they differ", () => {
  const other = { shape: [3, 2], floats: new Float32Array(6) };
  refuses(() => fits(new ArrayDataset({ labels: [0], values: other })), /takes samples of \[2, 3\], the data set has samples of \[3, 2\]/);
  refuses(() => fits(new ArrayDataset({ labels: [0] })), /the data set has no values/);
});

test("names the first label that is out of range", () => {
  const labels = Array.from({ length: 9000 }, (_, i) => (i === 8500 ? 3 : i % 3));
  refuses(() => fits(new ArrayDataset({ labels, values: values(9000) })), /sample 8500 is 3: expected a class from 0 to 2/);
  const binary = new BinaryCrossEntropy(workspace, { sampleCountMax: 4 });
  refuses(
    () => checkDataset(new ArrayDataset({ labels: [0, -1], values: values(2) }), network, binary),
    /sample 1 is -1: expected a number from 0 to 1/,
  );
});

test("compares the ids of a sample", () => {
  const lookup = { name: "e", vocabSize: 5, dim: 2, idsPerSample: 2, sampleCountMax: 4 };
  const ofIds = new EmbeddingNetwork(workspace, { lookup, layers: [dense({ outputs: 3 })] });
  checkDataset(new ArrayDataset({ labels: [0], ids: { idsPerSample: 2, list: [1, 2] } }), ofIds, loss);
  refuses(
    () => checkDataset(new ArrayDataset({ labels: [0], ids: { idsPerSample: 3, list: [1, 2, 3] } }), ofIds, loss),
    /takes 2 ids a sample.* has 3/,
  );
});

test("refuses arrays whose lengths do not fit each other, and data sets without samples", () => {
  refuses(() => new ArrayDataset({ labels: [0, 1], values: values(1) }), /has 6 values, but its labels require 12/);
  refuses(() => new ArrayDataset({ labels: [0, 1], ids: { idsPerSample: 2, list: [1] } }), /has 1 ids/);
  refuses(() => fits(new ArrayDataset({ labels: [], values: values(0) })), /at least one sample/);
  const images = new LabelledImages({ shape: [2, 3], pixels: new Uint8Array(6), labels: Uint8Array.of(1), classCount: 3 });
  refuses(() => new ImageDataset(images, { sampleCount: 2 }), /expected 1 to 1, got 2/);
});
