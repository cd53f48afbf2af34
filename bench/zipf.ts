// zipf — draws by Zipf's law, as words, users and the rows of an embedding are asked for: position i with a weight of
// (i + 1)^-exponent.

import type { Random } from "../src/base/random.ts";

export type ZipfLaw = { readonly positionCount: number; readonly exponent: number };

/** Each call draws a position. An exponent of 0 is uniform. */
export function zipfDraws(random: Random, { positionCount, exponent }: ZipfLaw): () => number {
  const sums = new Float64Array(positionCount);
  let sum = 0;
  for (let i = 0; i < positionCount; i++) sums[i] = sum += (i + 1) ** -exponent;
  return () => firstAbove(sums, random.fraction() * sum);
}

/** All positions, so that neighbours are not of like frequency. */
export function shuffledPositions(random: Random, positionCount: number): Uint32Array {
  const positions = Uint32Array.from({ length: positionCount }, (_, i) => i);
  for (let i = positionCount - 1; i > 0; i--) {
    const other = random.below(i + 1);
    const taken = positions[other]!;
    positions[other] = positions[i]!;
    positions[i] = taken;
  }
  return positions;
}

/** The first index whose sum is above `share`, or the last one. */
function firstAbove(sums: Float64Array, share: number): number {
  let low = 0;
  let high = sums.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sums[middle]! <= share) low = middle + 1;
    else high = middle;
  }
  return low;
}
