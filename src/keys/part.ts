// part — the part of the key space that a key belongs to: servers own, move and save parts. Who owns them is in
// placement.ts.
//
// Why 4,096, fixed: fine enough to balance (within 2.5 % of even on 100 servers) and to move one by one without a
// pause, coarse enough that a table of all owners (8 KiB) stays in the first-level cache. All checkpoints have the same
// parts.
//
// Invariants:
//   Part.P1. A part is the top PART_BITS bits of mix(key), whatever the servers are. The kernels of tables know it too
//       (kernels/table-shape.as.ts).

import { mixHigh } from "./mix.ts";

export const PART_BITS = 12;
export const PART_COUNT: number = 2 ** PART_BITS;

/**
 * The part of a u64 key, given as u32 halves (Part.P1). For a block of a tensor: its index and the parameter's number.
 */
export function partOf(low: number, high: number): number {
  return mixHigh(low, high) >>> (32 - PART_BITS);
}
