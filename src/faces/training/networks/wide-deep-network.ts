// wide-deep-network — Wide & Deep on rows that may live anywhere: a linear model of the ids beside a small network on
// their embeddings; the sum of both is the logit.

import { checkOptions } from "../../../base/known-options.ts";
import { Activations } from "../../../nn/activations.ts";
import type { GradientReady } from "../../../nn/layer.ts";
import { dense } from "../../../nn/layers/dense.ts";
import type { Parameter } from "../../../nn/parameter.ts";
import { Sequential } from "../../../nn/sequential.ts";
import type { Workspace } from "../../../nn/workspace.ts";
import { EmbeddingLookup, type EmbeddingLookupOptions } from "../embedding-lookup.ts";
import type { Network, Stage } from "../network.ts";

/** How the network is made. */
export type WideDeepNetworkOptions = Pick<EmbeddingLookupOptions, "vocabSize" | "idsPerSample" | "sampleCountMax" | "target" | "sparse"> & {
  /** Elements of a deep embedding's row. */
  readonly dim: number;
  /** Outputs of each hidden layer. */
  readonly hidden: readonly number[];
  /** Of each of the two tables. */
  readonly vocabCacheSize?: number | undefined;
};

const NAMES: readonly (keyof WideDeepNetworkOptions)[] = [
  "vocabSize",
  "idsPerSample",
  "sampleCountMax",
  "target",
  "sparse",
  "dim",
  "hidden",
  "vocabCacheSize",
];

/** A wide part and a deep one, whose outputs are added (MindSpore: WideDeepModel). */
export class WideDeepNetwork implements Network {
  /** The memory of its stages. */
  readonly workspace: Workspace;
  /** The most samples that a batch may have. */
  readonly sampleCountMax: number;
  /** How many ids a sample has. */
  readonly idsPerSample: number;
  /** None: its samples are ids. */
  readonly input: undefined;
  /** The embeddings, which the tower reads. */
  readonly deep: EmbeddingLookup;
  /** The linear part: a weight for each id. */
  readonly wide: EmbeddingLookup;
  /** The hidden layers and the head. */
  readonly tower: Sequential;
  /** The deep lookup, the tower's layers, and the wide part. */
  readonly stages: readonly Stage[];

  constructor(workspace: Workspace, options: WideDeepNetworkOptions) {
    checkOptions(options, NAMES, "the options of a WideDeepNetwork");
    const { dim, hidden, ...shared } = options;
    const { sampleCountMax, idsPerSample } = shared;
    this.workspace = workspace;
    this.sampleCountMax = sampleCountMax;
    this.idsPerSample = idsPerSample;
    this.deep = new EmbeddingLookup(workspace, { ...shared, name: "deep", dim, combine: "concat" });
    const zeros = { type: "constant", value: 0 } as const;
    this.wide = new EmbeddingLookup(workspace, { ...shared, name: "wide", dim: 1, combine: "sum", initializer: zeros });
    const layers = [...hidden.map((outputs) => dense({ outputs, activation: "relu" })), dense({ name: "head", outputs: 1 })];
    this.tower = new Sequential(workspace, { inputShape: this.deep.output.shape, sampleCountMax, layers, needsInputGradient: true });
    // Backward begins with the wide part: the tower may overwrite its gradient.
    this.stages = [this.deep, ...this.tower.layers, new WideStage(workspace, this.wide)];
  }
}

/** Adds the wide part to the output of the tower. */
class WideStage implements Stage {
  readonly name = "wide";
  readonly statistics: readonly [] = [];
  readonly lookup: EmbeddingLookup;
  readonly #workspace: Workspace;
  readonly #logits: Activations;

  constructor(workspace: Workspace, wide: EmbeddingLookup) {
    this.lookup = wide;
    this.#workspace = workspace;
    this.#logits = new Activations(workspace, [1], wide.options.sampleCountMax);
  }

  get parameters(): readonly Parameter[] {
    return this.lookup.parameters;
  }

  forward(deep: Activations): Activations {
    const wide = this.lookup.forward();
    this.#logits.sampleCount = deep.sampleCount;
    this.#workspace.vectors.sum(this.#logits.address, wide.address, deep.address, deep.sampleCount);
    return this.#logits;
  }

  backward(outputGradient: Activations, ready: GradientReady): Activations {
    this.lookup.backward(outputGradient, ready);
    return outputGradient;
  }
}
