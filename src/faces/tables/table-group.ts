// table-group — the tables of a process, in Petuum's words (PSTableGroup): row types, init, tables, threads, shutdown,
// in this order. What a process is connected to is handed in: node/tables.ts joins a cluster or starts one.
//
//   new ── registerRow* ── init ──► open ── createTable* ── createTableDone ──► running ── registerThread, clock … ── shutDown ──► closed
//
// Invariants:
//   TableGroup.G1. A call out of this order is an error that says what comes first.
//   TableGroup.G2. What threads added is sent before the group closes, also what was never clocked.
//   TableGroup.G3. The clock of the process is that of its slowest thread; updates stamped with a clock leave before
//       servers hear of its end.

import type { Session } from "../../api/session.ts";
import type { CancelTimer } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf, showValue, WeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { tablePushed } from "../../contracts/tables.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import { hashText } from "../../keys/mix.ts";
import { type ClockMember, ProcessClock } from "../../worker/tables/process-clock.ts";
import { ProcessTable } from "../../worker/tables/process-table.ts";
import { OWNER } from "../../worker/tables/row-locks.ts";
import type { RowUpdates } from "../../worker/tables/row-updates.ts";
import { SystemThread, type ThreadPort } from "../../worker/tables/system-thread.ts";
import { ThreadRows } from "../../worker/tables/thread-rows.ts";
import type { SharedThread } from "./attached-thread.ts";
import type { Table } from "./table.ts";
import {
  type CheckedGroupConfig,
  type CheckedTableConfig,
  checkGroupConfig,
  checkId,
  checkTableConfig,
  type TableConfig,
  type TableGroupConfig,
} from "./table-config.ts";
import { mismatchInWordsOfTables } from "./table-mismatch.ts";
import type { TableRowType } from "./table-row-type.ts";
import {
  NO_REPORTS,
  type ReportSink,
  TableCounters,
  type TableReport,
  type TableStatistics,
  type TableTotals,
  totalsText,
} from "./table-statistics.ts";
import { TableThread, type ThreadGroup } from "./table-thread.ts";

/** A table of the group. */
type GroupTable = {
  readonly id: number;
  readonly rowTypeId: number;
  readonly rowType: TableRowType;
  readonly rowCapacity: number;
  readonly table: ProcessTable;
};

/** Joins the cluster, as the configuration says. */
export type OpenSession = (config: CheckedGroupConfig) => Promise<Session>;

type Stage = "new" | "open" | "running" | "closed";

/** SSPAggr: how long the group waits at least between two looks at what was added. */
const EARLY_MS = 10;

/** What comes first. */
const BEFORE: Readonly<Record<Stage, string>> = {
  new: "init() was not called",
  open: "createTableDone() was not called",
  running: "the tables are complete",
  closed: "the group was shut down",
};

export class TableGroup implements ThreadGroup {
  readonly #openSession: OpenSession;
  readonly #rowTypes = new Map<number, TableRowType>();
  readonly #tables = new Map<number, GroupTable>();
  readonly #threads = new Set<TableThread>();
  readonly #systemThreads = new Set<SystemThread>();
  /** Those that have left too: what they did is told. */
  readonly #registered: { readonly id: number; readonly statistics: ReadonlyMap<number, TableStatistics> }[] = [];
  readonly #reports: ReportSink;
  #stage: Stage = "new";
  #config: CheckedGroupConfig = checkGroupConfig({});
  #session: Session | undefined;
  #clock: ProcessClock = new ProcessClock(0);
  /** Where the clock of this process began: later than 0 if it resumed a snapshot or came late. */
  #clockStart = 0;
  #hasInitThread = false;
  #initThread: TableThread | undefined;
  #registeredCount = 0;
  readonly #allRegistered = new Deferred<void>();
  #snapshots: Promise<void> = Promise.resolve();
  #cancelEarly: CancelTimer | undefined;

  constructor(openSession: OpenSession, reports: ReportSink = NO_REPORTS) {
    this.#openSession = openSession;
    this.#reports = reports;
  }

  /** Names a row type. Before `init`. Throws BAD_ARGUMENT. */
  registerRow(typeId: number, rowType: TableRowType): void {
    checkId("a row type", typeId);
    this.#require("new", "registerRow() comes before init()");
    if (typeof rowType?.accessor !== "function")
      throw new WeighbridgeError("BAD_ARGUMENT", `a row type is what denseRow() makes, or one of your own, not ${showValue(rowType)}`);
    if (this.#rowTypes.has(typeId)) throw new WeighbridgeError("BAD_ARGUMENT", `row type ${typeId} is registered already`);
    this.#rowTypes.set(typeId, rowType);
  }

  /**
   * Joins the cluster; returns the id of the thread that calls it. With `initThreadAccess` that thread uses tables too:
   * through `getTableOrDie`, `clock` and `globalBarrier` of the group. Throws BAD_ARGUMENT, and as joining a cluster
   * does; CHECKPOINT_MISSING when there is no snapshot to resume.
   */
  async init(config: TableGroupConfig = {}, initThreadAccess = false): Promise<number> {
    this.#require("new", "init() is called once");
    const checked = checkGroupConfig(config);
    this.#config = checked;
    this.#stage = "open";
    try {
      const session = await this.#openSession(checked);
      this.#session = session;
      if (checked.resumeClock !== -1) await session.restore({ step: checked.resumeClock });
      if (checked.consistencyModel !== "SSP") this.#serveRows(session);
      this.#clockStart = session.clocks;
      this.#clock = new ProcessClock(this.#clockStart);
      this.#hasInitThread = initThreadAccess;
      return this.#threadId(0);
    } catch (thrown) {
      this.#stage = "closed";
      await this.#session?.close({ barrier: false }).catch(() => {}); // what failed is told
      throw thrown;
    }
  }

  /**
   * Makes a table, on every process with the same configuration. Throws BAD_ARGUMENT, UNKNOWN_PLUG_IN, SPEC_MISMATCH,
   * COUNT_MISMATCH.
   */
  async createTable(id: number, config: TableConfig): Promise<void> {
    this.#require("open", "tables are created between init() and createTableDone()");
    checkId("a table", id);
    const checked = checkTableConfig(id, config);
    const rowType = this.#rowTypes.get(checked.rowType);
    if (rowType === undefined)
      throw new WeighbridgeError(
        "UNKNOWN_PLUG_IN",
        `table ${id}: no row type ${checked.rowType}; registerRow() named ${[...this.#rowTypes.keys()].join(", ") || "none"}`,
      );
    if (this.#tables.has(id)) throw new WeighbridgeError("BAD_ARGUMENT", `table ${id} was created already`);
    if (this.#tables.size >= this.#config.numTables)
      throw new WeighbridgeError("COUNT_MISMATCH", `table ${id} is one too many: numTables is ${this.#config.numTables}`);
    this.#tables.set(id, {
      id,
      rowTypeId: checked.rowType,
      rowType,
      rowCapacity: checked.rowCapacity,
      table: await this.#open(id, checked, rowType),
    });
  }

  async #open(id: number, config: CheckedTableConfig, rowType: TableRowType): Promise<ProcessTable> {
    const session = this.#opened;
    const { staleness, rowCapacity, processCacheCapacity: slotCount, oplogCapacity: oplogRows, oplogDenseSerialized } = config;
    const isExact = this.#config.snapshotClock !== -1 && staleness !== Infinity;
    const name = `tables/${id}`;
    try {
      const embedding = await session.embedding<RowElement>(name, {
        dim: rowCapacity,
        rowType: (rowType.plugIn ?? rowType.element) as RowElement,
        consistency: isExact ? { bsp: true, reduce: "sum", staleness } : { ssp: staleness },
      });
      const table = embedding.openWith(
        (client) =>
          new ProcessTable({
            ...{
              client,
              updates: rowType as RowUpdates,
              elements: rowType.elements(rowCapacity),
              slotCount,
              oplogRows,
              staleness,
              isExact,
            },
            ...{ sendsWholeRows: oplogDenseSerialized, replays: !config.noOplogReplay, secret: hashText(`${name} of ${session.rank}`) },
            subscribes: this.#config.consistencyModel !== "SSP",
          }),
      );
      table.clockNow = () => session.clocks;
      return table;
    } catch (thrown) {
      throw mismatchInWordsOfTables(thrown, id);
    }
  }

  /**
   * All tables are there, on all processes. Throws COUNT_MISMATCH; rejects with NODE_DEAD when a process dies
   * meanwhile.
   */
  async createTableDone(): Promise<void> {
    this.#require("open", "createTableDone() comes once, after the tables");
    const { numTables } = this.#config;
    if (this.#tables.size !== numTables)
      throw new WeighbridgeError("COUNT_MISMATCH", `numTables is ${numTables}, and ${this.#tables.size} were created`);
    await this.#opened.barrier();
    this.#stage = "running";
    if (this.#hasInitThread) this.#initThread = this.#register();
    this.#snapshots = this.#takeSnapshots();
    if (this.#config.consistencyModel === "SSPAggr") this.#sendEarly(new Random(this.#opened.rank + 1));
  }

  /**
   * A thread, an async task or one of the system, is about to use tables: waits until all of this process have come.
   * Throws BAD_ARGUMENT, COUNT_MISMATCH.
   */
  async registerThread(): Promise<TableThread> {
    this.#require("running", "threads register after createTableDone()");
    const thread = this.#register();
    await this.#allRegistered.promise;
    return thread;
  }

  /**
   * A thread of the system is about to use tables, in the place of an async task: returns what it is given
   * (`attachThread`), with the other end of `port`. Call `ended` once it has ended, however it did. Throws as
   * `registerThread`, and UNSUPPORTED where async tasks use tables: a process has threads of one kind.
   */
  openThread(port: ThreadPort): { readonly shared: SharedThread; readonly ended: () => Promise<void> } {
    this.#require("running", "threads register after createTableDone()");
    this.#requireKind(this.#threads.size === 0);
    const index = this.#countThread();
    const member = this.#clock.join();
    const tables = [...this.#tables.values()];
    const thread = new SystemThread({
      ...{ number: OWNER + 1 + index, member, port, tables },
      clockEnded: () => this.#clockOf(member),
      left: () => {
        this.#systemThreads.delete(thread);
        this.#memberLeft(member);
      },
    });
    this.#systemThreads.add(thread);
    const threadId = this.#threadId(index + 1);
    const start = { clock: member.clock, stalenessMax: this.stalenessMax, threadId };
    void this.#allRegistered.promise.then(() => thread.post({ kind: "start", ...start }));
    const shared = thread.memory.map((memory, i) => {
      const counters = new SharedArrayBuffer(TableCounters.BYTES);
      return { ...memory, rowType: (tables[i] as GroupTable).rowTypeId, counters };
    });
    const counted = shared.map(({ id, counters }) => [id, new TableCounters(counters)] as const);
    this.#registered.push({
      id: threadId,
      get statistics() {
        return new Map(counted.map(([id, counters]) => [id, counters.statistics]));
      },
    });
    return { shared: { number: OWNER + 1 + index, tables: shared }, ended: () => thread.ended() };
  }

  #requireKind(isAlone: boolean): void {
    if (isAlone) return;
    throw new WeighbridgeError(
      "UNSUPPORTED",
      "tables are used by async tasks of one thread or by threads of the system, not by both in one process",
    );
  }

  /** The thread that called `init` with access waits until all others have registered. */
  async waitThreadRegister(): Promise<void> {
    this.#require("running", "waitThreadRegister() comes after createTableDone()");
    await this.#allRegistered.promise;
  }

  #register(): TableThread {
    this.#requireKind(this.#systemThreads.size === 0);
    const index = this.#countThread();
    const member = this.#clock.join();
    const tables = [...this.#tables.values()].map(({ table, ...about }) => ({ ...about, rows: new ThreadRows(table, member) }));
    const thread = new TableThread(this, this.#threadId(index + (this.#hasInitThread ? 0 : 1)), member, tables);
    this.#threads.add(thread);
    this.#registered.push(thread);
    return thread;
  }

  /** Which of its kind a thread is that registers, from 0. Throws COUNT_MISMATCH. */
  #countThread(): number {
    const expected = this.#threadCount;
    if (this.#registeredCount >= expected)
      throw new WeighbridgeError(
        "COUNT_MISMATCH",
        `${expected} threads of this process use tables, as numLocalAppThreads says, and all have registered`,
      );
    this.#registeredCount++;
    if (this.#registeredCount === expected) this.#allRegistered.resolve();
    return this.#registeredCount - 1;
  }

  get #threadCount(): number {
    return this.#config.numLocalAppThreads - (this.#hasInitThread ? 0 : 1);
  }

  #threadId(index: number): number {
    return 1000 * this.#opened.rank + 200 + index;
  }

  /**
   * Of the thread that called `init` with access; other threads ask the handle that `registerThread` gave them. Throws
   * NOT_JOINED.
   */
  getTableOrDie<T extends TableRowType = TableRowType>(id: number, rowType?: T): Table<T> {
    return this.#own("getTableOrDie").getTableOrDie(id, rowType);
  }

  clock(): void {
    this.#own("clock").clock();
  }

  globalBarrier(): void {
    this.#own("globalBarrier").globalBarrier();
  }

  deregisterThread(): void {
    this.#own("deregisterThread").deregisterThread();
  }

  #own(call: string): TableThread {
    this.#require("running", `${call}() comes after createTableDone()`);
    if (this.#initThread !== undefined) return this.#initThread;
    const how = "call it on what registerThread() gave this thread, or init(config, true) for the thread that calls init()";
    throw new WeighbridgeError("NOT_JOINED", `${call}() by a thread that is not registered: ${how}`);
  }

  get tables(): ReadonlyMap<number, GroupTable> {
    return this.#tables;
  }

  get stalenessMax(): number {
    const bounds = [...this.#tables.values()].map(({ table }) => table.options.staleness).filter((staleness) => staleness !== Infinity);
    return Math.max(0, ...bounds);
  }

  /** G3 */
  clockEnded(thread: TableThread): void {
    this.#clockOf(thread.member);
  }

  left(thread: TableThread): void {
    this.#threads.delete(thread);
    this.#memberLeft(thread.member);
  }

  #clockOf(member: ClockMember): void {
    if (this.#config.aggressiveClock) this.#send(member.clock);
    if (this.#clock.advance(member) > 0) this.#advance();
  }

  #memberLeft(member: ClockMember): void {
    const rose = this.#clock.leave(member);
    if (this.#clock.memberCount === 0) {
      this.#send(Infinity);
      this.#opened
        .leaveClocks()
        .catch((thrown: unknown) => this.#opened.log.warn("leaving the clock set failed", { reason: reasonOf(thrown) }));
    } else if (rose > 0) this.#advance();
  }

  #advance(): void {
    const session = this.#opened;
    while (session.clocks < this.#clock.min) {
      this.#send(session.clocks);
      session.clock();
    }
    this.#send(this.#clock.min - 1);
    this.#report(false);
  }

  #send(clockMax: number): void {
    for (const { table } of this.#tables.values()) table.send(clockMax);
  }

  /** By table: what its threads did, and what travelled. Also after `shutDown`. */
  get statistics(): ReadonlyMap<number, TableTotals> {
    const clocks = Math.max(1, this.#clock.min - this.#clockStart);
    return new Map(
      [...this.#tables.values()].map(({ id, table: { exchange } }) => {
        const { sentBytes, receivedBytes } = exchange;
        const ofTable = this.#registered.map((thread) => [thread.id, thread.statistics.get(id)] as const);
        const threads = new Map(ofTable.flatMap(([thread, counts]) => (counts === undefined ? [] : [[thread, counts] as const])));
        return [id, { sentBytes, receivedBytes, bytesPerClock: (sentBytes + receivedBytes) / clocks, threads }] as const;
      }),
    );
  }

  #report(isLast: boolean): void {
    if (!this.#reports.isWanted) return;
    const read = (): TableReport["statistics"] => this.statistics;
    this.#reports.take({
      ...{ rank: this.#opened.rank, clock: this.#clock.min, isLast },
      get statistics() {
        return read();
      },
    });
  }

  /** The same in lines for people. */
  get statisticsText(): string {
    return totalsText(this.statistics);
  }

  /**
   * All that threads added is sent, threads that are registered leave, and this process leaves the cluster, with all
   * others.
   */
  async shutDown(): Promise<void> {
    if (this.#stage === "closed") throw new WeighbridgeError("CLOSED", BEFORE.closed);
    const session = this.#session;
    this.#stage = "closed";
    this.#cancelEarly?.();
    if (session === undefined) return;
    for (const thread of [...this.#threads]) thread.deregisterThread(); // G2
    await Promise.all([...this.#systemThreads].map((thread) => thread.ended()));
    let failure: unknown;
    for (const { table } of this.#tables.values()) {
      await table.idle();
      failure ??= table.failure;
    }
    await session.close();
    await this.#snapshots;
    this.#report(true);
    if (failure !== undefined) throw failure;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#stage !== "closed") await this.shutDown();
  }

  /** SSPAggr: some of what was added leaves early, as often as the bandwidth allows. */
  #sendEarly(random: Random): void {
    const { bandwidthMbps, oplogPushUpperBoundKb, updateSortPolicy: policy, serverPushRowThreshold: rowsMax } = this.#config;
    const [first] = this.#tables.values();
    if (first === undefined || this.#stage === "closed") return;
    let bytes = 0;
    for (const { table } of this.#tables.values())
      bytes += table.sendEarly({ rowsMax, bytesMax: oplogPushUpperBoundKb * 1000, policy, random });
    const pauseMs = Math.max(EARLY_MS, (bytes * 8) / (bandwidthMbps * 1000));
    this.#cancelEarly = first.table.options.client.functions.router.clock.after(pauseMs, () => this.#sendEarly(random));
  }

  /** Rows that servers push go to their tables. */
  #serveRows(session: Session): void {
    session.serve(tablePushed, async ({ rank: server }, { parameter, clock, applied, order, hasMore, keys, values }) => {
      for (const { table } of this.#tables.values()) {
        const { isExact, client } = table.options;
        if (client.handle.parameter !== parameter) continue;
        const words = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / 4);
        const epoch = isExact ? 0 : client.functions.epoch;
        return { dropped: await table.pushed({ server, epoch, taken: isExact ? clock : applied, clock, order, hasMore, keys, words }) };
      }
      return { dropped: keys.slice() };
    });
  }

  /** The first process asks for every snapshot before its clock comes: servers cut when the slowest worker has. */
  async #takeSnapshots(): Promise<void> {
    const { snapshotClock: every } = this.#config;
    const session = this.#opened;
    if (every === -1 || session.rank !== 0) return;
    let clock = every * (1 + Math.floor(session.clocks / every));
    const isClosed = (): boolean => this.#stage === "closed";
    while (!isClosed()) {
      try {
        await session.checkpoint({ clock, step: clock });
      } catch (thrown) {
        if (isClosed() || isWeighbridgeError(thrown, "CLOSED")) return;
        session.log.warn("a snapshot was not taken", { clock, reason: reasonOf(thrown) });
      }
      clock = Math.max(clock + every, every * Math.ceil(session.clocks / every));
    }
  }

  get #opened(): Session {
    if (this.#session === undefined) throw new WeighbridgeError("BAD_ARGUMENT", BEFORE.new);
    return this.#session;
  }

  /** G1 */
  #require(stage: Stage, what: string): void {
    if (this.#stage === stage) return;
    const code = this.#stage === "closed" ? "CLOSED" : "BAD_ARGUMENT";
    throw new WeighbridgeError(code, `${what}; ${BEFORE[this.#stage]}`);
  }
}
