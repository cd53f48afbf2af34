// codec-keys — strictly ascending u64 keys as what each adds to the one before, and the signature of a key list.
//
//   length u4 × keyCount, the first in the low half of a byte, a last half byte of 0 where the count is odd
//   delta  length bytes each, little-endian: the first key, then key - previous - 1
//
//   CodecKeys.D1. A list has exactly one encoding: lengths are the shortest, and a delta that passes 2^64 - 1 is no
//       key.
//   CodecKeys.D2. The decoder reads only the bytes it was told of and writes only keyCount keys, whatever the bytes
//       are.

import { BYTE_MASKS } from "./layout.as";
import { checkAscending } from "./vector.as";

const DONE: i32 = 0;
const TOO_SHORT: i32 = 1;
const TOO_LONG: i32 = 2;
const WRONG_LENGTH: i32 = 3;
const NOT_ASCENDING: i32 = 4;

/** The most that two keys' lengths, legal or not, can ask for, and an 8-byte load behind the first. */
const PAIR_BYTES_MAX: usize = 15 + 8;

/** How many bytes a delta takes: none for 0. */
@inline function lengthOf(delta: u64): u64 {
  return (71 - clz(delta)) >> 3;
}

/** Writes the masks of the low 0 to 8 bytes; those of impossible lengths are 0, which no such length passes. */
function writeMasks(): void {
  memory.fill(BYTE_MASKS, 0, 16 << 3);
  for (let length: u32 = 1; length <= 8; length++) store<u64>(BYTE_MASKS + (length << 3), <u64>-1 >> (64 - (length << 3)));
}

@inline function lowBytes(bits: u64, length: usize): u64 {
  return bits & load<u64>(BYTE_MASKS + (length << 3));
}

/**
 * How many bytes were written, or -1 when the keys are not strictly ascending. `target` has room for the bound of
 * keyCount keys.
 */
export function encodeDeltaKeys(keys: usize, keyCount: u32, target: usize): i32 {
  const pairsEnd = keys + (<usize>(keyCount & ~1) << 3);
  let at = target + ((<usize>keyCount + 1) >> 1), lengths = target;
  let previous: u64 = -1; // so that the first delta is the first key
  let wrong: u32 = 0;
  for (; keys < pairsEnd; keys += 16, lengths++) {
    const first = load<u64>(keys), second = load<u64>(keys, 8);
    const firstDelta = first - previous - 1, secondDelta = second - first - 1;
    const firstLength = lengthOf(firstDelta), secondLength = lengthOf(secondDelta);
    wrong += u32(first <= previous) + u32(second <= first);
    store<u8>(lengths, <u8>(firstLength | (secondLength << 4)));
    store<u64>(at, firstDelta);
    at += <usize>firstLength;
    store<u64>(at, secondDelta);
    at += <usize>secondLength;
    previous = second;
  }
  if (keyCount & 1) {
    const key = load<u64>(keys), delta = key - previous - 1, length = lengthOf(delta);
    wrong += u32(key <= previous);
    store<u8>(lengths, <u8>length);
    store<u64>(at, delta);
    at += <usize>length;
  }
  return wrong == u32(keyCount != 0) ? <i32>(at - target) : -1; // the first key is compared with -1
}

/** `length` bytes at an address, one by one. */
function bytesAt(at: usize, length: u64): u64 {
  let bits: u64 = 0;
  for (let i: u64 = 0; i < length; i++) bits |= <u64>load<u8>(at + <usize>i) << (i << 3);
  return bits;
}

/** DONE, or why these bytes are no list of keyCount keys. What was written at `keys` means nothing then. */
export function decodeDeltaKeys(source: usize, byteCount: u32, keyCount: u32, keys: usize): i32 {
  const lengthBytes = (<usize>keyCount + 1) >> 1, end = source + byteCount, first = keys;
  if (<usize>byteCount < lengthBytes) return TOO_SHORT;
  let at = source + lengthBytes, lengths = source, previous: u64 = -1, wrongLength: u64 = 0, deltas: u64 = 0;
  const wideEnd = keys + (<usize>(keyCount & ~1) << 3), wideLast = end - PAIR_BYTES_MAX;
  if (<usize>byteCount >= PAIR_BYTES_MAX) {
    writeMasks();
    for (; keys < wideEnd && at <= wideLast; keys += 16, lengths++) {
      const pair = <usize>load<u8>(lengths), length = pair & 15, nextLength = pair >> 4;
      const delta = lowBytes(load<u64>(at), length);
      at += length;
      const nextDelta = lowBytes(load<u64>(at), nextLength);
      at += nextLength;
      wrongLength |= (lengthOf(delta) ^ length) | (lengthOf(nextDelta) ^ nextLength);
      const key = previous + (delta + 1), next = key + (nextDelta + 1);
      deltas |= delta | nextDelta;
      store<u64>(keys, key);
      store<u64>(keys, next, 8);
      previous = next;
    }
    if (wrongLength != 0) return WRONG_LENGTH; // CodecKeys.D2: only then can `at` be past the end
  }
  for (let index = (keys - first) >> 3; index < <usize>keyCount; index++, keys += 8) {
    const length = (<u64>load<u8>(source + (index >> 1)) >> ((index & 1) << 2)) & 15;
    if (length > 8) return WRONG_LENGTH;
    if (<usize>length > end - at) return TOO_SHORT;
    const delta = bytesAt(at, length), key = previous + delta + 1;
    at += <usize>length;
    wrongLength |= lengthOf(delta) ^ length;
    deltas |= delta;
    store<u64>(keys, key);
    previous = key;
  }
  if (keyCount & 1 && load<u8>(source + lengthBytes - 1) >> 4 != 0) return WRONG_LENGTH;
  if (wrongLength != 0) return WRONG_LENGTH;
  // Keys that pass 2^64 - 1 start again from 0. They cannot if keyCount times the largest delta is less: then there is
  // nothing to check.
  if (clz(deltas) < 32 - <u64>clz(keyCount) && checkAscending(first, keyCount) >= 0) return NOT_ASCENDING;
  return at == end ? DONE : TOO_LONG;
}

const SIGN_KEY: u64 = 0x9fb21c651e98df25;
const SIGN_LANE: u64 = 0xd6e8feb86659fd93;

@inline function signLane(lane: u64, key: u64): u64 {
  return rotl(lane ^ (key * SIGN_KEY), 29) * SIGN_LANE;
}

@inline function stir(x: u64): u64 {
  x = (x ^ (x >> 32)) * SIGN_LANE;
  x = (x ^ (x >> 29)) * SIGN_KEY;
  return x ^ (x >> 32);
}

/**
 * Writes the 64-bit signature of a key list: four lanes take every fourth key, so that their multiplications overlap.
 */
export function signKeys(keys: usize, keyCount: u32, signature: usize): void {
  let a: u64 = keyCount, b: u64 = SIGN_KEY, c: u64 = SIGN_LANE, d: u64 = ~SIGN_KEY;
  const end = keys + (<usize>keyCount << 3);
  for (const wide = keys + (<usize>(keyCount & ~3) << 3); keys < wide; keys += 32) {
    a = signLane(a, load<u64>(keys));
    b = signLane(b, load<u64>(keys, 8));
    c = signLane(c, load<u64>(keys, 16));
    d = signLane(d, load<u64>(keys, 24));
  }
  for (; keys < end; keys += 8) a = signLane(a, load<u64>(keys));
  store<u64>(signature, stir(stir(stir(stir(a) ^ b) ^ c) ^ d));
}
