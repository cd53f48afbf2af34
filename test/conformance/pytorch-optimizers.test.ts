// Goal: the server's optimizers and schedules do what PyTorch's do. The golden results are PyTorch's own;
// test/golden/README.md says how they were made.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Arena } from "../../src/kernel/arena.ts";
import { SimdOptimizerKernels } from "../../src/kernel/optimizer-kernels.ts";
import { clipScale, gradientNorm } from "../../src/store/updaters/gradient-norm.ts";
import { rateShare } from "../../src/store/updaters/learning-rate.ts";
import { resolveSchedule, type ScheduleSpec } from "../../src/store/updaters/learning-rate-schedule.ts";
import { type OptimizerSpec, resolveOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { Updater } from "../../src/store/updaters/updater.ts";
import { putFloats, putWords, readFloats } from "../../src/testing/arena-lists.ts";

type Seen = Readonly<Record<string, { readonly loss: number; readonly values: readonly number[] }>>;
type Case = { readonly spec: OptimizerSpec; readonly float32: Seen; readonly float64: Seen };
type Golden = {
  readonly dense: readonly Case[];
  readonly sparse: readonly Case[];
  readonly schedules: readonly { readonly spec: ScheduleSpec; readonly every6: readonly number[] }[];
};

const GOLDEN = JSON.parse(readFileSync(new URL("../golden/optimizers.json", import.meta.url), "utf8")) as Golden;
const STEPS = [1, 2, 10, 100, 1000];
const WIDTH = 6;
const ROWS = 5;
const ROW_WIDTH = 3;
/**
 * PyTorch's float32 results are up to 6e-6 away from its own float64 ones (AdamW, which rounds 1 - rate × decay), ours
 * less than 2e-6.
 */
const BOUNDS = { float32: 1e-5, float64: 2e-6 } as const;

const f = Math.fround;

function noise(t: number, i: number): number {
  return (((t * 7 + i * 13) % 11) - 5) / 16;
}

function start(count: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => ((i % 3) - 1) / 2);
}

const curvature = (i: number): number => (i + 1) / 8;
const bottom = (i: number): number => (i - 3) / 4;

/** PyTorch's float32 and float64 results at one step, against ours. */
function check(golden: Case, step: number, values: Float32Array, loss: number): void {
  for (const type of ["float32", "float64"] as const) {
    const expected = golden[type][`${step}`]!;
    for (const [j, value] of expected.values.entries()) {
      assert.ok(Math.abs(values[j]! - value) <= BOUNDS[type], `${type}, step ${step}, element ${j}: ${values[j]} is not ${value}`);
    }
    assert.ok(Math.abs(loss - expected.loss) <= BOUNDS[type], `${type}, step ${step}: the loss ${loss} is not ${expected.loss}`);
  }
}

for (const golden of GOLDEN.dense) {
  test(`a block's values and losses equal PyTorch's within 1e-5 (float32) and 2e-6 (float64) over 1,000 steps: ${JSON.stringify(golden.spec)}`, () => {
    const arena = new Arena({ bytesMax: 2 ** 19 });
    const spec = resolveOptimizer(golden.spec);
    const updater = new Updater(arena, new SimdOptimizerKernels(arena), spec, { kind: "tensor", width: WIDTH });
    const values = putFloats(arena, start(WIDTH));
    const slots = arena.allocate(Math.max(4, updater.blockSlotBytes(1)));
    updater.startBlock(values, slots, 1);
    const gradients = arena.allocate(WIDTH * 4);
    for (let step = 1; step <= 1000; step++) {
      const w = readFloats(arena, values, WIDTH);
      const gradient = w.map((value, i) => f(curvature(i) * f(value - bottom(i))) + noise(step, i));
      arena.floats.set(gradient, gradients / 4);
      const gradientScale = clipScale(gradientNorm(gradient), spec.clipNorm ?? null);
      updater.begin({ step, scheduleStep: step - 1, gradientScale, workerRank: 0 });
      updater.updateBlock({ target: values, source: values, slots, rowCount: 1 }, gradients);
      if (!STEPS.includes(step)) continue;
      const after = readFloats(arena, values, WIDTH);
      check(golden, step, after, after.reduce((sum, value, i) => sum + curvature(i) * (value - bottom(i)) ** 2, 0) / 2);
    }
  });
}

for (const golden of GOLDEN.sparse) {
  test(`a table's values and losses equal PyTorch's within 1e-5 (float32) and 2e-6 (float64) over 1,000 sparse steps: ${JSON.stringify(golden.spec)}`, () => {
    const arena = new Arena({ bytesMax: 2 ** 19 });
    const spec = resolveOptimizer(golden.spec);
    const updater = new Updater(arena, new SimdOptimizerKernels(arena), spec, { kind: "table", width: ROW_WIDTH });
    const initial = start(ROWS * ROW_WIDTH);
    const extra = new Float32Array(updater.rowExtraBytes() / 4);
    const addresses = Array.from({ length: ROWS }, (_, r) => {
      return putFloats(arena, [...initial.subarray(r * ROW_WIDTH, (r + 1) * ROW_WIDTH), ...extra]);
    });
    updater.startRows(putWords(arena, addresses), ROWS);
    const list = arena.allocate(8);
    const gradients = arena.allocate(2 * ROW_WIDTH * 4);
    for (let step = 1; step <= 1000; step++) {
      const push = new Map<number, Float32Array>();
      for (const [k, row] of [step % ROWS, (step * step + 1) % ROWS, step % ROWS].entries()) {
        const sum = push.get(row) ?? new Float32Array(ROW_WIDTH);
        for (let j = 0; j < ROW_WIDTH; j++) sum[j]! += f(arena.floats[addresses[row]! / 4 + j]! / 4 + noise(step, 3 * k + j));
        push.set(row, sum);
      }
      arena.words.set(
        [...push.keys()].map((row) => addresses[row]!),
        list / 4,
      );
      for (const [k, sum] of [...push.values()].entries()) arena.floats.set(sum, gradients / 4 + k * ROW_WIDTH);
      updater.begin({ step, scheduleStep: step - 1, gradientScale: 1, workerRank: 0 });
      updater.updateRows(list, push.size, gradients);
      if (!STEPS.includes(step)) continue;
      const after = Float32Array.from(addresses.flatMap((address) => [...readFloats(arena, address, ROW_WIDTH)]));
      check(golden, step, after, after.reduce((sum, value) => sum + value ** 2, 0) / 2);
    }
  });
}

for (const { spec, every6 } of GOLDEN.schedules) {
  test(`a schedule's rates equal PyTorch's within 1e-12: ${JSON.stringify(spec)}`, () => {
    const schedule = resolveSchedule(spec);
    for (const [k, rate] of every6.entries()) {
      assert.ok(Math.abs(rateShare(schedule, 6 * k) - rate) <= 1e-12, `step ${6 * k}: ${rateShare(schedule, 6 * k)} is not ${rate}`);
    }
  });
}
