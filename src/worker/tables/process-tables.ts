// process-tables — the tables of a process, under one clock: its threads and their clocks, what leaves when a clock
// ends, rows that servers push, updates that leave early, and what all threads did. The face names tables
// (faces/tables/table-group.ts).
//
// Invariants:
//   ProcessTables.G1. The clock of the process is that of its slowest thread; updates stamped with a clock leave before
//       servers hear of its end.
//   ProcessTables.G2. What the end of a clock sends leaves at the end of the turn, before the reads that are asked for
//       in it: one write carries all (0063).
//   ProcessTables.G3. What threads added is sent when the last of them leaves, also what was never clocked.
//   ProcessTables.G4. While the gate holds a clock, what was added at it and later stays here, and the process does not
//       leave: servers hear of nothing that a cut at that clock must not have.

import type { CancelTimer, Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { reasonOf, unsupported, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { PushedRequest } from "../../contracts/tables.ts";
import type { EarlyUpdates } from "./leaving-updates.ts";
import { type ClockMember, ProcessClock } from "./process-clock.ts";
import type { ProcessTable } from "./process-table.ts";
import { OWNER } from "./row-locks.ts";
import { SystemThread } from "./system-thread.ts";
import { errorOf, processOf } from "./table-exchange.ts";
import { type ReportSink, TableCounters, type TableReport, type TableTotals } from "./table-statistics.ts";
import type { ThreadPort } from "./thread-line.ts";
import { ThreadRows } from "./thread-rows.ts";

/** How long updates that leave early wait at least between two looks at what was added. */
const EARLY_MS = 10;

/** The worker that this process is. */
export type TableWorker = {
  readonly rank: number;
  /** How many clocks it has told servers of. */
  readonly clocks: number;
  readonly log: Log;
  clock(): unknown;
  leaveClocks(): Promise<void>;
  /** Calls `listener` when this worker was taken out of the clock set, before or after it has joined it again. */
  onClockLost(listener: (error: WeighbridgeError) => void): () => void;
};

/** What may hold the clock of a process. */
export type ClockGate = {
  /** Whether the process may end this clock now. If not, `ProcessTables.advance` is called later. */
  mayEnd(clock: number): boolean;
};

export type ProcessTablesOptions = {
  readonly worker: TableWorker;
  /** How many threads use tables. */
  readonly threadCount: number;
  /** The id of the first of them; the others follow. */
  readonly firstThreadId: number;
  /** Whether updates leave when any thread ends its clock, not only when the slowest does. */
  readonly isEager: boolean;
  /** Hears of every clock that the process ends. */
  readonly reports: ReportSink;
};

/** A thread that has registered: its clock, and where it counts what it does with each table. */
type TableMember = { readonly id: number; readonly member: ClockMember; readonly counters: ReadonlyMap<number, TableCounters> };

export class ProcessTables {
  /** By id. */
  readonly tables: Map<number, ProcessTable> = new Map();
  /** Every thread has registered. Rejects with CLOSED where `close` came before. */
  readonly allJoined: Deferred<void> = new Deferred();
  gate: ClockGate = { mayEnd: () => true };
  readonly #options: ProcessTablesOptions;
  readonly #clock: ProcessClock;
  readonly #clockStart: number;
  readonly #systemThreads = new Set<SystemThread>();
  /** Those that have left too, for the statistics. */
  readonly #registered: TableMember[] = [];
  #isAdvancing = false;
  /** Resolves when all has been sent and the process has left the clocks; undefined while threads use tables. */
  #leaving: Deferred<void> | undefined;
  #hasLeft = false;
  #cancelEarly: CancelTimer | undefined;

  constructor(options: ProcessTablesOptions) {
    this.#options = options;
    this.#clockStart = options.worker.clocks;
    this.#clock = new ProcessClock(this.#clockStart);
    if (options.threadCount === 0) this.allJoined.resolve();
    // the next call of every table says so
    options.worker.onClockLost((error) => {
      for (const { updates } of this.tables.values()) updates.failure ??= error;
    });
  }

  /** How many clocks all threads have ended. */
  get clock(): number {
    return this.#clock.min;
  }

  /** Which threads others of this process are ahead of, for the log; "" when all stand at one clock. */
  describeSlowest(): string {
    const standing = this.#registered.filter(({ member }) => this.#clock.has(member));
    const highest = Math.max(...standing.map(({ member }) => member.clock));
    if (highest <= this.#clock.min) return "";
    const slowest = standing.filter(({ member }) => member.clock === this.#clock.min).map(({ id }) => id);
    const who =
      slowest.length === 1 ? `thread ${slowest[0]} of this process stands` : `threads ${slowest.join(", ")} of this process stand`;
    return `${who} at clock ${this.#clock.min}, another at clock ${highest}: call clock() there, or deregisterThread()`;
  }

  /** The greatest bound of the tables that have one. */
  get stalenessMax(): number {
    return Math.max(0, ...[...this.tables.values()].map(({ options }) => options.staleness).filter((staleness) => staleness !== Infinity));
  }

  add(id: number, table: ProcessTable): void {
    this.tables.set(id, table);
    table.updates.clockNow = () => this.#options.worker.clocks;
  }

  get #time(): Clock | undefined {
    const [first] = this.tables.values();
    return first?.options.client.functions.router.clock;
  }

  /** An async task is about to use tables. Throws COUNT_MISMATCH, and UNSUPPORTED beside threads of the system. */
  join(): { readonly id: number; readonly member: ClockMember; readonly rows: ReadonlyMap<number, ThreadRows> } {
    const { id, member, counters } = this.#register(this.#systemThreads.size === 0, (bytes) => new ArrayBuffer(bytes));
    const rows = [...this.tables].map(([of, table]) => [of, new ThreadRows(table, member, counters.get(of) as TableCounters)] as const);
    return { id, member, rows: new Map(rows) };
  }

  /** The same for a thread of the system, at the other end of `port`; UNSUPPORTED beside async tasks. */
  joinSystem(port: ThreadPort): SystemThread {
    const isAlone = this.#clock.memberCount === this.#systemThreads.size;
    const { id, member, counters } = this.#register(isAlone, (bytes) => new SharedArrayBuffer(bytes));
    const thread = new SystemThread({
      ...{ number: OWNER + this.#registered.length, member, port, tables: this.tables, counters },
      clockEnded: () => this.clockEnded(member),
      left: () => {
        this.#systemThreads.delete(thread);
        this.left(member);
      },
    });
    this.#systemThreads.add(thread);
    const start = { clock: member.clock, stalenessMax: this.stalenessMax, threadId: id };
    this.allJoined.promise.then(
      () => thread.post({ kind: "start", ...start }),
      () => {}, // `close` ends the thread
    );
    return thread;
  }

  #register(isAlone: boolean, memoryOf: (bytes: number) => ArrayBufferLike): TableMember {
    const { threadCount, firstThreadId } = this.#options;
    if (!isAlone) {
      const text = "tables are used by async tasks of one thread or by threads of the system, not by both in one process";
      throw unsupported(text);
    }
    if (this.#registered.length >= threadCount)
      throw new WeighbridgeError(
        "COUNT_MISMATCH",
        `${threadCount} threads of this process use tables, as numLocalAppThreads says, and all have registered`,
      );
    const counters = new Map([...this.tables.keys()].map((id) => [id, new TableCounters(memoryOf(TableCounters.BYTES))]));
    const joined = { id: firstThreadId + this.#registered.length, member: this.#clock.join(), counters };
    this.#registered.push(joined);
    if (this.#registered.length === threadCount) this.allJoined.resolve();
    return joined;
  }

  /** A thread has ended its clock, and has handed over what it added (ProcessTables.G1). */
  clockEnded(member: ClockMember): void {
    if (this.#options.isEager) this.#send(member.clock);
    if (this.#clock.advance(member) > 0) this.#moved();
  }

  /** A thread is gone, and has handed over. */
  left(member: ClockMember): void {
    const rose = this.#clock.leave(member);
    if (this.#clock.memberCount > 0) {
      if (rose > 0) this.#moved();
      return;
    }
    this.#leaving = new Deferred();
    this.advance();
  }

  /** ProcessTables.G2 */
  #moved(): void {
    this.report(false);
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    const run = (): void => {
      this.#isAdvancing = false;
      this.advance();
    };
    if (this.#time === undefined) run();
    else this.#time.soon(run);
  }

  /** Ends what clocks the gate lets it end (ProcessTables.G1). The next call of every table reports what failed. */
  advance(): void {
    const { worker } = this.#options;
    try {
      while (worker.clocks < this.#clock.min) {
        if (!this.gate.mayEnd(worker.clocks)) return; // ProcessTables.G4
        this.#send(worker.clocks);
        worker.clock();
      }
      this.#send(this.#clock.min - 1);
    } catch (thrown) {
      for (const { updates } of this.tables.values()) updates.failure ??= errorOf("the end of a clock was not told", thrown);
    }
    if (this.#leaving !== undefined && this.gate.mayEnd(worker.clocks)) this.#leave(this.#leaving);
  }

  /** ProcessTables.G3 */
  #leave(leaving: Deferred<void>): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    const { worker } = this.#options;
    this.#send(Infinity);
    worker.leaveClocks().catch((thrown: unknown) => worker.log.warn("leaving the clock set failed", { reason: reasonOf(thrown) }));
    leaving.resolve();
  }

  #send(clockMax: number): void {
    for (const { updates } of this.tables.values()) updates.send(clockMax);
  }

  /**
   * Some of what was added leaves before its clock ends, as often as the bandwidth allows (SSPAggr), until `close`: its
   * timer keeps the process running, as the connections to servers do.
   */
  sendEarly(early: EarlyUpdates, bandwidthMbps: number): void {
    let bytes = 0;
    for (const table of this.tables.values()) bytes += table.sendEarly(early);
    const pauseMs = Math.max(EARLY_MS, (bytes * 8) / (bandwidthMbps * 1000));
    this.#cancelEarly = this.#time?.after(pauseMs, () => this.sendEarly(early, bandwidthMbps));
  }

  /** Rows that a server pushes (SSPPush); those that are not here any more are named. */
  async pushed(server: number, request: PushedRequest): Promise<{ dropped: BigUint64Array }> {
    const { parameter, clock, applied, order, hasMore, keys, values } = request;
    for (const table of this.tables.values()) {
      const { isExact, client } = table.options;
      if (client.handle.parameter !== parameter) continue;
      const words = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / 4);
      const from = { server, incarnation: processOf(client, server), epoch: request.epoch };
      const origin = { server, from, epoch: isExact ? 0 : request.epoch, taken: isExact ? clock : applied };
      const isOwner = request.epoch === client.functions.epoch; // TableContracts.T5
      return { dropped: await table.pushed({ ...origin, clock, order, hasMore, isOwner, keys, words }) };
    }
    return { dropped: keys.slice() };
  }

  /** By table: what its threads did, and what travelled. Also after `close`. */
  get statistics(): ReadonlyMap<number, TableTotals> {
    const clocks = Math.max(1, this.#clock.min - this.#clockStart);
    const totals = [...this.tables].map(([id, { exchange }]): [number, TableTotals] => {
      const { sentBytes, receivedBytes } = exchange;
      const threads = this.#registered.map(({ id: thread, counters }) => [thread, (counters.get(id) as TableCounters).statistics] as const);
      return [id, { sentBytes, receivedBytes, bytesPerClock: (sentBytes + receivedBytes) / clocks, threads: new Map(threads) }];
    });
    return new Map(totals);
  }

  /** Tells the observers what happened so far. */
  report(isLast: boolean): void {
    const { worker, reports } = this.#options;
    if (!reports.isWanted) return;
    const read = (): TableReport["statistics"] => this.statistics;
    reports.take({
      ...{ rank: worker.rank, clock: this.clock, isLast },
      get statistics() {
        return read();
      },
    });
  }

  /**
   * Threads of the system leave, clocks that are held end, and all that was sent has ended. Returns what the next call
   * would have been told.
   */
  async close(): Promise<unknown> {
    this.#cancelEarly?.();
    const registered = `${this.#registered.length} of ${this.#options.threadCount} threads had registered`;
    this.allJoined.reject(new WeighbridgeError("CLOSED", `the group was shut down when ${registered}`));
    await Promise.all([...this.#systemThreads].map((thread) => thread.ended()));
    return await this.sent();
  }

  /** Whether async tasks have added what was not sent. */
  get hasUnsent(): boolean {
    return [...this.tables.values()].some((table) => table.hasUnsent);
  }

  /** All that was added by threads that have left has been taken. Returns what the next call would have been told. */
  async sent(): Promise<unknown> {
    await this.#leaving?.promise;
    let failure: unknown;
    for (const { updates } of this.tables.values()) {
      await updates.close();
      failure ??= updates.failure;
    }
    return failure;
  }
}
