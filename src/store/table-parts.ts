// table-parts — the rows of one part of a table (keys/part.ts): walked, counted, saved and dropped without reading
// those of other parts. The store shows rows to a checkpoint before they go (table-store.ts, dropPart).
//
// Invariants:
//   TableParts.P1. The cost is that of the part. In a small table a part shares index segments with its neighbours, a
//       few thousand rows at most.

import type { Arena } from "../kernel/arena.ts";
import { KEY_BYTES, WORD_BYTES } from "../kernel/elements.ts";
import { CURSOR_BYTES, type Kernels, LIST_ROWS_MAX, ROW_KEY_BYTES } from "../kernel/kernels.ts";
import type { RowKernels } from "../kernel/row-kernels.ts";
import { PART_COUNT, partOf } from "../keys/part.ts";
import type { RowImages } from "./table-requests.ts";

/** In a table of more rows most parts have some. */
const MARKED_ROWS_MAX = PART_COUNT;

type TablePartsOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly rowKernels: RowKernels;
  readonly table: number;
  readonly payloadBytes: number;
};

/** For each part 1 if there may be something of it, 0 if there is nothing. */
export type PartMarks = Uint8Array;

/** Marks the parts of the keys at this address in memory. */
export function markParts(marks: PartMarks, words: Uint32Array, keys: number, keyCount: number): void {
  for (let at = keys >>> 2, end = at + 2 * keyCount; at < end; at += 2) marks[partOf(words[at]!, words[at + 1]!)] = 1;
}

export class TableParts {
  readonly #options: TablePartsOptions;

  constructor(options: TablePartsOptions) {
    this.#options = options;
  }

  /** As the store's `list`, for the rows of one part (TableParts.P1). */
  rowsOfPart(part: number | "all", cursor: number, rowsOut: number): number {
    const { arena, kernels, table } = this.#options;
    const count = part === "all" ? kernels.listRows(table, cursor, rowsOut) : kernels.listPart(table, part, cursor, rowsOut);
    const { words } = arena;
    for (let at = rowsOut >>> 2, end = at + count; at < end; at++) words[at]! += ROW_KEY_BYTES;
    return count;
  }

  countOfPart(part: number): number {
    return this.#options.kernels.countPart(this.#options.table, part);
  }

  /** Marks the parts that have rows, and perhaps others: one walk where most parts are empty. Throws ARENA_FULL. */
  mark(marks: PartMarks): void {
    const { arena, kernels, table } = this.#options;
    const rowCount = kernels.rowCount(table);
    if (rowCount === 0) return;
    if (rowCount > MARKED_ROWS_MAX) {
      marks.fill(1);
      return;
    }
    const { words } = arena;
    const pages = this.#pages("all", (listed, count) => words.subarray(listed >>> 2, (listed >>> 2) + count));
    for (const rows of pages) for (const row of rows) markParts(marks, words, row - ROW_KEY_BYTES, 1);
  }

  /**
   * Copies the rows of a part, page by page, for `loadRows`. May miss rows that come or go meanwhile. Throws
   * ARENA_FULL.
   */
  save(part: number): Iterable<RowImages> {
    if (this.countOfPart(part) === 0) return []; // as most of the 4,096 parts of a small table
    const { arena, rowKernels, payloadBytes } = this.#options;
    return this.#pages(part, (listed, count) => {
      const byteCount = count * (KEY_BYTES + payloadBytes);
      const out = arena.allocate(byteCount);
      rowKernels.readRows(listed, count, -ROW_KEY_BYTES, KEY_BYTES, out);
      rowKernels.readRows(listed, count, 0, payloadBytes, out + count * KEY_BYTES);
      const { buffer } = arena.bytes.slice(out, out + byteCount);
      arena.release(out, byteCount);
      return { keys: new BigUint64Array(buffer, 0, count), payloads: new Uint8Array(buffer, count * KEY_BYTES) };
    });
  }

  /**
   * Calls `use` with the keys of a part, or of all, page by page, in memory that is void when it returns. Throws
   * ARENA_FULL before that.
   */
  eachKeys(part: number | "all", use: (keys: number, keyCount: number) => void): void {
    const { arena, rowKernels } = this.#options;
    const keys = arena.allocate(LIST_ROWS_MAX * KEY_BYTES);
    try {
      const pages = this.#pages(part, (listed, count) => {
        rowKernels.readRows(listed, count, -ROW_KEY_BYTES, KEY_BYTES, keys);
        return count;
      });
      for (const count of pages) use(keys, count);
    } finally {
      arena.release(keys, LIST_ROWS_MAX * KEY_BYTES);
    }
  }

  /** Removes the rows of a part; returns how many there were. */
  drop(part: number): number {
    return this.#options.kernels.dropPart(this.#options.table, part);
  }

  /** What `use` makes of each page of a part's rows, listed by address. */
  *#pages<T>(part: number | "all", use: (listed: number, count: number) => T): Iterable<T> {
    const { arena, kernels } = this.#options;
    const byteCount = CURSOR_BYTES + LIST_ROWS_MAX * WORD_BYTES;
    const cursor = arena.allocate(byteCount);
    const listed = cursor + CURSOR_BYTES;
    try {
      kernels.zero(cursor, CURSOR_BYTES);
      for (let count = this.rowsOfPart(part, cursor, listed); count >= 0; count = this.rowsOfPart(part, cursor, listed))
        if (count > 0) yield use(listed, count);
    } finally {
      arena.release(cursor, byteCount);
    }
  }
}
