// system-thread — a thread of the system as the thread that speaks for the process knows it: its clock, its books, the
// rows that it waits for, and what it asks for. The other half is shared-table.ts.
//
// Invariants:
//   SystemThread.T1. What a thread says is done in the order in which it said it: its books are taken before the clock
//       ends that they are of. Reads wait beside.
//   SystemThread.T2. A thread that ends, in good order or not, leaves nothing behind: locks, pins, its place in the
//       clock. What it added is kept.

import { sleep } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf } from "../../base/errors.ts";
import type { ClockMember } from "./process-clock.ts";
import type { ProcessTable } from "./process-table.ts";
import type { SharedTableMemory } from "./shared-table.ts";
import type { TableCounters } from "./table-statistics.ts";
import { booksMemory, SharedBooks } from "./thread-books.ts";
import type { ThreadPort, ThreadRead, ThreadReply, ThreadRequest, ThreadUnpin } from "./thread-line.ts";

/** When all rows of the cache are being copied, how long until the next try. */
const PIN_AGAIN_MS = 1;

export type SystemThreadOptions = {
  /** Among those of this process, from 2 up (RowLocks). */
  readonly number: number;
  readonly member: ClockMember;
  readonly port: ThreadPort;
  /** By id. */
  readonly tables: ReadonlyMap<number, ProcessTable>;
  /** Where the thread counts what it does with each of them: in memory that it shares. */
  readonly counters: ReadonlyMap<number, TableCounters>;
  readonly clockEnded: () => void;
  readonly left: () => void;
};

/** By slot, how often it is pinned for the thread. */
type Pins = Map<number, number>;

export class SystemThread {
  /** RowLocks */
  readonly number: number;
  readonly member: ClockMember;
  readonly #options: SystemThreadOptions;
  readonly #tables = new Map<number, { readonly table: ProcessTable; readonly books: SharedBooks; readonly pins: Pins }>();
  /** What its thread is given. */
  readonly memory: readonly SharedTableMemory[];
  #chain: Promise<void> = Promise.resolve();
  #isOver = false;
  /** By request: rows that were found in this turn. */
  #slots = new Map<number, number>();

  constructor(options: SystemThreadOptions) {
    this.#options = options;
    this.number = options.number;
    this.member = options.member;
    this.memory = [...options.tables].map(([id, table]) => {
      const { updates, elements, oplogRows, secret, staleness } = table.options;
      const memory = booksMemory(updates.element, { elements, rows: oplogRows, secret });
      const books = new SharedBooks(updates.element, memory);
      this.#tables.set(id, { table, books, pins: new Map() });
      const { memory: counters } = options.counters.get(id) as TableCounters;
      return { id, name: table.name, staleness, rows: table.rows.memory, locks: table.share(books).buffer, books: memory, counters };
    });
    options.port.onmessage = ({ data }) => this.#heard(data as ThreadRequest);
  }

  post(reply: ThreadReply): void {
    this.#options.port.postMessage(reply);
  }

  /** The thread is no more (SystemThread.T2). */
  async ended(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.port.close();
    const { number, member } = this.#options;
    for (const { table, books, pins } of this.#tables.values()) {
      await table.threadEnded(number, books, member.clock);
      for (const [slot, count] of pins) for (let i = 0; i < count; i++) table.unpin(slot);
      pins.clear();
    }
    await this.#chain;
    this.#options.left();
  }

  #heard(request: ThreadRequest): void {
    if (request.kind !== "rows") {
      this.#chain = this.#chain.then(() => this.#obey(request)).catch((thrown: unknown) => this.#refuse(thrown));
      return;
    }
    for (const unpin of request.unpins) this.#unpin(unpin);
    void this.#chain.then(() => request.reads.map((read) => this.#read(read))); // SystemThread.T1
  }

  async #obey(request: Exclude<ThreadRequest, { readonly kind: "rows" }>): Promise<void> {
    if (this.#isOver) return;
    if (request.kind === "clock") this.#options.clockEnded();
    else if (request.kind === "leave") void this.ended();
    else {
      const found = this.#tables.get(request.table);
      if (found === undefined) return;
      await found.table.takeBook(found.books, request.book);
      if (request.isEarly) found.table.updates.send(this.member.clock);
    }
  }

  #unpin({ table: id, slot }: ThreadUnpin): void {
    const { table, pins } = this.#tables.get(id) ?? {};
    const count = pins?.get(slot) ?? 0;
    if (pins === undefined || table === undefined || count === 0) return;
    if (count === 1) pins.delete(slot);
    else pins.set(slot, count - 1);
    table.unpin(slot);
  }

  async #read({ table: id, rowId, clock, requestId }: ThreadRead): Promise<void> {
    const found = this.#tables.get(id);
    if (found === undefined || this.#isOver) return;
    const { table, pins } = found;
    try {
      table.updates.checkFailure();
      const slot = await this.#pinned(table, rowId, clock);
      if (this.#isOver) return table.unpin(slot);
      pins.set(slot, (pins.get(slot) ?? 0) + 1);
      this.#found(table, requestId, slot);
    } catch (thrown) {
      this.post({
        kind: "failed",
        requestId,
        code: isWeighbridgeError(thrown) ? thrown.code : "HANDLER_FAILED",
        message: reasonOf(thrown),
      });
    }
  }

  /** Rows that are found in one turn are reported together. */
  #found(table: ProcessTable, requestId: number, slot: number): void {
    if (this.#slots.size === 0)
      table.options.client.functions.router.clock.soon(() => {
        const slots = this.#slots;
        this.#slots = new Map();
        if (!this.#isOver) this.post({ kind: "rows", slots });
      });
    this.#slots.set(requestId, slot);
  }

  /** Rows are pinned for threads only until they have copied them: when no other may go, one will soon. */
  async #pinned(table: ProcessTable, rowId: number, clock: number): Promise<number> {
    const { clock: time } = table.options.client.functions.router;
    for (;;) {
      try {
        return await table.read(rowId, clock);
      } catch (thrown) {
        if (!isWeighbridgeError(thrown, "QUEUE_FULL") || this.#isOver) throw thrown;
        await sleep(time, PIN_AGAIN_MS);
      }
    }
  }

  #refuse(thrown: unknown): void {
    const code = isWeighbridgeError(thrown) ? thrown.code : "HANDLER_FAILED";
    for (const table of this.#tables.keys()) this.post({ kind: "refused", table, code, message: reasonOf(thrown) });
  }
}
