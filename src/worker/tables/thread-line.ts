// thread-line — what a thread of the system and the thread that speaks for its process say to each other, and the line
// of the first to the second. The other end is system-thread.ts. Rows that are asked for, found or let go of in one
// turn are one message: it costs more than a row.
//
// Invariants:
//   ThreadLine.L1. What a thread says arrives in the order in which it said it.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { type ErrorCode, WeighbridgeError } from "../../base/errors.ts";
import type { ClockMember } from "./process-clock.ts";

/** A MessagePort, of whichever platform. */
export type ThreadPort = {
  postMessage(message: unknown): void;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  close(): void;
};

/** What a thread says to the one that speaks for the process. */
export type ThreadRequest =
  | { readonly kind: "closed"; readonly table: number; readonly book: number; readonly isEarly: boolean }
  | { readonly kind: "clock" }
  | { readonly kind: "leave" }
  /** Reads at a clock, each with the number under which it is answered; and slots that were read. */
  | { readonly kind: "rows"; readonly reads: readonly ThreadRead[]; readonly unpins: readonly ThreadUnpin[] };

export type ThreadRead = { readonly table: number; readonly rowId: number; readonly clock: number; readonly requestId: number };
export type ThreadUnpin = { readonly table: number; readonly slot: number };

/** Where a thread begins. */
export type ThreadStart = { readonly clock: number; readonly stalenessMax: number; readonly threadId: number };

/** What it hears. */
export type ThreadReply =
  | ({ readonly kind: "start" } & ThreadStart)
  /** By request, the slot of its row: pinned until it is given back. */
  | { readonly kind: "rows"; readonly slots: ReadonlyMap<number, number> }
  | { readonly kind: "failed"; readonly requestId: number; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: "refused"; readonly table: number; readonly code: ErrorCode; readonly message: string };

/** Hears of the slot of a row, or why there is none. */
export type SlotWait = { resolve(slot: number): void; reject(error: unknown): void };

export class ThreadLine {
  /** The number of the thread (RowLocks). */
  readonly thread: number;
  readonly clock: Clock;
  /** The thread's own clock. */
  readonly member: ClockMember = { clock: 0 };
  /** All threads of the process have come. */
  readonly started: Deferred<ThreadStart> = new Deferred();
  /** Hears of updates of a table that were refused. */
  onRefused: (table: number, error: WeighbridgeError) => void = () => {};
  readonly #port: ThreadPort;
  /** By request: reads that wait. */
  readonly #reads = new Map<number, SlotWait>();
  #lastRequest = 0;
  /** What leaves at the end of this turn. */
  #unsent: ThreadRead[] = [];
  #letGo: ThreadUnpin[] = [];

  constructor(thread: number, port: ThreadPort, clock: Clock) {
    this.thread = thread;
    this.clock = clock;
    this.#port = port;
    port.onmessage = ({ data }) => this.#heard(data as ThreadReply);
  }

  /** ThreadLine.L1 */
  post(request: ThreadRequest): void {
    this.#postRows();
    this.#port.postMessage(request);
  }

  #postRows(): void {
    if (this.#unsent.length === 0 && this.#letGo.length === 0) return;
    const rows: ThreadRequest = { kind: "rows", reads: this.#unsent, unpins: this.#letGo };
    this.#unsent = [];
    this.#letGo = [];
    this.#port.postMessage(rows);
  }

  #postRowsSoon(): void {
    if (this.#unsent.length + this.#letGo.length === 0) this.clock.soon(() => this.#postRows());
  }

  /** Asks for a row at this thread's clock; resolves with its slot in the cache, pinned until it is given back. */
  read(table: number, rowId: number): Promise<number> {
    const told = new Deferred<number>();
    this.ask(table, rowId, told);
    return told.promise;
  }

  /** The same; calls who waits for it. */
  ask(table: number, rowId: number, waiting: SlotWait): void {
    const requestId = ++this.#lastRequest;
    this.#reads.set(requestId, waiting);
    this.#postRowsSoon();
    this.#unsent.push({ table, rowId, clock: this.member.clock, requestId });
  }

  unpin(table: number, slot: number): void {
    this.#postRowsSoon();
    this.#letGo.push({ table, slot });
  }

  clockEnded(): void {
    this.member.clock++;
    this.post({ kind: "clock" });
  }

  leave(): void {
    this.post({ kind: "leave" });
    this.#port.close(); // what was posted arrives
  }

  #heard(reply: ThreadReply): void {
    if (reply.kind === "start") {
      this.member.clock = reply.clock;
      this.started.resolve(reply);
    } else if (reply.kind === "refused") this.onRefused(reply.table, new WeighbridgeError(reply.code, reply.message));
    else if (reply.kind === "rows") for (const [requestId, slot] of reply.slots) this.#taken(requestId)?.resolve(slot);
    else this.#taken(reply.requestId)?.reject(new WeighbridgeError(reply.code, reply.message));
  }

  /** Who waits for a request, no more. */
  #taken(requestId: number): SlotWait | undefined {
    const told = this.#reads.get(requestId);
    this.#reads.delete(requestId);
    return told;
  }
}
