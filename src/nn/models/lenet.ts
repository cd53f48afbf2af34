// lenet — LeNet-5 for digits of 28 × 28: two convolutions with pools, three dense layers; 61,706 parameters, named as
// in MindSpore's example. The ReLU of a convolution follows its pool: the result is the same, for a quarter of the
// work.

import { checkOptions } from "../../base/known-options.ts";
import type { LayerPlan } from "../layer.ts";
import { convolution } from "../layers/convolution.ts";
import { dense } from "../layers/dense.ts";
import { relu } from "../layers/elementwise.ts";
import { maxPool } from "../layers/max-pool.ts";
import { Sequential } from "../sequential.ts";
import type { Workspace } from "../workspace.ts";

const LENET_INPUT: readonly [number, number, number] = [1, 28, 28];
export const LENET_CLASSES = 10;

function lenetLayers(): readonly LayerPlan[] {
  return [
    convolution({ name: "conv1", channels: 6, size: 5, padding: 2 }),
    maxPool({ size: 2 }),
    relu(),
    convolution({ name: "conv2", channels: 16, size: 5 }),
    maxPool({ size: 2 }),
    relu(),
    dense({ name: "fc1", outputs: 120, activation: "relu" }),
    dense({ name: "fc2", outputs: 84, activation: "relu" }),
    dense({ name: "fc3", outputs: LENET_CLASSES }),
  ];
}

/** LeNet-5, for images of 28 × 28. */
export function createLenet(workspace: Workspace, options: { readonly sampleCountMax: number }): Sequential {
  checkOptions(options, ["sampleCountMax"], "the options of a LeNet");
  return new Sequential(workspace, { inputShape: LENET_INPUT, sampleCountMax: options.sampleCountMax, layers: lenetLayers() });
}
