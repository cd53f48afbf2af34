// table-group — the tables of a process, in Petuum's words (PSTableGroup): row types, init, tables, threads, shutdown,
// in this order. What a process is connected to is handed in: node/tables.ts joins a cluster or starts one.
//
//   new ── registerRow* ── init ──► open ── createTable* ── createTableDone ──► running ── registerThread, clock … ──
//   shutDown ──► closed
//
// Invariants:
//   TableGroup.G1. A call out of this order is an error that says what comes first.
//   TableGroup.G2. What threads added is sent before the group closes (ProcessTables.G3).

import type { Session } from "../../api/session.ts";
import { badArgument, showValue, WeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { tablePushed } from "../../contracts/tables.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import { hashText } from "../../keys/mix.ts";
import type { UpdateHolder } from "../../worker/held-updates.ts";
import { ProcessTable } from "../../worker/tables/process-table.ts";
import { ProcessTables } from "../../worker/tables/process-tables.ts";
import type { RowUpdates } from "../../worker/tables/row-updates.ts";
import { NO_REPORTS, type ReportSink, type TableTotals, totalsText } from "../../worker/tables/table-statistics.ts";
import type { ThreadPort } from "../../worker/tables/thread-line.ts";
import type { SharedThread } from "./attached-thread.ts";
import { SnapshotSeries } from "./snapshot-series.ts";
import type { Table } from "./table.ts";
import {
  type CheckedGroupConfig,
  type CheckedTableConfig,
  checkGroupConfig,
  checkId,
  checkTableConfig,
  mismatchInWordsOfTables,
  type TableConfig,
  type TableGroupConfig,
} from "./table-config.ts";
import { rowTypeOf, type TableRowType } from "./table-row-type.ts";
import { type NumberRowType, TableThread } from "./table-thread.ts";

/** Joins the cluster, as the configuration says. */
export type OpenSession = (config: CheckedGroupConfig) => Promise<Session>;

type Stage = "new" | "open" | "running" | "closed";

/** What comes first. */
const BEFORE: Readonly<Record<Stage, string>> = {
  new: "init() was not called",
  open: "createTableDone() was not called",
  running: "the tables are complete",
  closed: "the group was shut down",
};

/** What is there once the cluster was joined. */
type Joined = { readonly session: Session; readonly process: ProcessTables };

/** The tables of a process, and the threads that use them (Petuum: TableGroup). */
export class TableGroup {
  readonly #openSession: OpenSession;
  readonly #reports: ReportSink;
  readonly #rowTypes = new Map<number, TableRowType>();
  /** By table. */
  readonly #configs = new Map<number, CheckedTableConfig>();
  readonly #threads: TableThread[] = [];
  #stage: Stage = "new";
  #config: CheckedGroupConfig = checkGroupConfig({});
  #joined: Joined | undefined;
  #hasInitThread = false;
  #initThread: TableThread | undefined;
  #snapshots: { readonly series: SnapshotSeries; readonly ended: Promise<void> } | undefined;

  /** @internal */
  constructor(openSession: OpenSession, reports: ReportSink = NO_REPORTS) {
    this.#openSession = openSession;
    this.#reports = reports;
  }

  /** Names a row type. Before `init`. Throws BAD_ARGUMENT. */
  registerRow(typeId: number, rowType: TableRowType): void {
    checkId({ typeId });
    this.#require("new", "registerRow() comes before init()");
    if (typeof rowType?.accessor !== "function")
      throw badArgument(`a row type is what denseRow() makes, or one of your own, not ${showValue(rowType)}`);
    if (this.#rowTypes.has(typeId)) throw badArgument(`row type ${typeId} is registered already`);
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
    this.#hasInitThread = initThreadAccess;
    this.#stage = "open";
    let session: Session | undefined;
    try {
      session = await this.#openSession(checked);
      if (checked.resumeClock !== -1) await session.restore({ step: checked.resumeClock });
      const process = new ProcessTables({
        worker: session,
        threadCount: checked.numLocalAppThreads - (initThreadAccess ? 0 : 1),
        firstThreadId: initThreadId(session) + (initThreadAccess ? 0 : 1),
        isEager: checked.aggressiveClock,
        reports: this.#reports,
      });
      if (checked.consistencyModel !== "SSP") session.serve(tablePushed, ({ rank }, rows) => process.pushed(rank, rows));
      session.longWaits.describeOwn = () => process.describeSlowest();
      session.held.add(this.#heldOf(process));
      this.#joined = { session, process };
      return initThreadId(session);
    } catch (thrown) {
      this.#stage = "closed";
      await session?.close({ barrier: false }).catch(() => {}); // what failed is told
      throw thrown;
    }
  }

  /** What tasks added leaves with them (TableGroup.G2), also when the process ends without `shutDown`. */
  #heldOf(process: ProcessTables): UpdateHolder {
    const open = (): TableThread[] => this.#threads.filter(({ isOpen }) => isOpen);
    return {
      get hasHeld() {
        return process.hasUnsent || open().some(({ hasOwnUpdates }) => hasOwnUpdates);
      },
      sendHeld: async () => {
        for (const thread of open()) thread[Symbol.dispose]();
        const failure = await process.sent();
        if (failure !== undefined) throw failure;
      },
    };
  }

  /**
   * Makes a table, on every process with the same configuration. Throws BAD_ARGUMENT, UNKNOWN_PLUG_IN, SPEC_MISMATCH,
   * COUNT_MISMATCH.
   */
  async createTable(id: number, config: TableConfig): Promise<void> {
    this.#require("open", "tables are created between init() and createTableDone()");
    checkId({ id });
    const checked = checkTableConfig(id, config);
    const rowType = rowTypeOf(id, checked.rowType, this.#rowTypes);
    if (this.#configs.has(id)) throw badArgument(`table ${id} was created already`);
    if (this.#configs.size >= this.#config.numTables)
      throw new WeighbridgeError("COUNT_MISMATCH", `table ${id} is one too many: numTables is ${this.#config.numTables}`);
    const table = await this.#open(id, checked, rowType);
    this.#opened.process.add(id, table);
    this.#configs.set(id, checked);
  }

  async #open(id: number, config: CheckedTableConfig, rowType: TableRowType): Promise<ProcessTable> {
    const { session } = this.#opened;
    const { staleness, rowCapacity, processCacheCapacity: slotCount, oplogCapacity: oplogRows, oplogDenseSerialized } = config;
    const isExact = this.#config.snapshotClock !== -1 && staleness !== Infinity;
    const name = `tables/${id}`;
    const about = {
      ...{ updates: rowType as RowUpdates, elements: rowType.elements(rowCapacity), slotCount, oplogRows, staleness, isExact },
      ...{ sendsWholeRows: oplogDenseSerialized, replays: !config.noOplogReplay, secret: hashText(`${name} of ${session.rank}`) },
      subscribes: this.#config.consistencyModel !== "SSP",
    };
    try {
      const embedding = await session.embedding<RowElement>(name, {
        dim: rowCapacity,
        dtype: (rowType.plugIn ?? rowType.element) as RowElement,
        optimizer: "sum",
        consistency: isExact ? { bsp: true, reduce: "sum", staleness } : { ssp: staleness },
      });
      return embedding.openWith((client) => new ProcessTable({ client, ...about }));
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
    const { numTables, consistencyModel, bandwidthMbps, oplogPushUpperBoundKb, snapshotClock } = this.#config;
    if (this.#configs.size !== numTables)
      throw new WeighbridgeError("COUNT_MISMATCH", `numTables is ${numTables}, and ${this.#configs.size} were created`);
    const { session, process } = this.#opened;
    await session.barrier();
    this.#stage = "running";
    if (this.#hasInitThread) this.#initThread = this.#register();
    if (snapshotClock !== -1 && session.rank === 0) {
      this.#tellInexact();
      const series = new SnapshotSeries(session, snapshotClock);
      process.gate = series;
      series.onOpen = () => process.advance();
      this.#snapshots = { series, ended: series.run() };
    }
    if (consistencyModel !== "SSPAggr") return;
    const { updateSortPolicy: policy, serverPushRowThreshold: rowsMax } = this.#config;
    process.sendEarly({ rowsMax, bytesMax: oplogPushUpperBoundKb * 1000, policy, random: new Random(session.rank + 1) }, bandwidthMbps);
  }

  /** Of tables without a bound a snapshot is no exact cut (docs/decisions/0012). */
  #tellInexact(): void {
    const unbounded = [...this.#configs].filter(([, { staleness }]) => staleness === Infinity).map(([id]) => id);
    if (unbounded.length === 0) return;
    const what = "snapshots of tables with staleness Infinity may have updates of later clocks, too";
    this.#opened.session.log.warn(what, { tables: unbounded.join() });
  }

  /**
   * A thread, an async task or one of the system, is about to use tables: waits until all of this process have come.
   * Throws BAD_ARGUMENT, COUNT_MISMATCH; CLOSED when the group shuts down before.
   */
  async registerThread(): Promise<TableThread> {
    this.#require("running", "threads register after createTableDone()");
    const thread = this.#register();
    await this.#opened.process.allJoined.promise;
    return thread;
  }

  #register(): TableThread {
    const group = this.#opened.process;
    const thread = new TableThread({ group, ...group.join(), configs: this.#configs, rowTypes: this.#rowTypes });
    this.#threads.push(thread);
    return thread;
  }

  /**
   * @internal A thread of the system is about to use tables, in the place of an async task: returns what it is given
   * (`attachThread`), with the other end of `port`. Call `ended` once it has ended, however it did. Throws as
   * `registerThread`, and UNSUPPORTED where async tasks use tables: a process has threads of one kind.
   */
  openThread(port: ThreadPort): { readonly shared: SharedThread; readonly ended: () => Promise<void> } {
    this.#require("running", "threads register after createTableDone()");
    const thread = this.#opened.process.joinSystem(port);
    return { shared: { number: thread.number, memory: thread.memory, configs: this.#configs }, ended: () => thread.ended() };
  }

  /** The thread that called `init` with access waits until all others have registered. */
  async waitThreadRegister(): Promise<void> {
    this.#require("running", "waitThreadRegister() comes after createTableDone()");
    await this.#opened.process.allJoined.promise;
  }

  /**
   * Of the thread that called `init` with access; other threads ask the handle that `registerThread` gave them. Throws
   * NOT_JOINED.
   */
  getTableOrDie<T extends TableRowType = NumberRowType>(id: number, rowType?: T): Table<T> {
    return this.#own("getTableOrDie").getTableOrDie(id, rowType);
  }

  /** Ends this thread's clock. */
  clock(): void {
    this.#own("clock").clock();
  }

  /** Waits until all threads of all processes have come here. */
  globalBarrier(): void {
    this.#own("globalBarrier").globalBarrier();
  }

  /** This thread uses no table any more. */
  deregisterThread(): void {
    this.#own("deregisterThread").deregisterThread();
  }

  #own(call: string): TableThread {
    this.#require("running", `${call}() comes after createTableDone()`);
    if (this.#initThread !== undefined) return this.#initThread;
    const how = "call it on what registerThread() gave this thread, or init(config, true) for the thread that calls init()";
    throw new WeighbridgeError("NOT_JOINED", `${call}() by a thread that is not registered: ${how}`);
  }

  /** By table: what its threads did, and what travelled. Also after `shutDown`. */
  get statistics(): ReadonlyMap<number, TableTotals> {
    return this.#joined?.process.statistics ?? new Map();
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
    this.#stage = "closed";
    if (this.#joined === undefined) return;
    const { session, process } = this.#joined;
    for (const thread of this.#threads) thread[Symbol.dispose](); // TableGroup.G2
    let failure = await process.close();
    this.#snapshots?.series.close();
    // All of it has been sent: a dead process is waited for no longer.
    await session.close({ barrier: "living" }).catch((thrown: unknown) => {
      failure ??= thrown; // what was lost comes first
    });
    await this.#snapshots?.ended;
    process.report(true);
    if (failure !== undefined) throw failure;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#stage !== "closed") await this.shutDown();
  }

  get #opened(): Joined {
    if (this.#joined === undefined) throw badArgument(BEFORE.new);
    return this.#joined;
  }

  /** TableGroup.G1 */
  #require(stage: Stage, what: string): void {
    if (this.#stage === stage) return;
    const code = this.#stage === "closed" ? "CLOSED" : "BAD_ARGUMENT";
    throw new WeighbridgeError(code, `${what}; ${BEFORE[this.#stage]}`);
  }
}

/** Of the thread that calls `init`; those of the others follow. */
function initThreadId({ rank }: Session): number {
  return 1000 * rank + 200;
}
