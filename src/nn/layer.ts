// layer — what every layer does, and what it knows when it is built. Layers of ids instead of activations
// (layers/embedding.ts) are not Layers, but follow the same rules.
//
// Invariants:
//   Layer.L1. All buffers are allocated when a layer is built; a step allocates none. The layer owns what `forward`
//       returns, valid until its next `forward`, and what `backward` returns, valid until its next `backward`.
//   Layer.L2. `backward` follows a `forward` of the same batch, whose input has not changed in between.
//   Layer.L3. `backward` owns the gradient that it receives, and may overwrite it.
//   Layer.L4. `backward` sets its parameters' gradients; it does not add to them. `ready` is called once for each, when
//       it is final, and before the gradient of the input is computed: a push of it overlaps the remaining work. Values
//       may change once `backward` has returned, not during the call of `ready`.

import { badArgument, showValue } from "../base/errors.ts";
import type { Activations, Shape } from "./activations.ts";
import type { Parameter } from "./parameter.ts";
import type { FloatSpan, Workspace } from "./workspace.ts";

/** Called during `backward` for each parameter whose gradient is final (Layer.L4). */
export type GradientReady = (parameter: Parameter) => void;

/** State of a layer that is not learned, such as a running mean: saved with a model, never pushed. */
export type Statistic = {
  /** Unique in its network, such as "norm1.mean". */
  readonly name: string;
  /** In the workspace. */
  readonly values: FloatSpan["values"];
};

/** A layer that is built. */
export interface Layer {
  /** Unique in its network. */
  readonly name: string;
  /** The lengths of one sample of its output. */
  readonly outputShape: Shape;
  /** What it learns. */
  readonly parameters: readonly Parameter[];
  /** What it keeps without learning it. */
  readonly statistics: readonly Statistic[];
  /** The layer's output for a batch. */
  forward(input: Activations, isTraining: boolean): Activations;
  /** The gradient of the input, unless the layer was built without. */
  backward(outputGradient: Activations, ready: GradientReady): Activations | undefined;
}

/** Where in a network a layer is built. */
export type LayerSite = {
  /** Where the layer takes its memory. */
  readonly workspace: Workspace;
  /** The layer's name, unique in its network. */
  readonly name: string;
  /** The lengths of one sample of its input. */
  readonly inputShape: Shape;
  /** The most samples that a batch may have. */
  readonly sampleCountMax: number;
  /** False for a first layer: the gradient of the data is not needed. */
  readonly needsInputGradient: boolean;
};

/** A layer that is described but not built: its position in a network determines the rest. */
export type LayerPlan = {
  /** The beginning of the layer's name if it has none of its own. */
  readonly kind: string;
  /** The layer's name. Left out: its kind and a number, such as dense1. */
  readonly name?: string | undefined;
  /** Builds the layer at its place in a network. */
  readonly open: (site: LayerSite) => Layer;
  /**
   * @internal Of a built-in layer: its options, plain data from which another thread builds the same layer
   * (built-in-networks.ts), and its `open`, which differs from the plan's if the plan was changed.
   */
  readonly builtIn?: { readonly options: object; readonly open: LayerPlan["open"] } | undefined;
};

/** The plan of a built-in layer; `options` are plain data. */
export function builtInPlan(kind: string, options: { readonly name?: string | undefined }, open: LayerPlan["open"]): LayerPlan {
  return { kind, name: options.name, open, builtIn: { options, open } };
}

/** Throws BAD_ARGUMENT unless it is an activation of a layer. */
export function checkActivation(what: string, activation: unknown): void {
  if (activation === undefined || activation === "relu") return;
  throw badArgument(
    `${what}: an activation is "relu", or left out, not ${showValue(activation)}; relu() and sigmoid() are layers of their own`,
  );
}

/** Throws BAD_ARGUMENT unless it is a whole number from `least` on. */
export function checkCount(what: string, value: number, least = 1): number {
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw badArgument(`${what}: expected a whole number from ${least} on, got ${value}`);
}

/** The first parameter, or else the first output, that is not finite; `outputs` has each layer's last output. Slow. */
export function findNotFinite(layers: readonly Pick<Layer, "name" | "parameters">[], outputs: readonly Activations[]): string | undefined {
  for (const [i, layer] of layers.entries()) {
    const parameter = layer.parameters.find(({ values }) => !values.every(Number.isFinite));
    if (parameter !== undefined) return parameter.name;
    if (outputs[i]?.current.every(Number.isFinite) === false) return `the output of ${layer.name}`;
  }
  return undefined;
}
