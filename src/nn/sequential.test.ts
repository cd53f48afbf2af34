// Goal: a network reports each gradient once, when it is final and before the layers below are computed (Layer.L4);
// its parameters have one span each and start as a server would start them; a step takes no memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SoftmaxCrossEntropy } from "./losses/softmax-cross-entropy.ts";
import { createLenet } from "./models/lenet.ts";
import { initializeParameters } from "./parameter.ts";
import type { Sequential } from "./sequential.ts";
import { Workspace } from "./workspace.ts";

function lenetOnNoise(): { workspace: Workspace; network: Sequential; loss: SoftmaxCrossEntropy; labels: number[] } {
  const workspace = new Workspace();
  const network = createLenet(workspace, { sampleCountMax: 8 });
  initializeParameters(workspace, network.parameters, 1);
  network.input.sampleCount = 8;
  for (let i = 0; i < network.input.floatCount; i++) network.input.values[i] = Math.sin(i);
  return {
    workspace,
    network,
    loss: new SoftmaxCrossEntropy(workspace, { classCount: 10, sampleCountMax: 8 }),
    labels: [0, 1, 2, 3, 4, 5, 6, 7],
  };
}

test("gradients are reported once each, last layers first, and are final by then", () => {
  const { network, loss, labels } = lenetOnNoise();
  loss.compute(network.forward({ isTraining: true }), labels);
  const reported: { index: number; name: string; gradient: Float32Array }[] = [];
  const isOpen = (name: string): boolean => !reported.some((entry) => entry.name === name);
  for (const { gradient } of network.parameters) gradient.fill(Number.NaN);
  network.backward(loss.gradient, (index, { name, gradient }) => {
    reported.push({ index, name, gradient: gradient.slice() });
    for (const parameter of network.parameters.filter((other) => isOpen(other.name) && other.name.split(".")[0] !== name.split(".")[0])) {
      assert.ok(parameter.gradient.every(Number.isNaN), `${parameter.name} was computed before ${name} was reported`);
    }
  });
  assert.deepEqual(
    reported.map(({ index, name }) => `${index} ${name}`),
    [
      "8 fc3.bias",
      "8 fc3.weight",
      "7 fc2.bias",
      "7 fc2.weight",
      "6 fc1.bias",
      "6 fc1.weight",
      "3 conv2.bias",
      "3 conv2.weight",
      "0 conv1.bias",
      "0 conv1.weight",
    ],
  );
  for (const { name, gradient } of reported) {
    assert.deepEqual(gradient, network.parameters.find((parameter) => parameter.name === name)!.gradient, name);
  }
});

test("LeNet has the parameters of MindSpore's example", () => {
  const { network } = lenetOnNoise();
  assert.deepEqual(
    network.parameters.map(({ name, shape }) => `${name} ${shape.join("×")}`),
    [
      "conv1.weight 6×1×5×5",
      "conv1.bias 6",
      "conv2.weight 16×6×5×5",
      "conv2.bias 16",
      "fc1.weight 120×400",
      "fc1.bias 120",
      "fc2.weight 84×120",
      "fc2.bias 84",
      "fc3.weight 10×84",
      "fc3.bias 10",
    ],
  );
  assert.equal(
    network.parameters.reduce((sum, { values }) => sum + values.length, 0),
    61_706,
  );
});

test("a step takes no memory of the arena", () => {
  const { workspace, network, loss, labels } = lenetOnNoise();
  const { usedBytes } = workspace.arena;
  loss.compute(network.forward({ isTraining: true }), labels);
  network.backward(loss.gradient);
  assert.equal(workspace.arena.usedBytes, usedBytes);
});

test("closing a workspace gives back all that it took", () => {
  const { workspace } = lenetOnNoise();
  const empty = new Workspace();
  initializeParameters(empty, [{ ...emptyParameter(empty) }], 1);
  empty.close();
  workspace.close();
  assert.equal(workspace.arena.usedBytes, empty.arena.usedBytes, "the quantiles alone stay, for the arena's incarnation");
});

function emptyParameter(workspace: Workspace): Parameters<typeof initializeParameters>[1][number] {
  const { address, values } = workspace.floats(1);
  return { name: "p", shape: [1], initializer: { type: "normal" }, address, values, gradientAddress: address, gradient: values };
}

test("a network tells where numbers stopped being finite", () => {
  const { network } = lenetOnNoise();
  network.forward({ isTraining: true });
  assert.equal(network.findNotFinite(), undefined);
  network.input.values[5] = Number.NaN;
  network.forward({ isTraining: true });
  assert.equal(network.findNotFinite(), "the output of conv1");
  network.input.values[5] = 0;
  network.parameters.find(({ name }) => name === "fc2.weight")!.values[7] = Number.POSITIVE_INFINITY;
  network.forward({ isTraining: true });
  assert.equal(network.findNotFinite(), "fc2.weight");
});

test("a smaller batch gives each sample what a larger one gives it", () => {
  const { network } = lenetOnNoise();
  const all = network.forward({ isTraining: false }).current.slice();
  network.input.sampleCount = 3;
  assert.deepEqual(network.forward({ isTraining: false }).current, all.subarray(0, 30));
});
