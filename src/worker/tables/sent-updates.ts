// sent-updates — updates of rows that have left a thread's oplog: those that wait for the end of their clock, and those
// that were sent and may not be in the rows that come from servers. Both are laid over such rows, so that a process
// always sees what it has added.
//
// Invariants:
//   SentUpdates.S1. An update is laid over a row exactly as long as the row does not have it: by its stamp and what the
//       server says it has taken; where the row came by a newer placement, by whether it was acknowledged. Of a row
//       that came by an older one it cannot be known.
//   SentUpdates.S2. What every later row of its server must have is forgotten; where rows are of a clock (exact mode,
//       0056), what every later row of any server must have: its part may move, and servers differ in their clocks.

import type { RowArray, RowElement } from "../../kernel/row-element.ts";
import type { RowPlace } from "../../store/row-types/column-updates.ts";
import type { RowUpdates } from "./row-updates.ts";

/** Spans of updates, by row. */
export type UpdatedRows<E extends RowElement = RowElement> = Map<number, RowArray<E>>;

/** One request with updates. */
export type SentRows<E extends RowElement = RowElement> = {
  readonly rows: UpdatedRows<E>;
  readonly server: number;
  readonly epoch: number;
  /** Its stamp is what a server's `taken` must be for a row to have them; 0 before they have left. */
  call: { readonly stamp: number };
  isAcknowledged: boolean;
};

/**
 * Of rows that came from a server: by which placement it was asked, and up to where it has taken this worker's updates.
 */
export type RowOrigin = { readonly server: number; readonly epoch: number; readonly taken: number };

export class SentUpdates<E extends RowElement = RowElement> {
  readonly #updates: RowUpdates<E>;
  /** By clock, ascending: handed over by threads, not sent. */
  readonly #waiting = new Map<number, UpdatedRows<E>>();
  readonly #sent = new Set<SentRows<E>>();

  constructor(updates: RowUpdates<E>) {
    this.#updates = updates;
  }

  /** Rows that wait to be sent. */
  get waitingCount(): number {
    let count = 0;
    for (const rows of this.#waiting.values()) count += rows.size;
    return count;
  }

  /** A thread hands over what it added to a row at a clock. */
  add(rowId: number, clock: number, updates: RowPlace<E>): void {
    let rows = this.#waiting.get(clock);
    if (rows === undefined) {
      rows = new Map();
      this.#waiting.set(clock, rows);
    }
    const known = rows.get(rowId);
    const { cells, start, length } = updates;
    if (known === undefined) rows.set(rowId, cells.slice(start, start + length) as RowArray<E>);
    else this.#updates.merge({ cells: known, start: 0, length }, updates);
  }

  /**
   * What waits of the clocks up to this one, by clock or as one sum, without what has cancelled out; it waits no more.
   * A row that finds no room in the sum is by clock.
   */
  take(clockMax: number, isByClock: boolean): { readonly clock: number; readonly rows: UpdatedRows<E> }[] {
    const clocks = [...this.#waiting.keys()].filter((clock) => clock <= clockMax).sort((a, b) => a - b);
    const last = clocks.at(-1) as number;
    if (!isByClock)
      for (const clock of clocks.slice(0, -1)) {
        const rows = this.#waiting.get(clock) as UpdatedRows<E>;
        for (const [rowId, cells] of rows)
          try {
            this.add(rowId, last, { cells, start: 0, length: cells.length });
            rows.delete(rowId);
          } catch {
            // The sum has no room for it: it leaves on its own, by its clock.
          }
      }
    return clocks.flatMap((clock) => {
      const rows = this.#waiting.get(clock) as UpdatedRows<E>;
      this.#waiting.delete(clock);
      for (const [rowId, cells] of rows) if (!cells.some((cell) => cell !== 0 && cell !== 0n)) rows.delete(rowId);
      return rows.size === 0 ? [] : [{ clock, rows }];
    });
  }

  /** The same for some of the rows, those of the highest rank first: of what waits longest, where ranks are equal. */
  takeSome(
    count: number,
    rankOf: (rowId: number, cells: RowArray<E>) => number,
  ): { readonly clock: number; readonly rows: UpdatedRows<E> }[] {
    const clocks = [...this.#waiting.keys()].sort((a, b) => a - b);
    const ranked = clocks.flatMap((clock) =>
      [...(this.#waiting.get(clock) ?? [])].map(([rowId, cells]) => ({ clock, rowId, cells, rank: rankOf(rowId, cells) })),
    );
    const taken = new Map<number, UpdatedRows<E>>();
    for (const { clock, rowId, cells } of ranked.sort((a, b) => b.rank - a.rank).slice(0, count)) {
      this.#waiting.get(clock)?.delete(rowId);
      if (cells.some((cell) => cell !== 0 && cell !== 0n)) taken.set(clock, (taken.get(clock) ?? new Map()).set(rowId, cells));
    }
    return [...taken].map(([clock, rows]) => ({ clock, rows }));
  }

  /** Requests that were sent and may not be in rows that come. */
  get sentCount(): number {
    return this.#sent.size;
  }

  sent(rows: SentRows<E>): void {
    this.#sent.add(rows);
  }

  /** Will not be applied as it was sent: it was cut again, or failed. */
  forget(rows: SentRows<E>): void {
    this.#sent.delete(rows);
  }

  /** SentUpdates.S2: `taken` is what all rows have that this server sends from now on. */
  settle({ server, epoch, taken }: RowOrigin): void {
    for (const sent of this.#sent) {
      const isOver = sent.epoch === epoch ? sent.server === server && isTaken(sent, taken) : sent.epoch < epoch;
      if (isOver && sent.isAcknowledged) this.#sent.delete(sent);
    }
  }

  /** SentUpdates.S2, in exact mode: so much have all servers taken. */
  settleAll(taken: number): void {
    for (const sent of this.#sent) if (sent.isAcknowledged && isTaken(sent, taken)) this.#sent.delete(sent);
  }

  /** SentUpdates.S1. False when it cannot be known what the row has: nothing was changed. */
  layOver(rowId: number, row: RowPlace<E>, origin: RowOrigin): boolean {
    const { length } = row;
    for (const { rows, epoch, isAcknowledged } of this.#sent)
      if (epoch !== origin.epoch && !(isAcknowledged && epoch < origin.epoch) && rows.has(rowId)) return false;
    for (const sent of this.#sent) {
      const cells = sent.rows.get(rowId);
      if (cells !== undefined && sent.epoch === origin.epoch && !isTaken(sent, origin.taken))
        this.#updates.lay(row, { cells, start: 0, length });
    }
    for (const rows of this.#waiting.values()) {
      const cells = rows.get(rowId);
      if (cells !== undefined) this.#updates.lay(row, { cells, start: 0, length });
    }
    return true;
  }
}

function isTaken({ call: { stamp } }: SentRows, taken: number): boolean {
  return stamp !== 0 && stamp <= taken;
}
