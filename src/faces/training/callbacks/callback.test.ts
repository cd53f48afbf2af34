// Goal: every callback of a training is told of its end once, and the first error is the one that is thrown.

import assert from "node:assert/strict";
import { test } from "node:test";
import { dense } from "../../../nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../../nn/losses/softmax-cross-entropy.ts";
import { Sequential } from "../../../nn/sequential.ts";
import { Workspace } from "../../../nn/workspace.ts";
import { ArrayDataset } from "../dataset.ts";
import { Model } from "../model.ts";
import type { TrainingCallback, TrainingView } from "./callback.ts";

const dataset = new ArrayDataset({ labels: [0, 1], values: { shape: [1], floats: Float32Array.of(-1, 1) } });

async function train(callbacks: readonly TrainingCallback[]): Promise<void> {
  const workspace = new Workspace();
  const network = new Sequential(workspace, { inputShape: [1], sampleCountMax: 2, layers: [dense({ outputs: 2 })] });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: 2, sampleCountMax: 2 });
  await new Model(network, { loss, optimizer: { type: "sgd" } }).train(1, dataset, { batchSize: 2, callbacks });
}

/** Says what it was told of the end, and then throws, at once or later. */
function ending(told: string[], name: string, how: "well" | "throws" | "rejects"): TrainingCallback {
  return {
    end(_: TrainingView, error?: unknown): void | Promise<void> {
      told.push(`${name}: ${error instanceof Error ? error.message : "well"}`);
      if (how === "throws") throw new Error(`${name} broke`);
      if (how === "rejects") return Promise.reject(new Error(`${name} broke`));
    },
  };
}

for (const how of ["throws", "rejects"] as const) {
  test(`an end that ${how} is told to those after it, and everybody hears of the end once`, async () => {
    const told: string[] = [];
    const callbacks = [ending(told, "a", "well"), ending(told, "b", how), ending(told, "c", how), ending(told, "d", "well")];
    await assert.rejects(train(callbacks), /^Error: b broke$/);
    assert.deepEqual(told, ["a: well", "b: well", "c: b broke", "d: b broke"]);
  });

  test(`the error of a step stays the first when an end ${how}`, async () => {
    const told: string[] = [];
    const stepEnd = (): never => {
      throw new Error("the step broke");
    };
    await assert.rejects(train([{ stepEnd }, ending(told, "a", how), ending(told, "b", "well")]), /^Error: the step broke$/);
    assert.deepEqual(told, ["a: the step broke", "b: the step broke"]);
  });
}
