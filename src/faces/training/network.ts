// network — what a Model trains: stages one after the other, each of which needs only its own parameters, so that a
// step waits for the values of one stage while those of the others still travel. A Sequential is a network; networks of
// ids are in networks/.
//
// Invariants (for the code that runs the stages):
//   Network.N1. `forward` runs the stages in order, each on the output of the one before; `backward` runs them in
//       reverse.
//   Network.N2. Layer.L1 to L4 hold for every stage.
//   Network.N3. A stage with a lookup runs after the lookup has acquired the batch's rows, and pushes their gradients
//       before it acquires the next batch's.

import { badArgument, showValue } from "../../base/errors.ts";
import type { Activations } from "../../nn/activations.ts";
import type { GradientReady, Statistic } from "../../nn/layer.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { Workspace } from "../../nn/workspace.ts";
import type { EmbeddingLookup } from "./embedding-lookup.ts";

export interface Stage {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly statistics: readonly Statistic[];
  /** The lookup whose rows the stage reads, if any. */
  readonly lookup?: EmbeddingLookup | undefined;
  /** `input` is the output of the stage before; for the first stage, the network's input. */
  forward(input: Activations | undefined, isTraining: boolean): Activations;
  /** The gradient of the input, if it is needed. */
  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined;
}

export interface Network {
  readonly workspace: Workspace;
  /** The most samples that a unit may have. */
  readonly sampleCountMax: number;
  /** Where a batch's values go; undefined for a network of ids only. */
  readonly input: Activations | undefined;
  /** How many ids a sample has; 0 for a network of values only. */
  readonly idsPerSample: number;
  readonly stages: readonly Stage[];
}

/** Measures how wrong outputs are: nn's losses. */
export interface Loss {
  /** Of the outputs; valid until the next `compute`; backward may overwrite it. */
  readonly gradient: Activations;
  /** What a label may be, in words and as a check. */
  readonly expectedLabel: string;
  acceptsLabel(label: number): boolean;
  /** The sum of the samples' losses divided by `divisor`; sets the gradient. */
  compute(outputs: Activations, labels: ArrayLike<number>, divisor: number): number;
}

/** Throws BAD_ARGUMENT unless it is a network. */
export function checkNetwork(network: unknown): void {
  const { stages, workspace } = (network ?? {}) as Partial<Network>;
  if (Array.isArray(stages) && workspace !== undefined) return;
  throw badArgument(`a Model trains a network, such as a Sequential, not ${showValue(network)}`);
}

/** Throws BAD_ARGUMENT unless it is a loss. */
export function checkLoss(loss: unknown): void {
  const { gradient, compute, acceptsLabel } = (loss ?? {}) as Partial<Loss>;
  if (gradient !== undefined && typeof compute === "function" && typeof acceptsLabel === "function") return;
  const expected = "new SoftmaxCrossEntropy(…), BinaryCrossEntropy, SquaredError, or one of your own";
  throw badArgument(`a Model needs a loss: ${expected}, not ${showValue(loss)}`);
}

/** Of all stages, first ones first. */
export function parametersOf({ stages }: Pick<Network, "stages">): readonly Parameter[] {
  return stages.flatMap(({ parameters }) => parameters);
}

export function lookupsOf({ stages }: Pick<Network, "stages">): readonly EmbeddingLookup[] {
  return stages.flatMap(({ lookup }) => (lookup === undefined ? [] : [lookup]));
}
