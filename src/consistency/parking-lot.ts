// parking-lot — holds reads until the slowest worker's clock has come far enough, and releases them exactly then. It
// decides nothing about clocks (the staleness controller does) and answers nobody (the read does). Nothing polls: a
// read ends when the minimum or its bound moves, its deadline passes, its worker goes, or its caller cancels it.
//
// Invariants (spec/consistency.md):
//   ParkingLot.P1. After `release(m)` no read is parked that needs a minimum of m or less, and none that needs more was
//       admitted.
//   ParkingLot.P2. Those who need less go first; among equals, who came first.
//   ParkingLot.P3. A parked read ends exactly once: admitted, failed, or cancelled by its caller, who gets no callback.
//   ParkingLot.P4. At most `readsMax` reads and `bytesMax` bytes are parked; what is more is refused with QUEUE_FULL
//       (Availability.I8 of docs/decisions/0079).
//   ParkingLot.P5. When reads of a worker have been parked for LONG_MS, `onLongWait` is called: once for the minimum
//       that they need. One timer looks after all reads.

import { assert } from "../base/assert.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deadlines } from "../base/deadlines.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { LONG_MS } from "../contracts/long-waits.ts";
import { nameOf } from "../wire/node-id.ts";

/**
 * A waiting read. Exactly one of the two is called, once, never within `park`. Neither may throw; both may park again.
 */
export type ParkedRead = {
  admitted(): void;
  failed(error: WeighbridgeError): void;
};

export type Parking = {
  readonly worker: number;
  /** The caller's number of it, for changes of its bound. */
  readonly parameter: number;
  /** The reader's clock. */
  readonly clock: number;
  readonly staleness: number;
  /** The memory that it holds while it waits. */
  readonly bytes: number;
  readonly timeoutMs: number;
  /** Whether nobody needs to know that it waits long. Defaults to false. */
  readonly isQuiet?: boolean;
  readonly read: ParkedRead;
};

/** How many clocks a read may be behind: at any clock, or by the reader's. */
export type Bound = number | ((clock: number) => number);

type ParkingLotOptions = {
  readonly clock: Clock;
  readonly readsMax: number;
  readonly bytesMax: number;
  /** Completes "waited for …" when a deadline passes: the workers that are behind. */
  readonly describeSlowest: () => string;
};

/** Names a parked read to `cancel`. */
export type ParkedReadId = { readonly sequence: number };

/** How long until the next look at the least: reads that are parked one after the other are looked at together. */
const LOOK_MS_MIN = 1000;

type Entry = ParkedReadId & {
  readonly parking: Parking;
  readonly sinceMs: number;
  /** It goes when the minimum is at least this (StalenessController.W2). */
  clockMinNeeded: number;
  readonly untilMs: number;
};

export class ParkingLot {
  /** How many wait. Nobody else writes it. */
  readCount = 0;
  readonly #options: ParkingLotOptions;
  /** By the minimum they need; a set keeps the order in which they came (ParkingLot.P2). */
  readonly #waiting = new Map<number, Set<Entry>>();
  /** Hears what a worker has waited for (ParkingLot.P5). Must not throw, nor call the lot. */
  onLongWait: (worker: number, waits: string) => void = () => {};
  /** By worker: the minimum of the last long wait that was told. */
  readonly #told = new Map<number, number>();
  #cancelLook: CancelTimer | undefined;
  readonly #deadlines: Deadlines<Entry>;
  #parkedBytes = 0;
  #sequence = 0;

  constructor(options: ParkingLotOptions) {
    this.#options = options;
    this.#deadlines = new Deadlines(options.clock, (entry) => this.#expire(entry));
  }

  get parkedBytes(): number {
    return this.#parkedBytes;
  }

  /**
   * Keeps it until `release` reaches it. Throws QUEUE_FULL, and BAD_ARGUMENT for an invalid deadline; nothing is kept
   * then.
   */
  park(parking: Parking): ParkedReadId {
    const { clock, readsMax, bytesMax } = this.#options;
    if (!(parking.timeoutMs >= 0)) throw badArgument(`a deadline of ${parking.timeoutMs} ms`);
    if (this.readCount >= readsMax || this.#parkedBytes + parking.bytes > bytesMax) throw this.#full(parking);
    const sinceMs = clock.nowMs();
    const clockMinNeeded = parking.clock - parking.staleness;
    const entry: Entry = { sequence: this.#sequence++, parking, sinceMs, clockMinNeeded, untilMs: sinceMs + parking.timeoutMs };
    this.#enter(entry);
    this.#deadlines.add(entry);
    this.readCount++;
    this.#parkedBytes += parking.bytes;
    this.#cancelLook ??= clock.after(LONG_MS, () => this.#look());
    return entry;
  }

  #stopLooking(): void {
    this.#cancelLook?.();
    this.#cancelLook = undefined;
  }

  /** ParkingLot.P5 */
  #look(): void {
    const { clock } = this.#options;
    const nowMs = clock.nowMs();
    const long = new Map<number, Entry>();
    let nextMs = LONG_MS;
    for (const entry of this.#entries()) {
      const { worker, isQuiet = false } = entry.parking;
      const leftMs = LONG_MS - (nowMs - entry.sinceMs);
      if (leftMs > 0) nextMs = Math.min(nextMs, leftMs);
      else if (!isQuiet && entry.clockMinNeeded > (long.get(worker)?.clockMinNeeded ?? -Infinity)) long.set(worker, entry);
    }
    this.#cancelLook = clock.after(Math.max(LOOK_MS_MIN, nextMs), () => this.#look());
    for (const [worker, entry] of long) {
      if (this.#told.get(worker) === entry.clockMinNeeded) continue;
      this.#told.set(worker, entry.clockMinNeeded);
      this.onLongWait(worker, this.#waits(entry));
    }
  }

  /** What reads of this worker and parameter wait for; undefined if none is parked. Scans all: for deadlines only. */
  describe(worker: number, parameter: number): string | undefined {
    let latest: Entry | undefined;
    for (const entry of this.#entries()) {
      const { parking } = entry;
      if (parking.worker !== worker || parking.parameter !== parameter) continue;
      if (latest === undefined || entry.clockMinNeeded > latest.clockMinNeeded) latest = entry;
    }
    return latest === undefined ? undefined : this.#waits(latest);
  }

  /** The caller cancels it; it may have ended before. */
  cancel(parked: ParkedReadId): void {
    this.#end(parked as Entry);
  }

  /** The minimum is `clockMin` now: admits the reads that waited for it (ParkingLot.P1). */
  release(clockMin: number): void {
    const reached = [...this.#waiting.keys()].filter((needed) => needed <= clockMin).sort((a, b) => a - b);
    for (const needed of reached) {
      // One by one, and removed before the callback: what it does here again finds everything in order.
      for (const entry of this.#waiting.get(needed) ?? []) {
        if (this.#end(entry)) entry.parking.read.admitted();
      }
    }
  }

  /** The parameter has another bound from now on, also for parked reads. A higher one admits at once. */
  changeStaleness({ parameter, staleness, clockMin }: { parameter: number; staleness: Bound; clockMin: number }): void {
    const boundAt = typeof staleness === "number" ? () => staleness : staleness;
    const moved = [...this.#entries()].filter(({ parking }) => parking.parameter === parameter);
    if (moved.length === 0) return;
    for (const entry of moved) {
      this.#leave(entry);
      entry.clockMinNeeded = entry.parking.clock - boundAt(entry.parking.clock);
    }
    for (const [needed, arrivals] of Map.groupBy(moved, ({ clockMinNeeded }) => clockMinNeeded)) {
      const merged = [...(this.#waiting.get(needed) ?? []), ...arrivals].sort((a, b) => a.sequence - b.sequence);
      this.#waiting.set(needed, new Set(merged)); // ParkingLot.P2: also among reads that had another bound
    }
    this.release(clockMin);
  }

  /** The worker is gone. */
  failWorker(worker: number, error: WeighbridgeError): void {
    this.#told.delete(worker);
    this.#failAll((parking) => parking.worker === worker, error);
  }

  /** The parameter is removed. */
  failParameter(parameter: number, error: WeighbridgeError): void {
    this.#failAll((parking) => parking.parameter === parameter, error);
  }

  /** The server closes. */
  failEverybody(error: WeighbridgeError): void {
    this.#failAll(() => true, error);
  }

  #failAll(concerns: (parking: Parking) => boolean, error: WeighbridgeError): void {
    const concerned = [...this.#entries()].filter(({ parking }) => concerns(parking)).sort((a, b) => a.sequence - b.sequence);
    for (const entry of concerned) if (this.#end(entry)) entry.parking.read.failed(error);
  }

  #expire(entry: Entry): void {
    const { worker, timeoutMs, read } = entry.parking;
    const waits = this.#waits(entry);
    const isParked = this.#end(entry);
    assert(isParked, "a read that ended has no deadline");
    read.failed(new WeighbridgeError("DEADLINE", `${nameOf(worker)} waited ${timeoutMs} ms ${waits}`, { retryable: true }));
  }

  #waits({ parking, clockMinNeeded }: Entry): string {
    return `at clock ${parking.clock} for the slowest to reach clock ${clockMinNeeded}: ${this.#options.describeSlowest()}`;
  }

  *#entries(): Iterable<Entry> {
    for (const entries of this.#waiting.values()) yield* entries;
  }

  #enter(entry: Entry): void {
    const entries = this.#waiting.get(entry.clockMinNeeded);
    if (entries === undefined) this.#waiting.set(entry.clockMinNeeded, new Set([entry]));
    else entries.add(entry);
  }

  /** Whether it was there. */
  #leave(entry: Entry): boolean {
    const entries = this.#waiting.get(entry.clockMinNeeded);
    if (entries?.delete(entry) !== true) return false;
    if (entries.size === 0) this.#waiting.delete(entry.clockMinNeeded);
    return true;
  }

  /** Removes it for good; false if it has ended before (ParkingLot.P3). */
  #end(entry: Entry): boolean {
    if (!this.#leave(entry)) return false;
    this.#deadlines.delete(entry);
    if (--this.readCount === 0) {
      this.#stopLooking();
      this.#deadlines.rest();
    }
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
