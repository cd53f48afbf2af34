// softmax-cross-entropy — the mean of -log softmax(logits)[label], and its gradient. The gradient comes from a kernel
// and has the same bits on every machine; the loss itself is for people to read, in f64 with Math.log.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { Activations, checkActivations } from "../activations.ts";
import { checkCount } from "../layer.ts";
import type { FloatSpan, Workspace } from "../workspace.ts";

/** The cross entropy of the softmax of logits. */
export class SoftmaxCrossEntropy {
  /** Of the logits; valid until the next `compute`; its backward may overwrite it. */
  readonly gradient: Activations;
  readonly #workspace: Workspace;
  readonly #classCount: number;
  readonly #labels: { readonly address: number; readonly values: Int32Array };
  readonly #peaks: FloatSpan;
  readonly #sums: FloatSpan;

  constructor(workspace: Workspace, options: { readonly classCount: number; readonly sampleCountMax: number }) {
    checkOptions(options, ["classCount", "sampleCountMax"], "the options of a SoftmaxCrossEntropy");
    this.#workspace = workspace;
    this.#classCount = checkCount("softmax: classCount", options.classCount, 2);
    const sampleCountMax = checkCount("softmax: sampleCountMax", options.sampleCountMax);
    this.gradient = new Activations(workspace, [this.#classCount], sampleCountMax);
    this.#labels = workspace.words(sampleCountMax);
    this.#peaks = workspace.floats(sampleCountMax);
    this.#sums = workspace.floats(sampleCountMax);
  }

  /** What a label may be, in words and as a check. */
  get expectedLabel(): string {
    return `a class from 0 to ${this.#classCount - 1}`;
  }

  /** Whether a label is one that the loss accepts. */
  acceptsLabel(label: number): boolean {
    return Number.isInteger(label) && label >= 0 && label < this.#classCount;
  }

  /**
   * The loss of a batch; `labels` has one class for each sample. Loss and gradient are divided by `divisor`, the number
   * of samples by default: a worker with a part of a batch divides by the size of the whole. Throws BAD_ARGUMENT.
   */
  compute(logits: Activations, labels: ArrayLike<number>, divisor: number = logits.sampleCount): number {
    const { gradient } = this;
    checkActivations("softmax", logits, gradient.shape, gradient.sampleCountMax);
    const { sampleCount } = logits;
    checkLabels(labels, sampleCount, this.#classCount);
    if (!(divisor > 0)) throw badArgument(`softmax: a divisor is above 0, not ${divisor}`);
    gradient.sampleCount = sampleCount;
    this.#labels.values.set(labels);
    this.#workspace.kernels.softmaxGradient(
      logits.address,
      this.#labels.address,
      sampleCount,
      this.#classCount,
      1 / divisor,
      gradient.address,
      this.#peaks.address,
      this.#sums.address,
    );
    let loss = 0;
    for (let i = 0; i < sampleCount; i++) {
      const logit = logits.values[i * this.#classCount + labels[i]!]!;
      loss += Math.log(this.#sums.values[i]!) + (this.#peaks.values[i]! - logit);
    }
    return loss / divisor;
  }
}

function checkLabels(labels: ArrayLike<number>, sampleCount: number, classCount: number): void {
  if (labels.length !== sampleCount) {
    throw badArgument(`softmax: expected ${sampleCount} labels, one for each sample, got ${labels.length}`);
  }
  for (let i = 0; i < sampleCount; i++) {
    const label = labels[i]!;
    if (!(Number.isInteger(label) && label >= 0 && label < classCount)) {
      throw badArgument(`softmax: the label of sample ${i} is ${label}, expected 0 to ${classCount - 1}`);
    }
  }
}
