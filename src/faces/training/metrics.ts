// metrics — how good outputs are, summed up batch by batch (MindSpore: metrics of Model.eval).

import { assert } from "../../base/assert.ts";
import type { Activations } from "../../nn/activations.ts";

/** Measures how good outputs are, over all batches since `clear()`. */
export interface Metric {
  /** Forgets everything. */
  clear(): void;
  /** Adds a batch. */
  update(outputs: Activations, labels: ArrayLike<number>): void;
  /** NaN before the first update. */
  readonly value: number;
}

/** The share of samples whose greatest output is that of their class; with one output, a logit, whose sign is right. */
export class Accuracy implements Metric {
  #rightCount = 0;
  #count = 0;

  clear(): void {
    this.#rightCount = 0;
    this.#count = 0;
  }

  /** Adds a batch. */
  update(outputs: Activations, labels: ArrayLike<number>): void {
    const { values, sampleCount, floatsPerSample } = outputs;
    for (let i = 0; i < sampleCount; i++) {
      const found = floatsPerSample === 1 ? Number(values[i]! > 0) : greatestOf(values, i * floatsPerSample, floatsPerSample);
      if (found === labels[i]) this.#rightCount++;
    }
    this.#count += sampleCount;
  }

  get value(): number {
    return this.#rightCount / this.#count;
  }
}

/**
 * How often samples of each class were classified as each: `counts[label · classCount + found]`. Its value is the
 * accuracy.
 */
export class Confusion implements Metric {
  /** How many classes there are. */
  readonly classCount: number;
  /** How often a label was classified as each class: at `label · classCount + found`. */
  readonly counts: Uint32Array;

  constructor(classCount: number) {
    this.classCount = classCount;
    this.counts = new Uint32Array(classCount * classCount);
  }

  clear(): void {
    this.counts.fill(0);
  }

  /** Adds a batch. */
  update(outputs: Activations, labels: ArrayLike<number>): void {
    const { values, sampleCount, floatsPerSample } = outputs;
    assert(floatsPerSample === this.classCount, `a network of ${floatsPerSample} outputs and a confusion of ${this.classCount} classes`);
    for (let i = 0; i < sampleCount; i++)
      this.counts[labels[i]! * this.classCount + greatestOf(values, i * floatsPerSample, floatsPerSample)]!++;
  }

  get value(): number {
    let rightCount = 0;
    for (let label = 0; label < this.classCount; label++) rightCount += this.counts[label * (this.classCount + 1)]!;
    return rightCount / this.counts.reduce((sum, count) => sum + count, 0);
  }
}

/** The area under the ROC curve (AUC); 0.5 is guessing. Keeps all outputs until it is cleared. */
export class AreaUnderCurve implements Metric {
  #scores: number[] = [];
  #labels: number[] = [];

  clear(): void {
    this.#scores = [];
    this.#labels = [];
  }

  /** Adds a batch. */
  update(outputs: Activations, labels: ArrayLike<number>): void {
    for (let i = 0; i < outputs.sampleCount; i++) {
      this.#scores.push(outputs.values[i]!);
      this.#labels.push(labels[i]!);
    }
  }

  /** By ranks; equal scores share one. */
  get value(): number {
    const [scores, labels] = [this.#scores, this.#labels];
    const order = Uint32Array.from(scores, (_, i) => i).sort((a, b) => scores[a]! - scores[b]!);
    let positiveCount = 0;
    let rankSum = 0;
    for (let from = 0, to = 0; from < order.length; from = to) {
      let tied = 0;
      for (; to < order.length && scores[order[to]!] === scores[order[from]!]; to++) tied += labels[order[to]!]!;
      positiveCount += tied;
      rankSum += (tied * (from + 1 + to)) / 2;
    }
    return (rankSum - (positiveCount * (positiveCount + 1)) / 2) / (positiveCount * (order.length - positiveCount));
  }
}

/** The mean of (output - label)², for networks of one output. */
export class MeanSquaredError implements Metric {
  #sum = 0;
  #count = 0;

  clear(): void {
    this.#sum = 0;
    this.#count = 0;
  }

  /** Adds a batch. */
  update(outputs: Activations, labels: ArrayLike<number>): void {
    for (let i = 0; i < outputs.sampleCount; i++) this.#sum += (outputs.values[i]! - labels[i]!) ** 2;
    this.#count += outputs.sampleCount;
  }

  get value(): number {
    return this.#sum / this.#count;
  }
}

function greatestOf(values: Float32Array, from: number, count: number): number {
  let best = 0;
  for (let j = 1; j < count; j++) if (values[from + j]! > values[from + best]!) best = j;
  return best;
}
