// parking-lot — holds what waits until the slowest worker's clock has come far enough, and lets it go exactly then. It decides nothing about
// clocks (that is the staleness controller) and answers nobody (that is the read itself). Nothing polls: a read moves only when the
// minimum or its bound moves, its deadline passes, its worker goes, or its caller gives it up.
//
// Invariants (spec/consistency.md):
//   ParkingLot.P1. After `release(m)` nothing is parked that needs a minimum of m or less, and nothing that needs more was admitted.
//   ParkingLot.P2. Those who need less go first; among equals, who came first.
//   ParkingLot.P3. A read that was parked ends exactly once: admitted, failed, or given up by its caller, who then hears nothing.
//   ParkingLot.P4. At most `readsMax` reads and `bytesMax` bytes are parked; what is more is refused with QUEUE_FULL.

import { assert } from "../base/assert.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";

/** What waits. Exactly one of the two is called, once, never from inside `park`; neither may throw. Both may park again. */
export type ParkedRead = {
  admitted(): void;
  failed(error: WeighbridgeError): void;
};

export type Parking = {
  readonly worker: number;
  /** The caller's number of it; only a change of its bound asks for it. */
  readonly parameter: number;
  /** The reader's clock. */
  readonly clock: number;
  readonly staleness: number;
  /** What it holds in memory while it waits. */
  readonly bytes: number;
  readonly deadlineMs: number;
  readonly read: ParkedRead;
};

/** How many clocks a read may be behind: at any clock, or by the reader's. */
export type Bound = number | ((clock: number) => number);

export type ParkingLotOptions = {
  readonly clock: Clock;
  readonly readsMax: number;
  readonly bytesMax: number;
  /** Completes "waited for …" when a deadline passes: who has not come far enough. */
  readonly describeSlowest: () => string;
};

/** Names a parked read to `cancel`. */
export type ParkedReadId = { readonly sequence: number };

type Entry = ParkedReadId & {
  readonly parking: Parking;
  /** It goes when the minimum is at least this (W2). */
  clockMinNeeded: number;
  readonly cancelTimer: CancelTimer;
};

export class ParkingLot {
  /** How many wait. Nobody else writes it. */
  readCount = 0;
  readonly #options: ParkingLotOptions;
  /** By the minimum they need; a set keeps the order in which they came (ParkingLot.P2). */
  readonly #waiting = new Map<number, Set<Entry>>();
  #parkedBytes = 0;
  #sequence = 0;

  constructor(options: ParkingLotOptions) {
    this.#options = options;
  }

  get parkedBytes(): number {
    return this.#parkedBytes;
  }

  /** Takes it on until `release` reaches it. Throws QUEUE_FULL, and BAD_ARGUMENT for a deadline that is no time; then it was not taken on. */
  park(parking: Parking): ParkedReadId {
    const { clock, readsMax, bytesMax } = this.#options;
    if (!(parking.deadlineMs >= 0)) throw new WeighbridgeError("BAD_ARGUMENT", `a deadline of ${parking.deadlineMs} ms`);
    if (this.readCount >= readsMax || this.#parkedBytes + parking.bytes > bytesMax) throw this.#full(parking);
    const entry: Entry = {
      sequence: this.#sequence++,
      parking,
      clockMinNeeded: parking.clock - parking.staleness,
      cancelTimer: clock.after(parking.deadlineMs, () => this.#expire(entry)),
    };
    this.#place(entry);
    this.readCount++;
    this.#parkedBytes += parking.bytes;
    return entry;
  }

  /** What reads of this worker and parameter wait for, in words; undefined when none is parked. Looks at all that is parked: for deadlines, not for every read. */
  describe(worker: number, parameter: number): string | undefined {
    let latest: Entry | undefined;
    for (const entry of this.#entries()) {
      const { parking } = entry;
      if (parking.worker !== worker || parking.parameter !== parameter) continue;
      if (latest === undefined || entry.clockMinNeeded > latest.clockMinNeeded) latest = entry;
    }
    return latest === undefined ? undefined : this.#waits(latest);
  }

  /** The caller gave it up; it may have ended before. */
  cancel(parked: ParkedReadId): void {
    this.#take(parked as Entry);
  }

  /** The minimum is `clockMin` now: admits who waited for it (ParkingLot.P1). */
  release(clockMin: number): void {
    const reached = [...this.#waiting.keys()].filter((needed) => needed <= clockMin).sort((a, b) => a - b);
    for (const needed of reached) {
      // One by one, and out before it is told: what it does here again finds everything in order.
      for (const entry of this.#waiting.get(needed) ?? []) {
        if (this.#take(entry)) entry.parking.read.admitted();
      }
    }
  }

  /** The parameter has another bound from now on, also for those who wait. A raised one admits at once. */
  changeStaleness({ parameter, staleness, clockMin }: { parameter: number; staleness: Bound; clockMin: number }): void {
    const boundAt = typeof staleness === "number" ? () => staleness : staleness;
    const moved = [...this.#entries()].filter(({ parking }) => parking.parameter === parameter);
    if (moved.length === 0) return;
    for (const entry of moved) {
      this.#displace(entry);
      entry.clockMinNeeded = entry.parking.clock - boundAt(entry.parking.clock);
    }
    for (const [needed, arrivals] of Map.groupBy(moved, ({ clockMinNeeded }) => clockMinNeeded)) {
      const merged = [...(this.#waiting.get(needed) ?? []), ...arrivals].sort((a, b) => a.sequence - b.sequence);
      this.#waiting.set(needed, new Set(merged)); // ParkingLot.P2: also among those who come from another bound.
    }
    this.release(clockMin);
  }

  /** The worker is gone, and what it waits for with it. */
  failWorker(worker: number, error: WeighbridgeError): void {
    this.#failAll((parking) => parking.worker === worker, error);
  }

  /** Nobody waits for this parameter any more. */
  failParameter(parameter: number, error: WeighbridgeError): void {
    this.#failAll((parking) => parking.parameter === parameter, error);
  }

  /** The server closes. */
  failEverybody(error: WeighbridgeError): void {
    this.#failAll(() => true, error);
  }

  #failAll(concerns: (parking: Parking) => boolean, error: WeighbridgeError): void {
    const concerned = [...this.#entries()].filter(({ parking }) => concerns(parking)).sort((a, b) => a.sequence - b.sequence);
    for (const entry of concerned) if (this.#take(entry)) entry.parking.read.failed(error);
  }

  #expire(entry: Entry): void {
    const { worker, deadlineMs, read } = entry.parking;
    const waits = this.#waits(entry);
    const isParked = this.#take(entry);
    assert(isParked, "a read that ended has no deadline");
    read.failed(new WeighbridgeError("DEADLINE", `${nameOf(worker)} waited ${deadlineMs} ms ${waits}`, { retryable: true }));
  }

  #waits({ parking, clockMinNeeded }: Entry): string {
    return `at clock ${parking.clock} for the slowest to reach clock ${clockMinNeeded}: ${this.#options.describeSlowest()}`;
  }

  *#entries(): Iterable<Entry> {
    for (const entries of this.#waiting.values()) yield* entries;
  }

  #place(entry: Entry): void {
    const entries = this.#waiting.get(entry.clockMinNeeded);
    if (entries === undefined) this.#waiting.set(entry.clockMinNeeded, new Set([entry]));
    else entries.add(entry);
  }

  /** Whether it stood there. */
  #displace(entry: Entry): boolean {
    const entries = this.#waiting.get(entry.clockMinNeeded);
    if (entries?.delete(entry) !== true) return false;
    if (entries.size === 0) this.#waiting.delete(entry.clockMinNeeded);
    return true;
  }

  /** Takes it out for good; false when it has ended before (ParkingLot.P3). */
  #take(entry: Entry): boolean {
    if (!this.#displace(entry)) return false;
    entry.cancelTimer();
    this.readCount--;
    this.#parkedBytes -= entry.parking.bytes;
    return true;
  }

  #full({ worker }: Parking): WeighbridgeError {
    const waiting = `${this.readCount} reads with ${this.#parkedBytes} bytes wait already`;
    return new WeighbridgeError("QUEUE_FULL", `${nameOf(worker)} has to try again: ${waiting} (${this.#options.describeSlowest()})`, {
      retryable: true,
    });
  }
}
