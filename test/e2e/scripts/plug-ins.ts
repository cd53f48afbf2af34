// plug-ins — a module that servers load: an updater and a row type of a user's own.

import { type PsRowType, type PsUpdater, psRowType, psUpdater, type RowSpans } from "weighbridge";

/** A running mean of what was pushed, with the number of pushes in a column. */
export const runningMean: PsUpdater<Record<never, never>, "f32" | "f64"> = psUpdater({
  name: "runningMean",
  version: 1,
  deterministic: true,
  dtypes: ["f32", "f64"],
  columns: () => ({ pushes: { dim: 1 } }),
  update: ({ elements, starts, columns, count, width }, gradients) => {
    for (let i = 0; i < count; i++) {
      const pushes = elements[columns.pushes![i]!]! + 1;
      elements[columns.pushes![i]!] = pushes;
      for (let j = 0; j < width; j++) {
        const at = starts[i]! + j;
        elements[at] = elements[at]! + (gradients.elements[gradients.starts[i]! + j]! - elements[at]!) / pushes;
      }
    }
  },
});

/** Sums modulo a prime, that begin with 1. */
export const residues: PsRowType<"i32"> = psRowType({
  name: "residues",
  version: 1,
  deterministic: true,
  dtype: "i32",
  make: (dim) => new Int32Array(dim).fill(1),
  add: (sums: RowSpans<"i32">, updates: RowSpans<"i32">) => {
    for (let i = 0; i < sums.count; i++)
      for (let j = 0; j < sums.width; j++)
        sums.elements[sums.starts[i]! + j] = (sums.elements[sums.starts[i]! + j]! + updates.elements[updates.starts[i]! + j]!) % 65_521;
  },
});
