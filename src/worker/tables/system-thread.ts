// system-thread — a thread of the system as the thread that speaks for the process knows it: its clock, its books, the
// rows that it waits for, and what it asks for. The other half is shared-table.ts.
//
// Invariants:
//   SystemThread.T1. What a thread says is done in the order in which it said it: its books are taken before the clock
//       ends that they are of. Reads wait beside.
//   SystemThread.T2. A thread that ends, in good order or not, leaves nothing behind: locks, pins, its place in the
//       clock. What it added is kept.

import { isWeighbridgeError, reasonOf } from "../../base/errors.ts";
import type { ClockMember } from "./process-clock.ts";
import type { ProcessTable } from "./process-table.ts";
import type { SharedTableMemory } from "./shared-table.ts";
import { booksMemory, SharedBooks } from "./thread-books.ts";
import type { ThreadPort, ThreadReply, ThreadRequest } from "./thread-line.ts";

/** When all rows of the cache are being copied, how long until the next try. */
const PIN_AGAIN_MS = 1;

export type SystemThreadOptions = {
  /** Among those of this process, from 2 up (RowLocks). */
  readonly number: number;
  readonly member: ClockMember;
  readonly port: ThreadPort;
  /** By id. */
  readonly tables: ReadonlyMap<number, ProcessTable>;
  readonly clockEnded: () => void;
  readonly left: () => void;
};

export class SystemThread {
  /** RowLocks */
  readonly number: number;
  readonly member: ClockMember;
  readonly #options: SystemThreadOptions;
  readonly #tables = new Map<number, { readonly table: ProcessTable; readonly books: SharedBooks; readonly pins: number[] }>();
  /** What its thread is given. */
  readonly memory: readonly SharedTableMemory[];
  #chain: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(options: SystemThreadOptions) {
    this.#options = options;
    this.number = options.number;
    this.member = options.member;
    this.memory = [...options.tables].map(([id, table]) => {
      const { updates, elements, oplogRows, secret, staleness } = table.options;
      const memory = booksMemory(updates.element, { elements, rows: oplogRows, secret });
      const books = new SharedBooks(updates.element, memory);
      this.#tables.set(id, { table, books, pins: [] });
      return { id, name: table.name, staleness, rows: table.rows.memory, locks: table.share(books).buffer, books: memory };
    });
    options.port.onmessage = ({ data }) => this.#heard(data as ThreadRequest);
  }

  post(reply: ThreadReply): void {
    this.#options.port.postMessage(reply);
  }

  /** The thread is no more (T2). */
  async ended(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.port.close();
    const { number, member } = this.#options;
    for (const { table, books, pins } of this.#tables.values()) {
      await table.threadEnded(number, books, member.clock);
      for (const slot of pins.splice(0)) table.unpin(slot);
    }
    await this.#chain;
    this.#options.left();
  }

  #heard(request: ThreadRequest): void {
    if (request.kind === "read") {
      void this.#chain.then(() => this.#read(request)); // T1
      return;
    }
    this.#chain = this.#chain.then(() => this.#obey(request)).catch((thrown: unknown) => this.#refuse(thrown));
  }

  async #obey(request: Exclude<ThreadRequest, { readonly kind: "read" }>): Promise<void> {
    if (this.#isOver) return;
    if (request.kind === "clock") this.#options.clockEnded();
    else if (request.kind === "leave") void this.ended();
    else {
      const found = this.#tables.get(request.table);
      if (found === undefined) return;
      if (request.kind === "unpin") {
        const at = found.pins.indexOf(request.slot);
        if (at >= 0) found.table.unpin(found.pins.splice(at, 1)[0] as number);
      } else {
        await found.table.takeBook(found.books, request.book);
        if (request.isEarly) found.table.updates.send(this.member.clock);
      }
    }
  }

  async #read({ table: id, rowId, clock, ticket }: Extract<ThreadRequest, { readonly kind: "read" }>): Promise<void> {
    const found = this.#tables.get(id);
    if (found === undefined || this.#isOver) return;
    const { table, pins } = found;
    try {
      table.updates.checkFailure();
      const slot = await this.#pinned(table, rowId, clock);
      if (this.#isOver) return table.unpin(slot);
      pins.push(slot);
      this.post({ kind: "row", ticket, slot });
    } catch (thrown) {
      this.post({ kind: "failed", ticket, code: isWeighbridgeError(thrown) ? thrown.code : "HANDLER_FAILED", message: reasonOf(thrown) });
    }
  }

  /** Rows are pinned for threads only until they have copied them: when no other may go, one will soon. */
  async #pinned(table: ProcessTable, rowId: number, clock: number): Promise<number> {
    const { clock: time } = table.options.client.functions.router;
    for (;;) {
      try {
        return await table.read(rowId, clock);
      } catch (thrown) {
        if (!isWeighbridgeError(thrown, "QUEUE_FULL") || this.#isOver) throw thrown;
        await new Promise<void>((resolve) => time.after(PIN_AGAIN_MS, resolve));
      }
    }
  }

  #refuse(thrown: unknown): void {
    const code = isWeighbridgeError(thrown) ? thrown.code : "HANDLER_FAILED";
    for (const table of this.#tables.keys()) this.post({ kind: "refused", table, code, message: reasonOf(thrown) });
  }
}
