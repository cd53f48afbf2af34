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
  /** Of the cached rows, eight bytes at a time, as the two below; undefined where rows are no whole number of those. */
  readonly #wideRows: BigInt64Array | undefined;
  readonly #wideCopies: BigInt64Array;
  /** Of a row. */
  readonly #wideWidth: number;
  /** By slot of the cache: the span of the row in the book that this thread wrote when it used it last. */
  readonly #hints: Int32Array;
  readonly #places: readonly RowPlace<E>[];
  readonly #versions = new Uint32Array(COPIES);
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
    this.#wideWidth = Math.floor(rows.rowBytes / WIDE_BYTES);
    this.#wideRows = rows.rowBytes % WIDE_BYTES === 0 ? new BigInt64Array(rows.buffer, rows.rows) : undefined;
    this.#wideCopies = new BigInt64Array(copies, 0, COPIES * this.#wideWidth);
    this.#hints = new Int32Array(rows.slotCount);
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
    const low = rowId >>> 0;
    const group = locks.groupOf(low);
    const changes = locks.changesOf(group);
    if (changes === HELD || this.#freeCount === 0) return this.#pinLocked(rowId);
    const slot = this.#rows.findFresh(low, low === rowId ? 0 : Math.floor(rowId / HALF), this.#need);
    if (slot !== NO_SLOT) this.#copyTo(this.#free[this.#freeCount - 1] as number, slot);
    if (!locks.isUnchanged(group, changes)) return this.#pinLocked(rowId);
    return slot === NO_SLOT ? NO_SLOT : (this.#free[--this.#freeCount] as number);
  }

  /** NO_SLOT when the row is not here, or not fresh enough. */
  #pinLocked(rowId: number): number {
    const group = this.#lock(rowId >>> 0);
    try {
      const slot = this.#rows.findFresh(rowId >>> 0, Math.floor(rowId / HALF), this.#need);
      return slot === NO_SLOT ? NO_SLOT : this.#copy(slot, rowId);
    } finally {
      this.#locks.unlock(group);
    }
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
      return this.#copy(slot, rowId);
    } finally {
      this.#locks.unlock(group);
      unpin(slot);
    }
  }

  prefetch(rowId: number): Promise<void> | undefined {
    const { id } = this.#memory;
    const waiting = this.#prefetches.begin();
    this.#line.ask(id, rowId, {
      resolve: (slot) => {
        this.#line.unpin(id, slot);
        waiting.resolve();
      },
      reject: () => waiting.reject(),
    });
    return this.#prefetches.room();
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
    if (this.#updates.isDense) this.#incDense(low, high, column, update);
    else this.#change(low, high, (span, row) => addToBoth(this.#updates, span, row, column, update));
  }

  /** Numbers side by side: nothing here throws while the lock is held, and nothing allocates. */
  #incDense(low: number, high: number, column: number, update: UpdateOf<E>): void {
    const locks = this.#locks;
    const group = locks.groupOf(low);
    locks.lock(group, this.#line.thread);
    let slot = this.#rows.find(low, high);
    let entry = slot === NO_SLOT ? NO_SLOT : (this.#hints[slot] as number);
    if (entry === NO_SLOT || !this.#books.current.isOf(entry, low, high)) {
      locks.unlock(group); // a book is handed over without a lock
      entry = this.#entryOf(low, high);
      locks.lock(group, this.#line.thread);
      slot = this.#rows.find(low, high);
      if (slot !== NO_SLOT) this.#hints[slot] = entry;
    }
    const { place } = this.#books.current;
    const spans = place.cells as Float64Array; // of its own kind
    const at = entry * place.length + column;
    spans[at] = (spans[at] as number) + (update as number);
    if (slot !== NO_SLOT) {
      const cells = this.#cached.cells as Float64Array;
      const cell = slot * place.length + column;
      cells[cell] = (cells[cell] as number) + (update as number);
    }
    locks.unlock(group);
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
    const entry = this.#entryOf(low, high);
    const group = this.#lock(low);
    try {
      const slot = this.#rows.find(low, high);
      const span = this.#books.current.at(entry);
      if (slot === NO_SLOT) change(span, undefined);
      else {
        this.#cached.start = slot * this.#cached.length;
        change(span, this.#cached);
      }
    } finally {
      this.#locks.unlock(group);
    }
  }

  /** The span of a row in the open book; a full book is handed over before. Not under a lock. */
  #entryOf(low: number, high: number): number {
    const entry = this.#books.current.entryOf(low, high);
    if (entry !== NO_SLOT) return entry;
    this.#turn(true);
    const first = this.#books.current.entryOf(low, high);
    assert(first !== NO_SLOT, "an empty book has room");
    return first;
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
  #copy(slot: number, rowId: number): number {
    if (this.#freeCount === 0) throw this.#full(rowId);
    const copy = this.#free[--this.#freeCount] as number;
    this.#copyTo(copy, slot);
    return copy;
  }

  #copyTo(copy: number, slot: number): void {
    this.#versions[copy] = this.#rows.versionOf(slot);
    const wide = this.#wideRows;
    if (wide === undefined) this.#copyCells(copy, slot);
    else copyWide(this.#wideCopies, copy * this.#wideWidth, wide, slot * this.#wideWidth, this.#wideWidth);
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

/** Four at a time: a row of a get is short. */
function copyWide(to: BigInt64Array, toAt: number, from: BigInt64Array, fromAt: number, count: number): void {
  let i = 0;
  for (; i + 3 < count; i += 4) {
    to[toAt + i] = from[fromAt + i] as bigint;
    to[toAt + i + 1] = from[fromAt + i + 1] as bigint;
    to[toAt + i + 2] = from[fromAt + i + 2] as bigint;
    to[toAt + i + 3] = from[fromAt + i + 3] as bigint;
  }
  for (; i < count; i++) to[toAt + i] = from[fromAt + i] as bigint;
}
