// leaving-updates — what the threads of a process have added to a table, from the moment a thread hands it over until a
// server has taken it. What waits and what is under way is in sent-updates.ts.
//
// Invariants:
//   LeavingUpdates.L1. Updates that a server refused because this worker was no member, and those that it could not be
//       sent, are sent again with the next clock; those that are left when the table closes fail that. Those that
//       failed otherwise fail the next call of the table, which names the reason, and cached rows that have them are
//       read again; so do those that do not fit in with what waits to be sent.
//   LeavingUpdates.L2. What is older than this worker's clock is stamped with that: servers took this worker for dead
//       meanwhile.

import { Deferred } from "../../base/deferred.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import type { Random } from "../../base/random.ts";
import type { RowArray, RowElement } from "../../kernel/row-element.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import { spanOf } from "./row-updates.ts";
import type { SentUpdates, UpdatedRows } from "./sent-updates.ts";
import { errorOf, isUnsent, type TableExchange } from "./table-exchange.ts";

/** What leaves before its clock has ended: how much at most, and what first. */
export type EarlyUpdates = {
  readonly rowsMax: number;
  readonly bytesMax: number;
  readonly policy: "FIFO" | "Random" | "RelativeMagnitude";
  readonly random: Random;
};

export type LeavingUpdatesOptions<E extends RowElement> = {
  /** Of the table, for errors. */
  readonly name: string;
  readonly sent: SentUpdates<E>;
  readonly exchange: Pick<TableExchange<E>, "update" | "sentBytes">;
  /** Whether every clock's leave apart. */
  readonly isByClock: boolean;
};

export class LeavingUpdates<E extends RowElement = RowElement> {
  readonly #options: LeavingUpdatesOptions<E>;
  #openCount = 0;
  #whenIdle: Deferred<void> | undefined;
  /** Why the last of those that are sent again could not be sent. */
  #unsentFor: WeighbridgeError | undefined;
  /** What the next call of the table reports (LeavingUpdates.L1). */
  failure: WeighbridgeError | undefined;
  /** The clock of this worker; the group sets it. */
  clockNow: () => number = () => 0;

  constructor(options: LeavingUpdatesOptions<E>) {
    this.#options = options;
  }

  /** What a thread added to a row at a clock waits to be sent with it (LeavingUpdates.L1). */
  add(rowId: number, clock: number, updates: RowPlace<E>): void {
    const { name, sent } = this.#options;
    try {
      sent.add(rowId, clock, updates);
    } catch (thrown) {
      this.failure ??= errorOf(`updates of row ${rowId} of ${name} do not fit in with those that wait to be sent`, thrown);
    }
  }

  /** Sends what waits of the clocks up to `clockMax`: by clock, or as one sum (LeavingUpdates.L2). */
  send(clockMax: number): void {
    const { sent, isByClock } = this.#options;
    this.#updateAll(sent.take(clockMax, isByClock));
  }

  /**
   * Sends some of what waits before its clock ends (SSPAggr), the highest `rankOf` first. Returns how many bytes left.
   */
  sendSome(rowsMax: number, rankOf: (rowId: number, cells: RowArray<E>) => number): number {
    const { exchange, sent, name } = this.#options;
    const before = exchange.sentBytes;
    try {
      this.#updateAll(sent.takeSome(rowsMax, rankOf));
    } catch (thrown) {
      // They leave with their clock.
      this.failure ??= errorOf(`the row type of ${name} does not say which updates matter most`, thrown);
    }
    return exchange.sentBytes - before;
  }

  /** LeavingUpdates.L2 */
  #updateAll(taken: readonly { readonly clock: number; readonly rows: UpdatedRows<E> }[]): void {
    const clockMin = this.clockNow();
    for (const { clock, rows } of taken) this.#update(rows, Math.max(clock, clockMin));
  }

  #update(rows: UpdatedRows<E>, clock: number): void {
    this.#openCount++;
    this.#options.exchange
      .update(rows, clock)
      .catch(() => {}) // `failed` was called for every request
      .finally(() => {
        if (--this.#openCount === 0) this.#whenIdle?.resolve();
      });
  }

  /**
   * A server refused these updates (LeavingUpdates.L1). Returns whether they count for nothing, and will not be sent
   * again.
   */
  failed(rows: UpdatedRows<E>, error: WeighbridgeError): boolean {
    const isLost = !isUnsent(error);
    if (isLost) this.failure ??= errorOf(`updates of ${this.#options.name} were refused`, error);
    else {
      this.#unsentFor = error;
      for (const [rowId, cells] of rows) this.add(rowId, this.clockNow(), spanOf(cells));
    }
    return isLost;
  }

  /** Throws what was found out since the last call (LeavingUpdates.L1). */
  checkFailure(): void {
    const { failure } = this;
    if (failure === undefined) return;
    this.failure = undefined;
    throw failure;
  }

  /** For the end of the table: all updates have been taken, or `failure` says why not (LeavingUpdates.L1). */
  async close(): Promise<void> {
    await this.idle();
    const { name, sent } = this.#options;
    if (sent.waitingCount === 0) return;
    this.send(Infinity); // once more: this worker may have joined again meanwhile
    await this.idle();
    if (sent.waitingCount > 0) this.failure ??= errorOf(`updates of ${sent.waitingCount} rows of ${name} were not sent`, this.#unsentFor);
  }

  /** All updates that were sent have ended. */
  async idle(): Promise<void> {
    while (this.#openCount > 0) {
      this.#whenIdle ??= new Deferred();
      await this.#whenIdle.promise;
      this.#whenIdle = undefined;
    }
  }
}
