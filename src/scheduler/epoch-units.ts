// epoch-units — the units of one epoch: which are done, which are lent to whom, and which may be lent. Pure;
// shard-ledger.ts keeps one for each epoch that is not over. Units go by their ordinals here (wire/units.ts).
//
//   free ── lend ──► lent ── done ──► done
//     ▲               │ its worker died, left, or holds it no longer      (suspect: lending it again is a repetition)
//     └───────────────┘ or gave it back unused                            (not suspect)
//
// Invariants:
//   EpochUnits.U1. A unit that is lent or done is lent to nobody else: without deaths each is done exactly once.
//   EpochUnits.U2. Every unit that is neither lent nor done may be lent to some worker that is present: nothing is left
//       behind.
//   EpochUnits.U3. A suspect unit is one that is free and was lent before to a worker that may have begun it.
//       `repeatedCount` counts those that were lent again.
//   EpochUnits.U4. The cost depends on gaps and on what is lent, not on the number of units.
//   EpochUnits.U5. In rounds nothing is dealt before those are here who began with the others, or took part in an epoch
//       before: without deaths every batch is one round (round-deal.ts).

import { badRequest } from "../base/errors.ts";
import { RunSet } from "../base/run-set.ts";
import { idOf, nameOf } from "../wire/node-id.ts";
import { UNITS_HELD_MAX, type UnitsRequest, unitOf } from "../wire/units.ts";
import { type EpochDescription, type Runs, UNIT_RUNS_MAX, type UnitsAccount } from "../wire/units-claim.ts";
import { RoundDeal, type Share, type Taker, type ToldShare } from "./round-deal.ts";

/** What a worker reports of its own units. */
export type UnitsReport = Pick<UnitsRequest, "done" | "held" | "unused" | "clock" | "partsMax" | "retires">;

/** What a worker would like. */
export type Wish = { readonly want: number; readonly isWaiting: boolean };

/** The workers of a job, by rank. */
export type Crew = {
  /** Those that live and have been heard of, rising. */
  readonly present: readonly number[];
  /** Those that took part in epochs of this name. */
  readonly regulars: ReadonlySet<number>;
  /** How many the job's start waited for. */
  readonly startCount: number;
};

/** What a worker that is gone had: units that it may have begun, and others that were only dealt to it. */
export type ReleasedUnits = { readonly lentCount: number; readonly dealtCount: number };

export class EpochUnits {
  readonly description: EpochDescription;
  readonly #unitCount: number;
  readonly #done = new RunSet();
  /** Lent or done. */
  readonly #gone = new RunSet();
  readonly #suspect = new RunSet();
  /** By rank; what is done meanwhile is not in it. */
  readonly #lent = new Map<number, RunSet>();
  /** Ranks that are present, and want no more of this epoch. */
  readonly #withdrawn = new Set<number>();
  /** Ranks that have reported about this epoch, in their present incarnation. */
  readonly #known = new Set<number>();
  /** In rounds: the most parts of a batch that a worker has room for, by rank; all where it has not said. */
  readonly #partsMax = new Map<number, number>();
  readonly #rounds: RoundDeal | undefined;
  /** In rounds: ranks that are about to leave, and are dealt no more. */
  readonly #retiring = new Set<number>();
  /** After a restart, until every live worker has told: shares of rounds, and where each worker's clock stands. */
  #told: ToldShare[] = [];
  readonly #clocks = new Map<number, number>();
  #repeatedCount = 0;
  #inheritedVersion = 0;

  constructor(description: EpochDescription) {
    this.description = description;
    this.#unitCount = description.batchCount * description.partCount;
    this.#rounds = description.assignment === "rounds" ? new RoundDeal(description) : undefined;
  }

  /** In rounds: where a worker stands that has done all it was lent. */
  get clock(): number | undefined {
    return this.#rounds?.clock;
  }

  get isOver(): boolean {
    return this.#done.size === this.#unitCount;
  }

  /** Whether some worker holds units of it. */
  get isLent(): boolean {
    return this.#lent.size > 0;
  }

  get repeatedCount(): number {
    return this.#repeatedCount;
  }

  /** How often workers went that perhaps alone knew what is done. */
  get inheritedVersion(): number {
    return this.#inheritedVersion;
  }

  /** What those who are gone knew, as far as it fits a message; the rest would be done again after a restart. */
  get inherited(): { readonly version: number; readonly done: Runs; readonly suspect: Runs } {
    const fitting = ({ runs }: RunSet): Runs => runs.slice(0, 2 * UNIT_RUNS_MAX);
    return { version: this.#inheritedVersion, done: fitting(this.#done), suspect: fitting(this.#suspect) };
  }

  /**
   * Records what the worker of this rank has done and holds. Returns what it holds no longer: others have it, or have
   * done it. Throws BAD_REQUEST for illegal units, or ones that were never lent; nothing has changed then.
   */
  report(rank: number, { done, held, unused, clock, partsMax, retires }: UnitsReport): Runs {
    const heldSet = RunSet.of(held);
    this.#check(rank, done, heldSet, RunSet.of(unused));
    this.#known.add(rank);
    this.#rounds?.noteClock(clock ?? 0);
    if (partsMax !== undefined) this.#partsMax.set(rank, Math.max(1, partsMax));
    if (retires === true) this.#retiring.add(rank);
    this.#finish(done);
    const lent = this.#lent.get(rank) ?? new RunSet();
    for (const ordinal of [...lent]) if (!heldSet.has(ordinal)) this.#giveBack(lent, ordinal, isIn(unused, ordinal) ? "unused" : "suspect");
    const lost = new RunSet();
    for (const ordinal of heldSet) {
      if (lent.has(ordinal)) continue;
      if (this.#suspect.has(ordinal))
        this.#take(lent, ordinal); // its worker was declared dead, and nobody has begun it since
      else lost.add(ordinal);
    }
    this.#keep(rank, lent);
    return lost.runs;
  }

  /** What a worker reports after a restart of the scheduler. */
  recall(rank: number, { done, held, suspect, repeatedCount, clock = 0, dues = [] }: UnitsAccount): void {
    const heldSet = RunSet.of(held);
    const highest = Math.max(heldSet.last + 1, done.at(-1) ?? 0, suspect.at(-1) ?? 0);
    if (highest > this.#unitCount || heldSet.size > this.#heldMax) return; // nothing that we ever lent
    this.#known.add(rank);
    this.#rounds?.noteClock(clock);
    this.#clocks.set(rank, clock);
    for (let i = 0; i + 2 < dues.length; i += 3)
      this.#told.push({ rank, clock: dues[i] as number, from: dues[i + 1] as number, to: dues[i + 2] as number });
    this.#suspect.addRuns(suspect);
    this.#suspect.removeRuns(this.#gone.runs);
    this.#finish(done);
    const lent = this.#lent.get(rank) ?? new RunSet();
    for (const ordinal of heldSet) if (!this.#gone.has(ordinal)) this.#take(lent, ordinal);
    this.#keep(rank, lent);
    this.#repeatedCount = Math.max(this.#repeatedCount, repeatedCount);
  }

  /**
   * Somebody has not reported, and is gone. What nobody claims, among units before one that was claimed, may have been
   * lent to it; but units of a part whose worker has reported are claimed by that one, or were never lent.
   */
  suspectUnclaimed(told: ReadonlySet<number>): void {
    const { batchCount, partCount } = this.description;
    const columnCount = this.#isEven ? partCount : 1;
    const columnSize = this.#isEven ? batchCount : this.#unitCount;
    const reached = Array.from({ length: columnCount }, (_, column) => {
      const from = column * columnSize;
      return Math.max(0, this.#gone.lastBefore(from + columnSize) + 1 - from);
    });
    const reachedMost = reached.reduce((most, own) => Math.max(most, own), 0);
    for (const [column, own] of reached.entries()) {
      const from = column * columnSize;
      const to = from + (this.#isEven && told.has(column) ? own : reachedMost);
      for (let free = this.#gone.nextAbsent(from); free < to; ) {
        const end = Math.min(to, this.#gone.nextPresent(free));
        this.#suspect.add(free, end);
        free = this.#gone.nextAbsent(end);
      }
    }
  }

  /** Everybody who is present has told what it knows: rounds that were begun go on (RoundDeal.D4). */
  resumeRounds(present: readonly number[]): void {
    const takers = this.#takersOf(present).map((taker) => ({ ...taker, clock: this.#clocks.get(taker.rank) ?? 0 }));
    const rounds = Map.groupBy(this.#told, ({ clock }) => clock);
    for (const clock of [...rounds.keys()].sort((a, b) => a - b)) this.#rounds?.resume(clock, rounds.get(clock) ?? [], takers, this.#gone);
    this.#told = [];
    this.#clocks.clear();
  }

  /** The worker of this rank is there no more: its units are free again. Returns how many of them. */
  release(rank: number): ReleasedUnits {
    this.#withdrawn.delete(rank);
    this.#known.delete(rank);
    this.#retiring.delete(rank);
    const dealtCount = this.#rounds?.release(rank) ?? 0;
    if (this.#done.size > 0) this.#inheritedVersion++;
    const lent = [...(this.#lent.get(rank) ?? [])];
    for (const ordinal of lent) this.#giveBack(this.#lent.get(rank) ?? new RunSet(), ordinal, "suspect");
    this.#lent.delete(rank);
    return { lentCount: lent.length, dealtCount };
  }

  /** Whether the worker of this rank, which is present, takes part in the epoch. */
  setPart(rank: number, takesPart: boolean): void {
    if (takesPart) this.#withdrawn.delete(rank);
    else this.#withdrawn.add(rank);
    if (!takesPart) this.#rounds?.release(rank);
  }

  /**
   * Lends up to so many units, or in rounds the shares of so many rounds, to the worker of this rank, the lowest first;
   * none if there are none for it now. `isWaiting`: it has nothing to do; else it borrows ahead. In rounds also the
   * clock of the first, or of the next round if there are none.
   */
  lend(rank: number, { want, isWaiting }: Wish, there: Crew): { readonly units: Runs; readonly clock?: number | undefined } {
    const takers = there.present.filter((other) => !this.#withdrawn.has(other));
    if (!takers.includes(rank)) return { units: [] };
    const lent = this.#lent.get(rank) ?? new RunSet();
    const room = Math.min(want, Math.floor((this.#heldMax - lent.size) / this.#unitMax));
    if (room === 0) return { units: [] };
    const shares = this.#rounds === undefined ? undefined : this.#shares(rank, room, takers, there);
    const ordinals =
      shares?.flatMap((share) => this.#freeOf(share)) ??
      (this.#isEven ? this.#evenShare(rank, room, takers) : this.#freeShare(room, isWaiting, takers.length));
    const units = new RunSet();
    for (const ordinal of ordinals) {
      if (this.#suspect.has(ordinal)) this.#repeatedCount++; // EpochUnits.U3
      this.#take(lent, ordinal);
      units.add(ordinal);
    }
    this.#keep(rank, lent);
    return { units: units.runs, clock: shares?.[0]?.clock ?? this.clock };
  }

  /** Nothing while somebody is waited for (EpochUnits.U5); to one that retires only what it was dealt. */
  #shares(rank: number, roundCount: number, takers: readonly number[], there: Crew): readonly Share[] {
    const isRetiring = this.#retiring.has(rank);
    if (!isRetiring && this.awaited(there).length > 0) return [];
    return this.#rounds?.take(rank, roundCount, isRetiring ? [] : this.#takersOf(takers), this.#gone) ?? [];
  }

  /** Those among them to whom rounds are dealt. */
  #takersOf(ranks: readonly number[]): readonly Taker[] {
    const takers = ranks.filter((rank) => this.#known.has(rank) && !this.#withdrawn.has(rank) && !this.#retiring.has(rank));
    return takers.map((rank) => ({ rank, partsMax: this.#partsMax.get(rank) ?? this.description.partCount }));
  }

  /** Of a share; a worker that was taken for dead may have done some of it since it was dealt. */
  #freeOf({ from, to }: Share): number[] {
    return Array.from({ length: to - from }, (_, i) => from + i).filter((ordinal) => !this.#gone.has(ordinal));
  }

  /**
   * Those among the present that a worker without units waits for: even, whose own units nobody else is lent, and who
   * have not requested them; in rounds, as long as nothing is dealt without them.
   */
  awaited({ present, regulars, startCount }: Crew): readonly number[] {
    const { batchCount, partCount } = this.description;
    const unheard = present.filter((rank) => !this.#known.has(rank));
    const hasUnits = (rank: number): boolean => rank < partCount && this.#gone.nextAbsent(rank * batchCount) < (rank + 1) * batchCount;
    if (this.#isEven) return unheard.filter(hasUnits);
    if (this.#rounds === undefined) return [];
    // EpochUnits.U5
    return present.length - unheard.length < startCount ? unheard : unheard.filter((rank) => regulars.has(rank));
  }

  /** The most units that are lent as one: a share of a batch. */
  get #unitMax(): number {
    return this.#rounds === undefined ? 1 : this.description.partCount;
  }

  get #heldMax(): number {
    return UNITS_HELD_MAX * this.#unitMax;
  }

  get #isEven(): boolean {
    return this.description.assignment === "even";
  }

  /** Its own part's batches, and its share of the parts without a worker: taker (b + p) mod n gets batch b. */
  #evenShare(rank: number, room: number, takers: readonly number[]): number[] {
    const { description } = this;
    const position = takers.indexOf(rank);
    const isTaken = new Set(takers);
    const found: number[] = [];
    for (let part = 0; part < description.partCount; part++) {
      if (part === rank) this.#collect(found, room, { part, first: 0, step: 1 });
      else if (!isTaken.has(part)) {
        const first = (((position - part) % takers.length) + takers.length) % takers.length;
        this.#collect(found, room, { part, first, step: takers.length });
      }
    }
    return found.sort((a, b) => unitOf(description, a) - unitOf(description, b)).slice(0, room);
  }

  /** Up to `room` free units of a part: batches first, first + step … */
  #collect(found: number[], room: number, { part, first, step }: { part: number; first: number; step: number }): void {
    const { batchCount } = this.description;
    const from = part * batchCount;
    for (let batch = first, count = 0; batch < batchCount && count < room; ) {
      const free = this.#gone.nextAbsent(from + batch) - from;
      if (free === batch) {
        found.push(from + batch);
        batch += step;
        count++;
      } else batch += Math.ceil((free - batch) / step) * step;
    }
  }

  /** The next lowest; towards the end few at a time, and the last ones not ahead, so that nobody hoards them. */
  #freeShare(room: number, isWaiting: boolean, takerCount: number): number[] {
    const freeCount = this.#unitCount - this.#gone.size;
    if (!isWaiting && freeCount <= takerCount) return [];
    const fair = Math.ceil(freeCount / (2 * takerCount));
    const found: number[] = [];
    for (let ordinal = this.#gone.nextAbsent(0); found.length < Math.min(room, fair); ordinal = this.#gone.nextAbsent(ordinal + 1)) {
      found.push(ordinal);
    }
    return found;
  }

  #check(rank: number, done: Runs, held: RunSet, unused: RunSet): void {
    const { name, epoch } = this.description;
    const who = nameOf(idOf("worker", rank));
    const highest = Math.max(done.at(-1) ?? 0, held.last + 1, unused.last + 1);
    if (highest > this.#unitCount) {
      const message = `${who} reports unit ${highest - 1} of epoch ${epoch} of "${name}", which has ${this.#unitCount}`;
      throw badRequest(message);
    }
    if (held.size > this.#heldMax) {
      const message = `${who} cannot hold ${held.size} units: there are at most ${this.#heldMax} for each worker`;
      throw badRequest(message);
    }
    for (let i = 0; i < done.length; i += 2) {
      for (let ordinal = done[i] as number; ordinal < (done[i + 1] as number); ) {
        const next = Math.max(this.#gone.nextAbsent(ordinal), this.#suspect.nextAbsent(ordinal));
        if (next === ordinal) {
          const unit = unitOf(this.description, ordinal);
          throw badRequest(`${who} has done unit ${unit} of epoch ${epoch} of "${name}", which was lent to nobody`);
        }
        ordinal = next;
      }
    }
  }

  #finish(done: Runs): void {
    this.#done.addRuns(done);
    this.#gone.addRuns(done);
    this.#suspect.removeRuns(done);
    // Of the others too: one that was declared dead may have finished what they were lent. Their reports then change
    // nothing.
    for (const [rank, lent] of this.#lent) {
      lent.removeRuns(done);
      this.#keep(rank, lent);
    }
  }

  #take(lent: RunSet, ordinal: number): void {
    this.#suspect.remove(ordinal);
    this.#gone.add(ordinal);
    lent.add(ordinal);
  }

  #giveBack(lent: RunSet, ordinal: number, how: "unused" | "suspect"): void {
    lent.remove(ordinal);
    this.#gone.remove(ordinal);
    if (how === "suspect") this.#suspect.add(ordinal);
  }

  #keep(rank: number, lent: RunSet): void {
    if (lent.size > 0) this.#lent.set(rank, lent);
    else this.#lent.delete(rank);
  }
}

function isIn(runs: Runs, ordinal: number): boolean {
  return runs.findIndex((bound) => bound > ordinal) % 2 === 1;
}
