// call-memory — memory of a request in the arena: room for its answer until the answer has left, and copies of what
// came with it while it waits.

import type { Arena } from "../../kernel/arena.ts";

/** Holds memory until the answer that lies there has left. */
export type CallMemory = { hold(held: { release(): void; readonly isFresh?: boolean }): void };

/** The address of so many bytes for an answer, which `memory` holds. Throws ARENA_FULL. */
export function roomFor(arena: Arena, byteCount: number, memory: CallMemory): number {
  const rounded = Math.max(1, byteCount);
  const address = arena.allocate(rounded);
  memory.hold({ release: () => arena.release(address, rounded), isFresh: true });
  return address;
}

/** The offset of the encoded form behind so many floats: a multiple of 8. */
export function codedOffset(floatCount: number): number {
  return Math.ceil(floatCount / 2) * 8;
}

/** Keys or rows of a request that waits, in the arena. */
export type Kept<T> = { readonly list: T; release(): void };

/** A copy that outlives the frame the list came in. Throws ARENA_FULL. */
export function keepKeys(arena: Arena, keys: BigUint64Array): Kept<BigUint64Array> {
  const { address, release } = keptBytes(arena, keys);
  return { list: new BigUint64Array(arena.memory.buffer, address, keys.length), release };
}

/** As `keepKeys`. */
export function keepRows(arena: Arena, rows: Uint32Array): Kept<Uint32Array> {
  const { address, release } = keptBytes(arena, rows);
  return { list: new Uint32Array(arena.memory.buffer, address, rows.length), release };
}

/** Copies of arrays side by side in the arena, each at a multiple of 8, until `release`. Throws ARENA_FULL. */
export function keepBytes(arena: Arena, arrays: readonly ArrayBufferView[]): { readonly addresses: readonly number[]; release(): void } {
  const sizes = arrays.map(({ byteLength }) => Math.ceil(byteLength / 8) * 8);
  const byteCount = Math.max(
    8,
    sizes.reduce((sum, size) => sum + size, 0),
  );
  const first = arena.allocate(byteCount);
  const addresses = sizes.map((_, i) => sizes.slice(0, i).reduce((sum, size) => sum + size, first));
  for (const [i, { buffer, byteOffset, byteLength }] of arrays.entries())
    arena.bytes.set(new Uint8Array(buffer, byteOffset, byteLength), addresses[i] as number);
  return { addresses, release: () => arena.release(first, byteCount) };
}

function keptBytes(arena: Arena, { buffer, byteOffset, byteLength }: ArrayBufferView): { readonly address: number; release(): void } {
  const byteCount = Math.max(1, byteLength);
  const address = arena.allocate(byteCount);
  arena.bytes.set(new Uint8Array(buffer, byteOffset, byteLength), address);
  return { address, release: () => arena.release(address, byteCount) };
}
