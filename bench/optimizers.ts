// optimizers — how fast the update kernels run inside one process: no sockets, no tables, one thread.
//   node bench/optimizers.ts            all cases, about 20 s
//   node bench/optimizers.ts adam       those whose name contains "adam"
//
// GB/s counts the bytes that an update must touch: each array that is read or written, once for each. Blocks are 16 MB
// arrays; rows are 100,000 random ones out of 1,000,000, at the addresses that a table would give, without its batched
// probing. Each case runs once unmeasured and once measured, 15 rounds over all cases, so that a slow spell of the
// machine hits all alike; the median counts, with the extremes beside it. Axpy and copy are the ceilings to compare
// with in the same run.

import { Random } from "../src/base/random.ts";
import { Arena } from "../src/kernel/arena.ts";
import { SimdInitializerKernels } from "../src/kernel/initializer-kernels.ts";
import { QuantileTable } from "../src/kernel/normal-quantiles.ts";
import { SimdOptimizerKernels } from "../src/kernel/optimizer-kernels.ts";
import { Initializer } from "../src/store/initializers/initializer.ts";
import { type InitializerSpec, resolveInitializer } from "../src/store/initializers/initializer-spec.ts";
import { type OptimizerSpec, resolveOptimizer } from "../src/store/updaters/optimizer-spec.ts";
import { Updater } from "../src/store/updaters/updater.ts";

const FLOATS = 4 * 2 ** 20;
const WIDTH = 64;
const ROUNDS = 15;
const TABLE_ROWS = 1_000_000;
const PUSHED_ROWS = 100_000;

type Case = { readonly name: string; readonly amount: number; readonly unit: "GB/s" | "M/s"; run(): void };

const arena = new Arena();
const kernels = new SimdOptimizerKernels(arena);
const values = filled(FLOATS, 0.5);
const gradients = filled(FLOATS, 0.01);
const slots = filled(4 * FLOATS, 0.25);

const SPECS: readonly { readonly spec: OptimizerSpec; readonly floatsTouched: number }[] = [
  { spec: { type: "sum" }, floatsTouched: 3 },
  { spec: { type: "assign" }, floatsTouched: 2 },
  { spec: { type: "min" }, floatsTouched: 3 },
  { spec: { type: "sgd", learningRate: 1e-9 }, floatsTouched: 3 },
  { spec: { type: "momentum", learningRate: 1e-9 }, floatsTouched: 5 },
  { spec: { type: "nesterov", learningRate: 1e-9 }, floatsTouched: 5 },
  { spec: { type: "adagrad", learningRate: 1e-9 }, floatsTouched: 5 },
  { spec: { type: "rowWiseAdagrad", learningRate: 1e-9 }, floatsTouched: 3 },
  { spec: { type: "adam", learningRate: 1e-9 }, floatsTouched: 7 },
  { spec: { type: "adamW", learningRate: 1e-9 }, floatsTouched: 7 },
  { spec: { type: "rmsprop", learningRate: 1e-9 }, floatsTouched: 5 },
  { spec: { type: "rmsprop", learningRate: 1e-9, momentum: 0.5 }, floatsTouched: 7 },
  { spec: { type: "ftrl" }, floatsTouched: 7 },
  { spec: { type: "dcAsgd", learningRate: 1e-9 }, floatsTouched: 7 },
];

function filled(floatCount: number, value: number): number {
  const address = arena.allocate(floatCount * 4);
  kernels.fillFloats(address, floatCount, value);
  return address;
}

function blockCase({ spec, floatsTouched }: (typeof SPECS)[number]): Case {
  const updater = new Updater(arena, kernels, resolveOptimizer(spec), { kind: "tensor", width: WIDTH });
  const block = { target: values, source: values, slots, rowCount: FLOATS / WIDTH };
  const name = `block ${spec.type}${"momentum" in spec && spec.type === "rmsprop" ? " with momentum" : ""}`;
  return { name, amount: FLOATS * floatsTouched * 4, unit: "GB/s", run: () => updater.updateBlock(block, gradients) };
}

function rowsCase(spec: OptimizerSpec, width: number): Case {
  const updater = new Updater(arena, kernels, resolveOptimizer(spec), { kind: "table", width });
  const rowBytes = 8 + width * 4 + updater.rowExtraBytes();
  const table = filled((TABLE_ROWS * rowBytes) / 4, 0.25);
  const random = new Random(1);
  const list = arena.allocate(PUSHED_ROWS * 4);
  for (let i = 0; i < PUSHED_ROWS; i++) arena.words[list / 4 + i] = table + random.below(TABLE_ROWS) * rowBytes + 8;
  return {
    name: `rows ${spec.type} × ${width}`,
    amount: PUSHED_ROWS,
    unit: "M/s",
    run: () => updater.updateRows(list, PUSHED_ROWS, gradients),
  };
}

function initializerCase(spec: InitializerSpec): Case {
  const initializer = new Initializer(arena, new SimdInitializerKernels(arena), new QuantileTable(arena), resolveInitializer(spec), {
    name: "bench",
    shape: [FLOATS],
  });
  return { name: `initialize ${spec.type}`, amount: FLOATS, unit: "M/s", run: () => initializer.fill(slots, FLOATS, 0) };
}

const cases: readonly Case[] = [
  { name: "copy", amount: FLOATS * 8, unit: "GB/s" as const, run: () => arena.module.copy(values, gradients, FLOATS * 4) },
  { name: "axpy", amount: FLOATS * 12, unit: "GB/s" as const, run: () => arena.module.axpy(values, gradients, 1e-9, FLOATS) },
  ...SPECS.map(blockCase),
  { name: "check finite", amount: FLOATS * 4, unit: "GB/s" as const, run: () => kernels.checkFinite(gradients, FLOATS) },
  { name: "zero non-finite", amount: FLOATS * 4, unit: "GB/s" as const, run: () => kernels.zeroNonFinite(gradients, FLOATS) },
  ...[16, 64].flatMap((width) => [
    rowsCase({ type: "sgd", learningRate: 1e-9 }, width),
    rowsCase({ type: "adagrad", learningRate: 1e-9 }, width),
    rowsCase({ type: "adam", learningRate: 1e-9 }, width),
  ]),
  rowsCase({ type: "ftrl" }, 1),
  initializerCase({ type: "uniform" }),
  initializerCase({ type: "normal" }),
  initializerCase({ type: "truncatedNormal" }),
].filter(({ name }) => name.includes(process.argv[2] ?? ""));

const rates = new Map<Case, number[]>(cases.map((item) => [item, []]));
for (let round = 0; round < ROUNDS; round++) {
  for (const [item, seen] of rates) {
    item.run(); // brings back what the case before drove out of the caches
    const start = performance.now();
    item.run();
    seen.push(item.amount / (performance.now() - start) / (item.unit === "GB/s" ? 1e6 : 1e3));
  }
}
for (const [{ name, unit }, seen] of rates) {
  const sorted = seen.toSorted((a, b) => a - b);
  const [low, median, high] = [0, 0.5, 1].map((share) => sorted[Math.round(share * (sorted.length - 1))]!.toFixed(1).padStart(7));
  console.log(`${name.padEnd(28)} ${median} ${unit}   (${low} to ${high})`);
}
