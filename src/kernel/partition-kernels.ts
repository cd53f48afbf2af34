// partition-kernels — sorts keys, and rows of values with them, by the server that owns each key. Addresses and keys as
// in kernels.ts. src/keys/placement.ts decides the owners. PlainPartitionKernels is the reference.
//
//   part        the top `partBits` bits of mix(key)
//   owners      u16 for each part, below ownerCount (1 to 65,535)
//   spans       u32 × (ownerCount + 1): owner o has the positions from spans[o] up to, not including, spans[o + 1]
//   sources     u32 for each position: the index in the list of the key that stands there now
//
// Invariants:
//   PartitionKernels.P1. Stable: the keys of one owner keep their order, so sources rise within a span.

import { AssertionError } from "../base/assert.ts";
import type { Arena } from "./arena.ts";

const COUNTER_BYTES = 4;
const OWNER_BYTES = 2;

export interface PartitionKernels {
  /** out[i] = mix(keys[i]), u64 each. `out` may be `keys`. */
  mixKeys(keys: number, keyCount: number, out: number): void;
  /** Writes `spans`, `keysOut` and `sources`, which do not overlap other lists; `scratch` has partitionScratchBytes. */
  partitionKeys(
    keys: number,
    keyCount: number,
    owners: number,
    partBits: number,
    ownerCount: number,
    scratch: number,
    spans: number,
    keysOut: number,
    sources: number,
  ): void;
  /** out[i] = rows[indexes[i]], `width` floats each: brings gradients into the order of the spans. */
  gatherByIndex(rows: number, indexes: number, rowCount: number, width: number, out: number): void;
  /** out[indexes[i]] = rows[i], `width` floats each: brings pulled rows of a span back to where their keys stood. */
  scatterByIndex(rows: number, indexes: number, rowCount: number, width: number, out: number): void;
}

type PartitionSize = { readonly keyCount: number; readonly ownerCount: number };

/** How many bytes of scratch `partitionKeys` wants. */
export function partitionScratchBytes({ keyCount, ownerCount }: PartitionSize): number {
  if (ownerCount < 1 || ownerCount > 65_535) throw new AssertionError(`${ownerCount} owners`);
  return ownerCount * 2 * COUNTER_BYTES + keyCount * OWNER_BYTES;
}

export function simdPartitionKernels(arena: Arena): PartitionKernels {
  const { mixKeys, partitionKeys, gatherByIndex, scatterByIndex } = arena.module;
  return { mixKeys, partitionKeys, gatherByIndex, scatterByIndex };
}

/**
 * `owned` has a u8 for each part, the top `partBits` bits of mix(key): 1 if the server owns it (server/ownership.ts).
 */
export interface OwnershipKernels {
  /** The index of the first key whose part is not owned; `keyCount` when all are. */
  firstForeignKey(keys: number, keyCount: number, owned: number, partBits: number): number;
}

export function simdOwnershipKernels({ module }: Arena): OwnershipKernels {
  return { firstForeignKey: (keys, keyCount, owned, partBits) => module.firstForeignKey(keys, keyCount, owned, partBits) >>> 0 };
}
