// Goal: every layer's gradients are what differences of its outputs say, fused forms equal the layers that they stand
// for, and what does not fit is refused before anything is computed.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import type { Random } from "../../base/random.ts";
import { assertGradients } from "../../testing/numeric-gradients.ts";
import { Activations, type Shape } from "../activations.ts";
import type { LayerPlan } from "../layer.ts";
import { initializeParameters } from "../parameter.ts";
import { Sequential } from "../sequential.ts";
import { Workspace } from "../workspace.ts";
import { batchNorm } from "./batch-norm.ts";
import { convolution } from "./convolution.ts";
import { dense } from "./dense.ts";
import { dotOfHalves } from "./dot-of-halves.ts";
import { relu, sigmoid } from "./elementwise.ts";
import { maxPool } from "./max-pool.ts";

const isRefused = (error: unknown): boolean => isWeighbridgeError(error, "BAD_ARGUMENT");
/** At least 0.1 from 0. */
const awayFromZero = (_: number, random: Random): number => (random.chance(0.5) ? 1 : -1) * (0.1 + random.fraction());
/** No two within 0.03 of each other. */
const apart = (index: number): number => ((index * 37) % 101) / 32 - 1.5;

describe("gradients agree with finite differences", () => {
  test("dense", () => {
    assertGradients({ inputShape: [7], sampleCount: 5, layers: [dense({ outputs: 6 })] });
    assertGradients({ inputShape: [2, 3, 3], sampleCount: 1, layers: [dense({ outputs: 1 })] });
  });

  test("convolution", () => {
    assertGradients({ inputShape: [2, 6, 7], sampleCount: 3, layers: [convolution({ channels: 3, size: 3 })] });
    assertGradients({ inputShape: [1, 3, 3], sampleCount: 2, layers: [convolution({ channels: 2, size: 3 })] });
  });

  test("convolution with padding", () => {
    assertGradients({ inputShape: [2, 5, 6], sampleCount: 2, layers: [convolution({ channels: 5, size: 5, padding: 2 })] });
  });

  test("max pool", () => {
    assertGradients({ inputShape: [2, 4, 6], sampleCount: 2, layers: [maxPool({ size: 2 })], inputValue: apart });
    assertGradients({ inputShape: [1, 7, 7], sampleCount: 2, layers: [maxPool({ size: 3 })], inputValue: apart });
  });

  test("ReLU", () => {
    assertGradients({ inputShape: [9], sampleCount: 3, layers: [relu()], inputValue: awayFromZero });
  });

  test("sigmoid", () => {
    assertGradients({ inputShape: [9], sampleCount: 3, layers: [sigmoid()] });
  });

  test("batch normalisation of features and of planes", () => {
    assertGradients({ inputShape: [5], sampleCount: 8, layers: [batchNorm()] });
    assertGradients({ inputShape: [3, 3, 2], sampleCount: 4, layers: [batchNorm()] });
  });

  test("dot product of halves", () => {
    assertGradients({ inputShape: [10], sampleCount: 3, layers: [dotOfHalves()] });
  });

  test("several layers in a row", () => {
    const layers = [
      convolution({ channels: 2, size: 3, padding: 1 }),
      batchNorm(),
      sigmoid(),
      dense({ outputs: 4 }),
      sigmoid(),
      dense({ outputs: 2 }),
    ];
    assertGradients({ inputShape: [1, 5, 5], sampleCount: 6, layers });
  });
});

/** Outputs, gradients of parameters and of the input for fixed data. */
function everything(inputShape: Shape, layers: readonly LayerPlan[]): Float32Array[] {
  const workspace = new Workspace();
  const network = new Sequential(workspace, { inputShape, sampleCountMax: 3, layers, needsInputGradient: true });
  initializeParameters(workspace, network.parameters, 5);
  network.input.sampleCount = 3;
  for (let i = 0; i < network.input.floatCount; i++) network.input.values[i] = Math.sin(i * 1.7);
  const output = network.forward({ isTraining: true }).current.slice();
  const gradient = new Activations(workspace, network.outputShape, 3);
  gradient.sampleCount = 3;
  for (let i = 0; i < gradient.floatCount; i++) gradient.values[i] = Math.cos(i * 2.3);
  const inputGradient = network.backward(gradient)!.current.slice();
  return [output, ...network.parameters.map((parameter) => parameter.gradient.slice()), inputGradient];
}

describe("equal forms", () => {
  test("dense with a ReLU equals dense and ReLU", () => {
    const fused = everything([6], [dense({ name: "d", outputs: 9, activation: "relu" })]);
    assert.deepEqual(fused, everything([6], [dense({ name: "d", outputs: 9 }), relu()]));
    assert.ok(fused[0]!.includes(0) && fused[0]!.some((value) => value > 0), "the test has both sides of the ReLU");
  });

  test("convolution with a ReLU equals convolution and ReLU", () => {
    const options = { name: "c", channels: 3, size: 3, padding: 1 };
    const fused = everything([2, 5, 5], [convolution({ ...options, activation: "relu" })]);
    assert.deepEqual(fused, everything([2, 5, 5], [convolution(options), relu()]));
  });

  test("a ReLU before a pool equals one behind it", () => {
    const before = everything([2, 6, 6], [convolution({ name: "c", channels: 3, size: 3 }), relu(), maxPool({ size: 2 })]);
    const behind = everything([2, 6, 6], [convolution({ name: "c", channels: 3, size: 3 }), maxPool({ size: 2 }), relu()]);
    assert.deepEqual(before, behind);
  });
});

describe("batch normalisation", () => {
  test("gives each channel mean 0 and variance 1 when training, and follows both for later", () => {
    const workspace = new Workspace();
    const network = new Sequential(workspace, { inputShape: [2, 4], sampleCountMax: 50, layers: [batchNorm({ momentum: 0 })] });
    initializeParameters(workspace, network.parameters, 1);
    network.input.sampleCount = 50;
    network.input.values.forEach((_, i, values) => {
      values[i] = Math.floor(i / 4) % 2 === 0 ? 5 + Math.sin(i) : -3 + 2 * Math.cos(i * 1.3);
    });
    const trained = network.forward({ isTraining: true }).current.slice();
    for (const channel of [0, 1]) {
      const numbers = [...trained].filter((_, i) => Math.floor(i / 4) % 2 === channel);
      const mean = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
      const variance = numbers.reduce((sum, value) => sum + (value - mean) ** 2, 0) / numbers.length;
      assert.ok(Math.abs(mean) < 1e-5, `mean ${mean}`);
      assert.ok(Math.abs(variance - 1) < 1e-3, `variance ${variance}`);
    }
    const used = network.forward({ isTraining: false }).current;
    assert.ok(
      used.every((value, i) => Math.abs(value - trained[i]!) < 1e-4),
      "without momentum, the running statistics are the batch's",
    );
    assert.deepEqual(
      network.statistics.map(({ name }) => name),
      ["norm1.runningMean", "norm1.runningVariance"],
    );
  });

  test("has no gradient of a batch that it did not train on", () => {
    const workspace = new Workspace();
    const network = new Sequential(workspace, { inputShape: [2], sampleCountMax: 2, layers: [batchNorm()] });
    network.input.sampleCount = 2;
    network.forward({ isTraining: false });
    const gradient = new Activations(workspace, [2], 2);
    gradient.sampleCount = 2;
    assert.throws(() => network.backward(gradient), isRefused);
  });
});

describe("bad input", () => {
  const build = (inputShape: Shape, layer: LayerPlan): Sequential =>
    new Sequential(new Workspace(), { inputShape, sampleCountMax: 2, layers: [layer] });

  test("lengths that make no sense are refused when a layer is built", () => {
    for (const outputs of [0, -1, 2.5, Number.NaN]) assert.throws(() => build([3], dense({ outputs })), isRefused);
    assert.throws(() => build([3], convolution({ channels: 2, size: 3 })), isRefused);
    assert.throws(() => build([1, 4, 4], convolution({ channels: 2, size: 5 })), isRefused);
    assert.throws(() => build([1, 4, 4], convolution({ channels: 0, size: 3 })), isRefused);
    assert.throws(() => build([1, 4, 4], convolution({ channels: 2, size: 3, padding: -1 })), isRefused);
    assert.throws(() => build([16], maxPool({ size: 2 })), isRefused);
    assert.throws(() => build([1, 4, 1], maxPool({ size: 2 })), isRefused);
    assert.throws(() => build([4], batchNorm({ momentum: 1 })), isRefused);
    assert.throws(() => build([4], batchNorm({ epsilon: 0 })), isRefused);
    assert.throws(() => build([3], dotOfHalves()), isRefused);
    assert.throws(() => build([0], relu()), isRefused);
    assert.throws(() => build([], relu()), isRefused);
  });

  test("a batch of another shape or size is refused by every layer", () => {
    for (const layer of [dense({ outputs: 2 }), convolution({ channels: 1, size: 1 }), maxPool({ size: 1 }), relu(), batchNorm()]) {
      const workspace = new Workspace();
      const network = new Sequential(workspace, { inputShape: [1, 2, 3], sampleCountMax: 2, layers: [layer] });
      const foreign = new Activations(workspace, [1, 3, 2], 2);
      foreign.sampleCount = 2;
      assert.throws(() => network.forward({ isTraining: true, input: foreign }), isRefused, layer.kind);
      const large = new Activations(workspace, [1, 2, 3], 3);
      large.sampleCount = 3;
      assert.throws(() => network.forward({ isTraining: true, input: large }), isRefused, layer.kind);
      assert.throws(() => network.forward({ isTraining: true }), isRefused, `${layer.kind}: no samples yet`);
      assert.throws(() => network.backward(new Activations(workspace, network.outputShape, 2)), isRefused, `${layer.kind}: no forward yet`);
    }
  });

  test("two layers of one name are refused", () => {
    const layers = [dense({ name: "a", outputs: 2 }), dense({ name: "a", outputs: 2 })];
    assert.throws(() => new Sequential(new Workspace(), { inputShape: [2], sampleCountMax: 1, layers }), isRefused);
    assert.throws(() => new Sequential(new Workspace(), { inputShape: [2], sampleCountMax: 1, layers: [] }), isRefused);
  });
});
