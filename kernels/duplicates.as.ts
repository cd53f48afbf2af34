// duplicates — finds repeated keys in a list by a scratch hash, and sums what belongs to one key.
//
//   scratch    u32 × 2^b, b = slotBits(n): at least two slots for each key
//              0 = free, else [ tag : 32 - b bits | 1 + unique index : b bits ]
//
//   Duplicates.D1. Unique keys stand in the order of their first occurrences: the index of a first occurrence is the
//       number of unique keys before it.
//   Duplicates.D2. A tag match is believed only after the keys agree, so the hash decides nothing but speed; it is
//       keyed, so chosen keys cannot slow it.
//   Duplicates.D3. Nothing is written but the scratch until the first duplicate is met. A list without any is sent as
//       it is.
//   Duplicates.D4. A unique index is never greater than the position it is found at: unique keys may be written over
//       the list, and summed rows over the gradients.
//   Duplicates.D5. After the first duplicate keys are listed by runs, each in one of two ways that give the same: with
//       branches where nearly all keys of the run before were new, or nearly all known; without where they were mixed.
//       Zipf took 6.9 ns a key instead of 9.7 (minima), lists of uniform draws from 1,000 to 1,000,000 keys about as
//       long as before; where nearly all keys are known, none at all took 1.3 times as long.

import { addFloats, copyFloats, extremeFloats } from "./floats.as";

const BITS_MIN: u32 = 4;
/** So many keys are listed in one way; how many of them were new chooses the way for the next. */
const RUN_KEYS: u32 = 256;
/** A branch pays where fewer keys of a run than this differ from the others in being new. */
const FEW_OTHERS: u32 = 40;

/** The scratch of a list of n keys has 2^slotBits(n) slots. */
@inline function slotBits(n: u32): u32 {
  return max(BITS_MIN, 33 - clz(max(n, 1) - 1 | 1)); // from one more than the bits of n - 1
}

@inline function hashOf(key: u64, factor: u64): u64 {
  key = (key ^ (key >> 32)) * factor;
  return (key ^ (key >> 32)) * 0xd6e8feb86659fd93;
}

@inline function keyAt(keys: usize, index: u32): u64 {
  return load<u64>(keys + (<usize>index << 3));
}

/** The slot that holds `key`, or the free one where it belongs. `known` are the unique keys so far. */
@inline function slotOf(scratch: usize, bits: u32, hash: u64, key: u64, known: usize): usize {
  const indexMask: u32 = (1 << bits) - 1, tag = <u32>hash & ~indexMask;
  let at = <u32>(hash >> (64 - <u64>bits));
  while (true) {
    const slot = scratch + (<usize>at << 2), word = load<u32>(slot);
    // Duplicates.D2
    if (word == 0 || ((word & ~indexMask) == tag && keyAt(known, (word & indexMask) - 1) == key)) return slot;
    at = (at + 1) & indexMask;
  }
}

/**
 * As slotOf, without a branch that tells new keys from known ones. For a free slot it reads what lies before the unique
 * keys, and ignores it.
 */
@inline function slotOfMixed(scratch: usize, bits: u32, hash: u64, key: u64, known: usize): usize {
  const indexMask: u32 = (1 << bits) - 1, tag = <u32>hash & ~indexMask;
  let at = <u32>(hash >> (64 - <u64>bits));
  while (true) {
    const slot = scratch + (<usize>at << 2), word = load<u32>(slot);
    const isKnown = u32((word & ~indexMask) == tag) & u32(keyAt(known, (word & indexMask) - 1) == key); // Duplicates.D2
    if ((u32(word == 0) | isKnown) != 0) return slot;
    at = (at + 1) & indexMask;
  }
}

/**
 * Lists the keys from `i` up to `end`, most of which are new, or most of which are known. Returns how many unique keys
 * there are then.
 */
function listAlike(
  keys: usize, i: u32, end: u32, bits: u32, factor: u64, scratch: usize, uniqueKeys: usize, indexes: usize, count: u32,
): u32 {
  const tagMask: u32 = ~((1 << bits) - 1);
  for (; i < end; i++) {
    const key = keyAt(keys, i), hash = hashOf(key, factor), slot = slotOf(scratch, bits, hash, key, uniqueKeys);
    const word = load<u32>(slot);
    if (word != 0) {
      store<u32>(indexes + (<usize>i << 2), (word & ~tagMask) - 1);
      continue;
    }
    store<u64>(uniqueKeys + (<usize>count << 3), key); // Duplicates.D4
    store<u32>(indexes + (<usize>i << 2), count);
    count++;
    store<u32>(slot, (<u32>hash & tagMask) | count);
  }
  return count;
}

/**
 * The same for keys of which nobody can guess whether they are new: all is written either way, so that no branch
 * depends on it.
 */
function listMixed(
  keys: usize, i: u32, end: u32, bits: u32, factor: u64, scratch: usize, uniqueKeys: usize, indexes: usize, count: u32,
): u32 {
  const tagMask: u32 = ~((1 << bits) - 1);
  for (; i < end; i++) {
    const key = keyAt(keys, i), hash = hashOf(key, factor), slot = slotOfMixed(scratch, bits, hash, key, uniqueKeys);
    const word = load<u32>(slot), index = select<u32>(count, (word & ~tagMask) - 1, word == 0);
    store<u64>(uniqueKeys + (<usize>count << 3), key); // Duplicates.D4: at most over the key that was read just now
    store<u32>(indexes + (<usize>i << 2), index);
    store<u32>(slot, (<u32>hash & tagMask) | (index + 1));
    count += u32(word == 0);
  }
  return count;
}

/** See DuplicateKernels.findDuplicates. */
export function findDuplicates(keys: usize, n: u32, secret: u32, scratch: usize, uniqueKeys: usize, indexes: usize): u32 {
  const bits = slotBits(n), tagMask: u32 = ~((1 << bits) - 1), factor = (<u64>secret << 32) ^ 0x9e3779b97f4a7c15;
  memory.fill(scratch, 0, <usize>4 << bits);
  let i: u32 = 0;
  for (; i < n; i++) {
    const key = keyAt(keys, i), hash = hashOf(key, factor), slot = slotOf(scratch, bits, hash, key, keys);
    if (load<u32>(slot) != 0) break;
    store<u32>(slot, (<u32>hash & tagMask) | (i + 1));
  }
  if (i == n) return n; // Duplicates.D3
  memory.copy(uniqueKeys, keys, <usize>i << 3);
  for (let before: u32 = 0; before < i; before++) store<u32>(indexes + (<usize>before << 2), before);
  let count = i, areAlike = i >= RUN_KEYS;
  for (; i < n; i += RUN_KEYS) {
    const end = min(n, i + RUN_KEYS), before = count;
    if (areAlike) count = listAlike(keys, i, end, bits, factor, scratch, uniqueKeys, indexes, count);
    else count = listMixed(keys, i, end, bits, factor, scratch, uniqueKeys, indexes, count);
    areAlike = min(count - before, RUN_KEYS - (count - before)) < FEW_OTHERS;
  }
  return count;
}

/** See DuplicateKernels.sumDuplicates. A first occurrence is known by Duplicates.D1. */
export function sumDuplicates(rows: usize, n: u32, width: u32, indexes: usize, positions: usize, known: u32, out: usize): u32 {
  const rowBytes = <usize>width << 2;
  for (let i: usize = 0; i < n; i++, rows += rowBytes) {
    const index = load<u32>(indexes + (i << 2)), position = positions == 0 ? index : load<u32>(positions + (i << 2));
    const target = out + <usize>position * rowBytes;
    if (index != known) {
      addFloats(target, rows, rowBytes);
      continue;
    }
    known++;
    if (target != rows) copyFloats(target, rows, rowBytes);
  }
  return known;
}

/** See DuplicateKernels.mergeDuplicates. The numbers are those of the optimizers (optimizers.as). */
export function mergeDuplicates(merge: u32, rows: usize, n: u32, width: u32, indexes: usize, positions: usize, known: u32, out: usize): u32 {
  const rowBytes = <usize>width << 2, isAssigned = merge == 1, greatest = merge == 3;
  for (let i: usize = 0; i < n; i++, rows += rowBytes) {
    const index = load<u32>(indexes + (i << 2)), position = positions == 0 ? index : load<u32>(positions + (i << 2));
    const target = out + <usize>position * rowBytes, isFirst = index == known;
    known += u32(isFirst);
    if (target == rows) continue;
    if (isFirst || isAssigned) copyFloats(target, rows, rowBytes);
    else extremeFloats(target, rows, rowBytes, greatest);
  }
  return known;
}
