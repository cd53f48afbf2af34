// plain-updaters — our own updaters of rows that are not f32, in plain TypeScript behind the same interface as users'
// (ps-updater.ts). Those of f32 are kernels; `sum` and `assign` are the row type's (ps-row-type.ts).
// PLAIN_OPTIMIZERS says which elements each is for; sgd, momentum and adagrad compute as the kernels do, in f64.

import { WeighbridgeError } from "../../base/errors.ts";
import { eachPair, takeGreater, takeLesser } from "../../kernel/element-loops.ts";
import type { RowElement, RowSpans } from "../../kernel/row-element.ts";
import { PLAIN_OPTIMIZERS } from "../row-types/row-type-spec.ts";
import { type PsUpdater, psUpdater } from "./ps-updater.ts";

const ours = { version: 1, deterministic: true } as const;

const sgd = psUpdater({
  ...{ ...ours, name: "sgd", elements: PLAIN_OPTIMIZERS.sgd, settings: { weightDecay: 0 } },
  update: (rows, gradients, { learningRate, settings: { weightDecay } }) => {
    const { elements } = rows;
    eachPair(rows, gradients, (at, from) => {
      const gradient = gradients.elements[from]! + weightDecay * elements[at]!;
      elements[at] = elements[at]! - learningRate * gradient;
    });
  },
});

const momentum = psUpdater({
  ...{ ...ours, name: "momentum", elements: PLAIN_OPTIMIZERS.momentum, settings: { momentum: 0.9, weightDecay: 0 } },
  columns: (width) => ({ velocity: { elements: width } }),
  update: (rows, gradients, { learningRate, settings }) => {
    const { elements, starts, columns } = rows;
    const velocities = columns.velocity!;
    for (let i = 0; i < rows.count; i++) {
      const [row, velocity, gradient] = [starts[i]!, velocities[i]!, gradients.starts[i]!];
      for (let j = 0; j < rows.width; j++) {
        const decayed = gradients.elements[gradient + j]! + settings.weightDecay * elements[row + j]!;
        elements[velocity + j] = settings.momentum * elements[velocity + j]! + decayed;
        elements[row + j] = elements[row + j]! - learningRate * elements[velocity + j]!;
      }
    }
  },
});

/** Of f64 rows. Its column begins with the accumulator of its settings. */
function adagrad(initialAccumulator: number): PsUpdater {
  return psUpdater({
    ...{ ...ours, name: "adagrad", elements: PLAIN_OPTIMIZERS.adagrad, settings: { epsilon: 1e-10, initialAccumulator, weightDecay: 0 } },
    columns: (width) => ({ squares: { elements: width, start: initialAccumulator } }),
    update: (rows, gradients, { learningRate, settings: { epsilon, weightDecay } }) => {
      const { elements, starts, columns } = rows;
      const squares = columns.squares!;
      for (let i = 0; i < rows.count; i++) {
        const [row, square, from] = [starts[i]!, squares[i]!, gradients.starts[i]!];
        for (let j = 0; j < rows.width; j++) {
          const gradient = gradients.elements[from + j]! + weightDecay * elements[row + j]!;
          elements[square + j] = elements[square + j]! + gradient * gradient;
          elements[row + j] = elements[row + j]! - (learningRate * gradient) / (Math.sqrt(elements[square + j]!) + epsilon);
        }
      }
    },
  });
}

const plain = (name: "min" | "max", update: (rows: RowSpans, pushed: RowSpans) => void): PsUpdater =>
  psUpdater({ ...ours, name, elements: PLAIN_OPTIMIZERS[name], update });
const min = plain("min", takeLesser);
const max = plain("max", takeGreater);

const PLAIN: Readonly<Record<keyof typeof PLAIN_OPTIMIZERS, (initialAccumulator: number) => PsUpdater>> = {
  min: () => min,
  max: () => max,
  sgd: () => sgd,
  momentum: () => momentum,
  adagrad,
};

/** Our own updater of this type for rows of other elements than f32. Throws BAD_ARGUMENT where there is none. */
export function plainUpdater(
  { type, initialAccumulator = 0 }: { readonly type: string; readonly initialAccumulator?: number },
  element: RowElement,
): PsUpdater {
  const found = Object.hasOwn(PLAIN, type) ? PLAIN[type as keyof typeof PLAIN](initialAccumulator) : undefined;
  if (found?.elements.includes(element)) return found;
  throw new WeighbridgeError("BAD_ARGUMENT", `optimizer ${type} is not for rows of ${element}`);
}
