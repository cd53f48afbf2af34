// Goal: gradients are summed in the order of chunks, whole and once, whichever thread does which share, those that are
// products of factors too, and the greatest magnitude of each is known.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { Arena } from "../../../kernel/arena.ts";
import { PRODUCT, productScratchBytes } from "../../../nn/layer-kernels.ts";
import { Workspace } from "../../../nn/workspace.ts";
import type { HandOutTask, ReduceTask } from "../../../worker/level-one/model-backend.ts";
import { createFactorWords, GradientFactors } from "./gradient-factors.ts";
import { createMaxima, GradientSums, gradientKey, scratchWords } from "./gradient-sums.ts";

test("the first device has the sums, of large gradients that are cut and of small ones together, and their magnitudes (GradientSums.G1, GradientSums.G2)", () => {
  const lengths = [100_003, 5, 40_000, 1];
  const arena = new Arena({ bytesMax: 16 * 2 ** 20 });
  const random = new Random(3);
  const addresses = [0, 1, 2].map(() => lengths.map((length) => arena.allocate(length * 4)));
  const at = (device: number, parameter: number, i: number): number => addresses[device]![parameter]! / 4 + i;
  for (const device of addresses.keys())
    for (const [parameter, length] of lengths.entries())
      for (let i = 0; i < length; i++) arena.floats[at(device, parameter, i)] = (random.fraction() - 0.5) * 10 ** random.below(5);
  const expected = lengths.map((length, parameter) =>
    Float32Array.from({ length }, (_, i) => {
      const [a, b, c] = [0, 1, 2].map((device) => arena.floats[at(device, parameter, i)]!) as [number, number, number];
      return Math.fround(a + b) + c;
    }),
  );
  const scratch = addresses.map(() => arena.allocate(scratchWords(3) * 4));
  const products = lengths.map(() => undefined);
  const spans = { lengths, products, factors: createFactorWords(3, 4), addresses, scratch, maxima: createMaxima({ lengths, products }) };
  const threads = [0, 1, 2].map((thread) => new GradientSums(new Workspace({ arena }), spans, thread, () => 3));
  const plan = { ...gradientKey(lengths), index: 0 };
  const reduce: ReduceTask = { kind: "reduce", plan, round: 1, version: 1, sources: [1, 1, 1], targets: [1] };
  const shares = threads[0]!.runner.begin(plan, 1);
  assert.ok(shares > 2, `${shares} shares`);
  for (let share = 0; share < shares; share++) threads[share % 3]!.runner.runShare(reduce, share);
  const handOut: HandOutTask = { kind: "handOut", plan, version: 1, device: 0, target: 1 };
  for (let share = 0; share < threads[0]!.runner.begin(plan, 0); share++) threads[0]!.runner.runShare(handOut, share);
  for (const [parameter, sums] of expected.entries()) {
    const first = at(0, parameter, 0);
    assert.deepEqual(arena.floats.slice(first, first + sums.length), sums, `parameter ${parameter}`);
    const greatest = sums.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    for (const thread of threads) assert.equal(thread.magnitudeOf(parameter), greatest);
  }
  arena.floats[at(1, 2, 777)] = Number.NaN;
  for (let share = 0; share < shares; share++) threads[0]!.runner.runShare(reduce, share);
  assert.ok(!Number.isFinite(threads[1]!.magnitudeOf(2)));
});

test("rows of products are those of gradients that are added, chunk by chunk, and zeros if no chunk has samples (GradientSums.G1)", () => {
  const [rows, columns] = [203, 301];
  const arena = new Arena({ bytesMax: 16 * 2 ** 20 });
  const [workspace, random] = [new Workspace({ arena }), new Random(4)];
  workspace.reserveScratch(productScratchBytes(8));
  const noise = (count: number): number => {
    const { address, values } = workspace.floats(count);
    for (let i = 0; i < count; i++) values[i] = random.fraction() - 0.5;
    return address;
  };
  const lengths = [7, rows * columns, 3];
  const products = [undefined, { rows, columns }, undefined];
  const addresses = [0, 1, 2].map(() => lengths.map(noise));
  const factors = createFactorWords(3, lengths.length);
  const left = [5, 0, 8].map((sampleCount) => ({ outputGradientAt: noise(8 * rows), inputAt: noise(8 * columns), sampleCount }));
  const expected = workspace.floats(rows * columns);
  for (const [chunk, { outputGradientAt, inputAt, sampleCount }] of left.entries()) {
    new GradientFactors(factors, lengths.length).leave(chunk, 1, left[chunk]!);
    const flags = PRODUCT.firstTransposed | (chunk === 0 ? 0 : PRODUCT.accumulate);
    if (sampleCount > 0)
      workspace.kernels.multiply(rows, columns, sampleCount, outputGradientAt, inputAt, expected.address, flags, workspace.scratch);
  }
  const scratch = [0].map(() => workspace.words(scratchWords(3)).address);
  const spans = { lengths, products, factors, addresses, scratch, maxima: createMaxima({ lengths, products }) };
  const sums = new GradientSums(workspace, spans, 0, () => 3);
  const plan = { ...gradientKey(lengths), index: 0 };
  const run = (): Float32Array => {
    const task: ReduceTask = { kind: "reduce", plan, round: 1, version: 1, sources: [1, 1, 1], targets: [1] };
    const shares = sums.runner.begin(plan, 1);
    assert.ok(shares >= 4, "rows of a product are cut, and none shares with others");
    for (let share = shares - 1; share >= 0; share--) sums.runner.runShare(task, share);
    return new Float32Array(arena.memory.buffer, addresses[0]![1]!, rows * columns);
  };
  assert.deepEqual(run(), expected.values);
  assert.equal(
    sums.magnitudeOf(1),
    expected.values.reduce((most, value) => Math.max(most, Math.abs(value)), 0),
  );
  for (const chunk of left.keys()) new GradientFactors(factors, lengths.length).clear(chunk);
  assert.deepEqual(new Set(run()), new Set([0]));
});
