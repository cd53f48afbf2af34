// Goal: results, weights and slots are those of the plain kernels bit for bit, however a key is cut into shares and
// whichever thread does them; gathered rows and hand-outs are whole; memory that is not there is an error, and is given
// back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "../../kernel/arena.ts";
import { SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { PlainOptimizerKernels } from "../../kernel/plain-optimizer-kernels.ts";
import { type OptimizerSpec, type ResolvedOptimizer, resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { Updater } from "../../store/updaters/updater.ts";
import { putFloats, readFloats } from "../../testing/arena-lists.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { CpuBackend, type CpuBackendOptions, createCpuMemory } from "./cpu-backend.ts";
import type { KeyPlan, ReduceTask } from "./model-backend.ts";

const MIB = 2 ** 20;
const MANY_FLOATS = 300_007;

const value = (device: number, round: number, i: number): number => Math.fround(((device * 311 + round * 71 + i * 13) % 1013) / 512 - 1);

function planOf(length: number, operation: "sum" | "gather" = "sum", deviceCount = 3): KeyPlan {
  return { key: 5, index: 0, shape: [length], length, resultLength: operation === "gather" ? deviceCount * length : length, operation };
}

/** As many threads as `threads` over one memory, of which each does the shares that are its turn. */
function backends(bytesMax: number, updater: ResolvedOptimizer | undefined, bigArrayLength: number, threads = 2): CpuBackend[] {
  const options: CpuBackendOptions = { dtype: "f32", threadCount: threads, keyCountMax: 4, bigArrayLength, updater };
  const memory = createCpuMemory(options, bytesMax);
  return Array.from({ length: threads }, (_, thread) => new CpuBackend(memory, options, { thread, exclusively: (act) => act() }));
}

function runRound(all: readonly CpuBackend[], task: ReduceTask): number {
  const [first] = all as [CpuBackend];
  const shares = first.runner.begin(task.plan, task.round);
  for (let share = 0; share < shares; share++) all[share % all.length]!.runner.runShare(task, share);
  return shares;
}

/** Bit for bit; quicker than deepEqual. */
function isEqual(one: Float32Array, other: Float32Array): boolean {
  const [a, b] = [one, other].map((floats) => new Int32Array(floats.slice().buffer)) as [Int32Array, Int32Array];
  return a.length === b.length && a.every((word, i) => word === b[i]);
}

const SPECS: readonly OptimizerSpec[] = [
  { type: "sgd", learningRate: 0.1, weightDecay: 0.01 },
  { type: "momentum", learningRate: 0.1, schedule: { type: "step", every: 2, factor: 0.5 } },
  { type: "nesterov", learningRate: 0.1 },
  { type: "adagrad", learningRate: 0.1, initialAccumulator: 0.1 },
  { type: "adam", learningRate: 0.1 },
  { type: "adamW", learningRate: 0.1, clipValue: 0.5 },
  { type: "rmsprop", learningRate: 0.1, momentum: 0.9 },
  { type: "ftrl" },
];

for (const spec of SPECS) {
  test(`${spec.type} makes the weights that the plain kernel makes of the same sums, in one share and in many`, () => {
    for (const [length, sharesExpected] of [
      [1001, 1],
      [MANY_FLOATS, 2],
    ] as const) {
      const resolved = resolveOptimizer(spec);
      const all = backends(64 * MIB, resolved, 100_000);
      const plan = planOf(length);
      const [backend] = all as [CpuBackend];
      backend.openKey(plan, resolved);
      backend.borrowResult(plan, 0).fill(1 as never);
      const reference = new Arena({ bytesMax: 32 * MIB });
      // The same bits.
      const kernels = length === MANY_FLOATS ? new SimdOptimizerKernels(reference) : new PlainOptimizerKernels(reference);
      const updater = new Updater(reference, kernels, resolved, { kind: "tensor", width: 1 });
      const values = putFloats(reference, new Float32Array(length).fill(1));
      const slots = reference.allocate(Math.max(4, updater.blockSlotBytes(length)));
      updater.startBlock(values, slots, length);
      const data = [0, 1, 2].map(() => backend.tensor([length]) as Float32Array);
      for (let round = 1; round <= 3; round++) {
        for (const [device, each] of data.entries()) for (let i = 0; i < length; i++) each[i] = value(device, round, i);
        const sum = Float32Array.from({ length }, (_, i) => Math.fround(Math.fround(data[0]![i]! + data[1]![i]!) + data[2]![i]!));
        const version = (round & 1) as 0 | 1;
        const refs = data.map((each) => each.byteOffset);
        const shares = runRound(all, { kind: "reduce", plan, round, version, sources: refs, targets: [refs[1]!] });
        assert.equal(shares, sharesExpected);
        updater.begin({ step: round, scheduleStep: round - 1, gradientScale: 1, workerRank: undefined, magnitude: 8 });
        updater.updateBlock({ target: values, source: values, slots, rowCount: length }, putFloats(reference, sum));
        const expected = readFloats(reference, values, length);
        assert.ok(isEqual(backend.borrowResult(plan, version) as Float32Array, expected), `round ${round} of ${length}`);
        assert.ok(isEqual(data[1]!, expected), "what it handed out");
      }
    }
  });
}

test("gather puts the rows of devices side by side, across shares, and zeros for a device that was lost", () => {
  const all = backends(64 * MIB, undefined, 1000);
  const [backend] = all as [CpuBackend];
  const plan = planOf(MANY_FLOATS, "gather");
  backend.openKey(plan, undefined);
  const data = [1, 2, 3].map((number) => (backend.tensor([MANY_FLOATS]) as Float32Array).fill(number));
  const target = backend.tensor([3 * MANY_FLOATS]) as Float32Array;
  const sources = [data[0]!.byteOffset, 0, data[2]!.byteOffset];
  const shares = runRound(all, { kind: "reduce", plan, round: 1, version: 1, sources, targets: [target.byteOffset] });
  assert.equal(shares, 4);
  const expected = new Float32Array(3 * MANY_FLOATS);
  expected.fill(1, 0, MANY_FLOATS).fill(3, 2 * MANY_FLOATS);
  assert.ok(isEqual(target, expected));
  assert.ok(isEqual(backend.borrowResult(plan, 1) as Float32Array, expected));
});

test("memory ends with ARENA_FULL, and what was taken for the key or given back is there again", () => {
  const [backend] = backends(2 * MIB, undefined, 1000) as [CpuBackend];
  assert.throws(() => backend.openKey(planOf(300_000), undefined), throwsCode("ARENA_FULL"));
  for (let i = 0; i < 10; i++) backend.free(backend.tensor([200_000]));
  const data = backend.tensor([10]);
  backend.free(data);
  assert.throws(() => backend.free(data), throwsCode("BAD_ARGUMENT", /once/));
  assert.throws(() => backend.free(new Float32Array(1)), throwsCode("BAD_ARGUMENT"));
});
