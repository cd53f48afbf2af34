// hyper-parameters — writes the settings of an optimizer, and what its step changes of them, where the kernels read
// them (HYPER of kernel/optimizer-kernels.ts).

import { HYPER } from "../../kernel/optimizer-kernels.ts";
import type { ResolvedOptimizer } from "./optimizer-spec.ts";

/** All that stays the same from step to step. */
export function writeSettings(numbers: Float64Array, spec: ResolvedOptimizer): void {
  numbers.fill(0);
  numbers[HYPER.clipValue] = spec.clipValue ?? Number.POSITIVE_INFINITY;
  numbers[HYPER.weightDecay] = spec.weightDecay ?? 0;
  numbers[HYPER.epsilon] = spec.epsilon ?? 0;
  numbers[HYPER.beta1] = spec.beta1 ?? spec.momentum ?? 0;
  numbers[HYPER.beta2] = spec.beta2 ?? (spec.type === "rmsprop" ? spec.alpha : spec.decay) ?? 0;
  numbers[HYPER.stepIncrement] = 1;
  numbers[HYPER.l1] = spec.l1 ?? 0;
  numbers[HYPER.l2] = spec.l2 ?? 0;
  numbers[HYPER.ftrlBeta] = spec.beta ?? 0;
  numbers[HYPER.lambda] = spec.lambda ?? 0;
}

/** Optimizers of Adam's kind: the corrections of the bias at a step, from 1 up. */
export function writeCorrections(numbers: Float64Array, spec: ResolvedOptimizer, step: number): void {
  const { type, beta1 = 0, beta2 = 0, epsilon = 0 } = spec;
  const correction2 = 1 / Math.sqrt(1 - beta2 ** step);
  numbers[HYPER.correction1] = 1 / (1 - beta1 ** step);
  numbers[HYPER.correction2] = correction2;
  // SparseAdam adds it to the uncorrected root
  if (type === "lazyAdam") numbers[HYPER.epsilon] = epsilon * correction2;
}
