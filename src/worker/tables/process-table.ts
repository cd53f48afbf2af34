// process-table — a table as one process has it: its cache of rows, with what its threads have added laid over every
// row that comes in. The thread that opened it has this object; what each thread does with rows is thread-rows.ts.
// Beside it: updates on their way out (leaving-updates.ts), rows that somebody waits for (open-reads.ts), rows that
// servers push (subscribed-rows.ts), and the other threads of the system (table-turns.ts).
//
//   inc ─► oplog of the thread ─ its clock ends ─► updates of that clock ─ the process's ends ─► sent ─► in the rows of
//   servers
//    └───► the row in the cache                     laid over every row that comes in, until it has them
//
// Invariants:
//   ProcessTable.P1. A cached row with version v has every update that any thread of any process stamped before v, and
//       all that this process added.
//   ProcessTable.P2. A row that comes in never takes the place of a newer one: of the two the version decides, and what
//       the server had taken of this worker. A server that was restarted may have taken less than the one before: what
//       that one had acknowledged is in the rows that come, or is lost.
//   ProcessTable.P3. A row that somebody waits for is pinned for it when it comes: it is not evicted before it was
//       read.
//   ProcessTable.P4. When no row may go, a read that waits for another one fails with QUEUE_FULL; nothing waits for an
//       accessor.
//   ProcessTable.P5. A read of a row that has no room for what this process has added fails as the row type says:
//       the row is not kept. An oplog or a book is handed over to its end, whatever of it does not fit.

import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import { wasTakenOut } from "../../wire/failure.ts";
import { NO_SLOT } from "../cache/eviction-order.ts";
import { RowCache } from "../cache/row-cache.ts";
import type { RowRequests } from "../embedding.ts";
import { type EarlyUpdates, LeavingUpdates } from "./leaving-updates.ts";
import { ATTEMPTS, OpenReads } from "./open-reads.ts";
import { cellsOf, type MovingPlace, Oplog, rowMemory } from "./oplog.ts";
import type { ClockMember } from "./process-clock.ts";
import type { RowLocks } from "./row-locks.ts";
import { type RowUpdates, spanOf } from "./row-updates.ts";
import { type RowOrigin, SentUpdates } from "./sent-updates.ts";
import { SubscribedRows } from "./subscribed-rows.ts";
import { type ArrivedRows, errorOf, halvesOf, processOf, rowIdAt, TableExchange } from "./table-exchange.ts";
import type { HeldRows, Prefetches } from "./table-rows.ts";
import { TableTurns } from "./table-turns.ts";
import type { SharedBooks } from "./thread-books.ts";

const HALF = 2 ** 32;
/** No slot: the row that came counts for nothing. */
const VOID = -2;

export type ProcessTableOptions<E extends RowElement = RowElement> = {
  readonly client: RowRequests;
  readonly updates: RowUpdates<E>;
  /** Elements of a row. */
  readonly elements: number;
  /** How many rows the cache holds. */
  readonly slotCount: number;
  /** How many rows a thread may have added to before it hands them over. */
  readonly oplogRows: number;
  readonly staleness: number;
  readonly isExact: boolean;
  readonly subscribes: boolean;
  readonly sendsWholeRows: boolean;
  /** Whether what was not sent is laid over rows that come in. */
  readonly replays: boolean;
  readonly secret: number;
};

/** Rows of a push. `isOwner`: by the placement that this worker has, too (TableContracts.T5). */
type PushedRows = ArrivedRows & { readonly hasMore: boolean; readonly isOwner: boolean };

export class ProcessTable<E extends RowElement = RowElement> implements HeldRows<E> {
  readonly options: ProcessTableOptions<E>;
  readonly name: string;
  readonly isCopied = false;
  readonly rows: RowCache;
  readonly place: MovingPlace<E>;
  readonly updates: LeavingUpdates<E>;
  readonly exchange: TableExchange<E>;
  /** All of the memory. */
  readonly #words: Uint32Array;
  readonly #sent: SentUpdates<E>;
  readonly #turns: TableTurns;
  readonly #reads: OpenReads;
  readonly #subscribed: SubscribedRows;
  /** Of all threads. */
  readonly #oplogs = new Map<Oplog<E>, ClockMember>();
  readonly #books = new Set<SharedBooks<E>>();
  /** By server: the highest `taken` that came from this incarnation of it. */
  readonly #taken = new Map<number, { readonly incarnation: number; readonly highest: number }>();

  constructor(options: ProcessTableOptions<E>) {
    const { client, updates, elements, slotCount, secret, isExact, subscribes, sendsWholeRows } = options;
    const { clock } = client.functions.router;
    const memory = rowMemory({ slotCount, rowBytes: elements * ROW_ELEMENTS[updates.element].bytes, secret });
    this.options = options;
    this.name = client.handle.name;
    this.rows = new RowCache(memory);
    this.#words = new Uint32Array(memory.buffer);
    this.place = { cells: cellsOf(updates.element, memory), start: 0, length: elements };
    this.#sent = new SentUpdates(updates);
    this.#turns = new TableTurns(clock);
    this.#subscribed = new SubscribedRows(slotCount, clock);
    this.exchange = new TableExchange({
      ...{ client, element: updates.element, sent: this.#sent, isExact, subscribes, sendsWholeRows },
      arrived: (rows) => this.#arrived(rows),
      updateFailed: (rows, error) => {
        if (this.updates.failed(rows, error)) void this.#turns.take(() => this.#forgetAll(rows.keys()));
      },
    });
    this.updates = new LeavingUpdates({ name: this.name, sent: this.#sent, exchange: this.exchange, isByClock: isExact });
    this.#reads = new OpenReads(client, this.exchange);
  }

  /** Whether async tasks have added what was not sent. */
  get hasUnsent(): boolean {
    return this.#sent.waitingCount > 0 || [...this.#oplogs.keys()].some(({ count }) => count > 0);
  }

  /** The oplog of a thread that registers. */
  openOplog(member: ClockMember): Oplog<E> {
    const { updates, elements, oplogRows, secret } = this.options;
    const rowBytes = elements * ROW_ELEMENTS[updates.element].bytes;
    const oplog = new Oplog(updates.element, rowMemory({ slotCount: oplogRows, rowBytes, secret }));
    this.#oplogs.set(oplog, member);
    return oplog;
  }

  /** A thread is gone, and has handed over. */
  closeOplog(oplog: Oplog<E>): void {
    this.#oplogs.delete(oplog);
  }

  /** A thread of the system shares the cache from now on, and has these books. */
  share(books: SharedBooks<E>): RowLocks {
    this.#books.add(books);
    return this.#turns.share();
  }

  /**
   * A thread of the system has ended, perhaps half way through an increment: rows whose lock it had are read again.
   * What it added at `clock` is kept.
   */
  async threadEnded(thread: number, books: SharedBooks<E>, clock: number): Promise<void> {
    const wasInUse = this.#turns.takeFrom(thread);
    await this.#turns.take(() => {
      for (const slot of this.rows.held()) if (wasInUse(this.rows.lowOf(slot))) this.rows.setVersion(slot, VERSION_NONE);
      books.takeAll(clock, (low, high, updates, stamp) => this.updates.add(high * HALF + low, stamp, updates));
      this.#books.delete(books);
    });
  }

  /** A closed book of a thread of the system waits to be sent. */
  async takeBook(books: SharedBooks<E>, book: number): Promise<void> {
    await this.#turns.take(() => books.take(book, (low, high, updates, clock) => this.updates.add(high * HALF + low, clock, updates)));
  }

  /** What a thread added at a clock waits to be sent with it. */
  handOver(oplog: Oplog<E>, clock: number): void {
    oplog.drain((low, high, updates) => this.updates.add(high * HALF + low, clock, updates));
  }

  /** Sends some of what threads have added so far, before their clocks end (SSPAggr). Returns how many bytes left. */
  sendEarly({ rowsMax, bytesMax, policy, random }: EarlyUpdates): number {
    for (const [oplog, member] of this.#oplogs) this.handOver(oplog, member.clock);
    const { updates } = this.options;
    const rankOf = (rowId: number, cells: RowArray<E>): number => {
      if (policy === "FIFO") return 0;
      if (policy === "Random") return random.fraction();
      const slot = this.rows.find(rowId >>> 0, Math.floor(rowId / HALF));
      const { place } = this;
      if (slot === NO_SLOT) {
        const zeros = new ROW_ELEMENTS[updates.element].Array(new ArrayBuffer(cells.byteLength)) as RowArray<E>;
        return updates.importance(spanOf(zeros), spanOf(cells));
      }
      place.start = slot * place.length;
      return updates.importance(place, spanOf(cells));
    };
    return this.updates.sendSome(Math.max(1, Math.min(rowsMax, Math.floor(bytesMax / this.rows.memory.rowBytes))), rankOf);
  }

  /** The slot of a row that is fresh to `need`, pinned; NO_SLOT when it has to be asked for. */
  pinFresh(low: number, high: number, need: number): number {
    const slot = this.rows.pinOwn(low, high, need);
    if (slot !== NO_SLOT || !this.options.subscribes) return slot;
    const { functions, planner } = this.options.client;
    const held = this.rows.find(low, high);
    if (held === NO_SLOT || !this.#subscribed.has(held) || this.rows.versionOf(held) === VERSION_NONE) return NO_SLOT;
    const server = planner.ownerOf(low, high);
    const clock = this.#subscribed.clockOf({ server, incarnation: processOf(this.options.client, server), epoch: functions.epoch });
    if (clock < need) return NO_SLOT;
    this.rows.setVersion(held, clock); // it was not pushed: it is as it was
    return this.rows.pinOwn(low, high, need);
  }

  /**
   * Waits for a row as of a clock; resolves with its slot, pinned (ProcessTable.P3). Rejects with QUEUE_FULL
   * (ProcessTable.P4), and as calls of servers do.
   */
  async read(rowId: number, clock: number): Promise<number> {
    if (this.options.subscribes) {
      const slot = await this.#whenPushed(rowId, Math.max(0, clock - this.options.staleness));
      if (slot !== NO_SLOT) return slot;
    }
    try {
      return await this.#reads.request(rowId, clock);
    } catch (thrown) {
      if (wasTakenOut(thrown)) this.updates.checkFailure(); // which says more
      throw thrown;
    }
  }

  /** The slot of a subscribed row once a push has made it fresh, pinned; NO_SLOT for one that has to be asked for. */
  async #whenPushed(rowId: number, need: number): Promise<number> {
    const [low, high] = [rowId >>> 0, Math.floor(rowId / HALF)];
    const found = await this.#subscribed.wait(() => {
      const slot = this.pinFresh(low, high, need);
      if (slot !== NO_SLOT) return slot;
      const held = this.rows.find(low, high);
      return held === NO_SLOT || !this.#subscribed.has(held) ? NO_SLOT : undefined;
    });
    return found ?? NO_SLOT;
  }

  /** The same, for as long as `wait` allows: a DEADLINE says whom the row waits for. */
  async readAtMost(rowId: number, clock: number, wait: WaitOptions | undefined): Promise<number> {
    const reading = this.read(rowId, clock);
    if (wait === undefined) return await reading;
    const { functions, handle } = this.options.client;
    let isOver = false;
    reading.then(
      (slot) => {
        if (isOver) this.unpin(slot); // nobody waits for it any more
      },
      () => {}, // the waiting threads get it
    );
    try {
      return await functions.router.waits.wait(reading, `row ${rowId} of ${this.name}`, wait);
    } catch (thrown) {
      isOver = true;
      throw await functions.explained(thrown, handle, wait);
    }
  }

  /** Requests with updates that rows which come may lack (TableExchange.E1). */
  get unsettledCount(): number {
    return this.#sent.sentCount;
  }

  placeOf(slot: number): RowPlace<E> {
    const { cells, length } = this.place;
    return { cells, start: slot * length, length };
  }

  versionOf(slot: number): number {
    return this.rows.versionOf(slot);
  }

  unpin(slot: number): void {
    this.rows.unpinOwn(slot);
  }

  /** Asks for a row, also where servers would push it, and pins nothing: many may come that nobody reads yet. */
  prefetch(rowId: number, clock: number, waiting: Prefetches): void {
    this.#reads.add(rowId, clock, waiting);
  }

  /** Rows that were asked for are there. */
  #arrived(rows: ArrivedRows): void {
    if (!this.#turns.isShared) this.#takeIn(rows);
    else {
      const copied = { ...rows, keys: rows.keys.slice(), words: rows.words.slice() }; // the frame is gone by then
      void this.#turns.take(() => this.#takeIn(copied));
    }
  }

  #takeIn(rows: ArrivedRows): void {
    const halves = halvesOf(rows.keys);
    const isOld = this.#noteTaken(rows);
    for (let i = 0; i < rows.keys.length; i++) {
      const [low, high] = [halves[2 * i] as number, halves[2 * i + 1] as number];
      const rowId = rowIdAt(halves, i);
      const kept = isOld ? VOID : this.#keep(low, high, rows, i);
      const slot = typeof kept === "number" ? kept : VOID;
      if (slot >= 0 && this.options.subscribes) this.#subscribed.read(slot, rows.from, rows.order);
      for (const read of this.#reads.of(rowId)) {
        if (rows.clock < read.clock - this.options.staleness) continue; // what it asked for is still to come
        if (slot >= 0)
          // ProcessTable.P3
          this.#reads.end(read, (waiting) => waiting.resolve(waiting.pins ? this.rows.pinOwn(low, high, 0) : slot));
        else if (typeof kept !== "number")
          this.#reads.end(read, (waiting) => waiting.reject(kept)); // ProcessTable.P5
        else if (slot === NO_SLOT) this.#reads.end(read, (waiting) => waiting.reject(this.#full(rowId)));
        else if (!this.#reads.again(read)) this.#reads.end(read, (waiting) => waiting.reject(this.#unknown(rowId)));
      }
    }
  }

  /** Whether something newer has come from this server before (ProcessTable.P2). */
  #noteTaken({ server, epoch, taken }: ArrivedRows): boolean {
    const incarnation = this.options.client.functions.incarnationOf(server);
    const known = this.#taken.get(server);
    if (known?.incarnation === incarnation) {
      if (taken < known.highest) return true;
    } else if (known !== undefined) this.#sent.settle({ server, epoch, taken: Infinity });
    if (known?.incarnation !== incarnation || taken > known.highest) this.#taken.set(server, { incarnation, highest: taken });
    if (this.options.isExact) this.#sent.settleAll(this.#takenByAll());
    else this.#sent.settle({ server, epoch, taken });
    return false;
  }

  /** What rows of any server have, in exact mode; 0 before all have sent some. */
  #takenByAll(): number {
    let lowest = Infinity;
    for (const server of this.options.client.functions.servers) lowest = Math.min(lowest, this.#taken.get(server)?.highest ?? 0);
    return lowest;
  }

  /**
   * The slot in which a row of those that came stands now; NO_SLOT when none may go for it (ProcessTable.P4), VOID when
   * it cannot be known what it has, and the reason when it has no room for what this process has added
   * (ProcessTable.P5).
   */
  #keep(low: number, high: number, { words, clock, ...origin }: ArrivedRows, index: number): number | WeighbridgeError {
    const { rows, place } = this;
    const held = rows.find(low, high);
    // ProcessTable.P2
    if (held !== NO_SLOT && rows.versionOf(held) !== VERSION_NONE && rows.versionOf(held) > clock) return held;
    let slot = held;
    if (slot === NO_SLOT) slot = rows.takeFree();
    if (slot === NO_SLOT) slot = rows.evict(Infinity);
    if (slot === NO_SLOT) return NO_SLOT;
    const width = rows.memory.rowBytes / 4;
    place.start = slot * place.length;
    this.#words.set(words.subarray(index * width, (index + 1) * width), rows.addressOf(slot) / 4);
    const unkept = this.options.replays ? this.#layOpen(low, high, origin) : undefined;
    if (unkept !== undefined) {
      if (held === NO_SLOT) rows.giveBack(slot);
      else rows.setVersion(slot, VERSION_NONE);
      return unkept;
    }
    if (held === NO_SLOT) rows.fill(slot, low, high, clock);
    else rows.setVersion(slot, clock);
    return slot;
  }

  /** Lays what it does not have yet over the row at `place`. Returns why it is not to be kept, as `#keep` does. */
  #layOpen(low: number, high: number, origin: RowOrigin): typeof VOID | WeighbridgeError | undefined {
    const { place } = this;
    const { updates } = this.options;
    const rowId = high * HALF + low;
    try {
      if (!this.#sent.layOver(rowId, place, origin)) return VOID;
      for (const books of this.#books) for (const span of books.spansOf(low, high)) updates.lay(place, span);
      for (const oplog of this.#oplogs.keys()) {
        const span = oplog.find(low, high);
        if (span !== undefined) updates.lay(place, span);
      }
      return undefined;
    } catch (thrown) {
      return errorOf(`row ${rowId} of ${this.name} and what this process has added to it do not fit together`, thrown);
    }
  }

  /** Rows that a server pushed; returns those that are not here any more. */
  async pushed(pushed: PushedRows): Promise<BigUint64Array> {
    if (!this.#turns.isShared) return this.#takePushed(pushed);
    const copied = { ...pushed, keys: pushed.keys.slice(), words: pushed.words.slice() };
    let dropped = new BigUint64Array(0);
    await this.#turns.take(() => {
      dropped = this.#takePushed(copied);
    });
    return dropped;
  }

  #takePushed(pushed: PushedRows): BigUint64Array<ArrayBuffer> {
    const halves = halvesOf(pushed.keys);
    const isOld = !pushed.isOwner || this.#noteTaken(pushed);
    this.exchange.receivedBytes += pushed.words.byteLength;
    if (pushed.isOwner) this.#subscribed.began(pushed.from, pushed.order);
    const dropped: bigint[] = [];
    for (let i = 0; i < pushed.keys.length; i++) {
      const [low, high] = [halves[2 * i] as number, halves[2 * i + 1] as number];
      const held = this.rows.find(low, high);
      const kept = held === NO_SLOT || isOld ? VOID : this.#keep(low, high, pushed, i);
      // Otherwise its readers get the failure (ProcessTable.P5).
      const isKept = typeof kept === "number" && kept !== VOID;
      // A row on its way is handled by its own order.
      if (isKept || (held === NO_SLOT && this.#reads.of(rowIdAt(halves, i)).length > 0)) continue;
      dropped.push(pushed.keys[i] as bigint);
      if (held !== NO_SLOT) this.#forget(held);
    }
    if (!pushed.hasMore) this.#subscribed.ended(pushed.from, pushed.isOwner ? pushed.clock : 0);
    return BigUint64Array.from(dropped);
  }

  #forgetAll(rowIds: Iterable<number>): void {
    for (const rowId of rowIds) {
      const slot = this.rows.find(rowId >>> 0, Math.floor(rowId / HALF));
      if (slot !== NO_SLOT) this.#forget(slot);
    }
  }

  /** The row in a slot has something that does not count, or lacks something: it is read again. */
  #forget(slot: number): void {
    this.rows.setVersion(slot, VERSION_NONE);
    this.#subscribed.drop(slot);
  }

  #full(rowId: number): WeighbridgeError {
    const why = `all ${this.rows.slotCount} rows of its process cache are under accessors`;
    const then = "release some, or create the table with a higher processCacheCapacity";
    return new WeighbridgeError("QUEUE_FULL", `row ${rowId} of ${this.name} finds no room: ${why}; ${then}`, { retryable: true });
  }

  #unknown(rowId: number): WeighbridgeError {
    return new WeighbridgeError("ANSWER_LOST", `row ${rowId} of ${this.name} was asked for ${ATTEMPTS} times while its servers changed`, {
      retryable: true,
    });
  }
}
