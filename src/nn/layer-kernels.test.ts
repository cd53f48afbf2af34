// Goal: the unfused nn module equals PlainLayerKernels bit for bit, for every kernel and for lengths on both sides of
// every edge, and writes nowhere but where it should: the whole memory is compared. The fused one is as near to the
// exact product as its rounding allows.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { exponential, PlainLayerKernels } from "../../test/support/plain-layer-kernels.ts";
import { Random } from "../base/random.ts";
import { Arena } from "../kernel/arena.ts";
import { putFloats, putWords, readFloats, readWords } from "../testing/arena-lists.ts";
import { canFuse, type LayerKernels, openLayerKernels, PRODUCT, productScratchBytes } from "./layer-kernels.ts";

const ARENA_BYTES = 2 ** 19;
const PRODUCTS_ARENA_BYTES = 2 ** 24;
const GUARD_FLOATS = 16;
const EPSILON = 2 ** -24;

/** Seeded data in an arena of its own. */
class Stage {
  readonly arena: Arena;
  readonly #random = new Random(7);

  constructor(bytesMax: number = ARENA_BYTES) {
    this.arena = new Arena({ bytesMax });
  }

  /** Of either sign, over a few orders of magnitude, some of them 0. */
  noise(count: number): number {
    const value = (): number => (this.#random.chance(0.1) ? 0 : (this.#random.fraction() - 0.5) * 2 ** (this.#random.below(8) - 4));
    return putFloats(this.arena, Float32Array.from({ length: count }, value));
  }

  /** Whole numbers below `bound`; with `strays` some are far outside, on both sides. */
  ids(count: number, bound: number, strays = false): number {
    const id = (): number =>
      strays && this.#random.chance(0.2) ? [bound, 2 ** 31, 2 ** 32 - 1][this.#random.below(3)]! : this.#random.below(bound);
    return putWords(this.arena, Array.from({ length: count }, id));
  }

  doubles(count: number): number {
    return this.arena.allocate(count * 8);
  }
}

/** Runs the same calls on both; `act` may return what a kernel returned. */
function assertSameMemory(act: (kernels: LayerKernels, stage: Stage) => unknown, isFused = false): void {
  const [ours, theirs] = [new Stage(), new Stage()];
  const given = act(openLayerKernels(ours.arena, isFused), ours);
  const expected = act(new PlainLayerKernels(theirs.arena), theirs);
  assert.deepEqual(given, expected);
  const [left, right] = [ours.arena.words, theirs.arena.words];
  for (let i = 0; i < left.length; i++) {
    if (left[i] !== right[i]) assert.fail(`word ${i} is ${ours.arena.floats[i]}, expected ${theirs.arena.floats[i]}`);
  }
}

const SHAPES: readonly [number, number, number][] = [1, 2, 3, 4, 5, 6, 15, 16, 17].flatMap((m) =>
  [1, 3, 4, 7, 8, 9, 12, 16, 21].flatMap((n) => [1, 3, 4, 5, 11].map((k): [number, number, number] => [m, n, k])),
);

describe("products", () => {
  for (const flags of [0, PRODUCT.accumulate, PRODUCT.firstTransposed, PRODUCT.firstTransposed | PRODUCT.accumulate]) {
    test(`multiply equals the reference for every edge of its tiles, flags ${flags}`, () => {
      assertSameProducts((kernels, stage, [m, n, k], target) => {
        const scratch = stage.arena.allocate(productScratchBytes(k));
        kernels.multiply(m, n, k, stage.noise(m * k), stage.noise(k * n), target, flags, scratch);
      });
    });

    test(`multiplyRows makes those rows of what multiply makes, and no others, flags ${flags}`, () => {
      for (const [m, n, k] of [
        [21, 9, 5],
        [16, 8, 4],
        [5, 3, 1],
      ] as const)
        for (const [from, to] of [
          [0, m],
          [0, 4],
          [3, m],
          [4, m - 1],
          [2, 2],
        ] as const)
          assertSameMemory((kernels, stage) => {
            const target = stage.noise(m * n + GUARD_FLOATS);
            const scratch = stage.arena.allocate(productScratchBytes(k));
            kernels.multiplyRows(from, to, m, n, k, stage.noise(m * k), stage.noise(k * n), target, flags, scratch);
            stage.arena.bytes.fill(0, scratch, scratch + productScratchBytes(k));
          });
    });
  }

  for (const flags of [0, PRODUCT.accumulate]) {
    test(`multiplyTransposed equals the reference for every edge of its tiles, flags ${flags}`, () => {
      assertSameProducts((kernels, stage, [m, n, k], target) => {
        kernels.multiplyTransposed(m, n, k, stage.noise(m * k), stage.noise(n * k), target, flags);
      });
    });
  }

  test("fused products are within k roundings of the exact ones", { skip: canFuse() ? false : "this engine has no relaxed SIMD" }, () => {
    const stage = new Stage(PRODUCTS_ARENA_BYTES);
    const kernels = openLayerKernels(stage.arena, true);
    for (const [m, n, k] of [...SHAPES, [6, 25, 784], [64, 120, 400]] as const) {
      const [a, b, bt, c] = [stage.noise(m * k), stage.noise(k * n), stage.noise(n * k), stage.noise(m * n)];
      kernels.multiply(m, n, k, a, b, c, 0, stage.arena.allocate(productScratchBytes(k)));
      assertNearProduct(stage.arena, { m, n, k, a, b: (d, j) => b / 4 + d * n + j, c });
      kernels.multiplyTransposed(m, n, k, a, bt, c, 0);
      assertNearProduct(stage.arena, { m, n, k, a, b: (d, j) => bt / 4 + j * k + d, c });
    }
  });
});

/**
 * Multiplies in every shape on both, into a target that has some floats before and behind that must stay as they are.
 */
function assertSameProducts(
  act: (kernels: LayerKernels, stage: Stage, shape: readonly [number, number, number], target: number) => void,
): void {
  const [ours, theirs] = [new Stage(PRODUCTS_ARENA_BYTES), new Stage(PRODUCTS_ARENA_BYTES)];
  const sides = [
    { stage: ours, kernels: openLayerKernels(ours.arena, false) },
    { stage: theirs, kernels: new PlainLayerKernels(theirs.arena) },
  ];
  for (const shape of SHAPES) {
    const [given, expected] = sides.map(({ stage, kernels }) => {
      const count = shape[0] * shape[1] + 2 * GUARD_FLOATS;
      const start = stage.noise(count);
      act(kernels, stage, shape, start + GUARD_FLOATS * 4);
      return readFloats(stage.arena, start, count);
    });
    assert.deepEqual(given, expected, shape.join(" × "));
  }
}

type NearProduct = {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: number;
  readonly b: (depth: number, column: number) => number;
  readonly c: number;
};

/** |error| ≤ k · 2^-24 · Σ |a·b|, the textbook bound of a sum of k products that are rounded once each. */
function assertNearProduct({ floats }: Arena, { m, n, k, a, b, c }: NearProduct): void {
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let [exact, magnitude] = [0, 0];
      for (let d = 0; d < k; d++) {
        const product = floats[a / 4 + i * k + d]! * floats[b(d, j)]!;
        exact += product;
        magnitude += Math.abs(product);
      }
      const error = Math.abs(floats[c / 4 + i * n + j]! - exact);
      assert.ok(error <= k * EPSILON * magnitude, `${m} × ${n} × ${k} at (${i}, ${j}): off by ${error}`);
    }
  }
}

describe("the other kernels equal the reference bit for bit, fused or not", () => {
  for (const isFused of canFuse() ? [false, true] : [false]) {
    const name = isFused ? "fused" : "plain";

    test(`frames, ${name}`, () => {
      for (const [planes, height, width, frame] of [
        [1, 1, 1, 1],
        [3, 4, 5, 2],
        [2, 7, 3, 1],
        [2, 5, 9, 0],
      ] as const) {
        assertSameMemory((kernels, stage) => {
          const [plain, framed] = [planes * height * width, planes * (height + 2 * frame) * (width + 2 * frame)];
          kernels.framePlanes(stage.noise(plain), planes, height, width, frame, stage.noise(framed + 8));
          kernels.unframePlanes(stage.noise(framed), planes, height, width, frame, stage.noise(plain + 8));
        }, isFused);
      }
    });

    test(`unfolding and folding, ${name}`, () => {
      for (const [channels, height, width, size] of [
        [1, 1, 1, 1],
        [2, 5, 5, 5],
        [3, 6, 8, 3],
        [2, 7, 14, 5],
        [1, 4, 5, 2],
      ] as const) {
        assertSameMemory((kernels, stage) => {
          const [image, columns] = [channels * height * width, channels * size * size * (height - size + 1) * (width - size + 1)];
          kernels.unfold(stage.noise(image), channels, height, width, size, stage.noise(columns + 8));
          kernels.fold(stage.noise(columns), channels, height, width, size, stage.noise(image + 8));
        }, isFused);
      }
    });

    test(`biases and their sums, ${name}`, () => {
      for (const [rows, columns] of [
        [1, 1],
        [3, 4],
        [5, 7],
        [2, 17],
        [6, 33],
      ] as const) {
        assertSameMemory((kernels, stage) => {
          for (const isRelu of [0, 1]) {
            kernels.addBiasToRows(stage.noise(rows * columns + 4), rows, columns, stage.noise(rows), isRelu);
            kernels.addBiasToColumns(stage.noise(rows * columns + 4), rows, columns, stage.noise(columns), isRelu);
          }
          kernels.addRowSums(stage.noise(rows * columns), rows, columns, stage.noise(rows + 4));
          kernels.addColumnSums(stage.noise(rows * columns), rows, columns, stage.noise(columns + 4));
        }, isFused);
      }
    });

    test(`activations, ${name}`, () => {
      for (const count of [1, 3, 4, 6, 64]) {
        assertSameMemory((kernels, stage) => {
          kernels.relu(stage.noise(count), count, stage.noise(count + 4));
          kernels.reluGradient(stage.noise(count), stage.noise(count), count, stage.noise(count + 4));
          kernels.sigmoid(stage.noise(count), count, stage.noise(count + 4));
          kernels.sigmoidGradient(stage.noise(count), stage.noise(count), count, stage.noise(count + 4));
        }, isFused);
      }
    });

    test(`pools, also those that do not divide the plane, ${name}`, () => {
      for (const [planes, height, width, size] of [
        [1, 2, 2, 2],
        [3, 5, 11, 2],
        [2, 8, 20, 2],
        [2, 7, 7, 3],
        [2, 3, 4, 1],
      ] as const) {
        assertSameMemory((kernels, stage) => {
          const [inFloats, outFloats] = [height * width, Math.floor(height / size) * Math.floor(width / size)];
          const indexes = stage.ids(planes * outFloats + 4, 1);
          kernels.maxPool(stage.noise(planes * inFloats), planes, height, width, size, stage.noise(planes * outFloats + 4), indexes);
          kernels.maxPoolGradient(
            stage.noise(planes * outFloats),
            indexes,
            planes,
            outFloats,
            inFloats,
            stage.noise(planes * inFloats + 4),
          );
          return readWords(stage.arena, indexes, planes * outFloats);
        }, isFused);
      }
    });

    test(`softmax, ${name}`, () => {
      for (const columns of [2, 4, 7, 10]) {
        assertSameMemory((kernels, stage) => {
          const rows = 5;
          const [logits, labels, gradient] = [stage.noise(rows * columns), stage.ids(rows, columns), stage.noise(rows * columns + 4)];
          kernels.softmaxGradient(logits, labels, rows, columns, 1 / 3, gradient, stage.noise(rows), stage.noise(rows));
        }, isFused);
      }
    });

    test(`channels, ${name}`, () => {
      for (const [samples, channels, plane] of [
        [1, 1, 1],
        [3, 2, 9],
        [4, 3, 1],
        [2, 5, 16],
      ] as const) {
        assertSameMemory((kernels, stage) => {
          const count = samples * channels * plane;
          const [x, y, a, b, shift] = [
            stage.noise(count),
            stage.noise(count),
            stage.noise(channels),
            stage.noise(channels),
            stage.noise(channels),
          ];
          kernels.channelSums(x, y, samples, channels, plane, stage.doubles(channels), stage.doubles(channels));
          kernels.combineChannels(x, y, samples, channels, plane, a, b, shift, stage.noise(count + 4));
        }, isFused);
      }
    });

    test(`pairs, ${name}`, () => {
      for (const width of [1, 3, 4, 10]) {
        assertSameMemory((kernels, stage) => {
          const rows = stage.noise(5 * 2 * width);
          kernels.dotOfHalves(rows, 5, width, stage.noise(5 + 4));
          kernels.dotOfHalvesGradient(stage.noise(5), rows, 5, width, stage.noise(5 * 2 * width + 4));
        }, isFused);
      }
    });

    test(`embeddings, with ids out of range, ${name}`, () => {
      for (const [width, bagCount, bagSize] of [
        [1, 4, 3],
        [6, 5, 1],
        [16, 3, 4],
      ] as const) {
        assertSameMemory((kernels, stage) => {
          const rowCount = 9;
          const ids = stage.ids(bagCount * bagSize, rowCount, true);
          kernels.sumOfRows(stage.noise(rowCount * width), rowCount, width, ids, bagCount, bagSize, stage.noise(bagCount * width + 4));
          kernels.addToRows(stage.noise(bagCount * width), width, ids, bagCount, bagSize, rowCount, stage.noise(rowCount * width + 4));
          return [kernels.findOutOfRange(ids, bagCount * bagSize, rowCount), kernels.findOutOfRange(stage.ids(20, 9), 20, 9)];
        }, isFused);
      }
    });
  }
});

test("the exponential is within 2 units in the last place, and is held at the ends of its range", () => {
  for (let x = -87; x <= 88; x += 0.0137) {
    const [given, exact] = [exponential(Math.fround(x)), Math.exp(Math.fround(x))];
    assert.ok(Math.abs(given - exact) <= 2 * 2 ** -23 * exact, `e^${x}: ${given}, expected ${exact}`);
  }
  assert.equal(exponential(-1000), exponential(-87.25));
  assert.equal(exponential(1000), exponential(88.5));
  assert.ok(exponential(-1000) > 0 && Number.isFinite(exponential(1000)));
  assert.ok(Number.isNaN(exponential(Number.NaN)));
});

test("the module works on memory that is not shared", () => {
  const arena = new Arena({ bytesMax: ARENA_BYTES, shared: false });
  const kernels = openLayerKernels(arena);
  const [input, output] = [putFloats(arena, [-1, 2]), putFloats(arena, [9, 9])];
  kernels.relu(input, 2, output);
  assert.deepEqual([...readFloats(arena, output, 2)], [0, 2]);
});
