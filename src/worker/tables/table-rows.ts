// table-rows — what a thread can do with the rows of a table, whichever kind of thread it is: an async task of the
// thread that speaks for the process (thread-rows.ts), or a thread of the system beside it (shared-table.ts).
//
// Invariants:
//   Prefetches.P1. At most OPEN_MAX are open; a thread that starts another waits for one of them.

import { Deferred, type WaitOptions } from "../../base/deferred.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { RowPlace, UpdateOf } from "../../store/row-types/column-updates.ts";
import type { MovingPlace } from "./oplog.ts";
import type { TableCounters } from "./table-statistics.ts";

/** Where the rows lie that a thread has got hold of, by slot. */
export interface HeldRows<E extends RowElement = RowElement> {
  /** Whether they are copies of this thread's own, which nobody changes. */
  readonly isCopied: boolean;
  /** Slot i is the elements from i × `length` on. */
  readonly place: MovingPlace<E>;
  /** Where the row in a slot lies. */
  placeOf(slot: number): RowPlace<E>;
  /** The clock to which the row in a slot is fresh. */
  versionOf(slot: number): number;
  unpin(slot: number): void;
}

export interface TableRows<E extends RowElement = RowElement> {
  readonly name: string;
  readonly staleness: number;
  /** Of the thread. */
  readonly clock: number;
  readonly held: HeldRows<E>;
  /** Of what this thread does with the table. */
  readonly counters: TableCounters;
  /** What the next call of the table reports. */
  readonly failure: unknown;
  /** Throws it, once. */
  checkFailure(): void;
  /** Milliseconds, of some clock. */
  nowMs(): number;
  /** The clock has moved. */
  moved(): void;
  isCached(rowId: number): boolean;
  /** The slot of a row that is fresh enough, held; NO_SLOT when it has to be waited for. */
  pin(rowId: number): number;
  /** Waits for it. */
  read(rowId: number, wait: WaitOptions | undefined): Promise<number>;
  /** Asks for a row that nobody waits for; a promise if too many are open (Prefetches.P1). */
  prefetch(rowId: number): Promise<void> | undefined;
  /** All of those have come, or failed. */
  prefetched(): Promise<void>;
  inc(rowId: number, column: number, update: UpdateOf<E>): void;
  /**
   * Updates of several columns, by their list or from a first one on: no thread sees some of them without the others.
   */
  incAll(rowId: number, columns: readonly number[] | number, updates: ArrayLike<UpdateOf<E>>): void;
  /** A whole span of updates for a row. */
  lay(rowId: number, span: RowPlace<E>): void;
  /** What this thread added goes to the updates of its clock. */
  handOver(): void;
  close(): void;
}

/** Petuum's is 256. A request of so many rows costs a thread little, and a second round trip more than all of them. */
const OPEN_MAX = 1024;

/**
 * Rows of a table that a thread has asked for and does not wait for yet. They are counted: nobody waits for a single
 * one. One that fails is over as well: who reads the row is told.
 */
export class Prefetches {
  /** What comes is not read yet (RowWait). */
  readonly pins = false;
  #openCount = 0;
  /** Resolves when one has ended. */
  #next: Deferred<void> | undefined;
  /** Resolves when all have. */
  #all: Deferred<void> | undefined;

  /** One more is asked for: `resolve` or `reject` of what this returns ends it. */
  begin(): this {
    this.#openCount++;
    return this;
  }

  /** A promise if who has asked for one has to wait (Prefetches.P1). */
  room(): Promise<void> | undefined {
    if (this.#openCount <= OPEN_MAX) return undefined;
    this.#next ??= new Deferred();
    return this.#next.promise;
  }

  resolve(): void {
    this.#openCount--;
    this.#next?.resolve();
    this.#next = undefined;
    if (this.#openCount > 0) return;
    this.#all?.resolve();
    this.#all = undefined;
  }

  reject(): void {
    this.resolve();
  }

  /** All of them have come, or failed. */
  wait(): Promise<void> {
    if (this.#openCount === 0) return Promise.resolve();
    this.#all ??= new Deferred();
    return this.#all.promise;
  }
}
