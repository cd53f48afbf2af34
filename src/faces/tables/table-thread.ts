// table-thread — a thread of a process as tables know it: an async task, or a thread of the system. It has a clock of
// its own; the slowest thread's is the clock of the process.

import { WeighbridgeError } from "../../base/errors.ts";
import type { ClockMember } from "../../worker/tables/process-clock.ts";
import type { TableRows } from "../../worker/tables/table-rows.ts";
import { TableCounters, type TableStatistics } from "../../worker/tables/table-statistics.ts";
import type { DenseRowType } from "./rows/dense-row.ts";
import { Table } from "./table.ts";
import type { CheckedTableConfig } from "./table-config.ts";
import { rowTypeOf, type TableRowType } from "./table-row-type.ts";

/** Rows of numbers side by side: what a table has unless its row type is given. */
export type NumberRowType = DenseRowType<"f32" | "f64" | "i32">;

export type TableThreadOptions = {
  /** Of which the thread is a member. */
  readonly group: {
    readonly stalenessMax: number;
    clockEnded(member: ClockMember): void;
    left(member: ClockMember): void;
  };
  readonly id: number;
  readonly member: ClockMember;
  /** By table, as the following. */
  readonly rows: ReadonlyMap<number, TableRows>;
  readonly configs: ReadonlyMap<number, CheckedTableConfig>;
  readonly rowTypes: ReadonlyMap<number, TableRowType>;
};

/** A thread that is registered with the table group. */
export class TableThread {
  /** As Petuum counts them: 1000 × the process's rank, + 200, + the number of the thread. */
  readonly id: number;
  /** @internal */
  readonly member: ClockMember;
  /** Whether it is registered: false from `deregisterThread` on. */
  readonly isOpen: boolean = true;
  readonly #group: TableThreadOptions["group"];
  readonly #tables = new Map<number, Table>();

  /** @internal For the group alone. */
  constructor({ group, id, member, rows, configs, rowTypes }: TableThreadOptions) {
    this.id = id;
    this.member = member;
    this.#group = group;
    for (const [table, { rowType, rowCapacity }] of configs)
      this.#tables.set(table, new Table(table, rowTypeOf(table, rowType, rowTypes), rowCapacity, rows.get(table) as TableRows, this));
  }

  /** How many clocks this thread has ended. */
  get clocks(): number {
    return this.member.clock;
  }

  /**
   * The table of this id, for this thread alone. `rowType`, the one it was created with, gives the accessors their
   * type; without it they are those of dense rows of f32, f64 or i32. Throws UNKNOWN_PARAMETER, and SPEC_MISMATCH for
   * another row type.
   */
  getTableOrDie<T extends TableRowType = NumberRowType>(id: number, rowType?: T): Table<T> {
    this.check();
    const found = this.#tables.get(id);
    if (found === undefined) {
      const known = [...this.#tables.keys()].join(", ") || "none";
      throw new WeighbridgeError("UNKNOWN_PARAMETER", `there is no table ${id}; createTable made ${known}`);
    }
    if (rowType !== undefined && found.rowType !== rowType)
      throw new WeighbridgeError("SPEC_MISMATCH", `table ${id} has rows of ${found.rowType.name}, not of ${rowType.name}`);
    return found as unknown as Table<T>;
  }

  /**
   * Ends this thread's clock. Never waits; what it added is sent when the slowest thread of the process has ended the
   * clock. Throws NOT_JOINED, CLOSED.
   */
  clock(): void {
    this.check();
    this.#handOver();
    this.#group.clockEnded(this.member);
    for (const { rows } of this.#tables.values()) {
      rows.moved();
      rows.counters.counts[TableCounters.CLOCKS]!++;
    }
  }

  /**
   * Ends clocks until the next get of every table sees what all threads of all processes added before they called it.
   * Does not wait itself.
   */
  globalBarrier(): void {
    for (let i = 0; i <= this.#group.stalenessMax; i++) this.clock();
  }

  /** Leaves: no thread waits for this one any more, and what it added is sent. Throws CLOSED. */
  deregisterThread(): void {
    this.check();
    this.#handOver();
    for (const { rows } of this.#tables.values()) rows.close();
    (this as { isOpen: boolean }).isOpen = false;
    this.#group.left(this.member);
  }

  /** @internal Whether this thread has updates that only it sees. */
  get hasOwnUpdates(): boolean {
    return [...this.#tables.values()].some((table) => table.hasOwnUpdates);
  }

  [Symbol.dispose](): void {
    if (this.isOpen) this.deregisterThread();
  }

  /** By table. */
  get statistics(): ReadonlyMap<number, TableStatistics> {
    return new Map([...this.#tables].map(([id, { statistics }]) => [id, statistics]));
  }

  #handOver(): void {
    for (const table of this.#tables.values()) {
      table.flushThreadCache();
      table.rows.handOver();
    }
  }

  /** @internal Throws CLOSED. */
  check(): void {
    if (!this.isOpen) throw new WeighbridgeError("CLOSED", `thread ${this.id} was deregistered: only registered threads use tables`);
  }
}
