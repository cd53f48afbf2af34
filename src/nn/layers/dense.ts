// dense — y = x · Wᵀ + b, optionally followed by a ReLU. Samples of any shape are read as one row of numbers.

import { checkOptions } from "../../base/known-options.ts";
import type { InitializerSpec } from "../../store/initializers/initializer-spec.ts";
import { Activations, checkActivations, floatsOf, type Shape } from "../activations.ts";
import { builtInPlan, checkActivation, checkCount, type GradientReady, type Layer, type LayerPlan, type LayerSite } from "../layer.ts";
import { PRODUCT, productScratchBytes } from "../layer-kernels.ts";
import { createParameter, type Parameter } from "../parameter.ts";

/** How a dense layer is made. */
export type DenseOptions = {
  /** How many outputs it has. */
  readonly outputs: number;
  /** The layer's name. Left out: dense1, dense2 and so on. */
  readonly name?: string | undefined;
  /** What the outputs pass through; nothing by default. */
  readonly activation?: "relu" | undefined;
  /** Of the weights; He's by default. Biases start at 0. */
  readonly initializer?: InitializerSpec | undefined;
};

/**
 * A fully connected layer: outputs are weights × inputs + biases. Throws BAD_ARGUMENT for an option or an activation
 * that does not exist.
 */
export function dense(options: DenseOptions): LayerPlan {
  checkOptions(options, ["outputs", "name", "activation", "initializer"], "the options of a dense layer");
  checkActivation(options.name ?? "dense", options.activation);
  return builtInPlan("dense", options, (site) => new Dense(site, options));
}

class Dense implements Layer {
  readonly name: string;
  readonly outputShape: Shape;
  readonly parameters: readonly Parameter[];
  readonly statistics: readonly [] = [];
  readonly #site: LayerSite;
  readonly #isRelu: boolean;
  readonly #inputs: number;
  readonly #outputs: number;
  readonly #weight: Parameter;
  readonly #bias: Parameter;
  readonly #output: Activations;
  readonly #inputGradient: Activations | undefined;
  #input: Activations | undefined;

  constructor(site: LayerSite, options: DenseOptions) {
    const { workspace, name, inputShape, sampleCountMax } = site;
    this.name = name;
    this.#site = site;
    this.#isRelu = options.activation === "relu";
    this.#inputs = floatsOf(inputShape);
    this.#outputs = checkCount(`${name}: outputs`, options.outputs);
    this.outputShape = [this.#outputs];
    const initializer = options.initializer ?? { type: "he" };
    const shape = [this.#outputs, this.#inputs];
    this.#weight = createParameter(workspace, { name: `${name}.weight`, shape, initializer, isProduct: true });
    this.#bias = createParameter(workspace, { name: `${name}.bias`, shape: [this.#outputs], initializer: { type: "constant", value: 0 } });
    this.parameters = [this.#weight, this.#bias];
    this.#output = new Activations(workspace, this.outputShape, sampleCountMax);
    if (site.needsInputGradient) this.#inputGradient = new Activations(workspace, inputShape, sampleCountMax);
    workspace.reserveScratch(productScratchBytes(Math.max(sampleCountMax, this.#outputs)));
  }

  forward(input: Activations): Activations {
    const { inputShape, sampleCountMax, workspace } = this.#site;
    checkActivations(this.name, input, inputShape, sampleCountMax);
    const { sampleCount } = input;
    this.#input = input;
    this.#output.sampleCount = sampleCount;
    const { address } = this.#output;
    workspace.kernels.multiplyTransposed(sampleCount, this.#outputs, this.#inputs, input.address, this.#weight.address, address, 0);
    workspace.kernels.addBiasToColumns(address, sampleCount, this.#outputs, this.#bias.address, Number(this.#isRelu));
    return this.#output;
  }

  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined {
    checkActivations(`${this.name}: gradient`, outputGradient, this.outputShape, this.#input?.sampleCount ?? 0);
    const { kernels, scratch } = this.#site.workspace;
    const { address, sampleCount, floatCount } = outputGradient;
    const [weight, bias, input] = [this.#weight, this.#bias, this.#input!];
    if (this.#isRelu) kernels.reluGradient(address, this.#output.address, floatCount, address);
    bias.gradient.fill(0);
    kernels.addColumnSums(address, sampleCount, this.#outputs, bias.gradientAddress);
    ready(bias);
    const transposed = PRODUCT.firstTransposed;
    if (weight.leaveFactors !== undefined) weight.leaveFactors({ outputGradientAt: address, inputAt: input.address, sampleCount });
    else kernels.multiply(this.#outputs, this.#inputs, sampleCount, address, input.address, weight.gradientAddress, transposed, scratch);
    ready(weight);
    if (this.#inputGradient === undefined) return undefined;
    this.#inputGradient.sampleCount = sampleCount;
    kernels.multiply(sampleCount, this.#inputs, this.#outputs, address, weight.address, this.#inputGradient.address, 0, scratch);
    return this.#inputGradient;
  }
}
