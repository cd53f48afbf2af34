// table — a table as one thread uses it: `get` and `inc` at the thread's clock, batches of increments, prefetches, and
// the thread's own copies of rows.
//
// Invariants:
//   Table.T1. `get` of a fresh row and `inc` are synchronous. `get` gives the accessor itself, the one small object
//       that it makes, and a promise only when it must wait; `inc` allocates nothing.
//   Table.T2. Arguments are checked before anything changes: a batch is taken whole or not at all.

import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument, showValue } from "../../base/errors.ts";
import { checkWaitOptions } from "../../base/known-options.ts";
import { ROW_ELEMENTS, type RowArray } from "../../kernel/row-element.ts";
import type { UpdateOf } from "../../store/row-types/column-updates.ts";
import { NO_SLOT } from "../../worker/cache/eviction-order.ts";
import { type RowUpdates, spanOf } from "../../worker/tables/row-updates.ts";
import type { HeldRows, TableRows } from "../../worker/tables/table-rows.ts";
import { TableCounters, type TableStatistics } from "../../worker/tables/table-statistics.ts";
import { ThreadCache } from "../../worker/tables/thread-cache.ts";
import { checkRowId, UpdateCheck } from "../../worker/tables/update-check.ts";
import type { RowAccessor } from "./row-accessor.ts";
import type { AccessorOfRow, TableRowType } from "./table-row-type.ts";

const { HITS, MISSES, WAIT_MS, INCS } = TableCounters;

/** Holds what is a thread's own. */
const NOBODY = { unpin: (): void => {} };

/** The thread that uses a table; `check` throws CLOSED unless it is open. */
export type TableOwner = {
  readonly isOpen: boolean;
  /** @internal */
  check(): void;
};

type AnyBatch<T extends TableRowType> = UpdateBatch<UpdateOf<T["element"]>> | DenseUpdateBatch<RowArray<T["element"]>>;

/** A table of the group, for the thread that got it. */
export class Table<T extends TableRowType = TableRowType> {
  readonly id: number;
  readonly rowType: T;
  readonly rowCapacity: number;
  /** @internal For the thread alone. */
  readonly rows: TableRows<T["element"]>;
  readonly #owner: TableOwner;
  readonly #counters: TableCounters;
  readonly #held: HeldRows<T["element"]>;
  /** Whether accessors read copies of rows (RowAccessor.A2). */
  readonly #copies: boolean;
  readonly #own: ThreadCache<T["element"]>;
  readonly #check: UpdateCheck<T["element"]>;

  /** @internal For the group alone. */
  constructor(id: number, rowType: T, rowCapacity: number, rows: TableRows<T["element"]>, owner: TableOwner) {
    this.id = id;
    this.rowType = rowType;
    this.rowCapacity = rowCapacity;
    this.rows = rows;
    this.#owner = owner;
    this.#counters = rows.counters;
    this.#held = rows.held;
    this.#copies = rowType.movesColumns && !rows.held.isCopied;
    this.#own = new ThreadCache(rowType as RowUpdates as RowUpdates<T["element"]>, rows);
    this.#check = new UpdateCheck(`table ${id}`, rowType.element, rowType.columnCount(rowCapacity));
  }

  get staleness(): number {
    return this.rows.staleness;
  }

  /**
   * The row, as fresh as the table's staleness asks for at this thread's clock: now, or once the slowest thread has
   * come far enough (Table.T1). Release it, or take it with `using`. Throws BAD_ARGUMENT, and what updates of this
   * table were refused for; rejects with QUEUE_FULL when all rows of the process cache are held, DEADLINE, ABORTED, and
   * as calls of servers do.
   */
  get(rowId: number, options?: WaitOptions): AccessorOfRow<T> | Promise<AccessorOfRow<T>> {
    if (!this.#owner.isOpen || this.rows.failure !== undefined || typeof rowId !== "number" || rowId >>> 0 !== rowId)
      this.#checkCall(rowId);
    if (options !== undefined) checkWaitOptions(options);
    const slot = this.rows.pin(rowId);
    if (slot === NO_SLOT) return this.#wait(rowId, options);
    this.#counters.counts[HITS]!++;
    return this.#accessor(slot, rowId, this.rows.clock);
  }

  /**
   * The row, if the process cache has one that is fresh enough; undefined when `get` would wait. So
   * `table.tryGet(7) ?? (await table.get(7))` waits only where it must: `await` costs more than a get. Throws as `get`.
   */
  tryGet(rowId: number): AccessorOfRow<T> | undefined {
    if (!this.#owner.isOpen || this.rows.failure !== undefined || typeof rowId !== "number" || rowId >>> 0 !== rowId)
      this.#checkCall(rowId);
    const slot = this.rows.pin(rowId);
    if (slot === NO_SLOT) return undefined;
    this.#counters.counts[HITS]!++;
    return this.#accessor(slot, rowId, this.rows.clock);
  }

  /** Of the row in a slot that is pinned for it, for a get at a clock. */
  #accessor(slot: number, rowId: number, clock: number): AccessorOfRow<T> {
    const row = this.#held.placeOf(slot);
    const { cells, start, length } = row;
    const accessor = this.rowType.accessor(this.#copies ? spanOf(cells.slice(start, start + length) as RowArray) : row);
    const version = this.#held.versionOf(slot);
    accessor.hold(this.#held, slot, rowId, version);
    this.#counters.read(clock, version);
    return accessor as unknown as AccessorOfRow<T>;
  }

  async #wait(rowId: number, wait: WaitOptions | undefined): Promise<AccessorOfRow<T>> {
    const rows = this.rows;
    const [clock, from] = [rows.clock, rows.nowMs()];
    this.#counters.counts[MISSES]!++;
    try {
      return this.#accessor(await rows.read(rowId, wait), rowId, clock);
    } finally {
      this.#counters.counts[WAIT_MS]! += rows.nowMs() - from;
    }
  }

  /**
   * Adds to one column of a row: seen by all threads of this process at once, sent when the clock ends. Throws
   * BAD_ARGUMENT, OUT_OF_RANGE, NOT_FINITE.
   */
  inc(rowId: number, column: number, update: UpdateOf<T["element"]>): void {
    if (!this.#owner.isOpen || this.rows.failure !== undefined || typeof rowId !== "number" || rowId >>> 0 !== rowId)
      this.#checkCall(rowId);
    this.#check.update(column, update);
    this.#counters.counts[INCS]!++;
    this.rows.inc(rowId, column, update);
  }

  /** The same for several columns of a row (Table.T2). */
  batchInc(rowId: number, batch: UpdateBatch<UpdateOf<T["element"]>>): void {
    this.#counters.counts[INCS]! += this.#incAll(this.rows, rowId, batch, UpdateBatch);
  }

  /** The same for columns side by side. */
  denseBatchInc(rowId: number, batch: DenseUpdateBatch<RowArray<T["element"]>>): void {
    this.#counters.counts[INCS]! += this.#incAll(this.rows, rowId, batch, DenseUpdateBatch);
  }

  /**
   * Asks for a row as of this thread's clock unless it is in the process cache, and does not wait for it, unless many
   * are open (Prefetches.P1).
   */
  getAsync(rowId: number): Promise<void> | undefined {
    this.#checkCall(rowId);
    return this.rows.isCached(rowId) ? undefined : this.rows.prefetch(rowId);
  }

  /** The same, also for a row that is cached. */
  getAsyncForced(rowId: number): Promise<void> | undefined {
    this.#checkCall(rowId);
    return this.rows.prefetch(rowId);
  }

  /** All that `getAsync` asked for has come, or has failed: who gets it is told. */
  async waitPendingAsyncGet(): Promise<void> {
    this.#checkOpen();
    await this.rows.prefetched();
  }

  /**
   * As `get`, of this thread's own copy of the row, with what it added by `threadInc`; made of the process cache's when
   * there is none.
   */
  async threadGet(rowId: number, options?: WaitOptions): Promise<AccessorOfRow<T>> {
    this.#checkCall(rowId);
    if (options !== undefined) checkWaitOptions(options);
    const known = this.#own.copyOf(rowId);
    if (known !== undefined) return this.#ownAccessor(rowId, known);
    using row: RowAccessor = await this.get(rowId, options);
    return this.#ownAccessor(rowId, this.#own.copy(rowId, row.slot));
  }

  #ownAccessor(rowId: number, cells: RowArray): AccessorOfRow<T> {
    const accessor = this.rowType.accessor(spanOf(this.rowType.movesColumns ? (cells.slice() as RowArray) : cells));
    accessor.hold(NOBODY, 0, rowId, this.rows.clock);
    return accessor as unknown as AccessorOfRow<T>;
  }

  /** Adds to this thread's own copy: others see it after `flushThreadCache`, or when this thread's clock ends. */
  threadInc(rowId: number, column: number, update: UpdateOf<T["element"]>): void {
    this.#checkCall(rowId);
    this.#check.update(column, update);
    this.#own.inc(rowId, column, update);
  }

  /** Adds a batch to this thread's own updates, which `flushThreadCache()` passes on (Petuum: ThreadBatchInc). */
  threadBatchInc(rowId: number, batch: UpdateBatch<UpdateOf<T["element"]>>): void {
    this.#incAll(this.#own, rowId, batch, UpdateBatch);
  }

  /** The same with one update for each of a run of columns (Petuum: ThreadDenseBatchInc). */
  threadDenseBatchInc(rowId: number, batch: DenseUpdateBatch<RowArray<T["element"]>>): void {
    this.#incAll(this.#own, rowId, batch, DenseUpdateBatch);
  }

  /** What `threadInc` added is the process's, and this thread's copies are gone. */
  flushThreadCache(): void {
    this.#own.flush();
  }

  /** @internal Whether this thread has updates that only it sees. */
  get hasOwnUpdates(): boolean {
    return this.#own.hasAdded;
  }

  get statistics(): TableStatistics {
    return this.#counters.statistics;
  }

  /** Throws CLOSED where the thread may not use it, and what its updates were refused for. */
  #checkOpen(): void {
    this.#owner.check();
    this.rows.checkFailure();
  }

  /** The same, and BAD_ARGUMENT. */
  #checkCall(rowId: number): void {
    this.#checkOpen();
    checkRowId(rowId);
  }

  /** Table.T2. Returns how many updates there are. */
  #incAll(to: Pick<TableRows, "incAll">, rowId: number, batch: AnyBatch<T>, kind: typeof UpdateBatch | typeof DenseUpdateBatch): number {
    this.#checkCall(rowId);
    const { Array: View } = ROW_ELEMENTS[this.rowType.element];
    if (!(batch instanceof kind && (Array.isArray(batch.updates) || batch.updates instanceof View)))
      throw badArgument(`a batch is an UpdateBatch, or a DenseUpdateBatch of a ${View.name}, not ${showValue(batch)}`);
    const { updates } = batch;
    const columns = batch instanceof UpdateBatch ? batch.columns : batch.start;
    for (let i = 0; i < updates.length; i++)
      this.#check.update(typeof columns === "number" ? columns + i : (columns[i] as number), updates[i] as UpdateOf<T["element"]>);
    to.incAll(rowId, columns, updates);
    return updates.length;
  }
}

/**
 * Several updates of one row, of the kind of number that the table's rows are made of (Petuum: UpdateBatch). A column
 * that is named twice counts twice.
 */
export class UpdateBatch<U extends number | bigint = number> {
  readonly columns: number[] = [];
  readonly updates: U[] = [];

  /** Adds an update of a column. Columns and updates are checked when the batch is used. */
  update(column: number, update: U): this {
    this.columns.push(column);
    this.updates.push(update);
    return this;
  }

  get size(): number {
    return this.columns.length;
  }
}

/** Updates of the columns from `start` on. */
export class DenseUpdateBatch<A extends RowArray = Float32Array> {
  readonly start: number;
  readonly updates: A;

  constructor(start: number, updates: A) {
    if (!(Number.isSafeInteger(start) && start >= 0))
      throw badArgument(`a batch begins with a column, a whole number from 0 up, not ${showValue(start)}`);
    this.start = start;
    this.updates = updates;
  }
}
