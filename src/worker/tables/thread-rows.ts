// thread-rows — rows of a table as one thread of a process reads and adds to them: at its own clock, through the
// process's cache, into its own oplog. Reads of fresh rows and increments are synchronous and allocate nothing.
// Arguments were checked: the face does that.
//
// Invariants:
//   ThreadRows.T1. An increment is in the thread's oplog and, where the row is cached, in the row: every thread of the
//       process sees it at once.

import { assert } from "../../base/assert.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { RowPlace, UpdateOf } from "../../store/row-types/column-updates.ts";
import { NO_SLOT } from "../cache/eviction-order.ts";
import type { RowCache } from "../cache/row-cache.ts";
import type { Oplog } from "./oplog.ts";
import type { ClockMember } from "./process-clock.ts";
import type { ProcessTable } from "./process-table.ts";
import { addAllToBoth, addToBoth, layOnBoth } from "./row-updates.ts";
import { type HeldRows, Prefetches, type TableRows } from "./table-rows.ts";
import type { TableCounters } from "./table-statistics.ts";

const HALF = 2 ** 32;

export class ThreadRows<E extends RowElement = RowElement> implements TableRows<E> {
  readonly table: ProcessTable<E>;
  readonly held: HeldRows<E>;
  readonly oplog: Oplog<E>;
  readonly counters: TableCounters;
  /** What a row must be fresh to. Set when the clock moves. */
  need = 0;
  readonly #member: ClockMember;
  readonly #prefetches = new Prefetches();
  readonly #rows: RowCache;
  /** By slot of the cache: the span of the row in the oplog when it was used last. */
  readonly #hints: Int32Array;
  readonly #cells: Float64Array;
  readonly #spans: Float64Array;
  readonly #width: number;
  readonly #isDense: boolean;

  constructor(table: ProcessTable<E>, member: ClockMember, counters: TableCounters) {
    this.table = table;
    this.counters = counters;
    this.held = table;
    this.#member = member;
    this.oplog = table.openOplog(member);
    this.#rows = table.rows;
    this.#hints = new Int32Array(table.rows.slotCount);
    this.#cells = table.place.cells as Float64Array; // of its own kind
    this.#spans = this.oplog.place.cells as Float64Array;
    this.#width = table.options.elements;
    this.#isDense = table.options.updates.isDense;
    this.moved();
  }

  get clock(): number {
    return this.#member.clock;
  }

  get name(): string {
    return this.table.name;
  }

  get staleness(): number {
    return this.table.options.staleness;
  }

  get failure(): WeighbridgeError | undefined {
    return this.table.updates.failure;
  }

  checkFailure(): void {
    this.table.updates.checkFailure();
  }

  nowMs(): number {
    return this.table.options.client.functions.router.clock.nowMs();
  }

  isCached(rowId: number): boolean {
    return this.#rows.find(rowId >>> 0, Math.floor(rowId / HALF)) !== NO_SLOT;
  }

  async read(rowId: number, wait: WaitOptions | undefined): Promise<number> {
    return await this.table.readAtMost(rowId, this.clock, wait);
  }

  prefetch(rowId: number): Promise<void> | undefined {
    this.table.prefetch(rowId, this.clock, this.#prefetches.begin());
    return this.#prefetches.room();
  }

  prefetched(): Promise<void> {
    return this.#prefetches.wait();
  }

  /** The clock has moved. */
  moved(): void {
    this.need = Math.max(0, this.#member.clock - this.table.options.staleness);
  }

  /** The slot of a row that is fresh enough, pinned; NO_SLOT when it has to be waited for. */
  pin(rowId: number): number {
    const low = rowId >>> 0;
    const high = low === rowId ? 0 : Math.floor(rowId / HALF);
    const slot = this.#rows.pinOwn(low, high, this.need);
    return slot !== NO_SLOT ? slot : this.table.pinFresh(low, high, this.need);
  }

  /** ThreadRows.T1. Throws what the row type throws. */
  inc(rowId: number, column: number, update: UpdateOf<E>): void {
    const low = rowId >>> 0;
    const high = low === rowId ? 0 : Math.floor(rowId / HALF);
    const slot = this.#rows.find(low, high);
    let entry = slot === NO_SLOT ? NO_SLOT : (this.#hints[slot] as number);
    if (entry === NO_SLOT || !this.oplog.isOf(entry, low, high)) {
      entry = this.#entryOf(low, high);
      if (slot !== NO_SLOT) this.#hints[slot] = entry;
    }
    if (!this.#isDense) {
      addToBoth(this.table.options.updates, this.oplog.at(entry), this.#rowAt(slot), column, update);
      return;
    }
    const spans = this.#spans;
    const at = entry * this.#width + column;
    spans[at] = (spans[at] as number) + (update as number);
    if (slot === NO_SLOT) return;
    const cells = this.#cells;
    const cell = slot * this.#width + column;
    cells[cell] = (cells[cell] as number) + (update as number);
  }

  incAll(rowId: number, columns: readonly number[] | number, updates: ArrayLike<UpdateOf<E>>): void {
    if (this.#isDense) {
      for (let i = 0; i < updates.length; i++)
        this.inc(rowId, typeof columns === "number" ? columns + i : (columns[i] as number), updates[i] as UpdateOf<E>);
      return;
    }
    const low = rowId >>> 0;
    const high = Math.floor(rowId / HALF);
    const slot = this.#rows.find(low, high);
    const entry = this.#entryOf(low, high);
    addAllToBoth(this.table.options.updates, this.oplog.at(entry), this.#rowAt(slot), columns, updates);
  }

  /** A whole span of updates for a row. Throws what the row type throws. */
  lay(rowId: number, span: RowPlace<E>): void {
    const low = rowId >>> 0;
    const high = Math.floor(rowId / HALF);
    const slot = this.#rows.find(low, high);
    const entry = this.#entryOf(low, high);
    layOnBoth(this.table.options.updates, this.oplog.at(entry), this.#rowAt(slot), span);
  }

  /** What this thread added goes to the updates of its clock. */
  handOver(): void {
    if (this.oplog.count > 0) this.table.handOver(this.oplog, this.#member.clock);
  }

  /** The thread is gone. */
  close(): void {
    this.handOver();
    this.table.closeOplog(this.oplog);
  }

  /** Undefined when the row is not cached. */
  #rowAt(slot: number): RowPlace<E> | undefined {
    if (slot === NO_SLOT) return undefined;
    const { place } = this.table;
    place.start = slot * place.length;
    return place;
  }

  /** A full oplog hands over what it has, which leaves at once: memory is bounded by what it may hold. */
  #entryOf(low: number, high: number): number {
    const entry = this.oplog.entryOf(low, high);
    if (entry !== NO_SLOT) return entry;
    this.handOver();
    this.table.updates.send(this.#member.clock);
    const first = this.oplog.entryOf(low, high);
    assert(first !== NO_SLOT, "Oplog: an oplog that was drained has room");
    return first;
  }
}
