// Goal: a model's file is there whole or not at all, is taken up again with the same values, and what is wrong with it
// names it.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { ArrayDataset } from "../faces/training/dataset.ts";
import { Model } from "../faces/training/model.ts";
import { dense } from "../nn/layers/dense.ts";
import { SquaredError } from "../nn/losses/squared-error.ts";
import { Sequential } from "../nn/sequential.ts";
import { Workspace } from "../nn/workspace.ts";
import { loadModel, ModelCheckpoint } from "./model-files.ts";

const dataset = new ArrayDataset({
  labels: [0, 1, 2, 3],
  values: { shape: [2], floats: Float32Array.of(0, 0, 1, 0, 1, 1, 2, 1) },
});

function built(seed: number): { readonly network: Sequential; readonly model: Model } {
  const workspace = new Workspace();
  const network = new Sequential(workspace, { inputShape: [2], sampleCountMax: 2, layers: [dense({ outputs: 1 })] });
  const loss = new SquaredError(workspace, { sampleCountMax: 2 });
  return { network, model: new Model(network, { loss, seed, optimizer: { type: "momentum", learningRate: 0.05 } }) };
}

test("a checkpoint of a model that was trained alone is a file that another one takes up", async () => {
  const directory = mkdtempSync(join(tmpdir(), "weighbridge-model-"));
  try {
    const one = built(1);
    const paths: string[] = [];
    const checkpoint = new ModelCheckpoint({ prefix: "line", directory, everySteps: 1, keepMax: 2, onSaved: (path) => paths.push(path) });
    await one.model.train(2, dataset, { batchSize: 2, callbacks: [checkpoint] });
    assert.deepEqual(readdirSync(directory).sort(), ["line-2_1.safetensors", "line-2_2.safetensors"]);
    assert.equal(paths.length, 4);
    const other = built(2);
    await loadModel(other.model, paths.at(-1)!);
    assert.deepEqual(
      other.network.parameters.map(({ values }) => values),
      one.network.parameters.map(({ values }) => values),
    );
    writeFileSync(join(directory, "bad"), "no model");
    await assert.rejects(loadModel(other.model, join(directory, "bad")), (error) => isWeighbridgeError(error) && /bad/.test(error.message));
    await assert.rejects(loadModel(other.model, join(directory, "none")), (error) => isWeighbridgeError(error, "CHECKPOINT_MISSING"));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
