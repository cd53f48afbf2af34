// row-kernels — table rows by address: from keys to lists of rows, and from lists to columns of them. Table stores,
// initializers, optimizers and checkpoints share them. Terms as in kernels.ts; PlainRowKernels is the reference.
//
//   list       u32 for each row: the address of its payload, ROW_KEY_BYTES after its u64 key; 0 for a key without a row
//   column     `byteCount` bytes at `offset` (a multiple of 4) after that address, for each row; keys: -ROW_KEY_BYTES
//
// Invariants:
//   RowKernels.R1. Callers of `locateValues` have made sure that there is room. `insertValues` removes what it inserted
//       if the room ends.
//   RowKernels.R2. A list names rows for as long as they are not removed; insertions do not move rows.
//   RowKernels.R3. `owned`, if not 0, is the address of a byte for each part, 1 if the server owns it. A call that
//       meets a key of another part returns FOREIGN_COUNT and makes no row.

import type { Arena } from "./arena.ts";
import type { ElementType } from "./elements.ts";

/** What `insertValues` gives when the arena is full; nothing was changed. */
export const NO_ROOM_COUNT = -1;

/** What a call gives that met a key of a part that is not owned; nothing was changed. */
export const FOREIGN_COUNT = -2;

/** A caller's version of a row that it does not have. */
export const VERSION_NONE = 0xffff_ffff;

/** Numbers side by side, against the house rule: this is the WebAssembly boundary, and a call must not allocate. */
export interface RowKernels {
  /** Whether so many keys can be inserted for certain. False says nothing: `insertValues` may still find room. */
  hasCertainRoom(table: number, keyCount: number): boolean;
  /** How many new rows a table has memory for already. */
  spareRows(table: number): number;
  /** Lists the rows of `keys`; brings `touchBytes` of each payload into the cache. Returns how many keys have none. */
  findValues(table: number, keys: number, keyCount: number, touchBytes: number, rowsOut: number, owned: number): number;
  /**
   * As `findValues`, but gives keys without a row one, with a zero payload, and also lists those at `freshOut`, each
   * once. Returns how many. Only after `hasCertainRoom` for the keys, or if all keys have rows (RowKernels.R1).
   */
  locateValues(table: number, keys: number, keyCount: number, touchBytes: number, rowsOut: number, freshOut: number, owned: number): number;
  /** Gives keys without a row one, and lists those at `freshOut`; returns how many, or NO_ROOM_COUNT. */
  insertValues(table: number, keys: number, keyCount: number, freshOut: number, owned: number): number;
  /** out = the column of every listed row, one after the other; zeros for a 0 in the list. */
  readRows(rows: number, rowCount: number, offset: number, byteCount: number, out: number): void;
  /** The column of every listed row = what lies at `from`, one after the other. No 0 in the list. */
  writeRows(rows: number, rowCount: number, offset: number, byteCount: number, from: number): void;
  /** The u32 at `offset` of every listed row += amounts[i] (u32), or 1 where `amounts` is 0. No 0 in the list. */
  addWords(rows: number, rowCount: number, offset: number, amounts: number): void;
  /**
   * Finds the rows that a caller with the versions `known` (u32, VERSION_NONE for none) lacks: those whose version (the
   * u32 at `offset`, 0 without a row) is more than `bound` updates ahead, modulo 2^32. Writes their indexes, counted
   * from `first`, and their versions, and moves them to the front of the list. Returns how many.
   */
  staleRows(
    rows: number,
    rowCount: number,
    offset: number,
    known: number,
    bound: number,
    first: number,
    indexesOut: number,
    versionsOut: number,
  ): number;
  /**
   * Replaces each 0 in the list by a spare row, `spareBytes` apart from `spares` on, and writes the key into it. Row i
   * of the list has key i of `keys`, or indexes[i] if `indexes` is not 0. Lists the spare rows in use at `sparesOut`.
   * Returns how many.
   */
  standIn(rows: number, rowCount: number, keys: number, indexes: number, spares: number, spareBytes: number, sparesOut: number): number;
}

export function simdRowKernels(arena: Arena): RowKernels {
  const { hasCertainRoom, spareRows, findValues, locateValues, insertValues, readRows, writeRows, addWords, staleRows, standIn } =
    arena.module;
  return {
    hasCertainRoom: (table, keyCount) => hasCertainRoom(table, keyCount) !== 0,
    spareRows,
    findValues,
    locateValues,
    insertValues,
    readRows,
    writeRows,
    addWords,
    staleRows,
    standIn,
  };
}

/**
 * Adds numbers of any of the ten types (elements.ts) at any alignment. Integers wrap around, as in C++; each float sum
 * is rounded to its own type.
 */
export interface ElementKernels {
  /** target[i] += source[i]. The two spans are the same or do not overlap. */
  addElements(type: ElementType, target: number, source: number, count: number): void;
  /**
   * The `width` elements at `offset` bytes after each listed address += the values of that row, without gaps. No 0 in
   * the list. An address that is listed twice gets both.
   */
  addRowElements(type: ElementType, rows: number, rowCount: number, offset: number, width: number, values: number): void;
}

export function simdElementKernels(arena: Arena): ElementKernels {
  const { addElements, addRowElements } = arena.module;
  return { addElements, addRowElements };
}
