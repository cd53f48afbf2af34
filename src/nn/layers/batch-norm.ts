// batch-norm — shifts and scales every channel to mean 0 and variance 1 over the batch, then by learned factors: y = γ
// (x - μ)/σ + β. Samples are [channels, …]. When not training, the running mean and variance replace the batch's.
//
// With a = γ/σ it is y = a·x + (β - a·μ), and for n numbers per channel, Σ over them and x̂ = (x - μ)/σ:
//   ∂β = Σ dy     ∂γ = Σ dy·x̂     dx = a·dy - (a/n)·(∂β + x̂·∂γ), which is linear in dy and x for each channel.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { Activations, checkActivations, floatsOf, type Shape } from "../activations.ts";
import { builtInPlan, type GradientReady, type Layer, type LayerPlan, type LayerSite, type Statistic } from "../layer.ts";
import { createParameter, type Parameter } from "../parameter.ts";
import type { FloatSpan } from "../workspace.ts";

/** How a batch norm is made. */
export type BatchNormOptions = {
  /** The layer's name. Left out: norm1, norm2 and so on. */
  readonly name?: string | undefined;
  /** The share of the running mean and variance that is kept in each step; 0.9 by default. */
  readonly momentum?: number | undefined;
  /** Added to the variance; 1e-5 by default. */
  readonly epsilon?: number | undefined;
};

/** Batch normalization. Throws BAD_ARGUMENT for an option that does not exist. */
export function batchNorm(options: BatchNormOptions = {}): LayerPlan {
  checkOptions(options, ["name", "momentum", "epsilon"], "the options of a batch norm");
  return builtInPlan("norm", options, (site) => new BatchNorm(site, options));
}

class BatchNorm implements Layer {
  readonly name: string;
  readonly outputShape: Shape;
  readonly parameters: readonly Parameter[];
  readonly statistics: readonly Statistic[];
  readonly #site: LayerSite;
  readonly #momentum: number;
  readonly #epsilon: number;
  readonly #channels: number;
  readonly #plane: number;
  readonly #gamma: Parameter;
  readonly #beta: Parameter;
  readonly #runningMean: Float32Array;
  readonly #runningVariance: Float32Array;
  readonly #output: Activations;
  readonly #inputGradient: Activations | undefined;
  readonly #sums: { readonly address: number; readonly values: Float64Array };
  readonly #products: { readonly address: number; readonly values: Float64Array };
  readonly #factors: FloatSpan;
  readonly #otherFactors: FloatSpan;
  readonly #shifts: FloatSpan;
  /** Of the current batch. */
  readonly #means: Float64Array;
  readonly #inverseDeviations: Float64Array;
  #input: Activations | undefined;

  constructor(site: LayerSite, options: BatchNormOptions) {
    const { workspace, name, inputShape, sampleCountMax } = site;
    const { momentum = 0.9, epsilon = 1e-5 } = options;
    if (!(momentum >= 0 && momentum < 1)) throw badArgument(`${name}: momentum is in [0, 1), not ${momentum}`);
    if (!(epsilon > 0)) throw badArgument(`${name}: epsilon is above 0, not ${epsilon}`);
    this.name = name;
    this.outputShape = inputShape;
    this.#site = site;
    this.#momentum = momentum;
    this.#epsilon = epsilon;
    const [channels = 0] = inputShape;
    this.#channels = channels;
    this.#plane = floatsOf(inputShape) / channels;
    const shape = [channels];
    this.#gamma = createParameter(workspace, { name: `${name}.gamma`, shape, initializer: { type: "constant", value: 1 } });
    this.#beta = createParameter(workspace, { name: `${name}.beta`, shape, initializer: { type: "constant", value: 0 } });
    this.parameters = [this.#gamma, this.#beta];
    this.#runningMean = workspace.floats(channels).values;
    this.#runningVariance = workspace.floats(channels).values.fill(1);
    this.statistics = [
      { name: `${name}.runningMean`, values: this.#runningMean },
      { name: `${name}.runningVariance`, values: this.#runningVariance },
    ];
    this.#output = new Activations(workspace, inputShape, sampleCountMax);
    if (site.needsInputGradient) this.#inputGradient = new Activations(workspace, inputShape, sampleCountMax);
    this.#sums = workspace.doubles(channels);
    this.#products = workspace.doubles(channels);
    this.#factors = workspace.floats(channels);
    this.#otherFactors = workspace.floats(channels);
    this.#shifts = workspace.floats(channels);
    this.#means = new Float64Array(channels);
    this.#inverseDeviations = new Float64Array(channels);
  }

  forward(input: Activations, isTraining: boolean): Activations {
    checkActivations(this.name, input, this.outputShape, this.#site.sampleCountMax);
    this.#input = isTraining ? input : undefined;
    this.#output.sampleCount = input.sampleCount;
    if (isTraining) this.#sum(input, input);
    const numberCount = input.sampleCount * this.#plane;
    for (let c = 0; c < this.#channels; c++) {
      let [mean, variance] = [this.#runningMean[c]!, this.#runningVariance[c]!];
      if (isTraining) {
        mean = this.#sums.values[c]! / numberCount;
        variance = Math.max(0, this.#products.values[c]! / numberCount - mean * mean);
        this.#follow(c, mean, variance);
      }
      this.#means[c] = mean;
      this.#inverseDeviations[c] = 1 / Math.sqrt(variance + this.#epsilon);
      const factor = this.#gamma.values[c]! * this.#inverseDeviations[c]!;
      this.#factors.values[c] = factor;
      this.#otherFactors.values[c] = 0;
      this.#shifts.values[c] = this.#beta.values[c]! - factor * mean;
    }
    this.#combine(input, input, this.#output);
    return this.#output;
  }

  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined {
    checkActivations(`${this.name}: gradient`, outputGradient, this.outputShape, this.#input?.sampleCount ?? 0);
    const input = this.#input!;
    this.#sum(outputGradient, input);
    const numberCount = input.sampleCount * this.#plane;
    for (let c = 0; c < this.#channels; c++) {
      const [mean, inverse] = [this.#means[c]!, this.#inverseDeviations[c]!];
      const betaGradient = this.#sums.values[c]!;
      const gammaGradient = inverse * (this.#products.values[c]! - mean * betaGradient);
      this.#beta.gradient[c] = betaGradient;
      this.#gamma.gradient[c] = gammaGradient;
      const factor = this.#gamma.values[c]! * inverse;
      const slope = (factor / numberCount) * gammaGradient * inverse;
      this.#factors.values[c] = factor;
      this.#otherFactors.values[c] = -slope;
      this.#shifts.values[c] = slope * mean - (factor / numberCount) * betaGradient;
    }
    ready(this.#beta);
    ready(this.#gamma);
    if (this.#inputGradient === undefined) return undefined;
    this.#inputGradient.sampleCount = input.sampleCount;
    this.#combine(outputGradient, input, this.#inputGradient);
    return this.#inputGradient;
  }

  #follow(channel: number, mean: number, variance: number): void {
    const kept = this.#momentum;
    this.#runningMean[channel] = kept * this.#runningMean[channel]! + (1 - kept) * mean;
    this.#runningVariance[channel] = kept * this.#runningVariance[channel]! + (1 - kept) * variance;
  }

  #sum(x: Activations, y: Activations): void {
    const { kernels } = this.#site.workspace;
    kernels.channelSums(x.address, y.address, x.sampleCount, this.#channels, this.#plane, this.#sums.address, this.#products.address);
  }

  #combine(x: Activations, y: Activations, target: Activations): void {
    const { kernels } = this.#site.workspace;
    const [a, b, shift] = [this.#factors.address, this.#otherFactors.address, this.#shifts.address];
    kernels.combineChannels(x.address, y.address, x.sampleCount, this.#channels, this.#plane, a, b, shift, target.address);
  }
}
