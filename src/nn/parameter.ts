// parameter — what a network learns: a name, a shape, first values, and two spans, values and gradient, that can be
// pushed and pulled without a copy. First values are drawn as a server draws them: a network that is initialized here
// has the same bits as one that was initialized there.

import { badArgument, showValue } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import { SimdInitializerKernels } from "../kernel/initializer-kernels.ts";
import { Initializer } from "../store/initializers/initializer.ts";
import { type InitializerSpec, resolveInitializer } from "../store/initializers/initializer-spec.ts";
import { floatsOf, type Shape } from "./activations.ts";
import type { FloatSpan, Workspace } from "./workspace.ts";

/** What a layer learns: its values and their gradient, in the workspace. */
export type Parameter = {
  /** Unique in its network, such as "conv1.weight". */
  readonly name: string;
  /** [outputs, inputs, …], as PyTorch and MindSpore have it: initializers read the fans from it. */
  readonly shape: Shape;
  /** How the first values are drawn. */
  readonly initializer: InitializerSpec;
  /** @internal Where the values are, in bytes from the start of the workspace's memory. */
  readonly address: number;
  /** The values: a view of the workspace. */
  readonly values: Float32Array;
  /** @internal Where the gradient is, in bytes from the start of the workspace's memory. */
  readonly gradientAddress: number;
  /** The gradient of the last backward pass: a view of the workspace. */
  readonly gradient: Float32Array;
  /**
   * @internal Whether the gradient is a product, of which `backward` can leave the factors: [rows × columns] is the sum
   * over samples of the gradient of output `row` times input `column`.
   */
  readonly isProduct?: boolean | undefined;
  /** @internal While set, `backward` leaves the factors there, and no gradient. */
  leaveFactors?: ((factors: Factors) => void) | undefined;
  /** Set while the parameter lives on servers (`setParamPs`); if left out, it lives here. */
  serverTarget?: ServerTarget | undefined;
};

/** Of a gradient that is a product; each a matrix of f32 with a row for every sample. */
export type Factors = { readonly outputGradientAt: number; readonly inputAt: number; readonly sampleCount: number };

/** Options of a parameter that lives on servers. */
export type ServerTarget = {
  /** Only servers create the first values; otherwise they are also created here, with the same bits. */
  readonly initInServer: boolean;
};

/** How a parameter is made. */
export type ParameterOptions = Pick<Parameter, "name" | "shape" | "initializer"> & {
  /** @internal For built-in layers, which leave factors (docs/decisions/0078). */
  readonly isProduct?: boolean | undefined;
};

/**
 * The values and the gradient of a layer's parameter, in the workspace. The model draws the first values. Throws
 * BAD_ARGUMENT, ARENA_FULL.
 */
export function createParameter(workspace: Workspace, options: ParameterOptions): Parameter {
  checkOptions(options, ["name", "shape", "initializer", "isProduct"], "the options of createParameter");
  const { name, shape, initializer, isProduct } = options;
  if (typeof name !== "string" || name === "") throw badArgument(`the name of a parameter must be a text, got ${showValue(name)}`);
  if (!(Array.isArray(shape) && shape.length > 0 && shape.every((length) => Number.isSafeInteger(length) && length >= 1)))
    throw badArgument(`${name}: a shape must be a list of whole numbers from 1 on, such as [8, 3], got ${showValue(shape)}`);
  resolveInitializer(initializer);
  const values: FloatSpan = workspace.valuesOf(name) ?? workspace.floats(floatsOf(shape));
  const gradient: FloatSpan = workspace.floats(floatsOf(shape));
  return {
    name,
    shape,
    initializer,
    isProduct,
    address: values.address,
    values: values.values,
    gradientAddress: gradient.address,
    gradient: gradient.values,
  };
}

/**
 * From now on `backward` leaves the gradient there. For the parameters of built-in layers, which look for the place in
 * every pass.
 */
export function useGradient(parameter: Parameter, { address, values }: FloatSpan): void {
  const moved: Pick<Parameter, "gradient" | "gradientAddress"> = { gradientAddress: address, gradient: values };
  Object.assign(parameter, moved);
}

/** Draws the first values of all parameters; equal seeds, names and shapes lead to equal values. */
export function initializeParameters(workspace: Workspace, parameters: readonly Parameter[], seed: number): void {
  const kernels = new SimdInitializerKernels(workspace.arena);
  for (const { name, shape, initializer, address, values } of parameters) {
    const spec = initializer.type === "constant" ? initializer : { ...initializer, seed };
    const recipe = new Initializer(workspace.arena, kernels, workspace.quantiles, resolveInitializer(spec), { name, shape });
    recipe.fill(address, values.length, 0);
    recipe.close();
  }
}
