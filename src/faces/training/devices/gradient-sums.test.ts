// Goal: gradients are summed in the order of chunks, whole and once, whichever thread does which share, and the
// greatest magnitude of each is known.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { Arena } from "../../../kernel/arena.ts";
import type { HandOutTask, ReduceTask } from "../../../worker/level-one/model-backend.ts";
import { createMaxima, GradientSums, gradientKey, scratchWords } from "./gradient-sums.ts";

test("the first device has the sums, of large gradients that are cut and of small ones together, and their magnitudes (GradientSums.G1, G2)", () => {
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
  const maxima = createMaxima(lengths);
  const threads = [0, 1, 2].map((thread) => new GradientSums(arena, { lengths, addresses, scratch, maxima }, thread, () => 3));
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
