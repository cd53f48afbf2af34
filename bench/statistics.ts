// statistics — order statistics of small samples.

import { assert } from "../src/base/assert.ts";

/** The nearest-rank quantile of an ascending sample. */
export function quantile(ascending: ArrayLike<number>, share: number): number {
  assert(ascending.length > 0, "a quantile needs a sample");
  const rank = Math.ceil(share * ascending.length);
  return ascending[Math.max(rank, 1) - 1]!;
}

/** The median; of an even number of values, the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  assert(values.length > 0, "a median needs a sample");
  const ascending = [...values].sort((a, b) => a - b);
  const middle = ascending.length >> 1;
  return ascending.length % 2 === 1 ? ascending[middle]! : (ascending[middle - 1]! + ascending[middle]!) / 2;
}
