// vector-clock — which updates of which worker a server has applied, so that each is applied exactly once. Pure.
//
// A worker numbers its updates 1, 2, 3 … over all servers, so on one server the numbers rise with gaps, and a channel
// delivers them in order: the last number is all there is to remember. A restarted worker has a new incarnation and
// counts from 1 again.
//
// Invariants:
//   VectorClock.V1. `advance` is true at most once per (worker, incarnation, stamp), and for rising stamps:
//       Availability.I5 of docs/decisions/0079 rests on it.
//   VectorClock.V2. An incarnation that was replaced never advances again: its stamp is Infinity.

export type ClockEntry = { incarnation: number; stamp: number };

export class VectorClock {
  /** The newest incarnation of each worker. */
  readonly #entries = new Map<number, ClockEntry>();

  /** True when this update is new and is to be applied now. */
  advance(worker: number, incarnation: number, stamp: number): boolean {
    const entry = this.entryOf(worker, incarnation);
    if (stamp <= entry.stamp) return false;
    entry.stamp = stamp;
    return true;
  }

  /** What `advance` reads and raises, for callers with many updates of one incarnation in a row. */
  entryOf(worker: number, incarnation: number): ClockEntry {
    const known = this.#entries.get(worker);
    if (known?.incarnation === incarnation) return known;
    // VectorClock.V2
    if (known !== undefined && incarnation < known.incarnation) return { incarnation, stamp: Infinity };
    if (known !== undefined) known.stamp = Infinity; // VectorClock.V2
    const entry = { incarnation, stamp: 0 };
    this.#entries.set(worker, entry);
    return entry;
  }

  /** Whether `advance` would be false: this update was applied, or its incarnation is over. */
  hasApplied(worker: number, incarnation: number, stamp: number): boolean {
    const entry = this.#entries.get(worker);
    if (entry === undefined || incarnation > entry.incarnation) return false;
    return incarnation < entry.incarnation || stamp <= entry.stamp;
  }

  /**
   * The caller sees to it that nothing of this worker comes any more. Whoever keeps its entry sees that it is nobody's:
   * the number may be another's later.
   */
  forget(worker: number): void {
    const entry = this.#entries.get(worker);
    if (entry !== undefined) entry.incarnation = 0;
    this.#entries.delete(worker);
  }

  /** The last applied update of this worker, or undefined if there was none. */
  at(worker: number): Readonly<ClockEntry> | undefined {
    return this.#entries.get(worker);
  }

  entries(): Iterable<readonly [number, Readonly<ClockEntry>]> {
    return this.#entries.entries();
  }

  /** A checkpoint holds these updates. The newer incarnation wins, within one incarnation the later stamp. */
  restore(worker: number, { incarnation, stamp }: Readonly<ClockEntry>): void {
    this.advance(worker, incarnation, stamp);
  }
}
