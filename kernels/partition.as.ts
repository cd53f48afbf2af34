// partition — splits a list of keys by the server that owns them, and moves rows of values along. src/keys/placement.ts
// says who owns what.
//
//   owners     u16 for each part: the owner's number, below ownerCount
//   part       the top bits of mix(key); the same mix as in src/keys/mix.ts, bit for bit: clients in every language
//              must agree on it
//   spans      u32 × (ownerCount + 1): owner o has the positions spans[o] to spans[o + 1] of the result
//   sources    u32 for each position of the result: where its key stood in the list
//
//   Partition.P1. Stable: the keys of one owner keep their order.
//   Partition.P2. Each key is hashed once. The first loop notes owners and counts, the second only moves.
//   Partition.P3. Both halves of the list are worked on side by side, with counters of their own: a counter that was
//       just stored is not loaded again at once, which would cost five cycles for every key.

import { copyFloats } from "./floats.as";

/** Unkeyed and fixed for ever: it decides where a key lives. */
@inline export function mix(x: u64): u64 {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

/** out[i] = mix(keys[i]), for the check that TypeScript and kernel agree, and for the keys of blocks. */
export function mixKeys(keys: usize, n: u32, out: usize): void {
  for (let i: usize = 0; i < n; i++) store<u64>(out + (i << 3), mix(load<u64>(keys + (i << 3))));
}

@inline function ownerOf(key: u64, owners: usize, shift: u64): u32 {
  return load<u16>(owners + (<usize>(mix(key) >> shift) << 1));
}

/** Returns the counter before it was counted up. */
@inline function countUp(counters: usize, owner: u32): u32 {
  const counter = counters + (<usize>owner << 2), count = load<u32>(counter);
  store<u32>(counter, count + 1);
  return count;
}

@inline function move(keys: usize, from: u32, to: u32, keysOut: usize, sources: usize): void {
  store<u64>(keysOut + (<usize>to << 3), load<u64>(keys + (<usize>from << 3)));
  store<u32>(sources + (<usize>to << 2), from);
}

/** See PartitionKernels.partitionKeys. */
export function partitionKeys(
  keys: usize, n: u32, owners: usize, partBits: u32, ownerCount: u32, scratch: usize, spans: usize, keysOut: usize, sources: usize,
): void {
  const shift = 64 - <u64>partBits, counterBytes = <usize>ownerCount << 2;
  const firsts = scratch, seconds = firsts + counterBytes, noted = seconds + counterBytes, half = n >> 1;
  if (ownerCount == 2) return partitionInTwo(keys, n, owners, shift, noted, spans, keysOut, sources);
  memory.fill(scratch, 0, counterBytes << 1);
  for (let i: u32 = 0; i < half; i++) { // Partition.P3
    const first = ownerOf(load<u64>(keys + (<usize>i << 3)), owners, shift), second = ownerOf(load<u64>(keys + (<usize>(i + half) << 3)), owners, shift);
    store<u16>(noted + (<usize>i << 1), <u16>first);
    store<u16>(noted + (<usize>(i + half) << 1), <u16>second);
    countUp(firsts, first);
    countUp(seconds, second);
  }
  const last: u32 = n & 1 ? ownerOf(load<u64>(keys + (<usize>(n - 1) << 3)), owners, shift) : 0;
  if (n & 1) countUp(seconds, last);
  let begin: u32 = 0;
  for (let o: usize = 0; o < counterBytes; o += 4) { // counts become the positions where the owner's keys begin
    const first = load<u32>(firsts + o), second = load<u32>(seconds + o);
    store<u32>(spans + o, begin);
    store<u32>(firsts + o, begin);
    store<u32>(seconds + o, begin + first);
    begin += first + second;
  }
  store<u32>(spans + counterBytes, begin);
  for (let i: u32 = 0; i < half; i++) {
    move(keys, i, countUp(firsts, load<u16>(noted + (<usize>i << 1))), keysOut, sources);
    move(keys, i + half, countUp(seconds, load<u16>(noted + (<usize>(i + half) << 1))), keysOut, sources);
  }
  if (n & 1) move(keys, n - 1, countUp(seconds, last), keysOut, sources);
}

/**
 * As partitionKeys, for two owners: how many keys the second has had so far tells both positions, and stays in a
 * register.
 */
function partitionInTwo(keys: usize, n: u32, owners: usize, shift: u64, noted: usize, spans: usize, keysOut: usize, sources: usize): void {
  let ones: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const owner = ownerOf(load<u64>(keys + (<usize>i << 3)), owners, shift);
    store<u8>(noted + i, <u8>owner);
    ones += owner;
  }
  const second = n - ones;
  store<u32>(spans, 0);
  store<u32>(spans, second, 4);
  store<u32>(spans, n, 8);
  ones = 0;
  for (let i: u32 = 0; i < n; i++) {
    const owner = <u32>load<u8>(noted + i);
    move(keys, i, select(second + ones, i - ones, owner), keysOut, sources);
    ones += owner;
  }
}

/** out[i] = rows[indexes[i]]. */
export function gatherByIndex(rows: usize, indexes: usize, n: u32, width: u32, out: usize): void {
  const rowBytes = <usize>width << 2;
  for (let i: usize = 0; i < n; i++, out += rowBytes) copyFloats(out, rows + <usize>load<u32>(indexes + (i << 2)) * rowBytes, rowBytes);
}

/** out[indexes[i]] = rows[i]. */
export function scatterByIndex(rows: usize, indexes: usize, n: u32, width: u32, out: usize): void {
  const rowBytes = <usize>width << 2;
  for (let i: usize = 0; i < n; i++, rows += rowBytes) copyFloats(out + <usize>load<u32>(indexes + (i << 2)) * rowBytes, rows, rowBytes);
}
