// parameter — what a network learns: a name, a shape, first values, and two spans, values and gradient, that can be
// pushed and pulled without a copy. First values are drawn as a server draws them: a network that is initialized here
// has the same bits as one that was initialized there.

import { SimdInitializerKernels } from "../kernel/initializer-kernels.ts";
import { Initializer } from "../store/initializers/initializer.ts";
import { type InitializerSpec, resolveInitializer } from "../store/initializers/initializer-spec.ts";
import { floatsOf, type Shape } from "./activations.ts";
import type { FloatSpan, Workspace } from "./workspace.ts";

export type Parameter = {
  /** Unique in its network, such as "conv1.weight". */
  readonly name: string;
  /** [outputs, inputs, …], as PyTorch and MindSpore have it: initializers read the fans from it. */
  readonly shape: Shape;
  readonly initializer: InitializerSpec;
  readonly address: number;
  readonly values: Float32Array;
  readonly gradientAddress: number;
  readonly gradient: Float32Array;
  /**
   * Whether the gradient is a product, of which `backward` can leave the factors: [rows × columns] is the sum over
   * samples of the gradient of output `row` times input `column`.
   */
  readonly isProduct?: boolean | undefined;
  /** While set, `backward` leaves the factors there, and no gradient. */
  leaveFactors?: ((factors: Factors) => void) | undefined;
  /** Set while the parameter lives on servers (setParamPs of training/network.ts); if left out, it lives here. */
  serverTarget?: ServerTarget | undefined;
};

/** Of a gradient that is a product; each a matrix of f32 with a row for every sample. */
export type Factors = { readonly outputGradientAt: number; readonly inputAt: number; readonly sampleCount: number };

/** Options of a parameter that lives on servers. */
export type ServerTarget = {
  /** Only servers create the first values; otherwise they are also created here, with the same bits. */
  readonly initInServer: boolean;
};

export type ParameterDescription = Pick<Parameter, "name" | "shape" | "initializer" | "isProduct">;

export function createParameter(workspace: Workspace, { name, shape, initializer, isProduct }: ParameterDescription): Parameter {
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
