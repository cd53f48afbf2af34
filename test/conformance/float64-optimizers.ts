// float64-optimizers — every optimizer once more, as its paper or PyTorch's documentation writes it, in float64 and one
// element at a time. The judge of the f32 kernels' accuracy; it shares nothing with them.

import { rateShare } from "../../src/store/updaters/learning-rate.ts";
import type { ResolvedOptimizer } from "../../src/store/updaters/optimizer-spec.ts";

/** A row and all that is remembered of it. */
export type Row64 = {
  readonly values: Float64Array;
  /** By name: moments, sums, and so on. */
  readonly memory: Map<string, Float64Array>;
  updateCount: number;
};

export type Step64 = {
  readonly gradient: Float64Array;
  /** Adam's t. */
  readonly step: number;
  readonly scheduleStep: number;
  readonly gradientScale: number;
  /** DC-ASGD: what in the row's memory is what the pushing worker pulled last; undefined where nothing is late. */
  readonly pulled: string | undefined;
};

/** DC-ASGD: a worker has pulled the row. */
export function notePull64(row: Row64, pulled: string): void {
  row.memory.set(pulled, row.values.slice());
}

export function newRow64(values: ArrayLike<number>): Row64 {
  return { values: Float64Array.from(values), memory: new Map(), updateCount: 0 };
}

export function update64(spec: ResolvedOptimizer, row: Row64, at: Step64): void {
  const { values } = row;
  const rate = (spec.learningRate ?? 0) * rateShare(spec.schedule ?? { type: "constant" }, at.scheduleStep);
  const clip = spec.clipValue ?? Number.POSITIVE_INFINITY;
  const classicDecay = spec.type === "adamW" ? 0 : (spec.weightDecay ?? 0);
  const g = at.gradient.map((x, j) => Math.max(-clip, Math.min(clip, x * at.gradientScale)) + classicDecay * values[j]!);
  row.updateCount++;
  const rowMean = g.reduce((sum, x) => sum + x * x, 0) / g.length;
  for (let j = 0; j < g.length; j++) values[j] = element64(spec, row, at, { j, g: g[j]!, w: values[j]!, rate, rowMean });
}

type Element64 = { readonly j: number; readonly g: number; readonly w: number; readonly rate: number; readonly rowMean: number };

function element64(spec: ResolvedOptimizer, row: Row64, at: Step64, { j, g, w, rate, rowMean }: Element64): number {
  const { type, momentum = 0, epsilon = 0, alpha = 0, initialAccumulator = 0 } = spec;
  const memory = (name: string, start: number): Float64Array => slot(row, name, start);
  switch (type) {
    case "custom":
      throw new Error("what a user's own updater does is its own");
    case "sum":
      return w + g;
    case "assign":
      return at.gradient[j]!;
    case "min":
      return Math.min(w, at.gradient[j]!);
    case "max":
      return Math.max(w, at.gradient[j]!);
    case "sgd":
      return w - rate * g;
    case "momentum":
    case "nesterov": {
      const velocity = memory("velocity", 0);
      velocity[j] = momentum * velocity[j]! + g;
      return w - rate * (type === "nesterov" ? g + momentum * velocity[j] : velocity[j]);
    }
    case "adagrad": {
      const sum = memory("sum", initialAccumulator);
      sum[j]! += g * g;
      return w - (rate * g) / (Math.sqrt(sum[j]!) + epsilon);
    }
    case "rowWiseAdagrad": {
      const sum = memory("sum", initialAccumulator);
      if (j === 0) sum[0]! += rowMean;
      return w - (rate * g) / (Math.sqrt(sum[0]!) + epsilon);
    }
    case "adam":
    case "lazyAdam":
    case "adamW":
      return adam64(spec, row, at, { j, g, w, rate, rowMean });
    case "rmsprop": {
      const square = memory("square", 0);
      square[j] = alpha * square[j]! + (1 - alpha) * g * g;
      const change = g / (Math.sqrt(square[j]) + epsilon);
      const velocity = memory("velocity", 0);
      velocity[j] = momentum * velocity[j]! + change;
      return w - rate * velocity[j];
    }
    case "ftrl":
      return ftrl64(spec, row, { j, g, w, rate, rowMean });
    case "dcAsgd":
      return dcAsgd64(spec, row, at, { j, g, w, rate, rowMean });
  }
}

function adam64(spec: ResolvedOptimizer, row: Row64, at: Step64, { j, g, w, rate }: Element64): number {
  const { type, beta1 = 0, beta2 = 0, epsilon = 0, weightDecay = 0 } = spec;
  const first = slot(row, "first", 0);
  const second = slot(row, "second", 0);
  first[j] = beta1 * first[j]! + (1 - beta1) * g;
  second[j] = beta2 * second[j]! + (1 - beta2) * g * g;
  const correction1 = 1 - beta1 ** at.step;
  const correction2 = 1 - beta2 ** at.step;
  if (type === "lazyAdam") return w - (((rate * Math.sqrt(correction2)) / correction1) * first[j]) / (Math.sqrt(second[j]) + epsilon);
  const kept = type === "adamW" ? w * (1 - rate * weightDecay) : w;
  return kept - (rate * (first[j] / correction1)) / (Math.sqrt(second[j] / correction2) + epsilon);
}

function ftrl64(spec: ResolvedOptimizer, row: Row64, { j, g, w }: Element64): number {
  const { alpha = 0, beta = 0, l1 = 0, l2 = 0, initialAccumulator = 0 } = spec;
  const z = slot(row, "z", 0);
  const n = slot(row, "n", initialAccumulator);
  const sigma = (Math.sqrt(n[j]! + g * g) - Math.sqrt(n[j]!)) / alpha;
  z[j]! += g - sigma * w;
  n[j]! += g * g;
  if (Math.abs(z[j]!) <= l1) return 0;
  return -(z[j]! - Math.sign(z[j]!) * l1) / ((beta + Math.sqrt(n[j]!)) / alpha + l2);
}

function dcAsgd64(spec: ResolvedOptimizer, row: Row64, at: Step64, { j, g, w, rate }: Element64): number {
  const { lambda = 0, decay = 0, epsilon = 0 } = spec;
  const square = slot(row, "square", 0);
  const seen = at.pulled === undefined ? w : row.memory.get(at.pulled)![j]!;
  square[j] = decay * square[j]! + (1 - decay) * g * g;
  return w - rate * (g + (lambda / Math.sqrt(square[j] + epsilon)) * g * g * (w - seen));
}

function slot(row: Row64, name: string, start: number): Float64Array {
  const found = row.memory.get(name) ?? new Float64Array(row.values.length).fill(start);
  row.memory.set(name, found);
  return found;
}
