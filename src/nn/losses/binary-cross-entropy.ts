// binary-cross-entropy — the mean of -log p for targets 1 and -log(1 - p) for targets 0, p = sigmoid(logit), and its
// gradient. It takes logits, not probabilities: so nothing overflows, and the gradient is p - target.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { Activations, checkActivations } from "../activations.ts";
import { checkCount } from "../layer.ts";
import type { Workspace } from "../workspace.ts";

/** The binary cross entropy of logits. */
export class BinaryCrossEntropy {
  /** Of the logits; valid until the next `compute`; its backward may overwrite it. */
  readonly gradient: Activations;
  readonly #workspace: Workspace;
  /** Of the last `compute`. */
  readonly probabilities: Activations;

  /** For samples of one logit. */
  constructor(workspace: Workspace, options: { readonly sampleCountMax: number }) {
    checkOptions(options, ["sampleCountMax"], "the options of a BinaryCrossEntropy");
    const sampleCountMax = checkCount("binary cross-entropy: sampleCountMax", options.sampleCountMax);
    this.#workspace = workspace;
    this.gradient = new Activations(workspace, [1], sampleCountMax);
    this.probabilities = new Activations(workspace, [1], sampleCountMax);
  }

  /** What a target may be, in words and as a check. */
  readonly expectedLabel: string = "a number from 0 to 1";

  /** Whether a label is one that the loss accepts. */
  acceptsLabel(label: number): boolean {
    return label >= 0 && label <= 1;
  }

  /**
   * The loss of a batch; targets are from 0 to 1. As for softmax, loss and gradient are divided by `divisor`. Throws
   * BAD_ARGUMENT.
   */
  compute(logits: Activations, targets: ArrayLike<number>, divisor: number = logits.sampleCount): number {
    const { gradient, probabilities } = this;
    checkActivations("binary cross-entropy", logits, gradient.shape, gradient.sampleCountMax);
    const { sampleCount } = logits;
    checkTargets(targets, sampleCount);
    if (!(divisor > 0)) throw badArgument(`binary cross-entropy: a divisor is above 0, not ${divisor}`);
    gradient.sampleCount = sampleCount;
    probabilities.sampleCount = sampleCount;
    this.#workspace.kernels.sigmoid(logits.address, sampleCount, probabilities.address);
    let loss = 0;
    for (let i = 0; i < sampleCount; i++) {
      const [logit, target] = [logits.values[i]!, targets[i]!];
      gradient.values[i] = (probabilities.values[i]! - target) / divisor;
      loss += Math.max(logit, 0) - logit * target + Math.log1p(Math.exp(-Math.abs(logit)));
    }
    return loss / divisor;
  }
}

function checkTargets(targets: ArrayLike<number>, sampleCount: number): void {
  if (targets.length !== sampleCount) {
    throw badArgument(`binary cross-entropy: expected ${sampleCount} targets, got ${targets.length}`);
  }
  for (let i = 0; i < sampleCount; i++) {
    if (!(targets[i]! >= 0 && targets[i]! <= 1)) {
      throw badArgument(`binary cross-entropy: the target of sample ${i} is ${targets[i]}, expected 0 to 1`);
    }
  }
}
