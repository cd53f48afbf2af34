// table-freeze — a table as it was at one moment, read out in small steps while updates go on: what a checkpoint saves.
// Not a copy: only rows that are about to change before their turn are set aside.
//
//   the order of listRows (the table's own hash)    ░░░░░░░░░░░░░░░░│ page │                          │
//                                                    handed out      ▲ turn  ahead: set aside first   end
//
//   aside     a second table: key → [ payload at the moment | PRESENT, or ABSENT for a key that had no row then ]
//
// `turn` is the start of the current page; a page is what one call of listRows lists. Before an update, a touch or a
// removal the store calls `preserve` with its keys. A key's hash and the cursor tell whether its turn has come, so rows
// carry no mark, and a table that is not being saved pays nothing.
//
// Invariants:
//   TableFreeze.F1. Every row of the moment is read once, with the payload it had then, bit for bit; later rows are
//       not.
//   TableFreeze.F2. A row whose turn is over is not set aside, and what was set aside goes with its turn: at most the
//       rows that changed before their turn exist twice.
//   TableFreeze.F3. A freeze that finds no room to set rows aside is lost, and releases all memory. The update goes on.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Arena } from "../kernel/arena.ts";
import { KEY_BYTES, WORD_BYTES } from "../kernel/elements.ts";
import { CURSOR_BYTES, type Kernels, LIST_ROWS_MAX, ROW_KEY_BYTES } from "../kernel/kernels.ts";
import { NO_ROOM_COUNT, type RowKernels } from "../kernel/row-kernels.ts";

const PRESENT = 1;
const ABSENT = 2;

type TableFreezeOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly rowKernels: RowKernels;
  readonly table: number;
  readonly payloadBytes: number;
  /** How many rows one step handles. */
  readonly chunkRows: number;
  readonly secret: bigint;
  /** Called when the store need not call `preserve` any more. */
  readonly ended: () => void;
};

/** A part of every row, and the address that those of the read rows go to, one after the other. */
export type TakenColumn = { readonly offset: number; readonly byteCount: number; readonly address: number };

export class TableFreeze {
  readonly #options: TableFreezeOptions;
  readonly #aside: number;
  /** One span for all of the below. */
  readonly #scratch: number;
  readonly #scratchBytes: number;
  readonly #turn: number;
  readonly #next: number;
  readonly #pageKeys: number;
  readonly #listed: number;
  readonly #keys: number;
  readonly #rows: number;
  readonly #asideRows: number;
  readonly #payloads: number;
  #pageCount = 0;
  #pageAt = 0;
  /** The walk over the table is done; what is left was removed meanwhile. */
  #isLeftovers = false;
  #isClosed = false;
  #loss: WeighbridgeError | undefined;

  /** Throws ARENA_FULL. */
  constructor(options: TableFreezeOptions) {
    const { arena, kernels, payloadBytes, chunkRows, secret } = options;
    this.#options = options;
    const sizes = [
      CURSOR_BYTES,
      CURSOR_BYTES,
      LIST_ROWS_MAX * KEY_BYTES,
      LIST_ROWS_MAX * WORD_BYTES,
      chunkRows * KEY_BYTES,
      chunkRows * WORD_BYTES,
      chunkRows * WORD_BYTES,
      chunkRows * payloadBytes,
    ].map((bytes) => Math.ceil(bytes / KEY_BYTES) * KEY_BYTES);
    this.#scratchBytes = sizes.reduce((sum, bytes) => sum + bytes, 0);
    this.#scratch = arena.allocate(this.#scratchBytes);
    const addresses = sizes.map((_, index) => sizes.slice(0, index).reduce((sum, bytes) => sum + bytes, this.#scratch));
    const [turn = 0, next = 0, pageKeys = 0, listed = 0, keys = 0, rows = 0, asideRows = 0, payloads = 0] = addresses;
    [this.#turn, this.#next, this.#pageKeys, this.#listed] = [turn, next, pageKeys, listed];
    [this.#keys, this.#rows, this.#asideRows, this.#payloads] = [keys, rows, asideRows, payloads];
    kernels.zero(this.#turn, CURSOR_BYTES);
    kernels.zero(this.#next, CURSOR_BYTES);
    try {
      this.#aside = kernels.createTable({ payloadBytes: payloadBytes + WORD_BYTES, secret, isAside: true });
    } catch (thrown) {
      arena.release(this.#scratch, this.#scratchBytes);
      throw thrown;
    }
  }

  /** Rows that are kept twice now. */
  get asideCount(): number {
    return this.#isClosed ? 0 : this.#options.kernels.rowCount(this.#aside);
  }

  /** The arena bytes of what is set aside. */
  get asideBytes(): number {
    return this.#isClosed ? 0 : this.#options.kernels.tableBytes(this.#aside);
  }

  /**
   * The rows of these keys are about to change: sets aside what it must (TableFreeze.F1). Never throws: TableFreeze.F3.
   */
  preserve(keys: number, keyCount: number): void {
    const { chunkRows } = this.#options;
    if (this.#isLeftovers) return; // all turns are over
    for (let from = 0; from < keyCount && !this.#isClosed; from += chunkRows) {
      this.#preserveChunk(keys + from * KEY_BYTES, Math.min(chunkRows, keyCount - from));
    }
  }

  /**
   * Reads the next rows, `rowsMax` or fewer, perhaps none, into `columns`. Returns how many, or -1 at the end. Throws
   * ARENA_FULL or UNKNOWN_PARAMETER if the freeze was lost.
   */
  take(rowsMax: number, columns: readonly TakenColumn[]): number {
    if (this.#loss !== undefined) throw this.#loss;
    assert(!this.#isClosed, "a freeze is over when it is closed");
    const isPage = this.#pageAt < this.#pageCount || this.#turnPage();
    if (!isPage) return -1;
    const count = Math.min(rowsMax, this.#options.chunkRows, this.#pageCount - this.#pageAt);
    const taken = this.#isLeftovers ? this.#findLeftovers(count) : this.#findRows(count);
    this.#pageAt += count;
    for (const { offset, byteCount, address } of columns) this.#options.rowKernels.readRows(this.#rows, taken, offset, byteCount, address);
    return taken;
  }

  /** The table is gone, or its memory is needed: later reads throw this error. */
  lose(error: WeighbridgeError): void {
    this.#loss ??= error;
    this.close();
  }

  /** Releases the memory. Safe to call more than once. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { arena, kernels, ended } = this.#options;
    kernels.destroyTable(this.#aside);
    arena.release(this.#scratch, this.#scratchBytes);
    ended();
  }

  #preserveChunk(keys: number, keyCount: number): void {
    const { arena, kernels, rowKernels, table, payloadBytes } = this.#options;
    const ahead = kernels.keysAhead(table, this.#turn, keys, keyCount, this.#keys); // TableFreeze.F2
    const fresh = ahead === 0 ? 0 : rowKernels.insertValues(this.#aside, this.#keys, ahead, this.#asideRows, 0);
    if (fresh === NO_ROOM_COUNT) {
      // TableFreeze.F3
      this.lose(new WeighbridgeError("ARENA_FULL", "no room to keep rows of a table as they were at the cut", { retryable: true }));
      return;
    }
    if (fresh === 0) return;
    rowKernels.readRows(this.#asideRows, fresh, -ROW_KEY_BYTES, KEY_BYTES, this.#keys);
    rowKernels.findValues(table, this.#keys, fresh, payloadBytes, this.#rows, 0);
    rowKernels.readRows(this.#rows, fresh, 0, payloadBytes, this.#payloads);
    rowKernels.writeRows(this.#asideRows, fresh, 0, payloadBytes, this.#payloads);
    const { words } = arena;
    for (let i = 0; i < fresh; i++) {
      const flag = (words[(this.#asideRows >>> 2) + i]! + payloadBytes) >>> 2;
      words[flag] = words[(this.#rows >>> 2) + i] === 0 ? ABSENT : PRESENT;
    }
  }

  /** The next page that has rows; false at the end. */
  #turnPage(): boolean {
    const { kernels, rowKernels, table } = this.#options;
    for (;;) {
      if (!this.#isLeftovers) kernels.removeRows(this.#aside, this.#pageKeys, this.#pageCount); // TableFreeze.F2
      kernels.copy(this.#turn, this.#next, CURSOR_BYTES);
      [this.#pageAt, this.#pageCount] = [0, 0];
      const count = kernels.listRows(this.#isLeftovers ? this.#aside : table, this.#next, this.#listed);
      if (count > 0) {
        rowKernels.readRows(this.#listed, count, 0, KEY_BYTES, this.#pageKeys);
        this.#pageCount = count;
        return true;
      }
      if (count === 0) continue;
      if (this.#isLeftovers) return false;
      this.#isLeftovers = true;
      kernels.zero(this.#next, CURSOR_BYTES);
    }
  }

  /** Lists at #rows where the next `count` rows of the page lie: aside, or in the table. */
  #findRows(count: number): number {
    const { arena, kernels, rowKernels, table, payloadBytes } = this.#options;
    const keys = this.#pageKeys + this.#pageAt * KEY_BYTES;
    const missing = rowKernels.findValues(table, keys, count, payloadBytes, this.#rows, 0);
    if (kernels.rowCount(this.#aside) === 0) {
      assert(missing === 0, "a row that is gone was set aside");
      return count;
    }
    rowKernels.findValues(this.#aside, keys, count, payloadBytes + WORD_BYTES, this.#asideRows, 0);
    const { words } = arena;
    let taken = 0;
    for (let i = 0; i < count; i++) {
      const aside = words[(this.#asideRows >>> 2) + i]!;
      const isAbsent = aside !== 0 && words[(aside + payloadBytes) >>> 2] === ABSENT;
      if (isAbsent) continue;
      const row = aside === 0 ? words[(this.#rows >>> 2) + i]! : aside;
      assert(row !== 0, "a row that is gone was set aside");
      words[(this.#rows >>> 2) + taken++] = row;
    }
    return taken;
  }

  /** What was set aside and never listed: rows that were removed before their turn. */
  #findLeftovers(count: number): number {
    const { arena, payloadBytes } = this.#options;
    const { words } = arena;
    let taken = 0;
    for (let i = 0; i < count; i++) {
      const row = words[(this.#listed >>> 2) + this.#pageAt + i]! + ROW_KEY_BYTES;
      if (words[(row + payloadBytes) >>> 2] === PRESENT) words[(this.#rows >>> 2) + taken++] = row;
    }
    return taken;
  }
}
