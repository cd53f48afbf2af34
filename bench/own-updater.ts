// own-updater — how fast a user's own updater in plain TypeScript updates rows of a table, in process, on one thread,
// without a network: through the interface that users have (psUpdater), beside the same step by our kernels. Figures
// for comparison within one run; the machine decides the rest.
//
//   node bench/own-updater.ts [rows per call]
//
// 1 M rows of 16 elements, 10,240 keys a call, uniform; a push takes gradients as they come. Rows are looked up, kept
// for the case that the updater throws, updated, and their outcome is looked at: all that a server does with them.

import { Random } from "../src/base/random.ts";
import { Arena } from "../src/kernel/arena.ts";
import { SimdInitializerKernels } from "../src/kernel/initializer-kernels.ts";
import { QuantileTable } from "../src/kernel/normal-quantiles.ts";
import { SimdOptimizerKernels } from "../src/kernel/optimizer-kernels.ts";
import { ROW_ELEMENTS, type RowElement } from "../src/kernel/row-element.ts";
import { simdRowKernels } from "../src/kernel/row-kernels.ts";
import { SimdKernels } from "../src/kernel/simd-kernels.ts";
import { Initializer } from "../src/store/initializers/initializer.ts";
import { resolveInitializer } from "../src/store/initializers/initializer-spec.ts";
import type { TableSpec } from "../src/store/parameter-spec.ts";
import { PlugIns } from "../src/store/plug-ins.ts";
import { rowStarts } from "../src/store/row-types/row-starts.ts";
import { TableStore } from "../src/store/table-store.ts";
import { type OptimizerSpec, resolveOptimizer } from "../src/store/updaters/optimizer-spec.ts";
import type { RowUpdater } from "../src/store/updaters/parameter-updater.ts";
import { PlugInUpdater } from "../src/store/updaters/plug-in-updater.ts";
import { psUpdater } from "../src/store/updaters/ps-updater.ts";
import { Updater } from "../src/store/updaters/updater.ts";
import { quantile } from "./statistics.ts";

const WIDTH = 16;
const ROWS = 1_000_448; // whole calls of new keys
const NEW_KEYS = 1_024;
const CALL_KEYS = Number(process.argv[2] ?? 10_240);
const CALLS = 32;
const ROUNDS = 9;

/** A user's: AdaGrad, as our kernel has it. */
const ownAdagrad = psUpdater({
  name: "ownAdagrad",
  version: 1,
  deterministic: true,
  dtypes: ["f32", "f64"],
  settings: { rate: 0.01, epsilon: 1e-10 },
  columns: (dim) => ({ squares: { dim } }),
  update: (rows, gradients, { settings: { rate, epsilon } }) => {
    const { elements, starts, columns, count, width } = rows;
    const squares = columns.squares!;
    for (let i = 0; i < count; i++) {
      const [row, square, from] = [starts[i]!, squares[i]!, gradients.starts[i]!];
      for (let j = 0; j < width; j++) {
        const gradient = gradients.elements[from + j]!;
        const sum = elements[square + j]! + gradient * gradient;
        elements[square + j] = sum;
        elements[row + j] = elements[row + j]! - (rate * gradient) / (Math.sqrt(sum) + epsilon);
      }
    }
  },
});

/** A user's: adds, within a limit. */
const ownClamped = psUpdater({
  name: "ownClamped",
  version: 1,
  deterministic: true,
  settings: { limit: 1 },
  update: ({ elements, starts, count, width }, gradients, { settings: { limit } }) => {
    for (let i = 0; i < count; i++) {
      const [row, from] = [starts[i]!, gradients.starts[i]!];
      for (let j = 0; j < width; j++) {
        const value = elements[row + j]! + gradients.elements[from + j]!;
        elements[row + j] = Math.max(-limit, Math.min(limit, value));
      }
    }
  },
});

const plugIns = new PlugIns([{ module: "bench", hash: "", updaters: [ownAdagrad, ownClamped], rowTypes: [] }]);

/** M rows/s of pushes, the median. */
function measure(optimizer: OptimizerSpec, element: RowElement = "f32"): number {
  const arena = new Arena({ bytesMax: 2 ** 30 });
  const rowType = element === "f32" ? {} : { rowType: element };
  const init = resolveInitializer({ type: "constant", value: 0 });
  const common = {
    name: "e",
    updates: "async",
    reduce: "sum",
    staleness: undefined,
    initializer: init,
    optimizer: resolveOptimizer(optimizer),
  } as const;
  const spec: TableSpec = { kind: "table", width: WIDTH, rows: undefined, versions: false, ...rowType, ...common };
  const initializer = new Initializer(arena, new SimdInitializerKernels(arena), new QuantileTable(arena), init, {
    name: "e",
    shape: [WIDTH],
  });
  const chosen = plugIns.updaterOf(spec);
  const updater: RowUpdater & { begin: Updater["begin"] } =
    chosen === undefined
      ? new Updater(arena, new SimdOptimizerKernels(arena), spec.optimizer, { kind: "table", width: WIDTH })
      : new PlugInUpdater({ arena, chosen, spec: spec.optimizer, element, width: WIDTH });
  const { bytes: elementBytes } = ROW_ELEMENTS[element];
  const store = new TableStore({
    ...{ arena, kernels: new SimdKernels(arena), rowKernels: simdRowKernels(arena), width: WIDTH, elementBytes, updater, secret: 1n },
    initializer: element === "f32" ? initializer : rowStarts({ arena, initializer, element, width: WIDTH }),
  });
  const keys = arena.allocate(CALL_KEYS * CALLS * 8);
  const gradients = arena.allocate(CALL_KEYS * WIDTH * elementBytes);
  const values = new ROW_ELEMENTS[element].Array(arena.memory.buffer, gradients, CALL_KEYS * WIDTH);
  for (let i = 0; i < values.length; i++)
    values[i] = element === "i64" ? BigInt((i % 7) - 3) : element === "i32" ? (i % 7) - 3 : ((i % 7) - 3) / 1_000;
  const putKey = (position: number, id: number): void => {
    arena.words[keys / 4 + position * 2] = Math.imul(id, 0x9e37_79b1);
    arena.words[keys / 4 + position * 2 + 1] = id;
  };
  updater.begin({ step: 1, scheduleStep: 0, gradientScale: 1, workerRank: 0, magnitude: 1 });
  for (let from = 0; from < ROWS; from += NEW_KEYS) {
    for (let i = 0; i < NEW_KEYS; i++) putKey(i, from + i);
    store.touch({ keys, keyCount: NEW_KEYS });
  }
  const random = new Random(1);
  for (let i = 0; i < CALL_KEYS * CALLS; i++) putKey(i, random.below(ROWS));
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    for (let call = 0; call < CALLS; call++) store.update({ keys: keys + call * CALL_KEYS * 8, keyCount: CALL_KEYS, gradients });
    rates.push((CALL_KEYS * CALLS) / (performance.now() - start) / 1e3);
  }
  store.close();
  return quantile(
    rates.sort((a, b) => a - b),
    0.5,
  );
}

const CASES: readonly (readonly [name: string, optimizer: OptimizerSpec, element?: RowElement])[] = [
  ["a user's clamped sum, f32", ownClamped.with()],
  ["a user's AdaGrad, f32", ownAdagrad.with()],
  ["a user's AdaGrad, f64", ownAdagrad.with(), "f64"],
  ["our sum, i32, plain TypeScript", { type: "sum" }, "i32"],
  ["our sum, i64, plain TypeScript", { type: "sum" }, "i64"],
  ["our sum, f64, plain TypeScript", { type: "sum" }, "f64"],
  ["our AdaGrad, f32, kernel", { type: "adagrad" }],
];
for (const [name, optimizer, element] of CASES) console.log(`${name.padEnd(36)} ${measure(optimizer, element).toFixed(1)} M rows/s`);
