// layer — what every layer does, and what it is told when it is built. Layers that take ids instead of activations
// (layers/embedding.ts) are no Layers, but keep the same rules.
//
// Invariants:
//   L1. All buffers are taken when a layer is built; a step allocates none. What `forward` returns belongs to the layer
//       and is valid until its next `forward`, what `backward` returns until its next `backward`.
//   L2. `backward` follows a `forward` of the same batch, whose input has not changed in between.
//   L3. `backward` owns the gradient that it is given, and may overwrite it.
//   L4. `backward` sets its parameters' gradients; it does not add to what was there. Each is announced once, when it
//       is final, and before the gradient of the input is computed: whoever pushes it has the time of the remaining
//       work. Values may change once `backward` has returned, not in the call that announces their gradient.

import { showValue, WeighbridgeError } from "../base/errors.ts";
import type { Activations, Shape } from "./activations.ts";
import type { Parameter } from "./parameter.ts";
import type { FloatSpan, Workspace } from "./workspace.ts";

/** Called during `backward` for each parameter whose gradient is final (L4). */
export type GradientReady = (parameter: Parameter) => void;

/** What a layer knows that is not learned, such as a running mean: saved with a model, never pushed. */
export type Statistic = { readonly name: string; readonly values: FloatSpan["values"] };

export interface Layer {
  readonly name: string;
  readonly outputShape: Shape;
  readonly parameters: readonly Parameter[];
  readonly statistics: readonly Statistic[];
  forward(input: Activations, isTraining: boolean): Activations;
  /** The gradient of the input, unless the layer was built without. */
  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined;
}

export type LayerSite = {
  readonly workspace: Workspace;
  readonly name: string;
  readonly inputShape: Shape;
  readonly sampleCountMax: number;
  /** False for a first layer: nobody asks for the gradient of the data. */
  readonly needsInputGradient: boolean;
};

/** A layer that is described but not built: its place in a network tells the rest. */
export type LayerPlan = {
  /** The beginning of the layer's name where it has none of its own. */
  readonly kind: string;
  readonly name?: string | undefined;
  readonly open: (site: LayerSite) => Layer;
};

/** Of a layer with an activation behind it, or BAD_ARGUMENT. */
export function checkActivation(what: string, activation: unknown): void {
  if (activation === undefined || activation === "relu") return;
  throw new WeighbridgeError(
    "BAD_ARGUMENT",
    `${what}: an activation is "relu", or left out, not ${showValue(activation)}; relu() and sigmoid() are layers of their own`,
  );
}

/** A whole number from `least` on, or BAD_ARGUMENT. */
export function checkCount(what: string, value: number, least = 1): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new WeighbridgeError("BAD_ARGUMENT", `${what}: expected a whole number from ${least} on, got ${value}`);
}

/** The first parameter, or else the first output, that is not finite; `outputs` has what each layer gave last. Slow. */
export function findNotFinite(layers: readonly Pick<Layer, "name" | "parameters">[], outputs: readonly Activations[]): string | undefined {
  for (const [i, layer] of layers.entries()) {
    const parameter = layer.parameters.find(({ values }) => !values.every(Number.isFinite));
    if (parameter !== undefined) return parameter.name;
    if (outputs[i]?.current.every(Number.isFinite) === false) return `the output of ${layer.name}`;
  }
  return undefined;
}
