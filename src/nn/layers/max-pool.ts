// max-pool — the greatest value of each size × size square of every channel; squares do not overlap, and rests that
// fill none are left out.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { Activations, checkActivations, type Shape } from "../activations.ts";
import { builtInPlan, checkCount, type Layer, type LayerPlan, type LayerSite } from "../layer.ts";

/** Takes samples of [channels, height, width]. Throws BAD_ARGUMENT for an option that does not exist. */
export function maxPool(options: { readonly size: number; readonly name?: string | undefined }): LayerPlan {
  checkOptions(options, ["size", "name"], "the options of a max pool");
  return builtInPlan("pool", options, (site) => new MaxPool(site, options.size));
}

class MaxPool implements Layer {
  readonly name: string;
  readonly outputShape: Shape;
  readonly parameters: readonly [] = [];
  readonly statistics: readonly [] = [];
  readonly #site: LayerSite;
  readonly #size: number;
  readonly #output: Activations;
  readonly #inputGradient: Activations | undefined;
  /** For each output the index of its source within the plane. */
  readonly #indexes: number;

  constructor(site: LayerSite, size: number) {
    const { workspace, name, inputShape, sampleCountMax } = site;
    const [channels = 0, height = 0, width = 0] = inputShape;
    this.name = name;
    this.#site = site;
    this.#size = checkCount(`${name}: size`, size);
    if (inputShape.length !== 3 || size > height || size > width) {
      throw badArgument(
        `${name}: expected samples of [channels, height, width] of at least ${size} × ${size}, got [${inputShape.join(", ")}]`,
      );
    }
    this.outputShape = [channels, Math.floor(height / size), Math.floor(width / size)];
    this.#output = new Activations(workspace, this.outputShape, sampleCountMax);
    this.#indexes = workspace.words(this.#output.values.length).address;
    if (site.needsInputGradient) this.#inputGradient = new Activations(workspace, inputShape, sampleCountMax);
  }

  forward(input: Activations): Activations {
    const { inputShape, sampleCountMax, workspace } = this.#site;
    checkActivations(this.name, input, inputShape, sampleCountMax);
    const [channels = 0, height = 0, width = 0] = inputShape;
    this.#output.sampleCount = input.sampleCount;
    const planes = input.sampleCount * channels;
    workspace.kernels.maxPool(input.address, planes, height, width, this.#size, this.#output.address, this.#indexes);
    return this.#output;
  }

  backward(outputGradient: Activations): Activations | undefined {
    checkActivations(`${this.name}: gradient`, outputGradient, this.outputShape, this.#output.sampleCount);
    if (this.#inputGradient === undefined) return undefined;
    const [channels = 0, height = 0, width = 0] = this.#site.inputShape;
    const [, outHeight = 0, outWidth = 0] = this.outputShape;
    const { address, sampleCount } = outputGradient;
    const target = this.#inputGradient;
    target.sampleCount = sampleCount;
    const { kernels } = this.#site.workspace;
    kernels.maxPoolGradient(address, this.#indexes, sampleCount * channels, outHeight * outWidth, height * width, target.address);
    return target;
  }
}
