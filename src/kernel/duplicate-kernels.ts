// duplicate-kernels — finds keys that a list names twice, and merges all rows of a key into one. Addresses and keys as
// in kernels.ts; rows are `width` floats, side by side. PlainDuplicateKernels is the reference.
//
// Invariants (DuplicateKernels.D1 to D4, as in kernels/duplicates.as.ts):
//   DuplicateKernels.D1. Unique keys stand in the order of their first occurrences.
//   DuplicateKernels.D3. A list without duplicates costs one pass and writes nothing: the caller uses its arrays as
//       they are.
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
   * Returns the number of unique keys. If it equals `keyCount`, nothing was written (DuplicateKernels.D3). Otherwise
   * the unique keys are at `uniqueKeys`, which may be `keys`, and the index of each listed key among them (u32) at
   * `indexes`. `scratch` has duplicateScratchBytes. `secret` (a u32) keys the hash and changes nothing but the speed.
   */
  findDuplicates(keys: number, keyCount: number, secret: number, scratch: number, uniqueKeys: number, indexes: number): number;
  /**
   * Row rowsTo[i] of `out` = the sum of all rows[i] with the same indexes[i], in the order of the list; row indexes[i]
   * if `rowsTo` is 0. A list may come in pieces: `known` is the number of unique keys before this piece, and the call
   * returns that of the next. Without `rowsTo`, and in one piece, `out` may be `rows`.
   */
  sumDuplicates(rows: number, keyCount: number, width: number, indexes: number, rowsTo: number, known: number, out: number): number;
  /**
   * As `sumDuplicates`, but keeps the last of the rows with one index, or the least or greatest element, as `merge`
   * says.
   */
  mergeDuplicates(
    merge: MergeNumber,
    rows: number,
    keyCount: number,
    width: number,
    indexes: number,
    rowsTo: number,
    known: number,
    out: number,
  ): number;
}

/** Which of several values for one element counts: for updates that are values and not gradients. */
export type MergeNumber = typeof OPTIMIZER.assign | typeof OPTIMIZER.min | typeof OPTIMIZER.max;

/** Replaces `sumDuplicates` for rows that no kernel knows. `rows` is void afterwards. */
export type RowJoin = (rows: DuplicateRows) => number;

/** Makes one row of all rows of a key: their sum, or what `merge` says. */
export function joinDuplicates(kernels: DuplicateKernels, merge: MergeNumber | RowJoin | undefined, duplicates: DuplicateRows): number {
  if (typeof merge === "function") return merge(duplicates);
  const { rows, keyCount, width, indexes, rowsTo, known, out } = duplicates;
  const joined =
    merge === undefined
      ? kernels.sumDuplicates(rows, keyCount, width, indexes, rowsTo, known, out)
      : kernels.mergeDuplicates(merge, rows, keyCount, width, indexes, rowsTo, known, out);
  return joined >>> 0;
}

type DuplicateRows = {
  readonly rows: number;
  readonly keyCount: number;
  readonly width: number;
  readonly indexes: number;
  readonly rowsTo: number;
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
