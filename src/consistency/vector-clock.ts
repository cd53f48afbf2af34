// vector-clock — which updates of which worker a server has applied, so that each is applied exactly once. Pure.
//
// A worker numbers its updates 1, 2, 3 … over all servers, so on one server the numbers rise with gaps; a channel delivers them in order.
// So the last number is all there is to remember. A restarted worker has a new life and counts from 1 again.
//
// Invariants:
//   V1. `advance` is true at most once per (worker, life, stamp), and the stamps for which it is true rise.
//   V2. A life that was replaced never advances again.

export type ClockEntry = { incarnation: number; stamp: number };

export class VectorClock {
  readonly #entries = new Map<number, ClockEntry>();
  /** The entry asked for last: a server hears many updates of one worker in a row. */
  #lastWorker = -1;
  #lastEntry: ClockEntry = { incarnation: 0, stamp: 0 };

  /** True when this update is new and is to be applied now. */
  advance(worker: number, incarnation: number, stamp: number): boolean {
    const entry = worker === this.#lastWorker ? this.#lastEntry : this.#entryOf(worker, incarnation);
    if (incarnation !== entry.incarnation) {
      if (incarnation < entry.incarnation) return false; // V2
      entry.incarnation = incarnation;
      entry.stamp = 0;
    }
    if (stamp <= entry.stamp) return false;
    entry.stamp = stamp;
    return true;
  }

  /** Whether `advance` would be false: this update was applied, or its life is over. */
  hasApplied(worker: number, incarnation: number, stamp: number): boolean {
    const entry = this.#entries.get(worker);
    if (entry === undefined || incarnation > entry.incarnation) return false;
    return incarnation < entry.incarnation || stamp <= entry.stamp;
  }

  /** The last applied update of this worker, or undefined if there was none. */
  at(worker: number): Readonly<ClockEntry> | undefined {
    return this.#entries.get(worker);
  }

  entries(): Iterable<readonly [number, Readonly<ClockEntry>]> {
    return this.#entries.entries();
  }

  /** A checkpoint brought this entry along: what it names was applied. Of two lives the newer one counts, of one life the later stamp. */
  restore(worker: number, { incarnation, stamp }: Readonly<ClockEntry>): void {
    this.advance(worker, incarnation, stamp);
  }

  #entryOf(worker: number, incarnation: number): ClockEntry {
    let entry = this.#entries.get(worker);
    if (entry === undefined) {
      entry = { incarnation, stamp: 0 };
      this.#entries.set(worker, entry);
    }
    this.#lastWorker = worker;
    this.#lastEntry = entry;
    return entry;
  }
}
