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

export type WideDeepNetworkOptions = Pick<EmbeddingLookupOptions, "vocabSize" | "idsPerSample" | "sampleCountMax" | "target" | "sparse"> & {
  /** Of a deep embedding's row. */
  readonly width: number;
  /** Outputs of each hidden layer. */
  readonly hidden: readonly number[];
  /** Of each of the two tables. */
  readonly vocabCacheSize?: number;
};

const NAMES: readonly (keyof WideDeepNetworkOptions)[] = [
  "vocabSize",
  "idsPerSample",
  "sampleCountMax",
  "target",
  "sparse",
  "width",
  "hidden",
  "vocabCacheSize",
];

export class WideDeepNetwork implements Network {
  readonly workspace: Workspace;
  readonly sampleCountMax: number;
  readonly idsPerSample: number;
  readonly input: undefined;
  readonly deep: EmbeddingLookup;
  readonly wide: EmbeddingLookup;
  readonly tower: Sequential;
  readonly stages: readonly Stage[];

  constructor(workspace: Workspace, options: WideDeepNetworkOptions) {
    checkOptions(options, NAMES, "the options of a WideDeepNetwork");
    const { width, hidden, ...shared } = options;
    const { sampleCountMax, idsPerSample } = shared;
    this.workspace = workspace;
    this.sampleCountMax = sampleCountMax;
    this.idsPerSample = idsPerSample;
    this.deep = new EmbeddingLookup(workspace, { ...shared, name: "deep", width, combine: "concat" });
    const zeros = { type: "constant", value: 0 } as const;
    this.wide = new EmbeddingLookup(workspace, { ...shared, name: "wide", width: 1, combine: "sum", initializer: zeros });
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
