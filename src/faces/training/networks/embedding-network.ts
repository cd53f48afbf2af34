// embedding-network — layers on the rows that ids choose: one EmbeddingLookup, followed by any layers. Without layers
// it is a linear model of the ids (logistic regression: width 1, the sum); with dotOfHalves it is matrix factorisation.

import { checkOptions } from "../../../base/known-options.ts";
import type { LayerPlan } from "../../../nn/layer.ts";
import { Sequential } from "../../../nn/sequential.ts";
import type { Workspace } from "../../../nn/workspace.ts";
import { EmbeddingLookup, type EmbeddingLookupOptions } from "../embedding-lookup.ts";
import type { Network, Stage } from "../network.ts";

/** How the network is made. */
export type EmbeddingNetworkOptions = {
  /** The table, and which ids choose its rows. */
  readonly lookup: EmbeddingLookupOptions;
  /** The layers behind it; none by default. */
  readonly layers?: readonly LayerPlan[] | undefined;
};

/** Rows of one table, and layers behind them. */
export class EmbeddingNetwork implements Network {
  /** The memory of its stages. */
  readonly workspace: Workspace;
  /** The most samples that a batch may have. */
  readonly sampleCountMax: number;
  /** How many ids a sample has. */
  readonly idsPerSample: number;
  /** None: its samples are ids. */
  readonly input: undefined;
  /** The first stage. */
  readonly lookup: EmbeddingLookup;
  /** The lookup, then its layers. */
  readonly stages: readonly Stage[];

  constructor(workspace: Workspace, options: EmbeddingNetworkOptions) {
    checkOptions(options, ["lookup", "layers"], "the options of an EmbeddingNetwork");
    const { layers = [] } = options;
    this.workspace = workspace;
    this.lookup = new EmbeddingLookup(workspace, options.lookup);
    const { idsPerSample, idsFrom, sampleCountMax } = this.lookup.options;
    this.sampleCountMax = sampleCountMax;
    this.idsPerSample = idsFrom + idsPerSample;
    const tower = { inputShape: this.lookup.output.shape, sampleCountMax, layers, needsInputGradient: true };
    this.stages = layers.length === 0 ? [this.lookup] : [this.lookup, ...new Sequential(workspace, tower).layers];
  }
}
