// Goal: an update that threads share has the bits of one thread's, whoever does which share, for every kind of
// optimizer; and a thread that ends within a share is noticed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { Arena } from "../../../kernel/arena.ts";
import { SimdOptimizerKernels } from "../../../kernel/optimizer-kernels.ts";
import { type OptimizerSpec, resolveOptimizer } from "../../../store/updaters/optimizer-spec.ts";
import { Updater } from "../../../store/updaters/updater.ts";
import { throwsCode } from "../../../testing/throws-code.ts";
import { createLoopWords, SharedLoop, UpdateKernels } from "./shared-loop.ts";

const BYTES_MAX = 64 * 2 ** 20;

/**
 * Three updates of values that depend on `rowCount` and `width` alone. `help`: what other threads do when they are
 * called.
 */
function updated(
  spec: OptimizerSpec,
  { rowCount, width }: { rowCount: number; width: number },
  help?: (loop: SharedLoop) => void,
): Float32Array {
  const arena = new Arena({ bytesMax: BYTES_MAX });
  const kernels = new UpdateKernels(arena);
  const [words, plain] = [createLoopWords(), new SimdOptimizerKernels(arena)];
  const [own, other] = [new SharedLoop(words, plain), new SharedLoop(words, plain)];
  let calls = 0;
  const call = (): void => {
    calls++;
    help?.(other);
  };
  if (help !== undefined) kernels.crew = { loop: own, call };
  const updater = new Updater(arena, kernels, resolveOptimizer(spec), { kind: "tensor", width });
  const floatCount = rowCount * width;
  const [values, gradients, slots] = [floatCount, floatCount, updater.blockSlotBytes(rowCount) / 4 + 1].map((count) =>
    arena.allocate(count * 4),
  ) as [number, number, number];
  const random = new Random(7);
  for (let i = 0; i < floatCount; i++) arena.floats[values / 4 + i] = random.fraction() - 0.5;
  updater.startBlock(values, slots, rowCount);
  for (let step = 1; step <= 3; step++) {
    for (let i = 0; i < floatCount; i++) arena.floats[gradients / 4 + i] = random.fraction() - 0.5;
    updater.begin({ step, scheduleStep: step - 1, gradientScale: 1, workerRank: undefined });
    updater.updateBlock({ target: values, source: values, slots, rowCount }, gradients);
  }
  assert.equal(calls, help === undefined ? 0 : 3);
  return arena.floats.slice(values / 4, values / 4 + floatCount);
}

for (const type of ["sgd", "momentum", "adagrad", "adam", "rmsprop"] as const)
  test(`${type}: shared updates have the bits of one thread's, of wide rows, of single numbers and of few rows (SharedLoop.S2)`, () => {
    for (const shape of [
      { rowCount: 301, width: 400 },
      { rowCount: 120_001, width: 1 },
      { rowCount: 2, width: 70_000 },
    ]) {
      const expected = updated({ type, learningRate: 0.1 }, shape);
      assert.deepEqual(
        updated({ type, learningRate: 0.1 }, shape, () => {}),
        expected,
        "alone",
      );
      assert.deepEqual(
        updated({ type, learningRate: 0.1 }, shape, (other) => other.help()),
        expected,
        "another does all",
      );
    }
  });

test("a thread that ends within a share is noticed: NODE_DEAD (SharedLoop.S3)", () => {
  const words = createLoopWords();
  let shares = 0;
  const loop = new SharedLoop(words, { updateBlock: () => void shares++ }, 0);
  const claimOne = (): void => void Atomics.sub(words, 0, 1);
  assert.throws(
    () => loop.update(claimOne, 0, 64, 64, 64, 4096, 64, 100_000, 1, 64),
    throwsCode("NODE_DEAD", /ended while it updated values/),
  );
  assert.equal(shares, 3);
  loop.update(() => {}, 0, 64, 64, 64, 4096, 64, 100_000, 1, 64);
  assert.deepEqual([shares, loop.hasShares], [7, false]);
});
