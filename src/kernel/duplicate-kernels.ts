// duplicate-kernels — what is done about keys that are named twice: find them, and make one row of what belongs to each. Addresses and keys as in kernels.ts; rows are `width` floats, side by side. PlainDuplicateKernels is the reference.
//
// Invariants (DuplicateKernels.D1 to D4, as in kernels/duplicates.as.ts):
//   DuplicateKernels.D1. Unique keys stand in the order of their first occurrences.
//   DuplicateKernels.D3. A list without duplicates costs one pass and writes nothing: whoever called may go on with the arrays as they are.
//   DuplicateKernels.D4. Results may be written over what they are made from, as each member says.

import { AssertionError } from "../base/assert.ts";
import type { Arena } from "./arena.ts";
import type { OPTIMIZER } from "./optimizer-kernels.ts";

/** More keys would need a scratch of 8 GiB. */
const DUPLICATE_KEYS_MAX: number = 2 ** 29;

const SLOT_BYTES = 4;
const SLOT_BITS_MIN = 4;

export interface DuplicateKernels {
  /**
   * Returns the number of unique keys. When it equals `keyCount` there are no duplicates and nothing was written (DuplicateKernels.D3); else the unique keys
   * are at `uniqueKeys` and, for each key of the list, its index among them (u32) at `indexes`. `scratch` has duplicateScratchBytes;
   * `uniqueKeys` may be `keys`, and has room for as many. `secret` (a u32) keys the hash and changes nothing but the speed.
   */
  findDuplicates(keys: number, keyCount: number, secret: number, scratch: number, uniqueKeys: number, indexes: number): number;
  /**
   * Row places[i] of `out` = the sum of all rows[i] with the same indexes[i], in the order of the list; row indexes[i] where `places` is 0. A
   * list may come in pieces: `known` is how many unique keys stood before this one, and what is returned is that for the next. Without
   * places, and in one piece, `out` may be `rows`.
   */
  sumDuplicates(rows: number, keyCount: number, width: number, indexes: number, places: number, known: number, out: number): number;
  /** As `sumDuplicates`; of the rows with the same index not the sum but the last, or the least or greatest of each element: what `merge` says. */
  mergeDuplicates(
    merge: MergeNumber,
    rows: number,
    keyCount: number,
    width: number,
    indexes: number,
    places: number,
    known: number,
    out: number,
  ): number;
}

/** Which of several values for one element counts: for updates that are values and not gradients. */
export type MergeNumber = typeof OPTIMIZER.assign | typeof OPTIMIZER.min | typeof OPTIMIZER.max;

/**
 * Makes one row of several that no kernel knows, in place of `sumDuplicates`; what lies at `rows` is void afterwards.
 */
export type RowJoin = (rows: DuplicateRows) => number;

/** Makes one row of all that belong to one key: their sum, or what `merge` says; as DuplicateKernels has it otherwise. */
export function joinDuplicates(kernels: DuplicateKernels, merge: MergeNumber | RowJoin | undefined, duplicates: DuplicateRows): number {
  if (typeof merge === "function") return merge(duplicates);
  const { rows, keyCount, width, indexes, places, known, out } = duplicates;
  const joined =
    merge === undefined
      ? kernels.sumDuplicates(rows, keyCount, width, indexes, places, known, out)
      : kernels.mergeDuplicates(merge, rows, keyCount, width, indexes, places, known, out);
  return joined >>> 0;
}

export type DuplicateRows = {
  readonly rows: number;
  readonly keyCount: number;
  readonly width: number;
  readonly indexes: number;
  readonly places: number;
  readonly known: number;
  readonly out: number;
};

/** How many bytes of scratch `findDuplicates` wants for so many keys. */
export function duplicateScratchBytes(keyCount: number): number {
  if (keyCount > DUPLICATE_KEYS_MAX) throw new AssertionError(`${keyCount} keys in one list`);
  return SLOT_BYTES * 2 ** Math.max(SLOT_BITS_MIN, Math.ceil(Math.log2(Math.max(keyCount, 2))) + 1);
}

export function simdDuplicateKernels(arena: Arena): DuplicateKernels {
  const { findDuplicates, sumDuplicates, mergeDuplicates } = arena.module;
  return { findDuplicates, sumDuplicates, mergeDuplicates };
}
