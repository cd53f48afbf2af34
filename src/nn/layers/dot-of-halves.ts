// dot-of-halves — the dot product of the two halves of a sample, such as a user's and an item's row: one number.
// Follows an Embedding of two ids per sample, side by side.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { Activations, checkActivations, floatsOf, type Shape } from "../activations.ts";
import { builtInPlan, type Layer, type LayerPlan, type LayerSite } from "../layer.ts";

/** A layer whose output is the dot product of both halves of its input. Throws BAD_ARGUMENT for an unknown option. */
export function dotOfHalves(options: { readonly name?: string | undefined } = {}): LayerPlan {
  checkOptions(options, ["name"], "the options of a dot of halves");
  return builtInPlan("dot", options, (site) => new DotOfHalves(site));
}

class DotOfHalves implements Layer {
  readonly name: string;
  readonly outputShape: Shape = [1];
  readonly parameters: readonly [] = [];
  readonly statistics: readonly [] = [];
  readonly #site: LayerSite;
  readonly #width: number;
  readonly #output: Activations;
  readonly #inputGradient: Activations | undefined;
  #input: Activations | undefined;

  constructor(site: LayerSite) {
    const { workspace, name, inputShape, sampleCountMax } = site;
    this.name = name;
    this.#site = site;
    this.#width = floatsOf(inputShape) / 2;
    if (!Number.isInteger(this.#width)) {
      throw badArgument(`${name}: expected samples of two halves, got [${inputShape.join(", ")}]`);
    }
    this.#output = new Activations(workspace, this.outputShape, sampleCountMax);
    if (site.needsInputGradient) this.#inputGradient = new Activations(workspace, inputShape, sampleCountMax);
  }

  forward(input: Activations): Activations {
    const { inputShape, sampleCountMax, workspace } = this.#site;
    checkActivations(this.name, input, inputShape, sampleCountMax);
    this.#input = input;
    this.#output.sampleCount = input.sampleCount;
    workspace.kernels.dotOfHalves(input.address, input.sampleCount, this.#width, this.#output.address);
    return this.#output;
  }

  backward(outputGradient: Activations): Activations | undefined {
    checkActivations(`${this.name}: gradient`, outputGradient, this.outputShape, this.#input?.sampleCount ?? 0);
    if (this.#inputGradient === undefined) return undefined;
    const { address, sampleCount } = outputGradient;
    this.#inputGradient.sampleCount = sampleCount;
    const { kernels } = this.#site.workspace;
    kernels.dotOfHalvesGradient(address, this.#input!.address, sampleCount, this.#width, this.#inputGradient.address);
    return this.#inputGradient;
  }
}
