// sequential — layers one after the other: shapes are derived from the first to the last, gradients flow from the last
// to the first.

import { badArgument } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import { Activations, type Shape } from "./activations.ts";
import { checkCount, findNotFinite, type Layer, type LayerPlan, type Statistic } from "./layer.ts";
import type { Parameter } from "./parameter.ts";
import type { Workspace } from "./workspace.ts";

/** How the network is built. */
export type SequentialOptions = {
  /** The lengths of one sample of the input. */
  readonly inputShape: Shape;
  /** The most samples that a batch may have. */
  readonly sampleCountMax: number;
  /** The layers, first ones first: what dense(), convolution() and the like make. */
  readonly layers: readonly LayerPlan[];
  /** True if something that learns precedes the network, such as an embedding. */
  readonly needsInputGradient?: boolean | undefined;
};

/** Called during `backward` for each parameter whose gradient is final: last layers first. */
export type OnGradient = (layerIndex: number, parameter: Parameter) => void;

const FORWARD_OPTIONS: readonly string[] = ["isTraining", "input"];

/** A network of layers, one after the other. */
export class Sequential {
  /** The memory of its layers. */
  readonly workspace: Workspace;
  /** The most samples that a batch may have. */
  readonly sampleCountMax: number;
  /** It has values as input, and no ids. */
  readonly idsPerSample = 0;
  /** The input batch: set `sampleCount`, write `values`. */
  readonly input: Activations;
  /** Its layers, first ones first. */
  readonly layers: readonly Layer[];
  /** Of all layers, first layers first. */
  readonly parameters: readonly Parameter[];
  /** What its layers keep without learning it. */
  readonly statistics: readonly Statistic[];
  /** What it was built of. */
  readonly options: SequentialOptions;
  /** The last output of each layer. */
  readonly #outputs: Activations[] = [];

  /**
   * Throws BAD_ARGUMENT for layers that do not fit each other, for names that occur twice, and for an option that does
   * not exist.
   */
  constructor(workspace: Workspace, options: SequentialOptions) {
    checkOptions(options, ["inputShape", "sampleCountMax", "layers", "needsInputGradient"], "the options of a Sequential");
    const { inputShape, layers: plans, needsInputGradient = false } = options;
    if (!(Array.isArray(plans) && plans.every(isPlan)))
      throw badArgument("layers are a list of what dense(), convolution() and the like make");
    const sampleCountMax = checkCount("sampleCountMax", options.sampleCountMax);
    if (plans.length === 0) throw badArgument("a network has at least one layer");
    this.workspace = workspace;
    this.options = options;
    this.sampleCountMax = sampleCountMax;
    this.input = new Activations(workspace, inputShape, sampleCountMax);
    const names = namesOf(plans);
    const layers: Layer[] = [];
    for (const [i, plan] of plans.entries()) {
      const shape = layers.at(-1)?.outputShape ?? inputShape;
      const isLearning = needsInputGradient || layers.some(({ parameters }) => parameters.length > 0);
      layers.push(plan.open({ workspace, name: names[i]!, inputShape: shape, sampleCountMax, needsInputGradient: isLearning }));
    }
    this.layers = layers;
    this.parameters = layers.flatMap(({ parameters }) => parameters);
    this.statistics = layers.flatMap(({ statistics }) => statistics);
  }

  /** The same layers, for code that runs them one by one and does something in between. */
  get stages(): readonly Layer[] {
    return this.layers;
  }

  /** The lengths of one sample of its output. */
  get outputShape(): Shape {
    return this.layers.at(-1)!.outputShape;
  }

  /** The output of the last layer for a batch, `input` by default. */
  forward(options: { readonly isTraining: boolean; readonly input?: Activations | undefined }): Activations {
    checkOptions(options, FORWARD_OPTIONS, "the options of a forward pass");
    let activations = options.input ?? this.input;
    for (const [i, layer] of this.layers.entries()) {
      activations = layer.forward(activations, options.isTraining);
      this.#outputs[i] = activations;
    }
    return activations;
  }

  /** Sets the gradients of all parameters; returns that of the input if the network was built for it. */
  backward(outputGradient: Activations, onGradient?: OnGradient): Activations | undefined {
    let gradient: Activations | undefined = outputGradient;
    for (let i = this.layers.length - 1; i >= 0 && gradient !== undefined; i--) {
      gradient = this.layers[i]!.backward(gradient, (parameter) => onGradient?.(i, parameter));
    }
    return gradient;
  }

  /**
   * For a loss that is NaN: the first parameter, or else the first layer's output, that is not finite after the last
   * `forward`. Slow.
   */
  findNotFinite(): string | undefined {
    return findNotFinite(this.layers, this.#outputs);
  }
}

function isPlan(plan: Partial<LayerPlan> | undefined | null): boolean {
  return typeof plan?.open === "function" && typeof plan.kind === "string";
}

/** Own names, or the kind with a number: conv1, conv2, dense1. */
function namesOf(plans: readonly LayerPlan[]): string[] {
  const counts = new Map<string, number>();
  const names = plans.map(({ kind, name }) => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return name ?? `${kind}${count}`;
  });
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw badArgument(`two layers are called ${twice}`);
  return names;
}
