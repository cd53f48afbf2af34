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
import { checkOptions } from "../../base/known-options.ts";
import type { Activations } from "../../nn/activations.ts";
import type { GradientReady, Statistic } from "../../nn/layer.ts";
import type { Parameter, ServerTarget } from "../../nn/parameter.ts";
import type { Workspace } from "../../nn/workspace.ts";
import { EmbeddingLookup } from "./embedding-lookup.ts";
import { inOurNames } from "./mindspore-names.ts";

/** A part of a network: a layer, or a lookup of rows. */
export interface Stage {
  /** Unique in its network. */
  readonly name: string;
  /** What it learns. */
  readonly parameters: readonly Parameter[];
  /** What it keeps without learning it. */
  readonly statistics: readonly Statistic[];
  /** The lookup whose rows the stage reads, if any. */
  readonly lookup?: EmbeddingLookup | undefined;
  /** `input` is the output of the stage before; for the first stage, the network's input. */
  forward(input: Activations | undefined, isTraining: boolean): Activations;
  /** The gradient of the input, if it is needed. */
  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined;
}

/** What a Model trains: stages, one after the other. */
export interface Network {
  /** The memory of all of its stages. */
  readonly workspace: Workspace;
  /** The most samples that a unit may have. */
  readonly sampleCountMax: number;
  /** Where a batch's values go; undefined for a network of ids only. */
  readonly input: Activations | undefined;
  /** How many ids a sample has; 0 for a network of values only. */
  readonly idsPerSample: number;
  /** Its stages, in the order of a forward pass. */
  readonly stages: readonly Stage[];
}

/** Measures how wrong outputs are: nn's losses. */
export interface Loss {
  /** Of the outputs; valid until the next `compute`; backward may overwrite it. */
  readonly gradient: Activations;
  /** What a label may be, in words and as a check. */
  readonly expectedLabel: string;
  /** Whether a label is one that the loss accepts. */
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

/** How parameters live on servers. */
export type SetParamPsOptions = {
  /** The servers create the first values; of an EmbeddingLookup only rows of batches come here. Defaults to false. */
  readonly initInServer?: boolean | undefined;
  /** The same, as MindSpore spells it. */
  readonly init_in_server?: boolean | undefined;
};

/**
 * Marks parameters that live on servers (MindSpore: Cell.set_param_ps, Parameter.set_param_ps): all of a network, stage
 * or layer, or one. A Model reads the marks when it begins to train with a session; a model that is trained alone
 * ignores them. Throws BAD_ARGUMENT.
 */
export function setParamPs(target: Pick<Network, "stages"> | Stage | Parameter, options: SetParamPsOptions = {}): void {
  const named = inOurNames(options, "the options of setParamPs");
  checkOptions(named, ["initInServer"], "the options of setParamPs");
  const { initInServer = false } = named as SetParamPsOptions;
  if (typeof initInServer !== "boolean") throw badArgument(`initInServer is true or false, not ${String(initInServer)}`);
  mark(target, { initInServer });
}

function mark(target: Pick<Network, "stages"> | Stage | Parameter, serverTarget: ServerTarget): void {
  if (typeof target !== "object" || target === null) {
    throw badArgument(`setParamPs takes a network, a layer or a parameter, not ${String(target)}`);
  }
  if ("stages" in target) {
    for (const stage of target.stages) mark(stage, serverTarget);
  } else if ("parameters" in target) {
    for (const parameter of target.parameters) mark(parameter, serverTarget);
    const { lookup } = target;
    if (lookup !== undefined && lookup !== target) mark(lookup, serverTarget);
    if (target instanceof EmbeddingLookup && target.options.sparse) target.serverTarget = serverTarget;
  } else if ("gradient" in target) target.serverTarget = serverTarget;
  else throw badArgument("setParamPs takes a network, a layer or a parameter");
}
