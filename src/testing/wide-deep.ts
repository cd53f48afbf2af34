// wide-deep — Wide & Deep on plain layers, for tests of them (the training face has its own, faces/training/networks):
// a linear model of the features' ids beside a small network on their embeddings; the sum of both is the logit. With no
// hidden layers and no deep table it is logistic regression, for which an Embedding of width 1 suffices.

import { Activations } from "../nn/activations.ts";
import type { GradientReady } from "../nn/layer.ts";
import { dense } from "../nn/layers/dense.ts";
import { Embedding } from "../nn/layers/embedding.ts";
import type { Parameter } from "../nn/parameter.ts";
import { Sequential } from "../nn/sequential.ts";
import type { Workspace } from "../nn/workspace.ts";

export type WideDeepOptions = {
  /** The number of features, or of rows that were pulled for a batch. */
  readonly rowCount: number;
  readonly idsPerSample: number;
  /** Of a deep embedding's row. */
  readonly width: number;
  /** Outputs of each hidden layer. */
  readonly hidden: readonly number[];
  readonly sampleCountMax: number;
  readonly outOfRange?: "refuse" | "zero";
};

export class WideDeep {
  readonly wide: Embedding;
  readonly deep: Embedding;
  readonly tower: Sequential;
  readonly parameters: readonly Parameter[];
  readonly #workspace: Workspace;
  readonly #logits: Activations;

  constructor(workspace: Workspace, options: WideDeepOptions) {
    const { rowCount, idsPerSample, width, hidden, sampleCountMax, outOfRange = "refuse" } = options;
    const shared = { rowCount, idsPerSample, sampleCountMax, outOfRange };
    this.#workspace = workspace;
    this.wide = new Embedding(workspace, {
      ...shared,
      name: "wide",
      width: 1,
      combine: "sum",
      initializer: { type: "constant", value: 0 },
    });
    this.deep = new Embedding(workspace, { ...shared, name: "deep", width, combine: "concat" });
    const layers = [...hidden.map((outputs) => dense({ outputs, activation: "relu" })), dense({ name: "head", outputs: 1 })];
    this.tower = new Sequential(workspace, { inputShape: this.deep.output.shape, sampleCountMax, layers, needsInputGradient: true });
    this.parameters = [this.wide.weight, this.deep.weight, ...this.tower.parameters];
    this.#logits = new Activations(workspace, [1], sampleCountMax);
  }

  /** The logits of samples, `idsPerSample` ids each. Throws BAD_ARGUMENT or OUT_OF_RANGE. */
  forward(ids: ArrayLike<number>, options: { readonly isTraining: boolean }): Activations {
    const wide = this.wide.forward(ids);
    const deep = this.tower.forward({ ...options, input: this.deep.forward(ids) });
    this.#logits.sampleCount = deep.sampleCount;
    this.#workspace.vectors.sum(this.#logits.address, wide.address, deep.address, deep.sampleCount);
    return this.#logits;
  }

  backward(outputGradient: Activations, ready: GradientReady): void {
    this.wide.backward(outputGradient, ready); // first, as the tower may overwrite the gradient
    const gradient = this.tower.backward(outputGradient, (_, parameter) => ready(parameter));
    this.deep.backward(gradient!, ready);
  }
}
