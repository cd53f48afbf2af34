// unit-feed — the units of one epoch that the scheduler lends this worker, one after the other (shard-ledger.ts decides
// which). It keeps a small stock, so that a step never waits for a message.
//
//   requested ──► stock ── next ──► begun ── done ──► unreported ── the next request is answered ──► reported
//
// Invariants:
//   UnitFeed.F1. One request is open at a time: the last answer and what was reported since is all there is to know.
//   UnitFeed.F2. The stock covers about LEASE_MS of steps; the feed requests more when half is used up. So a worker
//       that dies loses little, and a slow one hoards nothing.
//   UnitFeed.F3. The next request reports what is done, FLUSH_MS later at the latest.
//   UnitFeed.F4. `next` returns "idle" and "over" only if the scheduler has said so.
//   UnitFeed.F5. No worker is idle forever because of one that lives and requests nothing: a DEADLINE names that one.
//   UnitFeed.F6. A feed that retires takes what this worker was dealt in rounds, so that they stay whole, and then says
//       "over"; in other assignments it says so at once.

import { assert } from "../base/assert.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { restOf, type WaitOptions, waitFor } from "../base/deferred.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions } from "../base/known-options.ts";
import { RunSet } from "../base/run-set.ts";
import type { UnitsReply, UnitsRequest } from "../wire/units.ts";
import { UNITS_HELD_MAX, unitOf } from "../wire/units.ts";
import type { EpochDescription, Runs, UnitsAccount } from "../wire/units-claim.ts";
import { UNIT_RUNS_MAX } from "../wire/units-claim.ts";

/** Part `part` of global batch `batch`; in rounds `parts` of them from there on. */
export type LentUnit = {
  /** batch · partCount + part. */
  readonly unit: number;
  /** The number of its global batch. */
  readonly batch: number;
  /** Which part of the batch it is. */
  readonly part: number;
  /** In rounds: how many parts of the batch it has, from `part` on. */
  readonly parts?: number;
  /** In rounds: the clock at which its updates are due, the same for all that have a share of the round. */
  readonly clock?: number;
};

/** A unit, and its ordinals. */
type Lent = { readonly unit: LentUnit; readonly from: number; readonly to: number };

export type UnitFeedOptions = {
  readonly description: EpochDescription;
  /** In rounds: this worker's clock. */
  readonly firstClock?: number | undefined;
  readonly partsMax?: number | undefined;
  readonly clock: Clock;
  /** How long `next` waits before it returns "idle"; at least 1: a request that waits has nothing to do. */
  readonly idleMs: number;
  /** What this worker did of the epoch before, and closed. */
  readonly before: UnitsAccount | undefined;
  readonly request: (request: UnitsRequest) => Promise<UnitsReply>;
  /** It is over, or was closed. */
  readonly ended: (feed: UnitFeed) => void;
};

const LEASE_MS = 100;
const LEASE_MAX = 64;
/** The first lease; each is at most twice the one before, since the first steps say little about the speed. */
const FIRST_LEASE = 2;
const FLUSH_MS = 50;
/** What it may hold of rounds, and as many before: others may not have got theirs of the same rounds yet. */
const DUES_MAX = 2 * LEASE_MAX;
/** How much of the newest step counts in the mean. */
const PACE_WEIGHT = 0.2;

/** The units of an epoch that this worker is to work on. `session.units()` opens one. */
export class UnitFeed {
  readonly #options: UnitFeedOptions;
  readonly #clock: Clock;
  /** In the order in which they are to be done. */
  #stock: Lent[] = [];
  /** By unit. */
  readonly #begun = new Map<number, Lent>();
  /** The last shares of rounds, done or not, for a scheduler that was restarted. */
  #dues: Lent[] = [];
  readonly #unreported = new RunSet();
  /** All this worker has done, for a scheduler that was restarted. */
  readonly #done = new RunSet();
  /** What others had done that are gone. */
  #inherited: NonNullable<UnitsReply["inherited"]> = { version: 0, done: [], suspect: [] };
  #repeatedCount = 0;
  #isOver = false;
  #isClosed = false;
  /** `retire` was called; and nothing is left for it. */
  #isRetiring = false;
  #isRetired = false;
  /** Those of whom the scheduler said that they have not asked, and since when it says so of anybody. */
  #awaited: { readonly ranks: readonly number[]; readonly sinceMs: number } | undefined;
  /** Mean time of a step; undefined before the second one is done. */
  #paceMs: number | undefined;
  #doneAtMs: number | undefined;
  #leaseMax = FIRST_LEASE;
  #nextClock: number | undefined;
  #open: { readonly answer: Promise<void>; readonly isPatient: boolean } | undefined;
  #cancelFlush: CancelTimer | undefined;

  /** @internal */
  constructor(options: UnitFeedOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#nextClock = options.firstClock;
    this.#done.addRuns(options.before?.done ?? []);
    this.#repeatedCount = options.before?.repeatedCount ?? 0;
  }

  /** @internal */
  get description(): EpochDescription {
    return this.#options.description;
  }

  /** Units of the epoch that were lent again, by any worker, because theirs died or gave up; as last reported. */
  get repeatedCount(): number {
    return this.#repeatedCount;
  }

  /** Whether `next` gives a unit at once; if not, it waits for the scheduler. */
  get isStocked(): boolean {
    return this.#stock.length > 0;
  }

  /** Whether every unit of the epoch is done. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** In rounds: where this worker's clock has to stand when it has done all it was lent: others may wait for it. */
  get nextClock(): number | undefined {
    return this.#nextClock;
  }

  /** Whether this worker has retired from the epoch before it is over (UnitFeed.F6). */
  get hasRetired(): boolean {
    return this.#isRetired && !this.#isOver;
  }

  /** This worker is about to leave: `next` gives it no more than it has to do (UnitFeed.F6), and then says "over". */
  retire(): void {
    this.#isRetiring = true;
    if (this.description.assignment !== "rounds") this.#isRetired = true; // `close` gives back what is in stock
  }

  /** @internal The first request: throws SPEC_MISMATCH when another worker described the epoch differently. */
  async open(wait: WaitOptions): Promise<void> {
    await waitFor(this.#request({ isPatient: false }).answer, `the units of "${this.description.name}"`, this.#clock, wait);
  }

  /**
   * The next unit to do. "over": all units of the epoch are done. "idle": the others still work at some, and there is
   * none for this worker now; under BSP and SSP they may need its `clock()` to go on. Throws DEADLINE, also when this
   * worker was idle for so long, over several calls, because others live and do not ask for their units; ABORTED,
   * CLOSED; SCHEDULER_UNREACHABLE when the scheduler has been away too long, after which it may be called again;
   * QUEUE_FULL when so many units were begun that `done` must have been forgotten. `sinceMs`: when the caller began to
   * wait for this unit, over several calls, all of which its `timeoutMs` bounds.
   */
  async next(wait: WaitOptions = {}, sinceMs?: number): Promise<LentUnit | "idle" | "over"> {
    checkWaitOptions(wait);
    const [{ timeoutMs }, { name, epoch }] = [wait, this.description];
    const rest = restOf(wait, this.#clock);
    for (;;) {
      if (this.#isClosed) throw new WeighbridgeError("CLOSED", `the units of epoch ${epoch} of "${name}" were closed`);
      const lent = this.hasRetired && this.description.assignment !== "rounds" ? undefined : this.#stock.shift();
      if (lent !== undefined) return this.#begin(lent);
      if (this.#isOver || this.#isRetired) return "over";
      const excess = `${this.#begun.size} units of epoch ${epoch} of "${name}" were begun and none of them is done: call done() for each`;
      if (this.#begun.size >= UNITS_HELD_MAX) throw new WeighbridgeError("QUEUE_FULL", excess);
      const open = this.#open ?? this.#request({ isPatient: true });
      await waitFor(open.answer, `a unit of "${name}"`, this.#clock, rest());
      if (!open.isPatient || this.#stock.length > 0 || this.#isOver || this.#isClosed) continue;
      this.#checkIdle(timeoutMs, sinceMs);
      return "idle"; // UnitFeed.F4
    }
  }

  /**
   * The unit's updates are acknowledged: nobody will be lent it again. Throws BAD_ARGUMENT for one that `next` did not
   * give, or not any more.
   */
  done(unit: number | LentUnit): void {
    const number = typeof unit === "number" ? unit : unit.unit;
    const lent = this.#begun.get(number);
    if (lent === undefined) {
      const { name, epoch } = this.description;
      throw badArgument(`unit ${number} of epoch ${epoch} of "${name}" is none that this worker has begun`);
    }
    this.#begun.delete(number);
    this.#done.add(lent.from, lent.to);
    this.#unreported.add(lent.from, lent.to);
    this.#notePace();
    this.#flushSoon();
  }

  /** As `done`; nothing for a unit that is done already, or given back. */
  doneOnce(unit: number): void {
    if (!this.#isClosed && this.#begun.has(unit)) this.done(unit);
  }

  /**
   * Ends this worker's part in the epoch: what it has not begun is given back; what it has begun and not finished is
   * done again by others. A scheduler that cannot be reached finds out by itself.
   */
  async close(wait: WaitOptions = {}): Promise<void> {
    checkWaitOptions(wait);
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelFlush?.();
    try {
      while (this.#open !== undefined) await waitFor(this.#open.answer.catch(ignored), "the open request", this.#clock, wait);
      if (!this.#isOver) await waitFor(this.#request({ isPatient: false }).answer, "the scheduler to take units back", this.#clock, wait);
    } catch {
      // The scheduler is away or fenced us: it lends the units again when it misses this worker, or hears from it that
      // it holds none.
    } finally {
      this.#options.ended(this);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal All this worker knows. */
  account(): UnitsAccount {
    const done = RunSet.of(this.#inherited.done);
    done.addRuns(this.#done.runs);
    const { suspect } = this.#inherited;
    const [held, repeatedCount, clock] = [this.#held(), this.#repeatedCount, this.#nextClock];
    const dues = this.#dues.flatMap(({ unit, from, to }) => [unit.clock ?? 0, from, to]);
    return { ...this.description, done: done.runs, held, suspect, repeatedCount, ...(clock === undefined ? {} : { clock, dues }) };
  }

  /** UnitFeed.F5 */
  #checkIdle(timeoutMs = Infinity, sinceMs = this.#awaited?.sinceMs ?? Infinity): void {
    if (this.#clock.nowMs() - sinceMs < timeoutMs) return;
    const { name, epoch } = this.description;
    const ranks = this.#awaited?.ranks ?? [];
    const who = `${ranks.length > 1 ? "workers" : "worker"} ${ranks.join(", ")}`;
    const asking = `${who} to ask for units of epoch ${epoch} of "${name}": all workers that live have to`;
    const holding = `a unit of epoch ${epoch} of "${name}": other workers hold those that are left`;
    throw new WeighbridgeError("DEADLINE", `waited ${timeoutMs} ms for ${ranks.length > 0 ? asking : holding}`, { retryable: true });
  }

  #begin(lent: Lent): LentUnit {
    this.#begun.set(lent.unit.unit, lent);
    this.#doneAtMs ??= this.#clock.nowMs();
    // UnitFeed.F2
    if (this.#stock.length <= this.#lease() / 2 && this.#open === undefined && !this.#isOver) this.#request({ isPatient: false });
    return lent.unit;
  }

  /** How many units LEASE_MS of steps need. */
  #lease(): number {
    if (this.#paceMs === undefined) return FIRST_LEASE;
    return Math.max(1, Math.min(this.#leaseMax, Math.ceil(LEASE_MS / Math.max(this.#paceMs, 0.01))));
  }

  #notePace(): void {
    const nowMs = this.#clock.nowMs();
    const stepMs = nowMs - (this.#doneAtMs ?? nowMs);
    this.#doneAtMs = nowMs;
    this.#paceMs = this.#paceMs === undefined ? stepMs : this.#paceMs + PACE_WEIGHT * (stepMs - this.#paceMs);
  }

  /** UnitFeed.F3 */
  #flushSoon(): void {
    if (this.#cancelFlush !== undefined || this.#isClosed || this.#isOver) return;
    this.#cancelFlush = this.#clock.after(FLUSH_MS, () => {
      this.#cancelFlush = undefined;
      if (this.#open === undefined && this.#unreported.size > 0 && !this.#isClosed) this.#request({ isPatient: false });
    });
  }

  #held(): number[] {
    const held = new RunSet();
    if (!this.#isClosed) for (const { from, to } of [...this.#stock, ...this.#begun.values()]) held.add(from, to);
    return [...held.runs];
  }

  #request({ isPatient }: { readonly isPatient: boolean }): { readonly answer: Promise<void>; readonly isPatient: boolean } {
    assert(this.#open === undefined, "one request is open at a time"); // UnitFeed.F1
    const { description, idleMs, partsMax } = this.#options;
    const unused = new RunSet();
    if (this.#isClosed) for (const { from, to } of this.#stock) unused.add(from, to);
    const done = this.#unreported.runs.slice(0, 2 * UNIT_RUNS_MAX);
    const want = this.#isClosed ? 0 : Math.max(0, this.#lease() - this.#stock.length);
    const [waitMs, leaves] = [isPatient ? idleMs : 0, this.#isClosed];
    const request: UnitsRequest = {
      ...description,
      ...{ done, held: this.#held(), unused: unused.runs, want, waitMs, inherited: this.#inherited.version, leaves },
      ...(this.#nextClock === undefined ? {} : { clock: this.#nextClock, partsMax }),
      ...(this.#isRetiring ? { retires: true } : {}),
    };
    const asked = this.#options.request(request).finally(() => {
      this.#open = undefined;
    });
    const answer = asked.then((reply) => {
      this.#unreported.removeRuns(done); // if it failed, the next request reports it again
      this.#take(reply);
      if (request.retires === true && want > 0 && reply.units.length === 0) this.#isRetired = true; // UnitFeed.F6
    });
    answer.catch(ignored);
    this.#open = { answer, isPatient };
    return this.#open;
  }

  /** In rounds whole shares of batches, else single units. */
  #lentBy(units: Runs, clock: number | undefined): Lent[] {
    const { partCount, assignment } = this.description;
    const size = assignment === "rounds" ? partCount : 1;
    const lent: Lent[] = [];
    for (let i = 0; i < units.length; i += 2) {
      const end = units[i + 1] as number;
      for (let from = units[i] as number, to = from; from < end; from = to) {
        to = Math.min(end, from - (from % size) + size);
        const unit = unitOf(this.description, from);
        const [batch, part] = [Math.floor(unit / partCount), unit % partCount];
        const due = clock === undefined ? {} : { parts: to - from, clock: clock + batch - Math.floor((units[0] as number) / partCount) };
        lent.push({ unit: { unit, batch, part, ...due }, from, to });
      }
    }
    return lent;
  }

  #take({ isOver, units, lost, repeatedCount, inherited, awaited, clock }: UnitsReply): void {
    this.#awaited = awaited === undefined ? undefined : { ranks: awaited, sinceMs: this.#awaited?.sinceMs ?? this.#clock.nowMs() };
    this.#repeatedCount = Math.max(this.#repeatedCount, repeatedCount);
    if (inherited !== undefined) this.#inherited = inherited;
    if (units.length > 0) this.#leaseMax = Math.min(LEASE_MAX, 2 * this.#leaseMax);
    const lostSet = RunSet.of(lost);
    const isKept = ({ from, to }: Lent): boolean => lostSet.nextPresent(from) >= to;
    const [kept, lent] = [this.#stock.filter(isKept), this.#lentBy(units, clock)];
    if (this.description.assignment === "rounds") this.#dues = [...this.#dues.filter(isKept), ...lent].slice(-DUES_MAX);
    this.#stock = [...kept, ...lent].sort((a, b) => (a.unit.clock ?? a.unit.unit) - (b.unit.clock ?? b.unit.unit));
    if (clock !== undefined) this.#nextClock = Math.max(this.#nextClock ?? 0, clock, (this.#stock.at(-1)?.unit.clock ?? -1) + 1);
    if (this.#unreported.size > 0) this.#flushSoon();
    if (!isOver || this.#isOver) return;
    this.#isOver = true;
    this.#stock = [];
    this.#cancelFlush?.();
    this.#options.ended(this);
  }
}

/** For a failure that another caller gets. */
function ignored(): void {}
