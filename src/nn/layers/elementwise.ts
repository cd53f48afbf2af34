// elementwise — ReLU and sigmoid as layers of their own: each output depends on one input, and its gradient on the
// output alone.

import { checkOptions } from "../../base/known-options.ts";
import { Activations, checkActivations, type Shape } from "../activations.ts";
import { builtInPlan, type Layer, type LayerPlan, type LayerSite } from "../layer.ts";
import type { LayerKernels } from "../layer-kernels.ts";

/** A layer that replaces what is negative by 0. Throws BAD_ARGUMENT for an option that does not exist. */
export function relu(options: { readonly name?: string | undefined } = {}): LayerPlan {
  checkOptions(options, ["name"], "the options of a ReLU");
  const open = (site: LayerSite): Layer => new Elementwise(site, site.workspace.kernels.relu, site.workspace.kernels.reluGradient);
  return builtInPlan("relu", options, open);
}

/** A layer of 1 / (1 + exp(-x)). Throws BAD_ARGUMENT for an option that does not exist. */
export function sigmoid(options: { readonly name?: string | undefined } = {}): LayerPlan {
  checkOptions(options, ["name"], "the options of a sigmoid");
  const open = (site: LayerSite): Layer => new Elementwise(site, site.workspace.kernels.sigmoid, site.workspace.kernels.sigmoidGradient);
  return builtInPlan("sigmoid", options, open);
}

class Elementwise implements Layer {
  readonly name: string;
  readonly outputShape: Shape;
  readonly parameters: readonly [] = [];
  readonly statistics: readonly [] = [];
  readonly #site: LayerSite;
  readonly #apply: LayerKernels["relu"];
  readonly #applyGradient: LayerKernels["reluGradient"];
  readonly #output: Activations;

  constructor(site: LayerSite, apply: LayerKernels["relu"], applyGradient: LayerKernels["reluGradient"]) {
    this.name = site.name;
    this.outputShape = site.inputShape;
    this.#site = site;
    this.#apply = apply;
    this.#applyGradient = applyGradient;
    this.#output = new Activations(site.workspace, site.inputShape, site.sampleCountMax);
  }

  forward(input: Activations): Activations {
    checkActivations(this.name, input, this.outputShape, this.#site.sampleCountMax);
    this.#output.sampleCount = input.sampleCount;
    this.#apply(input.address, input.floatCount, this.#output.address);
    return this.#output;
  }

  /** In place: the gradient of the output becomes that of the input. */
  backward(outputGradient: Activations): Activations {
    checkActivations(`${this.name}: gradient`, outputGradient, this.outputShape, this.#output.sampleCount);
    this.#applyGradient(outputGradient.address, this.#output.address, outputGradient.floatCount, outputGradient.address);
    return outputGradient;
  }
}
