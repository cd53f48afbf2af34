// sum-batch — the keys and values of one request, cut into runs: consecutive keys of equal width, which one kernel call
// serves. Free functions over the arena's words; nothing is allocated per key.

import { badRequest } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { KEY_BYTES } from "../../kernel/elements.ts";

const LENGTH_BYTES = 4;

/** Addresses as in Push and PushVariable. */
export type SumBatch = {
  readonly keys: number;
  readonly keyCount: number;
  /** Address of the width (u32) of each key, or 0 when all have `width` elements. */
  readonly lens: number;
  readonly width: number;
  readonly values: number;
};

export function widthAt(arena: Arena, batch: SumBatch, index: number): number {
  return batch.lens === 0 ? batch.width : arena.words[(batch.lens >>> 2) + index]!;
}

/** The index after the last key of the run that begins at `from`. */
export function runEnd(arena: Arena, batch: SumBatch, from: number): number {
  if (batch.lens === 0) return batch.keyCount;
  const { words } = arena;
  const first = batch.lens >>> 2;
  const width = words[first + from];
  let end = from + 1;
  while (end < batch.keyCount && words[first + end] === width) end++;
  return end;
}

/** Checks a request's lengths (i32). Returns how many are 0. Throws BAD_REQUEST for a negative one or a wrong sum. */
export function checkLengths(arena: Arena, lens: number, keyCount: number, valueCount: number): number {
  const { words } = arena;
  let sum = 0;
  let zeroCount = 0;
  for (let i = 0; i < keyCount; i++) {
    const length = words[(lens >>> 2) + i]! | 0;
    if (length < 0) throw badRequest(`length ${i} is ${length}, which is negative`);
    if (length === 0) zeroCount++;
    sum += length;
  }
  if (sum !== valueCount) throw badRequest(`the lengths add up to ${sum}, but ${valueCount} values came`);
  return zeroCount;
}

/**
 * Calls `use` with the batch without its keys of length 0, in scratch memory that is released after it. `keptCount`
 * keys remain. Throws ARENA_FULL.
 */
export function withoutZeroLengths(arena: Arena, batch: SumBatch, keptCount: number, use: (batch: SumBatch) => void): void {
  if (keptCount === 0) return;
  const { words } = arena;
  const scratchBytes = keptCount * (KEY_BYTES + LENGTH_BYTES);
  const keys = arena.allocate(scratchBytes);
  const lens = keys + keptCount * KEY_BYTES;
  try {
    let kept = 0;
    for (let i = 0; i < batch.keyCount; i++) {
      const width = widthAt(arena, batch, i);
      if (width === 0) continue;
      words[(keys >>> 2) + kept * 2] = words[(batch.keys >>> 2) + i * 2]!;
      words[(keys >>> 2) + kept * 2 + 1] = words[(batch.keys >>> 2) + i * 2 + 1]!;
      words[(lens >>> 2) + kept] = width;
      kept++;
    }
    use({ ...batch, keys, lens, keyCount: keptCount });
  } finally {
    arena.release(keys, scratchBytes);
  }
}

/** Key `index` of a list. */
export function keyAt(arena: Arena, keys: number, index: number): bigint {
  const at = (keys >>> 2) + index * 2;
  return (BigInt(arena.words[at + 1]!) << 32n) | BigInt(arena.words[at]!);
}
