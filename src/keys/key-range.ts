// key-range — half-open ranges of the 64-bit key space, and the even cut of it that ps-lite makes.

/** Keys from `begin` up to, not including, `end`; the last range ends at 2^64, so that every u64 is in one. */
export type Range = { readonly begin: bigint; readonly end: bigint };

const KEY_COUNT = 2n ** 64n;
const KEY_LAST = KEY_COUNT - 1n;

/** Range i of n starts at (2^64 − 1) / n · i, as in ps-lite; here the last one reaches to the very end. None for 0. */
export function evenRanges(count: number): readonly Range[] {
  const step = KEY_LAST / BigInt(Math.max(1, count));
  return Array.from({ length: count }, (_, i) => ({
    begin: step * BigInt(i),
    end: i === count - 1 ? KEY_COUNT : step * BigInt(i + 1),
  }));
}
