// arena-lists — writes keys, floats, words and bytes into an arena and reads them back, for tests. Slow and plain: each
// list has a span of its own, which is never released.

import type { Arena } from "../kernel/arena.ts";

/** Writes u64 keys; returns their address. */
export function putKeys(arena: Arena, keys: readonly bigint[]): number {
  const address = arena.allocate(Math.max(8, keys.length * 8));
  for (const [i, key] of keys.entries()) {
    arena.words[address / 4 + i * 2] = Number(key & 0xffff_ffffn);
    arena.words[address / 4 + i * 2 + 1] = Number(key >> 32n);
  }
  return address;
}

export function putFloats(arena: Arena, floats: ArrayLike<number>): number {
  const address = arena.allocate(Math.max(4, floats.length * 4));
  arena.floats.set(floats, address / 4);
  return address;
}

export function putWords(arena: Arena, words: ArrayLike<number>): number {
  const address = arena.allocate(Math.max(4, words.length * 4));
  arena.words.set(words, address / 4);
  return address;
}

/** A copy of `count` floats. */
export function readFloats(arena: Arena, address: number, count: number): Float32Array {
  return arena.floats.slice(address / 4, address / 4 + count);
}

/** A copy of `count` u32. */
export function readWords(arena: Arena, address: number, count: number): Uint32Array {
  return arena.words.slice(address / 4, address / 4 + count);
}

export function readKey(arena: Arena, address: number): bigint {
  return (BigInt(arena.words[address / 4 + 1]!) << 32n) | BigInt(arena.words[address / 4]!);
}

/** `count` keys from an address on. */
export function readKeys(arena: Arena, address: number, count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => readKey(arena, address + i * 8));
}

export function putBytes(arena: Arena, bytes: ArrayLike<number>): number {
  const address = arena.allocate(Math.max(1, bytes.length));
  arena.bytes.set(bytes, address);
  return address;
}

/** A copy of `count` bytes. */
export function readBytes(arena: Arena, address: number, count: number): Uint8Array {
  return arena.bytes.slice(address, address + count);
}

const GUARD = 0xa5;
const GUARD_BYTES = 64;

/** Room for `count` bytes, and whether those around it are still as they were. */
export function guardedSpan(arena: Arena, count: number): { readonly address: number; readonly isIntact: () => boolean } {
  const start = arena.allocate(count + 2 * GUARD_BYTES);
  const address = start + GUARD_BYTES;
  arena.bytes.fill(GUARD, start, address + count + GUARD_BYTES);
  const isGuard = (byte: number): boolean => byte === GUARD;
  const isIntact = (): boolean =>
    arena.bytes.subarray(start, address).every(isGuard) &&
    arena.bytes.subarray(address + count, address + count + GUARD_BYTES).every(isGuard);
  return { address, isIntact };
}
