// row-memory — remembers the rows of key lists that are pulled or pushed to again and again, so that a request need not
// find each key. Rows hold their keys, so a list that only looked the same is noticed, and its keys are found as usual.
//
// Invariants:
//   RowMemory.M1. A listed row is a live row of its table: callers call `forget` before they remove rows or a table.
//   RowMemory.M2. A list is remembered when it is pulled, or pushed to, the second time. Lists that never come again,
//       and those that are pushed to once and then pulled once, cost a comparison.
//   RowMemory.M3. At most LISTS lists of together ROWS_MAX rows are remembered, in the arena.
//   RowMemory.M4. WAYS lists that fall in one set are remembered side by side.

import type { Arena } from "../../kernel/arena.ts";
import type { Kernels } from "../../kernel/kernels.ts";

const LISTS = 256;
/** A list has an entry in one set of this many. */
const WAYS = 4;
/** 16 MiB of addresses: four lists of a million keys. */
export const ROWS_MAX: number = 2 ** 22;
/** Fewer keys are found as quickly as they are remembered. */
export const LISTED_KEYS_MIN = 64;
const KEY_WORDS = 2;
const ROW_BYTES = 4;
/** How a list has come so far (RowMemory.M2). */
const PULLED = 1;
const PUSHED = 2;

type Request = {
  readonly table: number;
  readonly payloadBytes: number;
  readonly keys: number;
  readonly keyCount: number;
};
type ListedPull = Request & { readonly out: number };
type ListedPush = Request & { readonly values: number };

/** What makes two lists look the same: table, count, first and last key. */
type List = {
  readonly table: number;
  readonly keyCount: number;
  readonly firstKey: readonly [low: number, high: number];
  readonly lastKey: readonly [low: number, high: number];
  came: number;
  /** Address of the rows' addresses; 0 until the list comes again. */
  rows: number;
};

export class RowMemory {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #lists: (List | undefined)[] = new Array<List | undefined>(LISTS).fill(undefined);
  /** The entry of its set that the next list takes if all are taken. */
  #nextWay = 0;
  #rowCount = 0;

  constructor(arena: Arena, kernels: Kernels) {
    this.#arena = arena;
    this.#kernels = kernels;
  }

  /** Writes the payloads of all keys to `out`. False when it cannot: `out` is unspecified then. */
  pull(pull: ListedPull): boolean {
    const slot = this.#slotOf(pull, PULLED);
    const list = this.#lists[slot];
    if (list === undefined || list.rows === 0) return false;
    if (this.#kernels.gatherListedRows(list.rows, pull.keys, pull.keyCount, pull.payloadBytes, pull.out) < 0) return true;
    this.#drop(slot);
    return false;
  }

  /** Adds to the payloads of all keys, which are floats. False when it cannot: nothing is added then. */
  push(push: ListedPush): boolean {
    const slot = this.#slotOf(push, PUSHED);
    const list = this.#lists[slot];
    if (list === undefined || list.rows === 0) return false;
    if (this.#kernels.addListedRows(list.rows, push.keys, push.keyCount, push.payloadBytes, push.values) < 0) return true;
    this.#drop(slot);
    return false;
  }

  get usedBytes(): number {
    return this.#rowCount * ROW_BYTES;
  }

  /** RowMemory.M1 */
  forget(): void {
    for (let slot = 0; slot < LISTS; slot++) this.#drop(slot);
  }

  /** Where this request's list is, which is noted or remembered if it is due (RowMemory.M2). */
  #slotOf(request: Request, kind: number): number {
    const first = this.#setOf(request);
    let free = -1;
    for (let slot = first; slot < first + WAYS; slot++) {
      const list = this.#lists[slot];
      if (list === undefined) free = slot;
      else if (this.#looksLike(list, request)) {
        if (list.rows === 0 && (list.came & kind) !== 0) this.#remember(list, request.keys);
        list.came |= kind;
        return slot;
      }
    }
    if (free < 0) {
      free = first + this.#nextWay;
      this.#nextWay = (this.#nextWay + 1) % WAYS;
    }
    this.#note(free, request, kind);
    return free;
  }

  /** The first entry of its set (RowMemory.M4). */
  #setOf({ table, keys, keyCount }: Request): number {
    const { words } = this.#arena;
    const first = keys >>> 2;
    const mixed = Math.imul((words[first] as number) ^ Math.imul((words[first + 1] as number) ^ keyCount, 0x85ebca6b), 0x9e3779b1) ^ table;
    return (((mixed >>> 24) ^ mixed) & (LISTS / WAYS - 1)) * WAYS;
  }

  #looksLike({ table, keyCount, firstKey, lastKey }: List, request: Request): boolean {
    if (table !== request.table || keyCount !== request.keyCount) return false;
    const { words } = this.#arena;
    const first = request.keys >>> 2;
    const last = first + (keyCount - 1) * KEY_WORDS;
    return words[first] === firstKey[0] && words[first + 1] === firstKey[1] && words[last] === lastKey[0] && words[last + 1] === lastKey[1];
  }

  #note(slot: number, { table, keys, keyCount }: Request, came: number): void {
    const { words } = this.#arena;
    const first = keys >>> 2;
    const last = first + (keyCount - 1) * KEY_WORDS;
    this.#drop(slot);
    this.#lists[slot] = {
      table,
      keyCount,
      firstKey: [words[first] as number, words[first + 1] as number],
      lastKey: [words[last] as number, words[last + 1] as number],
      came,
      rows: 0,
    };
  }

  /** Lists the rows, unless a key has none, or there is no room for them (RowMemory.M3). */
  #remember(list: List, keys: number): void {
    const { table, keyCount } = list;
    if (this.#rowCount + keyCount > ROWS_MAX) return;
    const rows = this.#arena.tryAllocateState(keyCount * ROW_BYTES);
    if (rows === 0) return;
    if (this.#kernels.findRows(table, keys, keyCount, rows) > 0) {
      this.#arena.release(rows, keyCount * ROW_BYTES);
      return;
    }
    list.rows = rows;
    this.#rowCount += keyCount;
  }

  #drop(slot: number): void {
    const list = this.#lists[slot];
    this.#lists[slot] = undefined;
    if (list === undefined || list.rows === 0) return;
    this.#arena.release(list.rows, list.keyCount * ROW_BYTES);
    this.#rowCount -= list.keyCount;
  }
}
