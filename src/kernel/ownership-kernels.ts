// ownership-kernels — finds a key in a list that is not a server's own. Addresses and keys as in kernels.ts. Which parts are its own is decided in
// src/server/ownership.ts. PlainOwnershipKernels is the reference.
//
//   part        the top `partBits` bits of mix(key)
//   owned       u8 for each part: 1 if it is the server's, 0 otherwise

import type { Arena } from "./arena.ts";
import { plainMix } from "./plain-partition-kernels.ts";

export interface OwnershipKernels {
  /** The index of the first key whose part is not owned; `keyCount` when all are. */
  firstForeignKey(keys: number, keyCount: number, owned: number, partBits: number): number;
}

export function simdOwnershipKernels({ module }: Arena): OwnershipKernels {
  return { firstForeignKey: (keys, keyCount, owned, partBits) => module.firstForeignKey(keys, keyCount, owned, partBits) >>> 0 };
}

/** Slow; for tests. */
export class PlainOwnershipKernels implements OwnershipKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  firstForeignKey(keys: number, keyCount: number, owned: number, partBits: number): number {
    const { memory, bytes } = this.#arena;
    const list = new BigUint64Array(memory.buffer, keys, keyCount);
    const index = list.findIndex((key) => bytes[owned + Number(plainMix(key) >> BigInt(64 - partBits))] === 0);
    return index < 0 ? keyCount : index;
  }
}
