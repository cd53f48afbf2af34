// plain-updaters — our own updaters of rows that are not f32, in plain TypeScript behind the same interface as users'
// (ps-updater.ts). Those of f32 are kernels; `sum` and `assign` are the row type's (ps-row-type.ts).
// PLAIN_OPTIMIZERS says which elements each is for; those of floats compute as the kernels do, in f64.

import { badArgument } from "../../base/errors.ts";
import { eachPair, takeGreater, takeLesser } from "../../kernel/element-loops.ts";
import type { RowElement, RowSpans } from "../../kernel/row-element.ts";
import type { RowsInHand } from "../row-types/ps-row-type.ts";
import { PLAIN_OPTIMIZERS } from "../row-types/row-type-spec.ts";
import { type PsUpdater, psUpdater } from "./ps-updater.ts";

const ours = { version: 1, deterministic: true } as const;

const sgd = psUpdater({
  ...{ ...ours, name: "sgd", dtypes: PLAIN_OPTIMIZERS.sgd, settings: { weightDecay: 0 } },
  update: (rows, gradients, { learningRate, settings: { weightDecay } }) => {
    const { elements } = rows;
    eachPair(rows, gradients, (at, from) => {
      const gradient = gradients.elements[from]! + weightDecay * elements[at]!;
      elements[at] = elements[at]! - learningRate * gradient;
    });
  },
});

/** Settings of which what an updater keeps depends. */
type KeptBy = { readonly initialAccumulator?: number; readonly momentum?: number };

/** Where a weight lies, its gradient, and its elements of the columns. */
type OnWeight = (at: number, from: number, first: number, second: number) => void;

/** `columns`: at most two, whose elements are those of the weights. */
function eachWeight(rows: RowsInHand<"f64">, gradients: RowSpans<"f64">, columns: readonly string[], update: OnWeight): void {
  const [first, second] = [columns[0], columns.at(-1)].map((name) => rows.columns[name!]!) as [Uint32Array, Uint32Array];
  for (let i = 0; i < rows.count; i++) {
    const [row, from, one, other] = [rows.starts[i]!, gradients.starts[i]!, first[i]!, second[i]!];
    for (let j = 0; j < rows.width; j++) update(row + j, from + j, one + j, other + j);
  }
}

/** `momentum` and `nesterov`. */
const withVelocity = (name: "momentum" | "nesterov"): PsUpdater =>
  psUpdater({
    ...{ ...ours, name, dtypes: PLAIN_OPTIMIZERS[name], settings: { momentum: 0.9, weightDecay: 0 } },
    columns: (dim) => ({ velocity: { dim } }),
    update: (rows, gradients, { learningRate, settings }) => {
      const { elements } = rows;
      eachWeight(rows, gradients, ["velocity"], (at, from, velocity) => {
        const gradient = gradients.elements[from]! + settings.weightDecay * elements[at]!;
        elements[velocity] = settings.momentum * elements[velocity]! + gradient;
        const change = name === "nesterov" ? gradient + settings.momentum * elements[velocity]! : elements[velocity]!;
        elements[at] = elements[at]! - learningRate * change;
      });
    },
  });
const momentum = withVelocity("momentum");
const nesterov = withVelocity("nesterov");

const adagrad = ({ initialAccumulator = 0 }: KeptBy): PsUpdater =>
  psUpdater({
    ...{ ...ours, name: "adagrad", dtypes: PLAIN_OPTIMIZERS.adagrad, settings: { epsilon: 1e-10, initialAccumulator, weightDecay: 0 } },
    columns: (dim) => ({ squares: { dim, start: initialAccumulator } }),
    update: (rows, gradients, { learningRate, settings: { epsilon, weightDecay } }) => {
      const { elements } = rows;
      eachWeight(rows, gradients, ["squares"], (at, from, square) => {
        const gradient = gradients.elements[from]! + weightDecay * elements[at]!;
        elements[square] = elements[square]! + gradient * gradient;
        elements[at] = elements[at]! - (learningRate * gradient) / (Math.sqrt(elements[square]!) + epsilon);
      });
    },
  });

/** Without momentum there is no velocity: its elements are those of the squares, and not used. */
const rmsprop = ({ momentum: share = 0 }: KeptBy): PsUpdater =>
  psUpdater({
    ...{ ...ours, name: "rmsprop", dtypes: PLAIN_OPTIMIZERS.rmsprop },
    settings: { alpha: 0.99, epsilon: 1e-8, momentum: share, weightDecay: 0 },
    columns: (dim) => ({ meanSquare: { dim }, ...(share > 0 ? { velocity: { dim } } : {}) }),
    update: (rows, gradients, { learningRate, settings: { alpha, epsilon, weightDecay } }) => {
      const { elements } = rows;
      eachWeight(rows, gradients, Object.keys(rows.columns), (at, from, square, velocity) => {
        const gradient = gradients.elements[from]! + weightDecay * elements[at]!;
        elements[square] = elements[square]! + (1 - alpha) * (gradient * gradient - elements[square]!);
        let change = gradient / (Math.sqrt(elements[square]!) + epsilon);
        if (velocity !== square) {
          change = share * elements[velocity]! + change;
          elements[velocity] = change;
        }
        elements[at] = elements[at]! - learningRate * change;
      });
    },
  });

/** `adam` and `adamW`. A row counts its own updates. */
const withMoments = (name: "adam" | "adamW"): PsUpdater =>
  psUpdater({
    ...{ ...ours, name, dtypes: PLAIN_OPTIMIZERS[name], settings: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0 } },
    columns: (dim) => ({ moment1: { dim }, moment2: { dim }, steps: { dim: 1 } }),
    update: (rows, gradients, { learningRate, settings: { beta1, beta2, epsilon, weightDecay } }) => {
      const { elements } = rows;
      const decays = name === "adamW";
      for (let i = 0; i < rows.count; i++) {
        const [row, from] = [rows.starts[i]!, gradients.starts[i]!];
        const [first, second, counter] = [rows.columns.moment1![i]!, rows.columns.moment2![i]!, rows.columns.steps![i]!];
        const step = elements[counter]! + 1;
        elements[counter] = step;
        const [rate, correction2] = [learningRate / (1 - beta1 ** step), 1 / Math.sqrt(1 - beta2 ** step)];
        for (let j = 0; j < rows.width; j++) {
          const [weight, pushed] = [elements[row + j]!, gradients.elements[from + j]!];
          const gradient = decays ? pushed : pushed + weightDecay * weight;
          const moment1 = elements[first + j]! + (1 - beta1) * (gradient - elements[first + j]!);
          const moment2 = elements[second + j]! + (1 - beta2) * (gradient * gradient - elements[second + j]!);
          elements[first + j] = moment1;
          elements[second + j] = moment2;
          const change = (rate * moment1) / (Math.sqrt(moment2) * correction2 + epsilon);
          elements[row + j] = weight - (decays ? learningRate * weightDecay * weight + change : change);
        }
      }
    },
  });
const adam = withMoments("adam");
const adamW = withMoments("adamW");

const ftrl = ({ initialAccumulator = 0 }: KeptBy): PsUpdater =>
  psUpdater({
    ...{ ...ours, name: "ftrl", dtypes: PLAIN_OPTIMIZERS.ftrl, settings: { beta: 1, l1: 0, l2: 0 } },
    columns: (dim) => ({ z: { dim }, n: { dim, start: initialAccumulator } }),
    update: (rows, gradients, { learningRate: alpha, settings: { beta, l1, l2 } }) => {
      const { elements } = rows;
      eachWeight(rows, gradients, ["z", "n"], (at, from, z, n) => {
        const gradient = gradients.elements[from]!;
        const squares = elements[n]! + gradient * gradient;
        const sigma = (Math.sqrt(squares) - Math.sqrt(elements[n]!)) / alpha;
        const linear = elements[z]! + (gradient - sigma * elements[at]!);
        elements[n] = squares;
        elements[z] = linear;
        const shrunk = Math.sign(linear) * l1 - linear;
        elements[at] = Math.abs(linear) > l1 ? shrunk / ((beta + Math.sqrt(squares)) / alpha + l2) : 0;
      });
    },
  });

const plain = (name: "min" | "max", update: (rows: RowSpans, pushed: RowSpans) => void): PsUpdater =>
  psUpdater({ ...ours, name, dtypes: PLAIN_OPTIMIZERS[name], update });
const min = plain("min", takeLesser);
const max = plain("max", takeGreater);

const PLAIN: Readonly<Record<keyof typeof PLAIN_OPTIMIZERS, (keptBy: KeptBy) => PsUpdater>> = {
  min: () => min,
  max: () => max,
  sgd: () => sgd,
  momentum: () => momentum,
  nesterov: () => nesterov,
  adagrad,
  rmsprop,
  adam: () => adam,
  adamW: () => adamW,
  ftrl,
};

/** Our own updater of this type for rows of other elements than f32. Throws BAD_ARGUMENT where there is none. */
export function plainUpdater({ type, ...keptBy }: KeptBy & { readonly type: string }, element: RowElement): PsUpdater {
  const found = Object.hasOwn(PLAIN, type) ? PLAIN[type as keyof typeof PLAIN](keptBy) : undefined;
  if (found?.dtypes.includes(element)) return found;
  throw badArgument(`optimizer ${type} is not for rows of ${element}`);
}
