// squared-error — the mean of (output - target)², and its gradient, for ratings and other numbers.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { Activations, checkActivations } from "../activations.ts";
import { checkCount } from "../layer.ts";
import type { Workspace } from "../workspace.ts";

/** The squared error of one output. */
export class SquaredError {
  /** Of the outputs; valid until the next `compute`; its backward may overwrite it. */
  readonly gradient: Activations;

  /** For samples of one number. */
  constructor(workspace: Workspace, options: { readonly sampleCountMax: number }) {
    checkOptions(options, ["sampleCountMax"], "the options of a SquaredError");
    this.gradient = new Activations(workspace, [1], checkCount("squared error: sampleCountMax", options.sampleCountMax));
  }

  /** What a target may be, in words and as a check. */
  readonly expectedLabel: string = "a finite number";

  /** Whether a label is one that the loss accepts. */
  acceptsLabel(label: number): boolean {
    return Number.isFinite(label);
  }

  /** The loss of a batch. As for softmax, loss and gradient are divided by `divisor`. Throws BAD_ARGUMENT. */
  compute(outputs: Activations, targets: ArrayLike<number>, divisor: number = outputs.sampleCount): number {
    const { gradient } = this;
    checkActivations("squared error", outputs, gradient.shape, gradient.sampleCountMax);
    const { sampleCount } = outputs;
    if (targets.length !== sampleCount) {
      throw badArgument(`squared error: expected ${sampleCount} targets, got ${targets.length}`);
    }
    if (!(divisor > 0)) throw badArgument(`squared error: a divisor is above 0, not ${divisor}`);
    gradient.sampleCount = sampleCount;
    let loss = 0;
    for (let i = 0; i < sampleCount; i++) {
      const error = outputs.values[i]! - targets[i]!;
      if (!Number.isFinite(targets[i]!)) {
        throw badArgument(`squared error: the target of sample ${i} is ${targets[i]}, expected a number`);
      }
      gradient.values[i] = (2 * error) / divisor;
      loss += error * error;
    }
    return loss / divisor;
  }
}
