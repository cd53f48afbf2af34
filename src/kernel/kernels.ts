// kernels — the interface of the data plane to the arithmetic and to the u64 hash tables. SimdKernels is the
// implementation that runs, PlainKernels the reference.
//
// An address is a byte offset in the arena (0 is none); a table is the address of its header. Keys are u64,
// little-endian, side by side; values are f32. Addresses of floats and of u32 lists are multiples of 4.
//
//   row     [ key u64 | payload ]     the payload begins ROW_KEY_BYTES after the row: at least 4 bytes, a multiple of 4
//
// Invariants:
//   Kernels.K1. Every u64 is a legal key, 0 and 2^64 - 1 included.
//   Kernels.K2. A row keeps its address from its insertion to its removal; a new row's payload is all zero bits.
//   Kernels.K3. A call that lacks memory returns NO_ROOM and changes nothing; it never traps. A call that inserts
//       several rows removes those that it has inserted.
//   Kernels.K4. All implementations give the same bits, NaN payloads excepted (WebAssembly leaves those open).
//   Kernels.K5. No call keeps an address it was given: lists and values are the caller's again on return.

import { KEY_BYTES } from "./elements.ts";

/** Where a row's payload begins, counted from the row's address. */
export const ROW_KEY_BYTES: number = KEY_BYTES;

/** The longest list that one call of `listRows` writes. */
export const LIST_ROWS_MAX = 2688;

/** How many bytes a `listRows` cursor takes. */
export const CURSOR_BYTES = 16;

/** The call did what its name says. */
export const DONE = 0;
/** The arena is full; nothing was changed (Kernels.K3). */
export const NO_ROOM = 1;
/** At least one key has no row; nothing was changed. */
export const KEY_MISSING = 2;

export type Status = typeof DONE | typeof NO_ROOM | typeof KEY_MISSING;

export type TableOptions = {
  /** Bytes of a row after its key: a multiple of 4, at least 4. */
  readonly payloadBytes: number;
  /** Keys the hash (a u64): an attacker who knew it could choose keys that collide. */
  readonly secret: bigint;
  /** For what a checkpoint sets aside: its memory is work, not state (Arena.A4). Defaults to false. */
  readonly isAside?: boolean | undefined;
};

/** Numbers side by side, against the house rule: this is the WebAssembly boundary, and a call must not allocate. */
export interface Kernels {
  /** target[i] += source[i]. The two spans are the same or do not overlap. */
  add(target: number, source: number, floatCount: number): void;
  /** target[i] = left[i] + right[i]. The target is one of the others or overlaps neither. */
  sum(target: number, left: number, right: number, floatCount: number): void;
  /** target[i] += scale × source[i], both operations rounded to f32. */
  axpy(target: number, source: number, scale: number, floatCount: number): void;
  /** Copies bytes; the spans may overlap. */
  copy(target: number, source: number, byteCount: number): void;
  /** Sets bytes to zero. */
  zero(target: number, byteCount: number): void;
  /** The index of the first key that is not greater (unsigned) than the one before it; -1 when strictly ascending. */
  checkAscending(keys: number, keyCount: number): number;

  /** An empty table. Throws ARENA_FULL. */
  createTable(options: TableOptions): number;
  /** Gives all memory of a table back to the arena; its address and those of its rows are void. */
  destroyTable(table: number): void;
  rowCount(table: number): number;
  /** The arena bytes that the table takes, rows and index and all. */
  tableBytes(table: number): number;

  /** The address of one key's row, 0 when it has none. */
  findRow(table: number, key: number): number;
  /** rowsOut[i] (u32) = the address of key i's row, 0 when it has none. Returns how many have none. */
  findRows(table: number, keys: number, keyCount: number, rowsOut: number): number;
  /** The index of the first key that has a row, -1 when none has. */
  findKnown(table: number, keys: number, keyCount: number): number;
  /** Gives every key a row. Repeated keys are fine. */
  insertRows(table: number, keys: number, keyCount: number): Status;
  /** `insertRows`, then `findRows`: on DONE no address is 0. */
  findOrInsertRows(table: number, keys: number, keyCount: number, rowsOut: number): Status;
  /** Gives every key a row and adds its values, payloadBytes / 4 floats for each key in turn. Repeated keys add up. */
  addRows(table: number, keys: number, keyCount: number, values: number): Status;
  /** As `addRows` when every key has a row already; KEY_MISSING otherwise. */
  addKnownRows(table: number, keys: number, keyCount: number, values: number): Status;
  /** out = the payloads in order, zeros for a key without a row. Inserts nothing. Returns how many keys have no row. */
  gatherRows(table: number, keys: number, keyCount: number, out: number): number;
  /**
   * `gatherRows` over the rows that an earlier `findRows` listed: live rows of one table with this payload, but perhaps
   * of other keys. Returns the index of the first row of another key, with `out` half written; -1 if there is none.
   */
  gatherListedRows(rows: number, keys: number, keyCount: number, payloadBytes: number, out: number): number;
  /**
   * `addKnownRows` over such a list. Returns the index of the first row of another key, with nothing added; -1 if there
   * is none.
   */
  addListedRows(rows: number, keys: number, keyCount: number, payloadBytes: number, values: number): number;
  /** Sets the first u32 of the payload of every key that has a row. */
  setWords(table: number, keys: number, keyCount: number, word: number): void;
  /** The index of the first key whose row's first payload u32 is not `word`; -1 if none. Ignores keys without a row. */
  findOtherWord(table: number, keys: number, keyCount: number, word: number): number;
  /** Removes the rows of these keys; their memory serves later rows of the same table. Returns how many there were. */
  removeRows(table: number, keys: number, keyCount: number): number;
  /**
   * Walks over a table. `cursor` is CURSOR_BYTES of the caller's, zero at first. Each call writes up to LIST_ROWS_MAX
   * row addresses (u32) at `rowsOut` and returns how many (perhaps 0), or -1 at the end. Rows may come and go between
   * calls: those that stay are listed exactly once. Parts come in their order, one after the other, except within one
   * call.
   */
  listRows(table: number, cursor: number, rowsOut: number): number;
  /** As `listRows`, for the rows of one part (keys/placement.ts); the cost is that of the part, not of the table. */
  listPart(table: number, part: number, cursor: number, rowsOut: number): number;
  /** How many rows a part has. */
  countPart(table: number, part: number): number;
  /** Removes the rows of a part, as `removeRows`. Returns how many there were. */
  dropPart(table: number, part: number): number;
  /**
   * An empty table is about to get so many rows: until `settleRows` it grows no further than they need, in any order.
   */
  expectRows(table: number, rowCount: number): void;
  /** How many rows lie side by side in the index of a table while they are expected: more are split. */
  segmentRowsMax(table: number): number;
  /** Splits the index of an empty table around a hash (its top 32 bits), `depth` times. False if there is no room. */
  splitTo(table: number, hashTop: number, depth: number): boolean;
  /** The rows that were expected are there. */
  settleRows(table: number): void;
  /** Copies to `out` the keys whose rows `listRows` with this cursor has yet to list. Returns how many. */
  keysAhead(table: number, cursor: number, keys: number, keyCount: number, out: number): number;
}
