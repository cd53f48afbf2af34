// expected-values — what the values of a case must be, so that a broken path cannot be measured.
// A key starts with a pattern that depends on its position and on the column within its row; each push adds a gradient
// that depends on the column. A block that lands in the wrong place, twice or not at all therefore changes some value.
//
// Invariants:
//   ExpectedValues.V1. All values are whole numbers below 2^24, so float32 sums are exact in any order.

import { assert } from "../src/base/assert.ts";

const EXACT_MAX = 2 ** 24;
const START_PERIOD = 251;
const GRADIENT_PERIOD = 3;

/**
 * Rows of `width` floats for the keys at positions `indices`. `pushCounts` says for the whole universe how often each
 * key was pushed.
 */
export type Rows = { readonly indices: Uint32Array; readonly width: number; readonly values: Float32Array };

export function fillWithStart({ indices, width, values }: Rows): void {
  for (let row = 0; row < indices.length; row++) {
    for (let column = 0; column < width; column++) values[row * width + column] = startValue(indices[row]!, column);
  }
}

/** The gradient of every push, times `factor`. */
export function fillWithGradient({ indices, width, values }: Rows, factorOf: (index: number) => number): void {
  for (let row = 0; row < indices.length; row++) {
    const factor = factorOf(indices[row]!);
    for (let column = 0; column < width; column++) values[row * width + column] = gradientValue(column) * factor;
  }
}

/** Throws at the first value that is not its start plus the gradients pushed to it. */
export function verify({ indices, width, values }: Rows, pushCountOf: (index: number) => number): void {
  for (let row = 0; row < indices.length; row++) {
    const index = indices[row]!;
    const pushCount = pushCountOf(index);
    assert(
      pushCount * GRADIENT_PERIOD + START_PERIOD < EXACT_MAX,
      "ExpectedValues.V1: a round must end before float32 sums become inexact",
    );
    for (let column = 0; column < width; column++) {
      const expected = startValue(index, column) + gradientValue(column) * pushCount;
      const actual = values[row * width + column]!;
      if (actual !== expected)
        throw new Error(`wrong value at key ${index}, column ${column} of ${width}: expected ${expected}, got ${actual}`);
    }
  }
}

/**
 * Throws at the first value of an optimizer that went another way than down from 0: every gradient there is, is
 * positive.
 */
export function verifyDescended({ indices, width, values }: Rows): void {
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (value < 0 && Number.isFinite(value)) continue;
    throw new Error(
      `wrong value at key ${indices[Math.floor(i / width)]}, column ${i % width} of ${width}: expected a descent below 0, got ${value}`,
    );
  }
}

function startValue(index: number, column: number): number {
  return 1 + ((index * 31 + column) % START_PERIOD);
}

function gradientValue(column: number): number {
  return 1 + (column % GRADIENT_PERIOD);
}
