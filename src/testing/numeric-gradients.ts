// numeric-gradients — compares a network's gradients with differences of its outputs, for tests. The loss is
// Σ weight · output in f64 with fixed random weights, so that every output counts and only the layers can be wrong.

import { assert } from "../base/assert.ts";
import { Random } from "../base/random.ts";
import { Activations, type Shape } from "../nn/activations.ts";
import type { LayerPlan } from "../nn/layer.ts";
import { initializeParameters } from "../nn/parameter.ts";
import { Sequential } from "../nn/sequential.ts";
import { Workspace } from "../nn/workspace.ts";

export type GradientCase = {
  readonly inputShape: Shape;
  readonly sampleCount: number;
  readonly layers: readonly LayerPlan[];
  /** The values of the input, where not any will do: a ReLU has no derivative at 0. */
  readonly inputValue?: (index: number, random: Random) => number;
  /** How far to each side the difference looks. */
  readonly reach?: number;
};

/** What is allowed, of the greatest gradient of the same span. */
const TOLERANCE = 1e-3;
/** Outputs in f32 are off by 6e-8, which a reach of 1e-2 makes 1e-5: no difference is better than that. */
const GREATEST_MIN = 1e-2;
const SEED = 11;

/** Fails unless the gradients of all parameters and of the input are what differences say. */
export function assertGradients(options: GradientCase): void {
  const { inputShape, sampleCount, layers, inputValue = (_, random) => random.fraction() * 2 - 1, reach = 1e-2 } = options;
  const workspace = new Workspace();
  const network = new Sequential(workspace, { inputShape, sampleCountMax: sampleCount + 1, layers, needsInputGradient: true });
  const random = new Random(SEED);
  initializeParameters(workspace, network.parameters, SEED);
  for (const { values } of network.parameters)
    for (let i = 0; i < values.length; i++) values[i] = values[i]! + (random.fraction() - 0.5) / 2;
  network.input.sampleCount = sampleCount;
  for (let i = 0; i < network.input.floatCount; i++) network.input.values[i] = inputValue(i, random);

  const outputGradient = new Activations(workspace, network.outputShape, sampleCount + 1);
  outputGradient.sampleCount = sampleCount;
  const weights = Float32Array.from({ length: outputGradient.floatCount }, () => random.fraction() * 2 - 1);
  const loss = (): number => {
    const { values } = network.forward({ isTraining: true });
    return weights.reduce((sum, weight, i) => sum + weight * values[i]!, 0);
  };

  network.forward({ isTraining: true });
  outputGradient.values.set(weights);
  const inputGradient = network.backward(outputGradient);
  assert(inputGradient !== undefined, "a network that was built for it gives the gradient of its input");
  const spans = [
    ...network.parameters.map(({ name, values, gradient }) => ({ name, values, gradient: gradient.slice() })),
    { name: "input", values: network.input.current, gradient: inputGradient.current.slice() },
  ];
  for (const { name, values, gradient } of spans) {
    const expected = gradient.map((_, i) => differenceAt(values, i, reach, loss));
    const greatest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), GREATEST_MIN);
    for (let i = 0; i < gradient.length; i++) {
      const error = Math.abs(gradient[i]! - expected[i]!);
      assert(error <= TOLERANCE * greatest, `${name}[${i}]: gradient ${gradient[i]}, differences say ${expected[i]}`);
    }
  }
}

/** (loss(x + reach) - loss(x - reach)) / 2 reach, with the reach that f32 really has. */
function differenceAt(values: Float32Array, index: number, reach: number, loss: () => number): number {
  const value = values[index]!;
  values[index] = value + reach;
  const above = values[index]!;
  const lossAbove = loss();
  values[index] = value - reach;
  const below = values[index]!;
  const lossBelow = loss();
  values[index] = value;
  return (lossAbove - lossBelow) / (above - below);
}

/**
 * For what was trained on servers and in one process: throws where two values of the same place are further apart than
 * `bound`, or one list is longer.
 */
export function assertClose(actual: readonly number[], expected: readonly number[], bound: number): void {
  assert(actual.length === expected.length, `${actual.length} values, not ${expected.length}`);
  for (const [i, value] of actual.entries()) {
    assert(Math.abs(value - expected[i]!) <= bound, `value ${i} is ${value}, not within ${bound} of ${expected[i]}`);
  }
}
