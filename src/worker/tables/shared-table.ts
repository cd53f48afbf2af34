// shared-table — a table as a thread of the system has it, beside the thread that speaks for the process: the same
// cache and rows in shared memory, an oplog of its own (thread-books.ts), and messages for what only the other one can
// do.
//
// Invariants:
//   SharedTable.S1. What a thread reads is a copy of the row as it was in one moment: a row is changed under the lock
//       of its group, and a copy counts if nobody had that lock meanwhile (RowLocks.L4).
//   SharedTable.S2. A thread has no pins and one lock at a time: when it ends, however it ends, the owner takes that
//       lock away (RowLocks.L2).

import { assert } from "../../base/assert.ts";
import { type WaitOptions, waitFor } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { elementsAt, ROW_ELEMENTS, type RowElement } from "../../kernel/row-element.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { RowPlace, UpdateOf } from "../../store/row-types/column-updates.ts";
import { NO_SLOT } from "../cache/eviction-order.ts";
import { type RowMemory, SharedRows } from "../cache/shared-rows.ts";
import { cellsOf, type MovingPlace } from "./oplog.ts";
import { HELD, RowLocks } from "./row-locks.ts";
import { addAllToBoth, addToBoth, layOnBoth, type RowUpdates } from "./row-updates.ts";
import { type HeldRows, Prefetches, type TableRows } from "./table-rows.ts";
import { TableCounters } from "./table-statistics.ts";
import { type BooksMemory, OwnBooks } from "./thread-books.ts";
import type { ThreadLine } from "./thread-line.ts";

const HALF = 2 ** 32;
const WIDE_BYTES = 8;
/** Rows that a thread may hold at once. */
const COPIES = 256;

/** What a thread is given of a table. Plain data. */
export type SharedTableMemory = {
  readonly id: number;
  readonly name: string;
  readonly staleness: number;
  readonly rows: RowMemory;
  readonly locks: SharedArrayBuffer;
  readonly books: BooksMemory;
  /** TableCounters */
  readonly counters: ArrayBufferLike;
};

export class SharedTable<E extends RowElement = RowElement> implements TableRows<E>, HeldRows<E> {
  readonly name: string;
  readonly isCopied = true;
  readonly staleness: number;
  readonly place: MovingPlace<E>;
  readonly counters: TableCounters;
  failure: WeighbridgeError | undefined;
  readonly #memory: SharedTableMemory;
  readonly #updates: RowUpdates<E>;
  readonly #line: ThreadLine;
  readonly #rows: SharedRows;
  readonly #cached: MovingPlace<E>;
  readonly #locks: RowLocks;
  readonly #prefetches = new Prefetches();
  readonly #books: OwnBooks<E>;
  /** Of the cached rows and of the copies, eight bytes at a time; undefined where rows are no whole number of those. */
  readonly #wide: { readonly rows: BigInt64Array; readonly copies: BigInt64Array; readonly width: number } | undefined;
  readonly #places: readonly RowPlace<E>[];
  readonly #versions = new Float64Array(COPIES);
  readonly #free: Uint16Array = Uint16Array.from({ length: COPIES }, (_, i) => COPIES - 1 - i);
  #freeCount = COPIES;
  #need = 0;

  constructor(memory: SharedTableMemory, updates: RowUpdates<E>, line: ThreadLine) {
    const { element } = updates;
    const { rows } = memory;
    const length = rows.rowBytes / ROW_ELEMENTS[element].bytes;
    this.name = memory.name;
    this.staleness = memory.staleness;
    this.counters = new TableCounters(memory.counters);
    this.#memory = memory;
    this.#updates = updates;
    this.#line = line;
    this.#rows = new SharedRows(rows);
    this.#cached = { cells: cellsOf(element, rows), start: 0, length };
    const copies = new ArrayBuffer(COPIES * rows.rowBytes);
    const cells = elementsAt(element, copies, 0, COPIES * length);
    this.place = { cells, start: 0, length };
    this.#places = Array.from({ length: COPIES }, (_, copy) => ({ cells, start: copy * length, length }));
    if (rows.rowBytes % WIDE_BYTES === 0)
      this.#wide = {
        rows: new BigInt64Array(rows.buffer, rows.rows),
        copies: new BigInt64Array(copies),
        width: rows.rowBytes / WIDE_BYTES,
      };
    this.#locks = new RowLocks(memory.locks);
    this.#books = new OwnBooks(element, memory.books);
    this.moved();
  }

  get held(): HeldRows<E> {
    return this;
  }

  get clock(): number {
    return this.#line.member.clock;
  }

  checkFailure(): void {
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }

  nowMs(): number {
    return this.#line.clock.nowMs();
  }

  moved(): void {
    this.#need = Math.max(0, this.#line.member.clock - this.staleness);
  }

  /**
   * A guess while the owner changes what is here: a row may be requested that is not there, or that another thread is
   * getting.
   */
  isCached(rowId: number): boolean {
    return this.#rows.find(rowId >>> 0, Math.floor(rowId / HALF)) !== NO_SLOT;
  }

  /** SharedTable.S1. Takes the lock only if somebody else has it, or had it while the row was copied. */
  pin(rowId: number): number {
    const locks = this.#locks;
    const group = locks.groupOf(rowId >>> 0);
    const changes = locks.changesOf(group);
    if (changes === HELD || this.#freeCount === 0) return this.#pinLocked(rowId);
    const copy = this.#copyFresh(rowId);
    if (locks.isUnchanged(group, changes)) return copy;
    if (copy !== NO_SLOT) this.unpin(copy);
    return this.#pinLocked(rowId);
  }

  #pinLocked(rowId: number): number {
    const group = this.#lock(rowId >>> 0);
    try {
      return this.#copyFresh(rowId);
    } finally {
      this.#locks.unlock(group);
    }
  }

  /** NO_SLOT when the row is not here, or not fresh enough. */
  #copyFresh(rowId: number): number {
    const rows = this.#rows;
    const low = rowId >>> 0;
    const slot = rows.find(low, low === rowId ? 0 : Math.floor(rowId / HALF));
    if (slot === NO_SLOT) return NO_SLOT;
    const version = rows.versionOf(slot);
    return version !== VERSION_NONE && version >= this.#need && rows.isHeld(slot) ? this.#copy(slot, version, rowId) : NO_SLOT;
  }

  async read(rowId: number, wait: WaitOptions = {}): Promise<number> {
    const { id } = this.#memory;
    const reading = this.#line.read(id, rowId);
    const unpin = (slot: number): void => this.#line.unpin(id, slot);
    let slot: number;
    try {
      slot = await waitFor(reading, `row ${rowId} of ${this.name}`, this.#line.clock, wait);
    } catch (thrown) {
      reading.then(unpin, () => {}); // nobody waits for it
      throw thrown;
    }
    const group = this.#lock(rowId >>> 0);
    try {
      return this.#copy(slot, this.#rows.versionOf(slot), rowId);
    } finally {
      this.#locks.unlock(group);
      unpin(slot);
    }
  }

  prefetch(rowId: number): Promise<void> | undefined {
    const { id } = this.#memory;
    return this.#prefetches.add(this.#line.read(id, rowId).then((slot) => this.#line.unpin(id, slot)));
  }

  prefetched(): Promise<void> {
    return this.#prefetches.wait();
  }

  placeOf(slot: number): RowPlace<E> {
    return this.#places[slot] as RowPlace<E>;
  }

  versionOf(slot: number): number {
    return this.#versions[slot] as number;
  }

  unpin(slot: number): void {
    this.#free[this.#freeCount++] = slot;
  }

  /** Who ends in between has not made it: the row is read again (SharedTable.S2). */
  inc(rowId: number, column: number, update: UpdateOf<E>): void {
    const low = rowId >>> 0;
    const high = low === rowId ? 0 : Math.floor(rowId / HALF);
    this.#change(low, high, (span, row) => addToBoth(this.#updates, span, row, column, update));
  }

  incAll(rowId: number, columns: readonly number[] | number, updates: ArrayLike<UpdateOf<E>>): void {
    const [low, high] = [rowId >>> 0, Math.floor(rowId / HALF)];
    this.#change(low, high, (span, row) => addAllToBoth(this.#updates, span, row, columns, updates));
  }

  lay(rowId: number, added: RowPlace<E>): void {
    this.#change(rowId >>> 0, Math.floor(rowId / HALF), (span, row) => layOnBoth(this.#updates, span, row, added));
  }

  handOver(): void {
    this.#turn(false);
  }

  close(): void {
    this.handOver();
  }

  #change(low: number, high: number, change: (span: RowPlace<E>, row: RowPlace<E> | undefined) => void): void {
    const group = this.#lockWithRoom(low, high);
    try {
      const slot = this.#rows.find(low, high);
      const { current } = this.#books;
      const span = current.at(current.entryOf(low, high));
      if (slot === NO_SLOT) change(span, undefined);
      else {
        this.#cached.start = slot * this.#cached.length;
        change(span, this.#cached);
      }
    } finally {
      this.#locks.unlock(group);
    }
  }

  /** Locks the group of a row, with room for its span: a full book is handed over before. */
  #lockWithRoom(low: number, high: number): number {
    if (this.#books.current.entryOf(low, high) === NO_SLOT) this.#turn(true);
    assert(this.#books.current.entryOf(low, high) !== NO_SLOT, "an empty book has room");
    return this.#lock(low);
  }

  #turn(isEarly: boolean): void {
    const book = this.#books.turn(this.#line.member.clock);
    if (book >= 0) this.#line.post({ kind: "closed", table: this.#memory.id, book, isEarly });
  }

  #lock(low: number): number {
    const group = this.#locks.groupOf(low);
    this.#locks.lock(group, this.#line.thread);
    return group;
  }

  /** Throws QUEUE_FULL. */
  #copy(slot: number, version: number, rowId: number): number {
    if (this.#freeCount === 0) throw this.#full(rowId);
    const copy = this.#free[--this.#freeCount] as number;
    const wide = this.#wide;
    if (wide === undefined) this.#copyCells(copy, slot);
    else {
      const { rows, copies, width } = wide;
      for (let i = 0, to = copy * width, from = slot * width; i < width; i++) copies[to + i] = rows[from + i] as bigint;
    }
    this.#versions[copy] = version;
    this.#rows.mark(slot);
    return copy;
  }

  #copyCells(copy: number, slot: number): void {
    const { cells, length } = this.#cached;
    const copies = this.place.cells as Float64Array; // of its own kind
    for (let i = 0, to = copy * length, from = slot * length; i < length; i++) copies[to + i] = cells[from + i] as number;
  }

  #full(rowId: number): WeighbridgeError {
    return new WeighbridgeError("QUEUE_FULL", `row ${rowId} of ${this.name}: this thread holds ${COPIES} accessors; release some`, {
      retryable: true,
    });
  }
}
