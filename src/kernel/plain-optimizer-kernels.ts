// plain-optimizer-kernels — the reference of OptimizerKernels: the update of one element, in TypeScript that a reader
// can check against the papers. Slow; for tests. `f` rounds to f32 wherever the SIMD kernels do (OptimizerKernels.O1).
// The head of each file in kernels/optimizers has its formula.

import { assert } from "../base/assert.ts";
import type { Arena } from "./arena.ts";
import { HYPER, HYPER_FLOATS, OPTIMIZER, type OptimizerKernels, type OptimizerNumber, readBetaPowers } from "./optimizer-kernels.ts";

const f = Math.fround;
const STEP_MAX = 2 ** 32 - 1;

/** One row of an update: float indexes, not addresses. */
type Row = {
  readonly target: number;
  readonly source: number;
  readonly slots: number;
  readonly slotStride: number;
  readonly gradient: number;
  readonly width: number;
  /** Adam: the word that counts the row's own updates. */
  readonly stepWord: number | undefined;
};

type Hyper = Readonly<Record<keyof typeof HYPER, number>>;

/**
 * What the update of one element reads and writes. Slots are by number; `g` is the decayed gradient, `plain` the
 * clipped.
 */
type Element = {
  readonly w: number;
  readonly g: number;
  readonly plain: number;
  readonly pushed: number;
  slot(index: number): number;
  keep(index: number, value: number): void;
};

export class PlainOptimizerKernels implements OptimizerKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  updateRows(optimizer: OptimizerNumber, rows: number, rowCount: number, width: number, gradients: number, hyper: number): void {
    const { pulledRows, backupSlot } = this.#hyper(hyper);
    for (let i = 0; i < rowCount; i++) {
      const target = this.#arena.words[rows / 4 + i]! / 4;
      const slots = target + width;
      const pulled = optimizer === OPTIMIZER.dcAsgd && pulledRows !== 0 ? this.#arena.words[pulledRows / 4 + i]! / 4 : 0;
      const slotStride = pulled === 0 ? width : (pulled - slots) / backupSlot;
      const row = { target, source: target, slots, slotStride, gradient: gradients / 4 + i * width, width };
      this.#update(optimizer, { ...row, stepWord: countsSteps(optimizer) ? row.slots + 2 * width : undefined }, this.#hyper(hyper));
    }
  }

  updateBlock(
    optimizer: OptimizerNumber,
    target: number,
    source: number,
    slots: number,
    slotStride: number,
    gradients: number,
    rowCount: number,
    width: number,
    hyper: number,
  ): void {
    for (let i = 0; i < rowCount; i++) {
      const row = {
        target: target / 4 + i * width,
        source: source / 4 + i * width,
        slots: slots / 4 + i * slotFloats(optimizer, width),
        slotStride: slotStride / 4,
        gradient: gradients / 4 + i * width,
        width,
        stepWord: this.#listedStep(optimizer, i, hyper),
      };
      this.#update(optimizer, row, this.#hyper(hyper));
    }
  }

  updateBlockRows(
    optimizer: OptimizerNumber,
    values: number,
    slots: number,
    slotStride: number,
    rows: number,
    rowCount: number,
    width: number,
    gradients: number,
    hyper: number,
  ): void {
    for (let i = 0; i < rowCount; i++) {
      const index = this.#arena.words[rows / 4 + i]!;
      const target = values / 4 + index * width;
      const row = {
        target,
        source: target,
        slots: slots / 4 + index * slotFloats(optimizer, width),
        slotStride: slotStride / 4,
        gradient: gradients / 4 + i * width,
        width,
        stepWord: this.#listedStep(optimizer, index, hyper),
      };
      this.#update(optimizer, row, this.#hyper(hyper));
    }
  }

  fillRows(rows: number, rowCount: number, offset: number, floatCount: number, value: number): void {
    for (let i = 0; i < rowCount; i++) this.fillFloats(this.#arena.words[rows / 4 + i]! + offset, floatCount, value);
  }

  repeatRows(rows: number, rowCount: number, offset: number, floatCount: number): void {
    const { floats, words } = this.#arena;
    for (let i = 0; i < rowCount; i++) {
      const from = words[rows / 4 + i]! / 4;
      for (let j = 0; j < floatCount; j++) floats[from + offset / 4 + j] = floats[from + j]!;
    }
  }

  fillFloats(target: number, floatCount: number, value: number): void {
    this.#arena.floats.fill(value, target / 4, target / 4 + floatCount);
  }

  greatestMagnitude(address: number, floatCount: number): number {
    let most = 0;
    for (const value of this.#arena.floats.subarray(address / 4, address / 4 + floatCount)) {
      if (!Number.isFinite(value)) return Infinity;
      most = Math.max(most, Math.abs(value));
    }
    return most;
  }

  checkFinite(address: number, floatCount: number): number {
    return this.#arena.floats.subarray(address / 4, address / 4 + floatCount).findIndex((value) => !Number.isFinite(value));
  }

  zeroNonFinite(address: number, floatCount: number): number {
    const { floats } = this.#arena;
    let count = 0;
    for (let i = address / 4; i < address / 4 + floatCount; i++) {
      if (Number.isFinite(floats[i]!)) continue;
      floats[i] = 0;
      count++;
    }
    return count;
  }

  #hyper(address: number): Hyper {
    const numbers = new Float64Array(this.#arena.memory.buffer, address, HYPER_FLOATS);
    return Object.fromEntries(Object.entries(HYPER).map(([name, index]) => [name, numbers[index]!])) as Hyper;
  }

  /** Where a row of a block counts its own steps; undefined where it does not. */
  #listedStep(optimizer: OptimizerNumber, row: number, hyper: number): number | undefined {
    const { rowSteps } = this.#hyper(hyper);
    return countsSteps(optimizer) && rowSteps !== 0 ? rowSteps / 4 + row : undefined;
  }

  #update(optimizer: OptimizerNumber, row: Row, hyper: Hyper): void {
    const elements = Array.from({ length: row.width }, (_, j) => this.#element(row, j, hyper));
    const rule = this.#rule(optimizer, row, elements, hyper);
    for (const [j, element] of elements.entries()) this.#arena.floats[row.target + j] = rule(element);
  }

  #element(row: Row, j: number, hyper: Hyper): Element {
    const { floats } = this.#arena;
    const w = floats[row.source + j]!;
    const pushed = floats[row.gradient + j]!;
    const plain = isBare(hyper) ? pushed : clipped(pushed, hyper);
    return {
      w,
      g: isBare(hyper) && hyper.weightDecay === 0 ? pushed : f(plain + f(f(hyper.weightDecay) * w)),
      plain,
      pushed,
      slot: (index) => floats[row.slots + index * row.slotStride + j]!,
      keep: (index, value) => {
        floats[row.slots + index * row.slotStride + j] = value;
      },
    };
  }

  /** What gives an element its new value; what belongs to the whole row is done here. */
  #rule(optimizer: OptimizerNumber, row: Row, elements: readonly Element[], hyper: Hyper): (element: Element) => number {
    switch (optimizer) {
      case OPTIMIZER.rowWiseAdagrad: {
        const sum = f(this.#arena.floats[row.slots]! + f(squaredNorm(elements) / row.width));
        this.#arena.floats[row.slots] = sum;
        const rate = f(f(hyper.learningRate) / f(f(Math.sqrt(sum)) + f(hyper.epsilon)));
        return ({ w, g }) => f(w - f(rate * g));
      }
      case OPTIMIZER.adam:
      case OPTIMIZER.lazyAdam:
      case OPTIMIZER.adamW: {
        const corrections = this.#corrections(row.stepWord, hyper);
        return (element) => adam(element, hyper, optimizer === OPTIMIZER.adamW, corrections);
      }
      default: {
        const rule = ELEMENT_RULES.get(optimizer);
        assert(rule !== undefined, `there is no optimizer ${optimizer}`);
        return (element) => rule(element, hyper);
      }
    }
  }

  /** Adam's step and second correction, f32; counts the row's own step where it has one. */
  #corrections(stepWord: number | undefined, hyper: Hyper): { readonly step: number; readonly correction2: number } {
    const { learningRate } = hyper;
    if (stepWord === undefined) return { step: f(learningRate * hyper.correction1), correction2: f(hyper.correction2) };
    const counted = Math.min(this.#arena.words[stepWord]! + hyper.stepIncrement, STEP_MAX);
    this.#arena.words[stepWord] = counted;
    const [power1, power2] = readBetaPowers(this.#arena, hyper.betaPowers, Math.min(counted + hyper.stepBase, STEP_MAX));
    return { step: f(learningRate / (1 - power1)), correction2: f(1 / Math.sqrt(1 - power2)) };
  }
}

/** The optimizers that know nothing but the element. */
const ELEMENT_RULES: ReadonlyMap<number, (element: Element, hyper: Hyper) => number> = new Map([
  [OPTIMIZER.sum, ({ w, plain }) => f(w + plain)],
  [OPTIMIZER.assign, ({ pushed }) => pushed],
  [OPTIMIZER.min, ({ w, pushed }) => Math.min(w, pushed)],
  [OPTIMIZER.max, ({ w, pushed }) => Math.max(w, pushed)],
  [OPTIMIZER.sgd, ({ w, g }, hyper) => f(w - f(f(hyper.learningRate) * g))],
  [OPTIMIZER.momentum, (element, hyper) => f(element.w - f(f(hyper.learningRate) * velocity(element, hyper)))],
  [OPTIMIZER.nesterov, nesterov],
  [OPTIMIZER.adagrad, adagrad],
  [OPTIMIZER.rmsprop, rmsprop],
  [OPTIMIZER.rmspropMomentum, rmspropMomentum],
  [OPTIMIZER.ftrl, ftrl],
  [OPTIMIZER.dcAsgd, dcAsgd],
]);

function velocity(element: Element, hyper: Hyper): number {
  const v = f(f(f(hyper.beta1) * element.slot(0)) + element.g);
  element.keep(0, v);
  return v;
}

function nesterov(element: Element, hyper: Hyper): number {
  const ahead = f(f(hyper.beta1) * velocity(element, hyper));
  return f(element.w - f(f(hyper.learningRate) * f(element.g + ahead)));
}

function adagrad(element: Element, hyper: Hyper): number {
  const { w, g } = element;
  const sum = f(element.slot(0) + f(g * g));
  element.keep(0, sum);
  return f(w - f(f(f(hyper.learningRate) * g) / f(f(Math.sqrt(sum)) + f(hyper.epsilon))));
}

/** A running average that takes up `part` of x. */
function averaged(average: number, x: number, part: number): number {
  return f(average + f(f(part) * f(x - average)));
}

/** A running average of squares, the part taken before the square. */
function averagedSquares(average: number, g: number, part: number): number {
  return f(average + f(f(f(f(part) * g) * g) - f(f(part) * average)));
}

function meanSquare(element: Element, hyper: Hyper): number {
  const mean = averagedSquares(element.slot(0), element.g, 1 - hyper.beta2);
  element.keep(0, mean);
  return mean;
}

function rmsprop(element: Element, hyper: Hyper): number {
  const { w, g } = element;
  const root = f(Math.sqrt(meanSquare(element, hyper)));
  return f(w - f(f(f(hyper.learningRate) * g) / f(root + f(hyper.epsilon))));
}

function rmspropMomentum(element: Element, hyper: Hyper): number {
  const { w, g } = element;
  const root = f(Math.sqrt(meanSquare(element, hyper)));
  const v = f(f(f(hyper.beta1) * element.slot(1)) + f(g / f(root + f(hyper.epsilon))));
  element.keep(1, v);
  return f(w - f(f(hyper.learningRate) * v));
}

function adam(element: Element, hyper: Hyper, decoupled: boolean, corrections: { step: number; correction2: number }): number {
  const { beta1, beta2, learningRate, weightDecay, epsilon } = hyper;
  const g = decoupled ? element.plain : element.g;
  const m = averaged(element.slot(0), g, 1 - beta1);
  const v = averagedSquares(element.slot(1), g, 1 - beta2);
  element.keep(0, m);
  element.keep(1, v);
  const divisor = f(f(f(Math.sqrt(v)) * corrections.correction2) + f(epsilon));
  const change = f(f(corrections.step * m) / divisor);
  return f(element.w - (decoupled ? f(f(f(learningRate * weightDecay) * element.w) + change) : change));
}

function ftrl(element: Element, hyper: Hyper): number {
  const { plain: g, w } = element;
  const inverseAlpha = f(1 / hyper.learningRate);
  const l1 = f(hyper.l1);
  const before = element.slot(1);
  const n = f(before + f(g * g));
  const root = f(Math.sqrt(n));
  const sigma = f(f(root - f(Math.sqrt(before))) * inverseAlpha);
  const z = f(element.slot(0) + f(g - f(sigma * w)));
  element.keep(0, z);
  element.keep(1, n);
  if (!(Math.abs(z) > l1)) return 0;
  return f(f(Math.sign(z) * l1 - z) / f(f(f(f(hyper.ftrlBeta) + root) * inverseAlpha) + f(hyper.l2)));
}

function dcAsgd(element: Element, hyper: Hyper): number {
  const { w, g } = element;
  const { backupSlot, epsilon, lambda, learningRate } = hyper;
  const strength = f(f(lambda) / f(Math.sqrt(f(meanSquare(element, hyper) + f(epsilon)))));
  const late = f(f(g * g) * f(w - element.slot(backupSlot)));
  return f(w - f(f(learningRate) * f(g + f(strength * late))));
}

/** Neither scaled nor clipped. */
function isBare(hyper: Hyper): boolean {
  return hyper.gradientScale === 1 && hyper.clipValue === Number.POSITIVE_INFINITY;
}

/** The gradient as it counts: scaled, then cut to ± clipValue. */
function clipped(gradient: number, hyper: Hyper): number {
  const top = f(hyper.clipValue);
  return Math.min(Math.max(f(f(hyper.gradientScale) * gradient), -top), top);
}

/** Whether rows count their own updates. */
function countsSteps(optimizer: OptimizerNumber): boolean {
  return optimizer === OPTIMIZER.adam || optimizer === OPTIMIZER.adamW;
}

function slotFloats(optimizer: OptimizerNumber, width: number): number {
  return optimizer === OPTIMIZER.rowWiseAdagrad ? 1 : width;
}

/** In f64, four lanes added as (0 + 2) + (1 + 3): the order of the SIMD kernel. */
function squaredNorm(elements: readonly Element[]): number {
  const lanes: [number, number, number, number] = [0, 0, 0, 0];
  for (const [j, { g }] of elements.entries()) lanes[(j % 4) as 0 | 1 | 2 | 3] += g * g;
  return lanes[0] + lanes[2] + (lanes[1] + lanes[3]);
}
