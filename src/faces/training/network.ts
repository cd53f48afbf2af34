// network — what a Model trains: stages one after the other, each of which needs its own parameters and nobody else's,
// so that a step waits for the values of one stage while those of the others still travel. A Sequential is a network;
// networks of ids are in networks/.
//
// Invariants (of whoever runs the stages):
//   N1. `forward` goes through the stages in their order, each with what the one before gave; `backward` the other way
//       round.
//   N2. L1 to L4 of nn/layer.ts hold for every stage.
//   N3. A stage with a lookup runs after the lookup has taken the batch's rows, and gives their gradients before the
//       next batch's are taken.

import { showValue, WeighbridgeError } from "../../base/errors.ts";
import type { Activations } from "../../nn/activations.ts";
import type { GradientReady, Statistic } from "../../nn/layer.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { Workspace } from "../../nn/workspace.ts";
import type { EmbeddingLookup } from "./embedding-lookup.ts";

export interface Stage {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly statistics: readonly Statistic[];
  /** Whose rows the stage reads, if any. */
  readonly lookup?: EmbeddingLookup | undefined;
  /** `input` is what the stage before gave; of the first stage, the network's. */
  forward(input: Activations | undefined, isTraining: boolean): Activations;
  /** The gradient of the input, where somebody needs it. */
  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined;
}

export interface Network {
  readonly workspace: Workspace;
  /** The most samples that a unit may have. */
  readonly sampleCountMax: number;
  /** Where a batch's values go; undefined for a network that takes ids alone. */
  readonly input: Activations | undefined;
  /** How many ids a sample has; 0 for a network that takes values alone. */
  readonly idsPerSample: number;
  readonly stages: readonly Stage[];
}

/** What says how wrong outputs are: nn's losses. */
export interface Loss {
  /** Of the outputs; valid until the next `compute`, and backward's to overwrite. */
  readonly gradient: Activations;
  /** What a label may be, in words and as a check. */
  readonly expectedLabel: string;
  acceptsLabel(label: number): boolean;
  /** The sum of the samples' losses divided by `divisor`; sets the gradient. */
  compute(outputs: Activations, labels: ArrayLike<number>, divisor: number): number;
}

/** Throws BAD_ARGUMENT for what is no network. */
export function checkNetwork(network: unknown): void {
  const { stages, workspace } = (network ?? {}) as Partial<Network>;
  if (Array.isArray(stages) && workspace !== undefined) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `a Model trains a network, such as a Sequential, not ${showValue(network)}`);
}

/** Throws BAD_ARGUMENT for what is no loss. */
export function checkLoss(loss: unknown): void {
  const { gradient, compute, acceptsLabel } = (loss ?? {}) as Partial<Loss>;
  if (gradient !== undefined && typeof compute === "function" && typeof acceptsLabel === "function") return;
  const expected = "new SoftmaxCrossEntropy(…), BinaryCrossEntropy, SquaredError, or one of your own";
  throw new WeighbridgeError("BAD_ARGUMENT", `a Model needs a loss: ${expected}, not ${showValue(loss)}`);
}

/** Of all stages, first ones first. */
export function parametersOf({ stages }: Pick<Network, "stages">): readonly Parameter[] {
  return stages.flatMap(({ parameters }) => parameters);
}

export function lookupsOf({ stages }: Pick<Network, "stages">): readonly EmbeddingLookup[] {
  return stages.flatMap(({ lookup }) => (lookup === undefined ? [] : [lookup]));
}
