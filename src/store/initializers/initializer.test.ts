// Goal: initial values have the distribution that their spec says, are unrelated to each other, and are the same
// however a parameter is sharded. The seeds are fixed, so nothing here is left to chance; the limits are those that a
// sound generator passes all but once in a million.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Arena } from "../../kernel/arena.ts";
import { SimdInitializerKernels } from "../../kernel/initializer-kernels.ts";
import { QuantileTable } from "../../kernel/normal-quantiles.ts";
import { putKeys, putWords, readFloats } from "../../testing/arena-lists.ts";
import { Initializer, streamOf } from "./initializer.ts";
import { type InitializerSpec, resolveInitializer } from "./initializer-spec.ts";

const COUNT = 1_000_000;
/** Standard errors: a sound generator is further off once in two million. */
const SIGMAS = 5;

function drawn(
  spec: InitializerSpec,
  options: { name?: string; shape?: readonly number[]; first?: number; count?: number } = {},
): Float32Array {
  const { name = "embedding", shape = [COUNT], first = 0, count = COUNT } = options;
  const arena = new Arena({ bytesMax: 2 ** 23 });
  const kernels = new SimdInitializerKernels(arena);
  const initializer = new Initializer(arena, kernels, new QuantileTable(arena), resolveInitializer(spec), { name, shape });
  const target = arena.allocate(count * 4);
  initializer.fill(target, count, first);
  return readFloats(arena, target, count);
}

/** Rows of consecutive keys, side by side. */
function drawnRows(spec: InitializerSpec, width: number, keys: readonly bigint[]): Float32Array {
  const arena = new Arena({ bytesMax: 2 ** 24 });
  const kernels = new SimdInitializerKernels(arena);
  const initializer = new Initializer(arena, kernels, new QuantileTable(arena), resolveInitializer(spec), { name: "t", shape: [width] });
  const target = arena.allocate(keys.length * width * 4);
  const rows = putWords(
    arena,
    keys.map((_, i) => target + i * width * 4),
  );
  initializer.kernels.initializeRows(initializer.recipe, rows, putKeys(arena, keys), keys.length, width);
  return readFloats(arena, target, keys.length * width);
}

function mean(values: Float32Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The mean of (value - center)^power, in units of std. */
function moment(values: Float32Array, power: number, center: number, std: number): number {
  return values.reduce((sum, value) => sum + ((value - center) / std) ** power, 0) / values.length;
}

/** The correlation of two lists. */
function correlation(left: Float32Array, right: Float32Array): number {
  const [a, b] = [mean(left), mean(right)];
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < left.length; i++) {
    ab += (left[i]! - a) * (right[i]! - b);
    aa += (left[i]! - a) ** 2;
    bb += (right[i]! - b) ** 2;
  }
  return ab / Math.sqrt(aa * bb);
}

/**
 * The greatest distance between the values' distribution and `cdf` (Kolmogorov and Smirnov), times √count: above 2.7
 * once in a million.
 */
function distance(values: Float32Array, cdf: (x: number) => number): number {
  let greatest = 0;
  for (const [i, value] of values.toSorted().entries()) {
    const expected = cdf(value);
    greatest = Math.max(greatest, Math.abs(i / values.length - expected), Math.abs((i + 1) / values.length - expected));
  }
  return greatest * Math.sqrt(values.length);
}

/** Φ by its series around 0; good to 1e-12 for |x| < 6. */
function normalCdf(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 3; n < 160; n += 2) {
    term *= (x * x) / n;
    sum += term;
  }
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}

function assertUnrelated(left: Float32Array, right: Float32Array, what: string): void {
  const found = correlation(left, right) * Math.sqrt(left.length);
  assert.ok(Math.abs(found) < SIGMAS, `${what}: correlated by ${found} standard errors`);
}

describe("a million values", () => {
  test("uniform: within the range, with its mean, variance and distribution", () => {
    const values = drawn({ type: "uniform", low: -0.5, high: 0.4, seed: 123 });
    assert.ok(values.every((value) => value >= -0.5 && value < Math.fround(0.4)));
    const std = 0.9 / Math.sqrt(12);
    assert.ok(Math.abs(mean(values) + 0.05) < (SIGMAS * std) / Math.sqrt(COUNT));
    assert.ok(Math.abs(moment(values, 2, -0.05, std) - 1) < SIGMAS * Math.sqrt(0.8 / COUNT));
    assert.ok(distance(values, (x) => (x + 0.5) / 0.9) < 2.7);
  });

  test("normal: with its mean, variance, skewness, kurtosis, tails and distribution", () => {
    const values = drawn({ type: "normal", mean: 5.6, std: 2, seed: 123 });
    assert.ok(Math.abs(mean(values) - 5.6) < (SIGMAS * 2) / Math.sqrt(COUNT));
    assert.ok(Math.abs(moment(values, 2, 5.6, 2) - 1) < SIGMAS * Math.sqrt(2 / COUNT));
    assert.ok(Math.abs(moment(values, 3, 5.6, 2)) < SIGMAS * Math.sqrt(15 / COUNT));
    assert.ok(Math.abs(moment(values, 4, 5.6, 2) - 3) < SIGMAS * Math.sqrt(96 / COUNT));
    assert.ok(distance(values, (x) => normalCdf((x - 5.6) / 2)) < 2.7);
    for (const sigmas of [1, 2, 3, 4]) {
      const expected = COUNT * 2 * (1 - normalCdf(sigmas));
      const found = values.filter((value) => Math.abs(value - 5.6) > sigmas * 2).length;
      assert.ok(Math.abs(found - expected) < SIGMAS * Math.sqrt(expected), `${found} beyond ${sigmas} σ, expected ${expected}`);
    }
  });

  test("truncated normal: within two standard deviations, distributed as if resampled", () => {
    const values = drawn({ type: "truncatedNormal", mean: -2.3, std: 1.4, seed: 123 });
    assert.ok(values.every((value) => value >= Math.fround(-5.1) && value <= Math.fround(0.5)));
    const std = 0.8796256610342398 * 1.4;
    assert.ok(Math.abs(mean(values) + 2.3) < (SIGMAS * std) / Math.sqrt(COUNT));
    assert.ok(Math.abs(moment(values, 2, -2.3, std) - 1) < SIGMAS * Math.sqrt(1.4 / COUNT));
    const [low, high] = [normalCdf(-2), normalCdf(2)];
    assert.ok(distance(values, (x) => (normalCdf((x + 2.3) / 1.4) - low) / (high - low)) < 2.7);
  });

  test("Xavier and He: the variance that the shape asks for, in every distribution", () => {
    for (const distribution of ["uniform", "normal", "truncatedNormal"] as const) {
      const shape = [1000, 250, 2, 2];
      const variance = (spec: InitializerSpec): number => moment(drawn(spec, { shape }), 2, 0, 1);
      const close = (found: number, expected: number): void =>
        assert.ok(Math.abs(found / expected - 1) < 0.01, `${found} is not ${expected}`);
      close(variance({ type: "xavier", distribution }), 2 / (1000 + 4000));
      close(variance({ type: "xavier", distribution, gain: 3 }), 18 / (1000 + 4000));
      close(variance({ type: "he", distribution }), 2 / 1000);
      close(variance({ type: "he", distribution, fan: "out" }), 2 / 4000);
    }
  });

  test("constant: the value itself", () => {
    assert.ok(drawn({ type: "constant", value: 0.1 }, { count: 1000 }).every((value) => value === Math.fround(0.1)));
  });
});

describe("values are unrelated", () => {
  const spec: InitializerSpec = { type: "uniform", low: -1, high: 1, seed: 7 };

  test("to their neighbours, at every small and many a greater distance", () => {
    const values = drawn(spec);
    for (const lag of [1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 32, 63, 64, 65, 128, 1000, 1024, 65_536]) {
      assertUnrelated(values.subarray(lag), values.subarray(0, COUNT - lag), `lag ${lag}`);
    }
  });

  test("to the squares of their neighbours", () => {
    const values = drawn({ type: "normal", mean: 0, std: 1 });
    const squares = values.map((value) => value * value);
    for (const lag of [1, 2, 3, 64]) assertUnrelated(squares.subarray(lag), squares.subarray(0, COUNT - lag), `lag ${lag}`);
  });

  test("between the halves of a parameter, as two servers hold them", () => {
    const values = drawn(spec);
    assert.notDeepEqual(values.subarray(0, COUNT / 2), values.subarray(COUNT / 2));
    assertUnrelated(values.subarray(0, COUNT / 2), values.subarray(COUNT / 2), "halves");
  });

  test("between parameters of other names and seeds", () => {
    const values = drawn(spec);
    assertUnrelated(values, drawn(spec, { name: "embeddinh" }), "another name");
    assertUnrelated(values, drawn(spec, { name: "" }), "no name");
    assertUnrelated(values, drawn({ ...spec, seed: 8 }), "another seed");
    assert.equal(new Set(Array.from({ length: 10_000 }, (_, i) => streamOf(i % 100, `layer${Math.floor(i / 100)}`))).size, 10_000);
  });

  test("between rows of neighbouring keys, and between the columns of a row", () => {
    const width = 16;
    const keys = Array.from({ length: 40_000 }, (_, i) => BigInt(i));
    const values = drawnRows(spec, width, keys);
    assert.ok(distance(values, (x) => (x + 1) / 2) < 2.7);
    for (const lag of [1, 2, 3, width - 1, width, width + 1, 2 * width, 100 * width]) {
      assertUnrelated(values.subarray(lag), values.subarray(0, values.length - lag), `lag ${lag}`);
    }
    const rows = new Set(keys.map((_, i) => values.subarray(i * width, (i + 1) * width).join()));
    assert.equal(rows.size, keys.length, "no row repeats another");
  });

  test("between keys that differ in one bit, each of the 64", () => {
    const width = 1000;
    const keys = [0n, ...Array.from({ length: 64 }, (_, bit) => 1n << BigInt(bit))];
    const values = drawnRows(spec, width, keys);
    const first = values.subarray(0, width);
    for (let i = 1; i < keys.length; i++) assertUnrelated(first, values.subarray(i * width, (i + 1) * width), `bit ${i - 1}`);
  });
});

describe("a value depends on its place alone", () => {
  const spec: InitializerSpec = { type: "truncatedNormal", mean: 0, std: 1, seed: 3 };

  test("so every cut of a tensor over servers gives the same tensor", () => {
    const whole = drawn(spec, { count: 10_000 });
    for (const servers of [2, 3, 7]) {
      const length = Math.ceil(10_000 / servers);
      const parts = Array.from({ length: servers }, (_, s): number[] => {
        return [...drawn(spec, { first: s * length, count: Math.min(length, 10_000 - s * length) })];
      });
      assert.deepEqual(Float32Array.from(parts.flat()), whole);
    }
  });

  test("and indexes beyond 2^24 and 2^32 are exact", () => {
    for (const first of [2 ** 24, 2 ** 32, 2 ** 52]) {
      const values = drawn(spec, { first, count: 8 });
      assert.equal(new Set(values).size, 8);
      assert.deepEqual(drawn(spec, { first: first + 1, count: 1 })[0], values[1]);
    }
  });

  test("and the same in every release: these are pinned", () => {
    const pinned = (type: "uniform" | "normal" | "truncatedNormal"): number[] => {
      return [
        ...drawn(type === "uniform" ? { type, low: 0, high: 1, seed: 1 } : { type, mean: 0, std: 1, seed: 1 }, { name: "w", count: 3 }),
      ];
    };
    assert.deepEqual(pinned("uniform"), [0.7158956527709961, 0.6434247493743896, 0.7756497263908386]);
    assert.deepEqual(pinned("normal"), [-0.3639495372772217, -0.46291571855545044, 0.28499263525009155]);
    assert.deepEqual(pinned("truncatedNormal"), [-0.34669229388237, -0.4403977394104004, 0.2716934084892273]);
  });
});
