// row-memory — remembers the rows of key lists that are pulled again and again, so that a pull need not find each key.
// Rows hold their keys, so a list that only looked the same is noticed, and its keys are found as usual.
//
// Invariants:
//   RowMemory.M1. A listed row is a live row of its table: callers call `forget` before they remove rows or a table.
//   RowMemory.M2. A list is remembered when it comes the second time. Lists that never come again cost a comparison.
//   RowMemory.M3. At most LISTS lists of together ROWS_MAX rows are remembered, in the arena.

import type { Arena } from "../../kernel/arena.ts";
import type { Kernels } from "../../kernel/kernels.ts";

const LISTS = 256;
/** A megabyte of addresses. */
export const ROWS_MAX: number = 2 ** 18;
/** Fewer keys are found as quickly as they are remembered. */
export const LISTED_KEYS_MIN = 64;
const KEY_WORDS = 2;
const ROW_BYTES = 4;

type ListedPull = {
  readonly table: number;
  readonly payloadBytes: number;
  readonly keys: number;
  readonly keyCount: number;
  readonly out: number;
};

/** What makes two lists look the same: table, count, first and last key. */
type List = {
  readonly table: number;
  readonly keyCount: number;
  readonly firstKey: readonly [low: number, high: number];
  readonly lastKey: readonly [low: number, high: number];
  /** Address of the rows' addresses; 0 until the list comes again. */
  rows: number;
};

export class RowMemory {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #lists: (List | undefined)[] = [];
  #rowCount = 0;

  constructor(arena: Arena, kernels: Kernels) {
    this.#arena = arena;
    this.#kernels = kernels;
  }

  /** Writes the payloads of all keys to `out`. False when it cannot: `out` is unspecified then. */
  pull(pull: ListedPull): boolean {
    const { table, keys, keyCount, payloadBytes, out } = pull;
    const slot = this.#slotOf(table, keys, keyCount);
    const list = this.#lists[slot];
    if (list === undefined || !this.#looksLike(list, pull)) {
      this.#note(slot, pull);
      return false;
    }
    if (list.rows === 0 && !this.#remember(list, keys)) return false;
    if (this.#kernels.gatherListedRows(list.rows, keys, keyCount, payloadBytes, out) < 0) return true;
    this.#drop(slot);
    return false;
  }

  get usedBytes(): number {
    return this.#rowCount * ROW_BYTES;
  }

  /** RowMemory.M1 */
  forget(): void {
    for (let slot = 0; slot < this.#lists.length; slot++) this.#drop(slot);
  }

  #slotOf(table: number, keys: number, keyCount: number): number {
    const { words } = this.#arena;
    const first = keys >>> 2;
    const mixed = Math.imul((words[first] as number) ^ Math.imul((words[first + 1] as number) ^ keyCount, 0x85ebca6b), 0x9e3779b1) ^ table;
    return ((mixed >>> 24) ^ mixed) & (LISTS - 1);
  }

  #looksLike({ table, keyCount, firstKey, lastKey }: List, pull: ListedPull): boolean {
    if (table !== pull.table || keyCount !== pull.keyCount) return false;
    const { words } = this.#arena;
    const first = pull.keys >>> 2;
    const last = first + (keyCount - 1) * KEY_WORDS;
    return words[first] === firstKey[0] && words[first + 1] === firstKey[1] && words[last] === lastKey[0] && words[last + 1] === lastKey[1];
  }

  /** RowMemory.M2 */
  #note(slot: number, { table, keys, keyCount }: ListedPull): void {
    const { words } = this.#arena;
    const first = keys >>> 2;
    const last = first + (keyCount - 1) * KEY_WORDS;
    this.#drop(slot);
    this.#lists[slot] = {
      table,
      keyCount,
      firstKey: [words[first] as number, words[first + 1] as number],
      lastKey: [words[last] as number, words[last + 1] as number],
      rows: 0,
    };
  }

  /** Lists the rows; false when a key has none, or there is no room for them (RowMemory.M3). */
  #remember(list: List, keys: number): boolean {
    const { table, keyCount } = list;
    if (this.#rowCount + keyCount > ROWS_MAX) return false;
    const rows = this.#arena.tryAllocateState(keyCount * ROW_BYTES);
    if (rows === 0) return false;
    if (this.#kernels.findRows(table, keys, keyCount, rows) > 0) {
      this.#arena.release(rows, keyCount * ROW_BYTES);
      return false;
    }
    list.rows = rows;
    this.#rowCount += keyCount;
    return true;
  }

  #drop(slot: number): void {
    const list = this.#lists[slot];
    this.#lists[slot] = undefined;
    if (list === undefined || list.rows === 0) return;
    this.#arena.release(list.rows, list.keyCount * ROW_BYTES);
    this.#rowCount -= list.keyCount;
  }
}
