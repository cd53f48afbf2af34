// convolution — square kernels, stride 1, zeros around the image; optionally followed by a ReLU. Sample by sample: the
// unfolded image stays in the cache, and is cheaper to compute again in the backward pass than to keep for a whole
// batch.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import type { InitializerSpec } from "../../store/initializers/initializer-spec.ts";
import { Activations, checkActivations, type Shape } from "../activations.ts";
import { builtInPlan, checkActivation, checkCount, type GradientReady, type Layer, type LayerPlan, type LayerSite } from "../layer.ts";
import { PRODUCT, productScratchBytes } from "../layer-kernels.ts";
import { createParameter, type Parameter } from "../parameter.ts";
import type { FloatSpan } from "../workspace.ts";

/** How a convolution is made. */
export type ConvolutionOptions = {
  /** Output channels. */
  readonly channels: number;
  /** The kernel's height and width. */
  readonly size: number;
  /** Zeros on each side; 0 by default. */
  readonly padding?: number | undefined;
  /** The layer's name. Left out: conv1, conv2 and so on. */
  readonly name?: string | undefined;
  /** What the outputs pass through; nothing by default. */
  readonly activation?: "relu" | undefined;
  /** Of the weights; He's by default. Biases start at 0. */
  readonly initializer?: InitializerSpec | undefined;
};

/**
 * Takes samples of [channels, height, width]. Throws BAD_ARGUMENT for an option or an activation that does not exist.
 */
export function convolution(options: ConvolutionOptions): LayerPlan {
  checkOptions(options, ["channels", "size", "padding", "name", "activation", "initializer"], "the options of a convolution");
  checkActivation(options.name ?? "convolution", options.activation);
  return builtInPlan("conv", options, (site) => new Convolution(site, options));
}

/** Lengths of the image with its frame, of the output, and of the unfolded image: [depth × plane]. */
type Geometry = {
  readonly inChannels: number;
  readonly inHeight: number;
  readonly inWidth: number;
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  readonly size: number;
  readonly padding: number;
  readonly depth: number;
  readonly plane: number;
};

class Convolution implements Layer {
  readonly name: string;
  readonly outputShape: Shape;
  readonly parameters: readonly Parameter[];
  readonly statistics: readonly [] = [];
  readonly #site: LayerSite;
  readonly #isRelu: boolean;
  readonly #geometry: Geometry;
  readonly #weight: Parameter;
  readonly #bias: Parameter;
  readonly #output: Activations;
  readonly #inputGradient: Activations | undefined;
  /** One image with its frame, and one unfolded: for the current sample. */
  readonly #framed: FloatSpan;
  readonly #columns: FloatSpan;
  #input: Activations | undefined;

  constructor(site: LayerSite, options: ConvolutionOptions) {
    const { workspace, name, inputShape, sampleCountMax } = site;
    const geometry = geometryOf(name, inputShape, options);
    const { inChannels, height, width, channels, size, depth, plane } = geometry;
    this.name = name;
    this.#site = site;
    this.#isRelu = options.activation === "relu";
    this.#geometry = geometry;
    this.outputShape = [channels, height - size + 1, width - size + 1];
    const initializer = options.initializer ?? { type: "he" };
    this.#weight = createParameter(workspace, { name: `${name}.weight`, shape: [channels, inChannels, size, size], initializer });
    this.#bias = createParameter(workspace, { name: `${name}.bias`, shape: [channels], initializer: { type: "constant", value: 0 } });
    this.parameters = [this.#weight, this.#bias];
    this.#output = new Activations(workspace, this.outputShape, sampleCountMax);
    if (site.needsInputGradient) this.#inputGradient = new Activations(workspace, inputShape, sampleCountMax);
    this.#framed = workspace.floats(inChannels * height * width);
    this.#columns = workspace.floats(depth * plane);
    workspace.reserveScratch(productScratchBytes(Math.max(depth, channels)));
  }

  forward(input: Activations): Activations {
    const { inputShape, sampleCountMax, workspace } = this.#site;
    checkActivations(this.name, input, inputShape, sampleCountMax);
    const { kernels, scratch } = workspace;
    const { channels, depth, plane } = this.#geometry;
    this.#input = input;
    this.#output.sampleCount = input.sampleCount;
    for (let sample = 0; sample < input.sampleCount; sample++) {
      this.#unfold(input.sampleAddress(sample));
      const target = this.#output.sampleAddress(sample);
      kernels.multiply(channels, plane, depth, this.#weight.address, this.#columns.address, target, 0, scratch);
      kernels.addBiasToRows(target, channels, plane, this.#bias.address, Number(this.#isRelu));
    }
    return this.#output;
  }

  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined {
    checkActivations(`${this.name}: gradient`, outputGradient, this.outputShape, this.#input?.sampleCount ?? 0);
    const { kernels } = this.#site.workspace;
    const { address, floatCount } = outputGradient;
    if (this.#isRelu) kernels.reluGradient(address, this.#output.address, floatCount, address);
    this.#parametersBackward(outputGradient, this.#input!);
    ready(this.#bias);
    ready(this.#weight);
    if (this.#inputGradient === undefined) return undefined;
    this.#inputGradient.sampleCount = outputGradient.sampleCount;
    this.#inputBackward(outputGradient, this.#inputGradient);
    return this.#inputGradient;
  }

  #parametersBackward(outputGradient: Activations, input: Activations): void {
    const { kernels } = this.#site.workspace;
    const { channels, depth, plane } = this.#geometry;
    this.#bias.gradient.fill(0);
    for (let sample = 0; sample < outputGradient.sampleCount; sample++) {
      this.#unfold(input.sampleAddress(sample));
      const gradient = outputGradient.sampleAddress(sample);
      const flags = sample === 0 ? 0 : PRODUCT.accumulate;
      kernels.multiplyTransposed(channels, depth, plane, gradient, this.#columns.address, this.#weight.gradientAddress, flags);
      kernels.addRowSums(gradient, channels, plane, this.#bias.gradientAddress);
    }
  }

  #inputBackward(outputGradient: Activations, target: Activations): void {
    const { kernels, scratch } = this.#site.workspace;
    const { inChannels, inHeight, inWidth, height, width, channels, size, padding, depth, plane } = this.#geometry;
    const columns = this.#columns.address;
    for (let sample = 0; sample < outputGradient.sampleCount; sample++) {
      const gradient = outputGradient.sampleAddress(sample);
      const image = target.sampleAddress(sample);
      kernels.multiply(depth, plane, channels, this.#weight.address, gradient, columns, PRODUCT.firstTransposed, scratch);
      kernels.fold(columns, inChannels, height, width, size, padding === 0 ? image : this.#framed.address);
      if (padding !== 0) kernels.unframePlanes(this.#framed.address, inChannels, inHeight, inWidth, padding, image);
    }
  }

  #unfold(image: number): void {
    const { kernels } = this.#site.workspace;
    const { inChannels, inHeight, inWidth, height, width, size, padding } = this.#geometry;
    if (padding !== 0) kernels.framePlanes(image, inChannels, inHeight, inWidth, padding, this.#framed.address);
    kernels.unfold(padding === 0 ? image : this.#framed.address, inChannels, height, width, size, this.#columns.address);
  }
}

function geometryOf(name: string, inputShape: Shape, options: ConvolutionOptions): Geometry {
  const [inChannels = 0, inHeight = 0, inWidth = 0] = inputShape;
  if (inputShape.length !== 3) {
    throw badArgument(`${name}: expected samples of [channels, height, width], got [${inputShape.join(", ")}]`);
  }
  const channels = checkCount(`${name}: channels`, options.channels);
  const size = checkCount(`${name}: size`, options.size);
  const padding = checkCount(`${name}: padding`, options.padding ?? 0, 0);
  const [height, width] = [inHeight + 2 * padding, inWidth + 2 * padding];
  if (size > height || size > width) {
    throw badArgument(`${name}: a kernel of ${size} × ${size} does not fit into ${height} × ${width}`);
  }
  const depth = inChannels * size * size;
  const plane = (height - size + 1) * (width - size + 1);
  return { inChannels, inHeight, inWidth, height, width, channels, size, padding, depth, plane };
}
