// Goal: SimdInitializerKernels equals PlainInitializerKernels bit for bit for every kind, span and key, and no value
// depends on how a parameter is cut into calls.

import assert from "node:assert/strict";
import { test } from "node:test";
import { putKeys, putWords, readFloats } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import {
  INITIALIZER,
  type InitializerKernels,
  RECIPE_BYTES,
  readRecipe,
  SimdInitializerKernels,
  writeRecipe,
} from "./initializer-kernels.ts";
import { normalQuantiles, QuantileTable, truncationCut } from "./normal-quantiles.ts";
import { PlainInitializerKernels } from "./plain-initializer-kernels.ts";

const KEY_MAX = 2n ** 64n - 1n;
const STREAM = 0xfedc_ba98_7654_3210n;
const KEYS = [0n, 1n, 2n, 3n, 2n ** 24n, 2n ** 24n + 1n, 2n ** 32n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n, KEY_MAX - 1n, KEY_MAX];
const KINDS = Object.keys(INITIALIZER) as (keyof typeof INITIALIZER)[];

function putRecipe(arena: Arena, kind: keyof typeof INITIALIZER): number {
  const address = arena.allocate(RECIPE_BYTES);
  const quantiles = new QuantileTable(arena).address;
  const scale = kind === "uniform" ? 3 / 2 ** 24 : 1.3;
  writeRecipe(arena, address, { kind: INITIALIZER[kind], quantiles, stream: STREAM, offset: -0.7, scale, top: 2.2, cut: truncationCut() });
  return address;
}

function elements(arena: Arena, kernels: InitializerKernels, recipe: number, count: number, first: bigint): Float32Array {
  const target = arena.allocate(count * 4 + 4);
  arena.floats[target / 4 + count] = 77;
  kernels.initialize(recipe, target, count, putKeys(arena, [first]));
  assert.equal(arena.floats[target / 4 + count], 77, "the float behind the span is not touched");
  return readFloats(arena, target, count);
}

for (const kind of KINDS) {
  test(`${kind} elements equal the plain reference bit for bit, from any index on`, () => {
    const arena = new Arena({ bytesMax: 2 ** 20 });
    const recipe = putRecipe(arena, kind);
    const simd = new SimdInitializerKernels(arena);
    const plain = new PlainInitializerKernels(arena);
    for (const first of KEYS) {
      for (const count of [0, 1, 2, 3, 4, 5, 8, 31].filter((length) => first + BigInt(length) <= KEY_MAX + 1n)) {
        const expected = elements(arena, plain, recipe, count, first);
        assert.deepEqual(elements(arena, simd, recipe, count, first), expected, `${count} from ${first}`);
      }
    }
    assert.deepEqual(elements(arena, simd, recipe, 5_000, 12_345n), elements(arena, plain, recipe, 5_000, 12_345n));
  });

  test(`${kind} elements do not depend on how they are cut into calls`, () => {
    const arena = new Arena({ bytesMax: 2 ** 19 });
    const recipe = putRecipe(arena, kind);
    const simd = new SimdInitializerKernels(arena);
    const whole = elements(arena, simd, recipe, 200, 1_000_001n);
    for (const cut of [1, 2, 3, 64, 99, 199]) {
      const pieces = [
        ...elements(arena, simd, recipe, cut, 1_000_001n),
        ...elements(arena, simd, recipe, 200 - cut, 1_000_001n + BigInt(cut)),
      ];
      assert.deepEqual(Float32Array.from(pieces), whole, `cut at ${cut}`);
    }
  });

  test(`${kind} rows equal the plain reference bit for bit, for every u64 key and width`, () => {
    for (const width of [1, 2, 3, 4, 5, 8, 16, 33]) {
      const arena = new Arena({ bytesMax: 2 ** 19 });
      const recipe = putRecipe(arena, kind);
      const addresses = KEYS.map(() => arena.allocate(width * 4 + 4));
      const rows = putWords(arena, addresses);
      const keys = putKeys(arena, KEYS);
      const read = (): Float32Array[] => addresses.map((address) => readFloats(arena, address, width + 1));
      new PlainInitializerKernels(arena).initializeRows(recipe, rows, keys, KEYS.length, width);
      const expected = read();
      for (const address of addresses) arena.floats.fill(0, address / 4, address / 4 + width);
      new SimdInitializerKernels(arena).initializeRows(recipe, rows, keys, KEYS.length, width);
      assert.deepEqual(read(), expected, `width ${width}`);
    }
  });
}

test("a recipe is read as it was written", () => {
  const arena = new Arena({ bytesMax: 2 ** 18 });
  const address = arena.allocate(RECIPE_BYTES);
  const recipe = {
    kind: INITIALIZER.truncatedNormal,
    quantiles: 4096,
    stream: KEY_MAX,
    offset: 0.1,
    scale: 1e-9,
    top: -3,
    cut: 2 ** 31 + 5,
  };
  writeRecipe(arena, address, recipe);
  assert.deepEqual(readRecipe(arena, address), recipe);
});

test("the quantiles are the normal distribution's within 1e-8", () => {
  // Quantiles of the standard normal distribution, from tables.
  const known: readonly (readonly [tail: number, z: number])[] = [
    [0.5 - 2 ** -33, 0],
    [0.25, 0.6744897501960817],
    [0.1, 1.2815515655446004],
    [0.05, 1.6448536269514722],
    [0.025, 1.9599639845400545],
    [0.01, 2.3263478740408408],
    [0.001, 3.090232306167813],
    [1e-6, 4.753424308822899],
    [1e-9, 5.997807014968721],
  ];
  const table = normalQuantiles();
  for (const [tail, z] of known) {
    const h = tail * 2 ** 33;
    const octave = Math.floor(Math.log2(h));
    const piece = (h / 2 ** octave - 1) * 32;
    const t = piece - Math.floor(piece);
    const [c0, c1, c2, c3] = table.subarray((octave * 32 + Math.floor(piece)) * 4);
    const found = c0! + t * (c1! + t * (c2! + t * c3!));
    assert.ok(Math.abs(found - z) < 1e-8, `tail ${tail}: ${found} is not ${z}`);
  }
  assert.ok(Math.abs(truncationCut() / 2 ** 33 - 0.022750131948179195) < 1e-9);
});
