// open-reads — the rows of a table that somebody in this process waits for: who does, and what is asked of the servers
// for them.
//
// Invariants:
//   OpenReads.R1. Reads that are asked for in one turn leave together, each row once.
//   OpenReads.R2. A row that is asked for at two clocks is asked for twice. A thread that waits at a low clock cannot
//       wait for what a high one waits for: for its own clock, perhaps.
//   OpenReads.R3. What this worker was no member for is asked again once it is one; so is a row of which it cannot be
//       known what it has. After ATTEMPTS of them it fails.

import { Deferred } from "../../base/deferred.ts";
import type { RowRequests } from "../embedding.ts";
import { isOutside, type TableExchange } from "./table-exchange.ts";

/**
 * How often a read is made at most: each time the placement changes it may find no row, and parts move in many steps.
 */
export const ATTEMPTS = 64;

/** Gets the slot of a row, or why there is none; `pins`: pinned, because it is going to be read. */
export type RowWait = { readonly pins: boolean; resolve(slot: number): void; reject(error: unknown): void };

/** A row that was asked for at a clock. */
export type OpenRead = { readonly rowId: number; readonly clock: number; readonly waiting: RowWait[]; attempts: number };

const NONE: readonly OpenRead[] = [];

export class OpenReads {
  readonly #client: RowRequests;
  readonly #exchange: Pick<TableExchange, "read">;
  /** By row (OpenReads.R2). */
  readonly #open = new Map<number, readonly OpenRead[]>();
  /** By clock: what leaves at the end of this turn (OpenReads.R1). */
  #leaving = new Map<number, Set<number>>();

  constructor(client: RowRequests, exchange: Pick<TableExchange, "read">) {
    this.#client = client;
    this.#exchange = exchange;
  }

  of(rowId: number): readonly OpenRead[] {
    return this.#open.get(rowId) ?? NONE;
  }

  /** Asks for a row as of a clock. Resolves with its slot, pinned; rejects as it ended. */
  request(rowId: number, clock: number): Promise<number> {
    const { promise, resolve, reject } = new Deferred<number>();
    this.add(rowId, clock, { pins: true, resolve, reject });
    return promise;
  }

  /** Asks for a row as of a clock, for one more that waits for it. */
  add(rowId: number, clock: number, waiting: RowWait): void {
    const known = this.of(rowId);
    const same = known.find((read) => read.clock === clock);
    if (same !== undefined) same.waiting.push(waiting);
    else {
      this.#open.set(rowId, [...known, { rowId, clock, waiting: [waiting], attempts: 0 }]);
      this.#leave(rowId, clock);
    }
  }

  /** Asks for it once more (OpenReads.R3). False: it was asked for too often. */
  again(read: OpenRead): boolean {
    if (++read.attempts >= ATTEMPTS) return false;
    this.#leave(read.rowId, read.clock);
    return true;
  }

  /** It is over: calls all waiters. */
  end(read: OpenRead, tell: (waiting: RowWait) => void): void {
    const all = this.of(read.rowId);
    if (all.length === 1) this.#open.delete(read.rowId);
    else
      this.#open.set(
        read.rowId,
        all.filter((one) => one !== read),
      );
    for (const waiting of read.waiting.splice(0)) tell(waiting);
  }

  /** OpenReads.R1 */
  #leave(rowId: number, clock: number): void {
    if (this.#leaving.size === 0) this.#client.functions.router.clock.soon(() => this.#send());
    const rowIds = this.#leaving.get(clock);
    if (rowIds === undefined) this.#leaving.set(clock, new Set([rowId]));
    else rowIds.add(rowId);
  }

  #send(): void {
    const leaving = this.#leaving;
    this.#leaving = new Map();
    for (const [clock, rowIds] of leaving)
      this.#exchange.read(rowIds, clock).catch((thrown: unknown) => this.#failed(rowIds, clock, thrown));
  }

  /** OpenReads.R3 */
  #failed(rowIds: ReadonlySet<number>, clock: number, thrown: unknown): void {
    const { functions, handle } = this.#client;
    void functions.explained(thrown, handle, {}).then((error) => {
      for (const rowId of rowIds) {
        const read = this.of(rowId).find((one) => one.clock === clock);
        if (read === undefined) continue;
        if (!isOutside(error) || !this.again(read)) this.end(read, (waiting) => waiting.reject(error));
      }
    });
  }
}
