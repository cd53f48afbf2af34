// process-table — a table as one process has it: its cache of rows, what its threads have added, and what is under way
// to the servers and back. The thread that opened it has this object; what each thread does with rows is
// thread-rows.ts.
//
//   inc ─► oplog of the thread ─ its clock ends ─► updates of that clock ─ the process's ends ─► sent ─► in the rows of servers
//    └───► the row in the cache                     laid over every row that comes in, until it has them
//
// Invariants:
//   ProcessTable.P1. A cached row with version v has every update that any thread of any process stamped before v, and
//       all that this process added.
//   ProcessTable.P2. A row that comes in never takes the place of a newer one: of the two the version decides, and what
//       the server had taken of this worker.
//   ProcessTable.P3. A row that somebody waits for is pinned for it when it comes: it is not evicted before it was
//       read.
//   ProcessTable.P4. When no row may go, whoever waits for another one fails with QUEUE_FULL; nothing waits for an
//       accessor.
//   ProcessTable.P5. Updates that a server refused because this worker was no member are sent again with the next
//       clock. Those that failed otherwise fail the next call of the table, which names the reason, and cached rows
//       that have them are read again; so do those that do not fit in with what waits to be sent.
//   ProcessTable.P6. Reads that are asked for in one turn leave together, each row once.
//   ProcessTable.P7. Whoever reads a row that has no room for what this process has added fails as the row type says:
//       the row is not kept. An oplog or a book is handed over to its end, whatever of it does not fit.

import { Deferred, type WaitOptions, waitFor } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Random } from "../../base/random.ts";
import { ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import { NO_SLOT } from "../cache/eviction-order.ts";
import { RowCache } from "../cache/row-cache.ts";
import type { RowRequests } from "../embedding.ts";
import { cellsOf, type MovingPlace, Oplog, rowMemory } from "./oplog.ts";
import type { ClockMember } from "./process-clock.ts";
import { RowLocks } from "./row-locks.ts";
import type { RowUpdates } from "./row-updates.ts";
import { type RowOrigin, SentUpdates, type UpdatedRows } from "./sent-updates.ts";
import { type ArrivedRows, halvesOf, rowIdAt, TableExchange } from "./table-exchange.ts";
import { errorOf, isOutside } from "./table-failures.ts";
import type { HeldRows } from "./table-rows.ts";
import type { SharedBooks } from "./thread-books.ts";

const HALF = 2 ** 32;
/** How often a read is made again after this worker has joined the clock set again, or the placement has changed. */
const ATTEMPTS = 8;
/** When rows are in use by threads of the system, how long until the next try. */
const LOCK_AGAIN_MS = 1;
/** How long a read waits for a push of its row before it asks for it. */
const PUSH_WAIT_MS = 1000;

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

/** What leaves before its clock has ended: how much at most, and what first. */
export type EarlyUpdates = {
  readonly rowsMax: number;
  readonly bytesMax: number;
  readonly policy: "FIFO" | "Random" | "RelativeMagnitude";
  readonly random: Random;
};

type PushedRows = ArrivedRows & { readonly hasMore: boolean };

/** A row that was asked for at a clock. */
type OpenRead = { readonly rowId: number; readonly clock: number; readonly waiting: Deferred<number>[]; attempts: number };

export class ProcessTable<E extends RowElement = RowElement> implements HeldRows<E> {
  readonly options: ProcessTableOptions<E>;
  readonly name: string;
  readonly rows: RowCache;
  readonly place: MovingPlace<E>;
  readonly sent: SentUpdates<E>;
  readonly exchange: TableExchange<E>;
  /** Of all threads. */
  readonly #oplogs = new Map<Oplog<E>, ClockMember>();
  readonly #books = new Set<SharedBooks<E>>();
  /** Once threads of the system share the cache. */
  #locks: RowLocks | undefined;
  /** What waits for the locks, in order. */
  readonly #waiting: (() => void)[] = [];
  /**
   * By row: at different clocks, each of its own. Who waits at a low one cannot wait for what a high one waits for: for
   * its own clock, perhaps.
   */
  readonly #open = new Map<number, OpenRead[]>();
  /** By clock: what leaves at the end of this turn (P6). */
  #leaving = new Map<number, Set<number>>();
  /** By server: the highest `taken` that came, and the clock that it pushed last. */
  readonly #taken = new Map<number, number>();
  readonly #pushedClocks = new Map<number, number>();
  readonly #pushedOrders = new Map<number, number>();
  /** Of the placement by which rows were subscribed to. */
  #subscribedEpoch = 0;
  /** By slot: whether servers push the row. */
  readonly #isSubscribed: Uint8Array;
  /** Who waits for a push, by the clock that is needed. */
  readonly #awaitingPush = new Set<{ readonly need: number; readonly wake: () => void }>();
  #openUpdates = 0;
  #whenIdle: Deferred<void> | undefined;
  /** What the next call is told (P5). */
  failure: WeighbridgeError | undefined;

  constructor(options: ProcessTableOptions<E>) {
    const { client, updates, elements, slotCount, secret, isExact, subscribes, sendsWholeRows } = options;
    const memory = rowMemory({ slotCount, rowBytes: elements * ROW_ELEMENTS[updates.element].bytes, secret });
    this.options = options;
    this.name = client.handle.name;
    this.rows = new RowCache(memory);
    this.place = { cells: cellsOf(updates.element, memory), start: 0, length: elements };
    this.sent = new SentUpdates(updates);
    this.#isSubscribed = new Uint8Array(slotCount);
    this.exchange = new TableExchange({
      ...{ client, element: updates.element, sent: this.sent, isExact, subscribes, sendsWholeRows },
      arrived: (rows) => this.#arrived(rows),
      updateFailed: (rows, error) => this.#updateFailed(rows, error),
    });
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
    this.#locks ??= new RowLocks();
    return this.#locks;
  }

  /**
   * A thread of the system has ended, perhaps half way through an increment: rows whose lock it had are read again.
   * What it added at `clock` is kept.
   */
  async threadEnded(thread: number, books: SharedBooks<E>, clock: number): Promise<void> {
    const groups = this.#locks?.takeFrom(thread) ?? [];
    await this.exclusively(() => {
      for (const slot of groups.length === 0 ? [] : this.rows.held())
        if (groups.includes(this.#locks?.groupOf(this.rows.lowOf(slot)) ?? -1)) this.rows.setVersion(slot, VERSION_NONE);
      books.takeAll(clock, (low, high, updates, stamp) => this.#addWaiting(high * HALF + low, stamp, updates));
      this.#books.delete(books);
    });
  }

  /** A closed book of a thread of the system waits to be sent. */
  async takeBook(books: SharedBooks<E>, book: number): Promise<void> {
    await this.exclusively(() => books.take(book, (low, high, updates, clock) => this.#addWaiting(high * HALF + low, clock, updates)));
  }

  /**
   * Runs something while no thread of the system is at the rows: at once, or as soon as they have left them
   * (RowLocks.L3).
   */
  exclusively(run: () => void): Promise<void> {
    if (this.#locks === undefined) {
      run();
      return Promise.resolve();
    }
    const done = new Deferred<void>();
    this.#waiting.push(() => {
      try {
        run();
        done.resolve();
      } catch (thrown) {
        done.reject(thrown);
      }
    });
    if (this.#waiting.length === 1) this.#tryExclusively(this.#locks);
    return done.promise;
  }

  #tryExclusively(locks: RowLocks): void {
    if (!locks.tryLockAll()) {
      this.options.client.functions.router.clock.after(LOCK_AGAIN_MS, () => this.#tryExclusively(locks));
      return;
    }
    try {
      for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
        next();
        this.#waiting.shift();
      }
    } finally {
      locks.unlockAll();
    }
  }

  /** What a thread added at a clock waits to be sent with it. */
  handOver(oplog: Oplog<E>, clock: number): void {
    oplog.drain((low, high, updates) => this.#addWaiting(high * HALF + low, clock, updates));
  }

  /** P5 */
  #addWaiting(rowId: number, clock: number, updates: RowPlace<E>): void {
    try {
      this.sent.add(rowId, clock, updates);
    } catch (thrown) {
      this.failure ??= errorOf(`updates of row ${rowId} of ${this.name} do not fit in with those that wait to be sent`, thrown);
    }
  }

  /**
   * Sends what waits of the clocks up to `clockMax`: in exact mode by clock, otherwise as one sum. What is older than
   * this worker's clock is stamped with that: servers took this worker for dead meanwhile.
   */
  send(clockMax: number): void {
    const clockMin = this.clockNow();
    for (const { clock, rows } of this.sent.take(clockMax, this.options.isExact)) this.#update(rows, Math.max(clock, clockMin));
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
      const row = slot === NO_SLOT ? { cells: cells.slice().fill(0 as never), start: 0, length: cells.length } : place;
      if (slot !== NO_SLOT) place.start = slot * place.length;
      return updates.importance(row as RowPlace<E>, { cells, start: 0, length: cells.length });
    };
    const before = this.exchange.sentBytes;
    const rows = Math.min(rowsMax, Math.floor(bytesMax / this.rows.memory.rowBytes));
    const clockMin = this.clockNow();
    for (const { clock, rows: taken } of this.sent.takeSome(Math.max(1, rows), rankOf)) this.#update(taken, Math.max(clock, clockMin));
    return this.exchange.sentBytes - before;
  }

  #update(rows: UpdatedRows<E>, clock: number): void {
    this.#openUpdates++;
    this.exchange
      .update(rows, clock)
      .catch(() => {}) // P5: every request was told
      .finally(() => {
        if (--this.#openUpdates === 0) this.#whenIdle?.resolve();
      });
  }

  /** P5 */
  #updateFailed(rows: UpdatedRows<E>, error: WeighbridgeError): void {
    if (isOutside(error)) {
      for (const [rowId, cells] of rows) this.#addWaiting(rowId, this.clockNow(), { cells, start: 0, length: cells.length });
      return;
    }
    this.failure ??= errorOf(`updates of ${this.name} were refused`, error);
    void this.exclusively(() => {
      for (const rowId of rows.keys()) this.#forget(this.rows.find(rowId >>> 0, Math.floor(rowId / HALF)));
    });
  }

  /** The row in a slot has something that does not count, or lacks something: it is read again. */
  #forget(slot: number): void {
    if (slot === NO_SLOT) return;
    this.rows.setVersion(slot, VERSION_NONE);
    this.#isSubscribed[slot] = 0;
  }

  /** The clock of this worker; the group sets it. */
  clockNow: () => number = () => 0;

  /** All updates that were sent have ended. */
  async idle(): Promise<void> {
    while (this.#openUpdates > 0) {
      this.#whenIdle ??= new Deferred();
      await this.#whenIdle.promise;
      this.#whenIdle = undefined;
    }
  }

  /** Throws what was found out since the last call (P5). */
  checkFailure(): void {
    const { failure } = this;
    if (failure === undefined) return;
    this.failure = undefined;
    throw failure;
  }

  /** The slot of a row that is fresh to `need`, pinned; NO_SLOT when it has to be asked for. */
  pinFresh(low: number, high: number, need: number): number {
    const slot = this.rows.pin(low, high, need);
    if (slot !== NO_SLOT || !this.options.subscribes) return slot;
    this.#followPlacement();
    const held = this.rows.find(low, high);
    if (held === NO_SLOT || this.#isSubscribed[held] === 0 || this.rows.versionOf(held) === VERSION_NONE) return NO_SLOT;
    const clock = this.#pushedClocks.get(this.options.client.planner.ownerOf(low, high)) ?? 0;
    if (clock < need) return NO_SLOT;
    this.rows.setVersion(held, clock); // it was not pushed: it is as it was
    return this.rows.pin(low, high, need);
  }

  /** The new owners of rows push nothing. */
  #followPlacement(): void {
    const { epoch } = this.options.client.functions;
    if (epoch === this.#subscribedEpoch) return;
    this.#subscribedEpoch = epoch;
    this.#isSubscribed.fill(0);
    this.#pushedClocks.clear();
  }

  /**
   * Waits for a row as of a clock; resolves with its slot, pinned (P3). Rejects with QUEUE_FULL (P4), and as calls of
   * servers do.
   */
  async read(rowId: number, clock: number): Promise<number> {
    const need = Math.max(0, clock - this.options.staleness);
    if (this.options.subscribes) {
      const slot = await this.#whenPushed(rowId, need);
      if (slot !== NO_SLOT) return slot;
    }
    const waiting = new Deferred<number>();
    this.#ask(rowId, clock).waiting.push(waiting);
    return await waiting.promise;
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
      () => {}, // whoever waits is told
    );
    try {
      return await waitFor(reading, `row ${rowId} of ${this.name}`, functions.router.clock, wait);
    } catch (thrown) {
      isOver = true;
      throw await functions.explained(thrown, handle, wait);
    }
  }

  versionOf(slot: number): number {
    return this.rows.versionOf(slot);
  }

  unpin(slot: number): void {
    this.rows.unpin(slot);
  }

  /**
   * Asks for a row without waiting; nothing happens when it does not fit in the cache. `done` hears when it has come or
   * failed.
   */
  prefetch(rowId: number, clock: number, done: () => void): void {
    const waiting = new Deferred<number>();
    this.#ask(rowId, clock).waiting.push(waiting);
    waiting.promise.then(
      (slot) => {
        this.rows.unpin(slot);
        done();
      },
      () => done(), // who reads it is told
    );
  }

  #ask(rowId: number, clock: number): OpenRead {
    const known = this.#open.get(rowId) ?? [];
    const same = known.find((read) => read.clock === clock);
    if (same !== undefined) return same;
    const read: OpenRead = { rowId, clock, waiting: [], attempts: 0 };
    this.#open.set(rowId, [...known, read]);
    this.#leave(rowId, clock);
    return read;
  }

  #leave(rowId: number, clock: number): void {
    if (this.#leaving.size === 0) this.options.client.functions.router.clock.soon(() => this.#sendReads());
    const rowIds = this.#leaving.get(clock);
    if (rowIds === undefined) this.#leaving.set(clock, new Set([rowId]));
    else rowIds.add(rowId);
  }

  #sendReads(): void {
    const leaving = this.#leaving;
    this.#leaving = new Map();
    for (const [clock, rowIds] of leaving)
      this.exchange.read(rowIds, clock).catch((thrown: unknown) => this.#readFailed(rowIds, clock, thrown));
  }

  /** What this worker was no member for is asked again once it is one. */
  #readFailed(rowIds: ReadonlySet<number>, clock: number, thrown: unknown): void {
    const { functions, handle } = this.options.client;
    void functions.explained(thrown, handle, {}).then((error) => {
      for (const rowId of rowIds) {
        const read = this.#open.get(rowId)?.find((one) => one.clock === clock);
        if (read === undefined) continue;
        if (!isOutside(error) || !this.#again(read)) this.#end(read, (waiting) => waiting.reject(error));
      }
    });
  }

  #again(read: OpenRead): boolean {
    if (++read.attempts >= ATTEMPTS) return false;
    this.#leave(read.rowId, read.clock);
    return true;
  }

  #end(read: OpenRead, tell: (waiting: Deferred<number>) => void): void {
    const others = this.#open.get(read.rowId)?.filter((one) => one !== read) ?? [];
    if (others.length === 0) this.#open.delete(read.rowId);
    else this.#open.set(read.rowId, others);
    for (const waiting of read.waiting.splice(0)) tell(waiting);
  }

  /** Rows that were asked for are there. */
  #arrived(rows: ArrivedRows): void {
    if (this.#locks === undefined) this.#takeIn(rows);
    else {
      const copied = { ...rows, keys: rows.keys.slice(), words: rows.words.slice() }; // the frame is gone by then
      void this.exclusively(() => this.#takeIn(copied));
    }
  }

  #takeIn(rows: ArrivedRows): void {
    const halves = halvesOf(rows.keys);
    const isOld = this.#noteTaken(rows);
    const isSubscribed = this.options.subscribes && rows.order >= (this.#pushedOrders.get(rows.server) ?? 0); // TableContracts.T4
    for (let i = 0; i < rows.keys.length; i++) {
      const [low, high] = [halves[2 * i] as number, halves[2 * i + 1] as number];
      const rowId = rowIdAt(halves, i);
      const kept = isOld ? VOID : this.#keep(low, high, rows, i);
      const slot = typeof kept === "number" ? kept : VOID;
      if (slot >= 0) this.#isSubscribed[slot] = isSubscribed ? 1 : 0;
      for (const read of this.#open.get(rowId) ?? []) {
        if (rows.clock < read.clock - this.options.staleness) continue; // what it asked for is still to come
        if (slot >= 0)
          this.#end(read, (waiting) => waiting.resolve(this.rows.pin(low, high))); // P3
        else if (typeof kept !== "number")
          this.#end(read, (waiting) => waiting.reject(kept)); // P7
        else if (slot === NO_SLOT) this.#end(read, (waiting) => waiting.reject(this.#full(rowId)));
        else if (!this.#again(read)) this.#end(read, (waiting) => waiting.reject(this.#unknown(rowId)));
      }
    }
  }

  /** Whether something newer has come from this server before (P2). */
  #noteTaken({ server, epoch, taken }: ArrivedRows): boolean {
    const highest = this.#taken.get(server) ?? 0;
    if (taken < highest) return true;
    this.#taken.set(server, taken);
    this.sent.settle({ server, epoch, taken });
    return false;
  }

  /**
   * The slot in which a row of those that came stands now; NO_SLOT when none may go for it (P4), VOID when it cannot be
   * known what it has, and the reason when it has no room for what this process has added (P7).
   */
  #keep(low: number, high: number, { words, clock, ...origin }: ArrivedRows, index: number): number | WeighbridgeError {
    const { rows, place } = this;
    const held = rows.find(low, high);
    if (held !== NO_SLOT && rows.versionOf(held) !== VERSION_NONE && rows.versionOf(held) > clock) return held; // P2
    let slot = held;
    if (slot === NO_SLOT) slot = rows.takeFree();
    if (slot === NO_SLOT) slot = rows.evict(Infinity);
    if (slot === NO_SLOT) return NO_SLOT;
    const width = rows.memory.rowBytes / 4;
    place.start = slot * place.length;
    const target = new Uint32Array(rows.memory.buffer, rows.addressOf(slot), width);
    for (let word = 0; word < width; word++) target[word] = words[index * width + word] as number;
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
    const { place, sent } = this;
    const { updates } = this.options;
    const rowId = high * HALF + low;
    try {
      if (!sent.layOver(rowId, place, origin)) return VOID;
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
  pushed(pushed: PushedRows): BigUint64Array | Promise<BigUint64Array> {
    if (this.#locks === undefined) return this.#takePushed(pushed);
    const copied = { ...pushed, keys: pushed.keys.slice(), words: pushed.words.slice() };
    let dropped = new BigUint64Array(0);
    return this.exclusively(() => {
      dropped = this.#takePushed(copied);
    }).then(() => dropped);
  }

  #takePushed(pushed: PushedRows): BigUint64Array<ArrayBuffer> {
    const halves = halvesOf(pushed.keys);
    const isOld = this.#noteTaken(pushed);
    this.exchange.receivedBytes += pushed.words.byteLength;
    this.#followPlacement();
    this.#pushedOrders.set(pushed.server, Math.max(pushed.order, this.#pushedOrders.get(pushed.server) ?? 0));
    const dropped: bigint[] = [];
    for (let i = 0; i < pushed.keys.length; i++) {
      const [low, high] = [halves[2 * i] as number, halves[2 * i + 1] as number];
      const held = this.rows.find(low, high);
      const kept = held === NO_SLOT || isOld ? VOID : this.#keep(low, high, pushed, i);
      const isKept = typeof kept === "number" && kept !== VOID; // otherwise who reads it is told (P7)
      if (isKept || (held === NO_SLOT && this.#open.has(rowIdAt(halves, i)))) continue; // one that is on its way is told by its order
      dropped.push(pushed.keys[i] as bigint);
      this.#forget(held);
    }
    if (!pushed.hasMore) {
      this.#pushedClocks.set(pushed.server, Math.max(pushed.clock, this.#pushedClocks.get(pushed.server) ?? 0));
      for (const waiter of this.#awaitingPush) waiter.wake();
    }
    return BigUint64Array.from(dropped);
  }

  /** The slot of a subscribed row once a push has made it fresh, pinned; NO_SLOT for one that has to be asked for. */
  async #whenPushed(rowId: number, need: number): Promise<number> {
    const [low, high] = [rowId >>> 0, Math.floor(rowId / HALF)];
    const { clock } = this.options.client.functions.router;
    const deadline = new Deferred<void>();
    const cancel = clock.after(PUSH_WAIT_MS, () => deadline.resolve());
    let isOver = false;
    void deadline.promise.then(() => {
      isOver = true;
    });
    try {
      while (!isOver) {
        const slot = this.pinFresh(low, high, need);
        const held = this.rows.find(low, high);
        if (slot !== NO_SLOT) return slot;
        if (held === NO_SLOT || this.#isSubscribed[held] === 0) return NO_SLOT;
        const pushed = new Deferred<void>();
        const waiter = { need, wake: () => pushed.resolve() };
        this.#awaitingPush.add(waiter);
        await Promise.race([pushed.promise, deadline.promise]);
        this.#awaitingPush.delete(waiter);
      }
      return NO_SLOT;
    } finally {
      cancel();
    }
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

/** No slot: the row that came counts for nothing. */
const VOID = -2;
