// Goal: what a server's optimizers make of 1,000 updates is what the same optimizer makes of them in float64, up to
// rounding: for whole blocks, for chosen rows of a block, and for table rows with repeated keys.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { SimdOptimizerKernels } from "../../src/kernel/optimizer-kernels.ts";
import { type OptimizerSpec, resolveOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { Updater } from "../../src/store/updaters/updater.ts";
import { putFloats, putWords, readFloats } from "../../src/testing/arena-lists.ts";
import { OPTIMIZER_TYPES } from "../../src/testing/optimizer-types.ts";
import { newRow64, notePull64, type Row64, update64 } from "./float64-optimizers.ts";

const STEPS = 1_000;
const ROW_COUNT = 6;
const WIDTH = 7;
const WORKERS = 3;
/** Of the greater of 1 and the value: 1,000 roundings of 6e-8, and the f32 learning rate, with room. */
const BOUND = 3e-6;

const SPECS: readonly OptimizerSpec[] = [
  { type: "sum" },
  { type: "sum", clipValue: 0.3 },
  { type: "assign" },
  { type: "min" },
  { type: "max" },
  { type: "sgd" },
  {
    type: "sgd",
    weightDecay: 0.05,
    clipValue: 0.4,
    schedule: { type: "warmUp", steps: 100, after: { type: "cosine", steps: 800, floor: 0.1 } },
  },
  { type: "momentum" },
  { type: "momentum", weightDecay: 0.05, schedule: { type: "step", every: 300, factor: 0.5 } },
  { type: "nesterov" },
  { type: "nesterov", weightDecay: 0.05, momentum: 0.7 },
  { type: "adagrad" },
  { type: "adagrad", initialAccumulator: 0.1, weightDecay: 0.05 },
  { type: "rowWiseAdagrad" },
  { type: "rowWiseAdagrad", initialAccumulator: 0.1, weightDecay: 0.05, clipValue: 0.4 },
  { type: "adam" },
  { type: "adam", weightDecay: 0.05, beta2: 0.9999, schedule: { type: "cosine", steps: 900 } },
  { type: "lazyAdam" },
  { type: "lazyAdam", epsilon: 1e-4, beta1: 0.8 },
  { type: "adamW" },
  { type: "adamW", weightDecay: 0.1, learningRate: 0.01 },
  { type: "rmsprop" },
  { type: "rmsprop", momentum: 0.8, weightDecay: 0.05, learningRate: 0.002 },
  { type: "ftrl" },
  { type: "ftrl", l1: 0.5, l2: 0.1, beta: 0.5, initialAccumulator: 0.1 },
  { type: "dcAsgd" },
  { type: "dcAsgd", weightDecay: 0.05, lambda: 0.5 },
];

function gradientsOf(random: Random, count: number): Float32Array {
  return Float32Array.from({ length: count }, () => (random.fraction() - 0.45) * 2 ** -random.below(8));
}

function initialValues(random: Random): Float32Array {
  return Float32Array.from({ length: ROW_COUNT * WIDTH }, () => random.fraction() - 0.5);
}

/** The float64 rows that begin with the same values, with what each worker has seen of them. */
function rows64(values: Float32Array): Row64[] {
  return Array.from({ length: ROW_COUNT }, (_, r) => {
    const row = newRow64(values.subarray(r * WIDTH, (r + 1) * WIDTH));
    for (const name of ["0", "1", "2"]) row.memory.set(name, Float64Array.from(row.values));
    return row;
  });
}

function assertClose(actual: Float32Array, row: Row64, what: string): void {
  for (const [j, expected] of row.values.entries()) {
    const error = Math.abs(actual[j]! - expected) / Math.max(1, Math.abs(expected));
    assert.ok(error <= BOUND, `${what}, element ${j}: ${actual[j]} is not ${expected}, off by ${error}`);
  }
}

/** Which rows a sparse push names: some of them twice, their gradients summed in f32 as a worker sums them. */
function sparsePush(random: Random): Map<number, { readonly sum: Float32Array; readonly exact: Float64Array }> {
  const push = new Map<number, { readonly sum: Float32Array; readonly exact: Float64Array }>();
  for (let k = 0; k < 4; k++) {
    const row = random.below(ROW_COUNT);
    const gradient = gradientsOf(random, WIDTH);
    const entry = push.get(row) ?? { sum: new Float32Array(WIDTH), exact: new Float64Array(WIDTH) };
    for (let j = 0; j < WIDTH; j++) {
      entry.sum[j]! += gradient[j]!;
      entry.exact[j]! += gradient[j]!;
    }
    push.set(row, entry);
  }
  return push;
}

test("every optimizer is compared with float64", () => {
  assert.deepEqual(
    OPTIMIZER_TYPES.filter((type) => !SPECS.some((spec) => spec.type === type)),
    [],
  );
});

for (const [index, spec] of SPECS.entries()) {
  const resolved = resolveOptimizer(spec);
  const title = JSON.stringify(spec);

  test(`1,000 updates of a block equal float64 within 3e-6 of max(1, |value|): ${title}`, () => {
    const random = new Random(100 + index);
    const arena = new Arena({ bytesMax: 2 ** 20 });
    const updater = new Updater(arena, new SimdOptimizerKernels(arena), resolved, { kind: "tensor", width: WIDTH });
    const initial = initialValues(random);
    const rows = rows64(initial);
    const values = putFloats(arena, initial);
    const slots = arena.allocate(Math.max(4, updater.blockSlotBytes(ROW_COUNT)));
    const block = { target: values, source: values, slots, rowCount: ROW_COUNT };
    updater.startBlock(values, slots, ROW_COUNT);
    const gradients = arena.allocate(ROW_COUNT * WIDTH * 4);
    const pulled = new Map<number, number>();
    for (let step = 1; step <= STEPS; step++) {
      const pushed = gradientsOf(random, ROW_COUNT * WIDTH);
      const gradientScale = random.chance(0.2) ? 0.75 : 1;
      const workerRank = random.below(WORKERS);
      arena.floats.set(pushed, gradients / 4);
      updater.begin({ step, scheduleStep: step - 1, gradientScale, workerRank });
      updater.updateBlock({ ...block, pulled: updater.notesPulls ? pulled.get(workerRank) : undefined }, gradients);
      for (const [r, row] of rows.entries()) {
        const gradient = Float64Array.from(pushed.subarray(r * WIDTH, (r + 1) * WIDTH));
        update64(resolved, row, { gradient, step, scheduleStep: step - 1, gradientScale, pulled: `${workerRank}` });
      }
      if (random.chance(0.6)) continue;
      const [puller, from] = [random.below(WORKERS), random.below(ROW_COUNT)];
      if (!pulled.has(puller)) pulled.set(puller, putFloats(arena, initial));
      arena.floats.copyWithin(pulled.get(puller)! / 4 + from * WIDTH, values / 4 + from * WIDTH, values / 4 + ROW_COUNT * WIDTH);
      for (const row of rows.slice(from)) notePull64(row, `${puller}`);
    }
    for (const [r, row] of rows.entries()) assertClose(readFloats(arena, values + r * WIDTH * 4, WIDTH), row, `row ${r}`);
  });

  test(`1,000 sparse updates of a block, repeated rows summed, equal float64 within 3e-6 of max(1, |value|): ${title}`, () => {
    const random = new Random(200 + index);
    const arena = new Arena({ bytesMax: 2 ** 20 });
    const updater = new Updater(arena, new SimdOptimizerKernels(arena), resolved, { kind: "tensor", width: WIDTH });
    const initial = initialValues(random);
    const rows = rows64(initial);
    const values = putFloats(arena, initial);
    const slots = arena.allocate(Math.max(4, updater.blockSlotBytes(ROW_COUNT)));
    updater.startBlock(values, slots, ROW_COUNT);
    const list = arena.allocate(64);
    const gradients = arena.allocate(ROW_COUNT * WIDTH * 4);
    const rowSteps = putWords(arena, new Uint32Array(ROW_COUNT));
    if (updater.countsRows) updater.countRows();
    const pulled = new Map<number, number>();
    for (let step = 1; step <= STEPS; step++) {
      const push = sparsePush(random);
      const workerRank = random.below(WORKERS);
      arena.words.set([...push.keys()], list / 4);
      for (const [k, { sum }] of [...push.values()].entries()) arena.floats.set(sum, gradients / 4 + k * WIDTH);
      const counted = updater.countsRows ? { step: 0, rowSteps: { address: rowSteps, counts: true } } : { step };
      updater.begin({ ...counted, scheduleStep: step - 1, gradientScale: 1, workerRank });
      updater.updateBlockRows(
        { values, slots, rowCount: ROW_COUNT, pulled: updater.notesPulls ? pulled.get(workerRank) : undefined },
        list,
        push.size,
        gradients,
      );
      for (const [r, { exact }] of push) {
        const own = updater.countsRows ? rows[r]!.updateCount + 1 : step;
        update64(resolved, rows[r]!, { gradient: exact, step: own, scheduleStep: step - 1, gradientScale: 1, pulled: `${workerRank}` });
      }
      if (random.chance(0.6)) continue;
      const [puller, from] = [random.below(WORKERS), random.below(ROW_COUNT)];
      if (!pulled.has(puller)) pulled.set(puller, putFloats(arena, initial));
      arena.floats.copyWithin(pulled.get(puller)! / 4 + from * WIDTH, values / 4 + from * WIDTH, values / 4 + (from + 1) * WIDTH);
      notePull64(rows[from]!, `${puller}`);
    }
    for (const [r, row] of rows.entries()) assertClose(readFloats(arena, values + r * WIDTH * 4, WIDTH), row, `row ${r}`);
  });

  test(`1,000 updates of table rows, repeated keys summed, equal float64 within 3e-6 of max(1, |value|): ${title}`, () => {
    const random = new Random(300 + index);
    const arena = new Arena({ bytesMax: 2 ** 20 });
    const updater = new Updater(arena, new SimdOptimizerKernels(arena), resolved, { kind: "table", width: WIDTH });
    const initial = initialValues(random);
    const rows = rows64(initial);
    const extra = new Float32Array(updater.rowExtraBytes() / 4);
    const addresses = rows.map((_, r) => putFloats(arena, [...initial.subarray(r * WIDTH, (r + 1) * WIDTH), ...extra]));
    updater.startRows(putWords(arena, addresses), ROW_COUNT);
    const list = arena.allocate(64);
    const gradients = arena.allocate(ROW_COUNT * WIDTH * 4);
    const seenList = arena.allocate(64);
    const seen = new Map<string, number>();
    for (let step = 1; step <= STEPS; step++) {
      const push = sparsePush(random);
      arena.words.set(
        [...push.keys()].map((r) => addresses[r]!),
        list / 4,
      );
      for (const [k, { sum }] of [...push.values()].entries()) arena.floats.set(sum, gradients / 4 + k * WIDTH);
      const workerRank = random.below(WORKERS);
      updater.begin({ step, scheduleStep: step - 1, gradientScale: 1, workerRank });
      if (updater.notesPulls) {
        arena.words.set(
          [...push.keys()].map((r) => seen.get(`${workerRank}/${r}`) ?? 0),
          seenList / 4,
        );
        updater.updatePulledRows(list, seenList, push.size, gradients, false);
      } else updater.updateRows(list, push.size, gradients);
      for (const [r, { exact }] of push) {
        const row = rows[r]!;
        const own = resolved.type === "lazyAdam" ? step : row.updateCount + 1;
        update64(resolved, row, {
          gradient: exact,
          step: own,
          scheduleStep: step - 1,
          gradientScale: 1,
          pulled: `${workerRank}`,
        });
      }
      if (random.chance(0.6)) continue;
      const [puller, pulled] = [random.below(WORKERS), random.below(ROW_COUNT)];
      const copy = seen.get(`${puller}/${pulled}`) ?? arena.allocate(WIDTH * 4);
      seen.set(`${puller}/${pulled}`, copy);
      arena.floats.copyWithin(copy / 4, addresses[pulled]! / 4, addresses[pulled]! / 4 + WIDTH);
      notePull64(rows[pulled]!, `${puller}`);
    }
    for (const [r, row] of rows.entries()) assertClose(readFloats(arena, addresses[r]!, WIDTH), row, `row ${r}`);
  });
}

/** FTRL as anybody would write it down, with z, n and the value kept in float32. */
function plainFtrl(
  state: { z: number; n: number; w: number },
  g: number,
  { l1 = 0, l2 = 0 }: { readonly l1?: number; readonly l2?: number },
): void {
  const { alpha, beta } = { alpha: 0.1, beta: 1 };
  const n = Math.fround(state.n + g * g);
  state.z = Math.fround(state.z + g - ((Math.sqrt(n) - Math.sqrt(state.n)) / alpha) * state.w);
  state.n = n;
  state.w = Math.abs(state.z) > l1 ? Math.fround((Math.sign(state.z) * l1 - state.z) / ((beta + Math.sqrt(n)) / alpha + l2)) : 0;
}

test("100,000 steps of ftrl drift from float64 no more than 1.5 times as far as a plain loop that keeps its numbers in float32", () => {
  const arena = new Arena({ bytesMax: 2 ** 20 });
  for (const spec of [{ type: "ftrl" }, { type: "ftrl", l1: 0.5, l2: 0.1 }] as const) {
    const resolved = resolveOptimizer(spec);
    const updater = new Updater(arena, new SimdOptimizerKernels(arena), resolved, { kind: "tensor", width: WIDTH });
    const random = new Random(1);
    const row = newRow64(new Float32Array(WIDTH));
    const plain = Array.from(row.values, () => ({ z: 0, n: 0, w: 0 }));
    const [values, gradients] = [putFloats(arena, row.values), arena.allocate(WIDTH * 4)];
    const slots = arena.allocate(updater.blockSlotBytes(1));
    updater.startBlock(values, slots, 1);
    const worst = { ours: 0, plain: 0 };
    for (let step = 1; step <= 100_000; step++) {
      const pushed = Float32Array.from({ length: WIDTH }, (_, j) => random.fraction() - 0.45 + j / 100);
      arena.floats.set(pushed, gradients / 4);
      updater.begin({ step, scheduleStep: 0, gradientScale: 1, workerRank: undefined });
      updater.updateBlock({ target: values, source: values, slots, rowCount: 1 }, gradients);
      update64(resolved, row, { gradient: Float64Array.from(pushed), step, scheduleStep: 0, gradientScale: 1, pulled: undefined });
      for (const [j, value] of row.values.entries()) {
        plainFtrl(plain[j]!, pushed[j]!, spec);
        const size = Math.max(1, Math.abs(value));
        worst.ours = Math.max(worst.ours, Math.abs(arena.floats[values / 4 + j]! - value) / size);
        worst.plain = Math.max(worst.plain, Math.abs(plain[j]!.w - value) / size);
      }
    }
    assert.ok(worst.ours <= 1.5 * worst.plain, `${JSON.stringify(spec)}: off by ${worst.ours}, a plain loop by ${worst.plain}`);
  }
});
