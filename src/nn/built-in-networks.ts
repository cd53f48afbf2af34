// built-in-networks — describes a network of built-in layers, and its loss, as plain data, and builds them again: in
// another thread, for fewer samples. Networks and losses of other kinds have no description.

import type { Shape } from "./activations.ts";
import type { LayerPlan } from "./layer.ts";
import { batchNorm } from "./layers/batch-norm.ts";
import { convolution } from "./layers/convolution.ts";
import { dense } from "./layers/dense.ts";
import { dotOfHalves } from "./layers/dot-of-halves.ts";
import { relu, sigmoid } from "./layers/elementwise.ts";
import { maxPool } from "./layers/max-pool.ts";
import { BinaryCrossEntropy } from "./losses/binary-cross-entropy.ts";
import { SoftmaxCrossEntropy } from "./losses/softmax-cross-entropy.ts";
import { SquaredError } from "./losses/squared-error.ts";
import { Sequential } from "./sequential.ts";
import type { Workspace } from "./workspace.ts";

/** By the kind of their plans. */
const LAYERS: Readonly<Record<string, (options: never) => LayerPlan>> = {
  conv: convolution,
  dense,
  dot: dotOfHalves,
  norm: batchNorm,
  pool: maxPool,
  relu,
  sigmoid,
};
const LOSSES: Readonly<Record<LossDescription["type"], new (workspace: Workspace, options: never) => BuiltInLoss>> = {
  SoftmaxCrossEntropy,
  BinaryCrossEntropy,
  SquaredError,
};

export type LayerDescription = { readonly kind: string; readonly options: object };
export type NetworkDescription = {
  readonly inputShape: Shape;
  readonly needsInputGradient: boolean;
  readonly layers: readonly LayerDescription[];
};
export type LossDescription = { readonly type: "SoftmaxCrossEntropy" | "BinaryCrossEntropy" | "SquaredError"; readonly options: object };
export type BuiltInLoss = SoftmaxCrossEntropy | BinaryCrossEntropy | SquaredError;

/** A text that says what is not built in, if something is not. */
export function describeNetwork(network: object): NetworkDescription | string {
  if (!(network instanceof Sequential) || network.constructor !== Sequential) return "the network is no Sequential";
  const { inputShape, needsInputGradient = false, layers } = network.options;
  const described: LayerDescription[] = [];
  for (const [i, { kind, open, builtIn }] of layers.entries()) {
    if (builtIn === undefined || builtIn.open !== open) return `${network.layers[i]!.name} is no built-in layer`;
    described.push({ kind, options: builtIn.options });
  }
  return { inputShape, needsInputGradient, layers: described };
}

/** The same for a loss. */
export function describeLoss(loss: object): LossDescription | string {
  if (loss instanceof SoftmaxCrossEntropy && loss.constructor === SoftmaxCrossEntropy)
    return { type: "SoftmaxCrossEntropy", options: { classCount: loss.gradient.shape[0] } };
  if (loss instanceof BinaryCrossEntropy && loss.constructor === BinaryCrossEntropy) return { type: "BinaryCrossEntropy", options: {} };
  if (loss instanceof SquaredError && loss.constructor === SquaredError) return { type: "SquaredError", options: {} };
  return "the loss is no SoftmaxCrossEntropy, BinaryCrossEntropy or SquaredError";
}

export function buildNetwork(workspace: Workspace, description: NetworkDescription, sampleCountMax: number): Sequential {
  const { inputShape, needsInputGradient, layers } = description;
  const plans = layers.map(({ kind, options }) => LAYERS[kind]!(options as never));
  return new Sequential(workspace, { inputShape, needsInputGradient, sampleCountMax, layers: plans });
}

export function buildLoss(workspace: Workspace, { type, options }: LossDescription, sampleCountMax: number): BuiltInLoss {
  return new LOSSES[type](workspace, { ...options, sampleCountMax } as never);
}
