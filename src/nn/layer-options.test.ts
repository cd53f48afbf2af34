// Goal: no option of a layer, a loss or a network is ignored: what does not exist is BAD_ARGUMENT, with the nearest
// that does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { batchNorm } from "./layers/batch-norm.ts";
import { convolution } from "./layers/convolution.ts";
import { dense } from "./layers/dense.ts";
import { dotOfHalves } from "./layers/dot-of-halves.ts";
import { relu, sigmoid } from "./layers/elementwise.ts";
import { maxPool } from "./layers/max-pool.ts";
import { BinaryCrossEntropy } from "./losses/binary-cross-entropy.ts";
import { SoftmaxCrossEntropy } from "./losses/softmax-cross-entropy.ts";
import { SquaredError } from "./losses/squared-error.ts";
import { createLenet } from "./models/lenet.ts";
import { Sequential } from "./sequential.ts";
import { Workspace } from "./workspace.ts";

const workspace = new Workspace();
const anything = (value: unknown): never => value as never;

const refuses = (make: () => unknown, message: RegExp): void =>
  assert.throws(make, (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && message.test(error.message), String(message));

test("an option that a layer does not have is refused with the nearest known name", () => {
  refuses(
    () => convolution(anything({ channels: 2, size: 3, stride: 2 })),
    /the options of a convolution have no "stride"; there are channels, size/,
  );
  refuses(() => convolution(anything({ channels: 2, kernel_size: 3 })), /did you mean size\?/);
  refuses(() => convolution(anything({ out_channels: 2, size: 3 })), /did you mean channels\?/);
  refuses(() => maxPool(anything({ size: 2, stride: 2 })), /a max pool have no "stride"/);
  refuses(() => dense(anything({ outputs: 2, activations: "relu" })), /did you mean activation\?/);
  refuses(() => dense(anything(3)), /the options of a dense layer are an object/);
  refuses(() => batchNorm(anything({ eps: 1e-3 })), /did you mean epsilon\?/);
  refuses(() => relu(anything({ names: "r" })), /did you mean name\?/);
  refuses(() => sigmoid(anything({ Name: "s" })), /did you mean name\?/);
  refuses(() => dotOfHalves(anything({ nam: "d" })), /did you mean name\?/);
});

test("an activation that a layer does not have is refused, not left out", () => {
  for (const activation of ["tanh", "sigmoid", "ReLU", null, true, relu()]) {
    refuses(() => dense(anything({ name: "head", outputs: 2, activation })), /^head: an activation is "relu", or left out/);
    refuses(() => convolution(anything({ channels: 2, size: 3, activation })), /^convolution: an activation is "relu"/);
  }
  for (const activation of ["relu", undefined] as const) dense({ outputs: 2, activation });
});

test("so are options of losses and networks, and what is no layer", () => {
  refuses(() => new SoftmaxCrossEntropy(workspace, anything({ classes: 10, sampleCountMax: 2 })), /did you mean classCount\?/);
  refuses(() => new BinaryCrossEntropy(workspace, anything({ sampleCountMax: 2, reduction: "mean" })), /have no "reduction"/);
  refuses(() => new SquaredError(workspace, anything({ sampleCount: 2 })), /did you mean sampleCountMax\?/);
  refuses(() => createLenet(workspace, anything({ sampleCountMax: 2, classCount: 47 })), /a LeNet have no "classCount"/);
  const shape = { inputShape: [2], sampleCountMax: 2 } as const;
  refuses(() => new Sequential(workspace, anything({ ...shape, layer: [dense({ outputs: 1 })] })), /did you mean layers\?/);
  for (const layers of [undefined, [dense], [{ outputs: 2 }], [undefined]])
    refuses(() => new Sequential(workspace, anything({ ...shape, layers })), /layers are a list of what dense\(\)/);
});
