// staleness-controller — decides whether a read may be answered now, from the clocks of the workers. Pure; the parking lot holds who waits,
// and the pacer brings both together. Rules W1 to W9 of spec/consistency.md; those that are kept here:
//
//   staleness 0: BSP.  staleness s: SSP.  staleness Infinity: ASP.
//
// Invariants:
//   W1. `clockMin` never decreases, whoever joins, leaves, dies or is restarted. Without members it is the highest clock anybody reached.
//       Until the set has formed, because each of the expected workers has joined or is gone, it is 0, or where a restored job began.
//   W2. A read at clock c with bound s is admitted exactly when clockMin >= c - s.
//   W4. A read of a worker that no member is behind is admitted, whatever its bound: so the cluster cannot deadlock.
//   W5. A worker joins at clockMin: an earlier clock would undo W1, a later one would let it run ahead.
//   W6. An update is taken from members only, and only at its worker's clock or later.
//   W7. Who leaves has finished its clock, and may join again. Who dies has not: it finished what lies before it.
//
// Bounded delay τ (OSDI'14: "a new task is blocked until all tasks τ times ago are finished") is the same rule. Task t is what a worker does
// at clock t, and it is finished when its worker's clock is above t, for then all its updates have been applied (W8). That all tasks before
// t - τ are finished says clockMin >= t - τ, which is W2 for a read at clock t with staleness τ. τ = 0 is sequential, τ = Infinity
// eventual, as there. A task that reads nothing waits with a read of nothing.

import { AssertionError } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import { type WorkerIncarnation, WorkerIncarnations } from "./worker-incarnations.ts";

export type StalenessControllerOptions = {
  /** The set forms when so many have joined or are gone: nobody who comes early runs away from those who are still to come. */
  readonly expectedCount?: number;
};

type Member = { readonly incarnation: number; clock: number };

/** How many of the slowest an error names. */
const NAMED_MAX = 4;

export class StalenessController {
  readonly #expectedCount: number;
  readonly #members = new Map<number, Member>();
  readonly #holders = new WorkerIncarnations();
  #isFormed: boolean;
  /** The clock of the slowest (W1). Nobody else writes it. */
  clockMin = 0;
  /** The highest clock anybody finished or stands at, those who are gone included (W1). */
  #clockMax = 0;
  /** Members that stand at `clockMin`: only when it falls to 0 can the minimum move. */
  #slowestCount = 0;

  constructor({ expectedCount = 0 }: StalenessControllerOptions = {}) {
    this.#expectedCount = expectedCount;
    this.#isFormed = expectedCount === 0;
  }

  get isFormed(): boolean {
    return this.#isFormed;
  }

  get memberCount(): number {
    return this.#members.size;
  }

  /** How many have to come, or to be known as gone, before the set forms. */
  get missingCount(): number {
    return this.#isFormed ? 0 : Math.max(0, this.#expectedCount - this.#holders.workerCount);
  }

  memberAt(worker: number): Readonly<Member> | undefined {
    return this.#members.get(worker);
  }

  /**
   * Returns the clock at which the worker joins (W5); a member's own when it joins again. An incarnation that was not heard to have died has died when
   * its next one joins, in this order, so that it makes no difference which news came first. Throws FENCED for an incarnation that was replaced,
   * NODE_DEAD for one that ended.
   */
  join(holder: WorkerIncarnation): number {
    const { worker, incarnation } = holder;
    this.#holders.check(holder);
    const member = this.#members.get(worker);
    if (member?.incarnation === incarnation) return member.clock;
    if (member !== undefined) this.died({ worker, incarnation: member.incarnation });
    const clock = this.clockMin;
    this.#members.set(worker, { incarnation, clock });
    this.#slowestCount++;
    this.#holders.began(holder);
    this.#formIfComplete();
    return clock;
  }

  /** Who takes part, and the clock that each has told. */
  members(): Iterable<readonly [number, Readonly<Member>]> {
    return this.#members.entries();
  }

  /** What lies before `clock` is done, by whoever did it: a checkpoint was restored. Members that stand before it stand there from now on. */
  startAt(clock: number): void {
    if (clock < this.clockMin) throw new AssertionError(`the minimum would fall from ${this.clockMin} to ${clock}`); // W1
    for (const member of this.#members.values()) member.clock = Math.max(member.clock, clock);
    this.clockMin = clock;
    this.#clockMax = Math.max(this.#clockMax, clock);
    this.#slowestCount = [...this.#members.values()].filter((member) => member.clock === clock).length;
    this.#findMinimum();
  }

  /** The set is complete with whom it has, however many were expected. */
  form(): void {
    this.#isFormed = true;
    this.#findMinimum();
  }

  /** The worker says that it has finished all clocks before this one. An earlier one than we know says nothing new. Throws as `checkMember`, and BAD_REQUEST. */
  advance(holder: WorkerIncarnation, clock: number): void {
    const member = this.#memberOf(holder);
    checkClock(holder.worker, clock);
    if (clock <= member.clock) return;
    const wasSlowest = member.clock === this.clockMin;
    member.clock = clock;
    this.#clockMax = Math.max(this.#clockMax, clock);
    if (wasSlowest && --this.#slowestCount === 0) this.#findMinimum();
  }

  /**
   * The worker leaves the set in good order: it has finished the clock at which it stood, and may join again (W7). Returns that clock, or undefined for who is no
   * member (any more, or never was: then it is not expected any more).
   */
  leave(holder: WorkerIncarnation): number | undefined {
    this.#holders.began(holder);
    return this.#remove(holder, 1);
  }

  /** As `leave`, but the worker has left the job: this incarnation does not join again. */
  leaveJob(holder: WorkerIncarnation): number | undefined {
    this.#holders.ended(holder);
    return this.#remove(holder, 1);
  }

  /** The incarnation is over, or taken to be. Returns the clock at which it stood: what it did before that is finished, and nothing else (W7). Otherwise as `leave`. */
  died(holder: WorkerIncarnation): number | undefined {
    this.#holders.ended(holder);
    return this.#remove(holder, 0);
  }

  /** As `died`, but it may join again at once. */
  withdraw(holder: WorkerIncarnation): number | undefined {
    return this.#remove(holder, 0);
  }

  /** The incarnation was taken for dead, and lives: it may join again. */
  revived(holder: WorkerIncarnation): void {
    this.#holders.revived(holder);
  }

  /** W2. Whether the reader is a member does not matter here: what it would see is the same. */
  admits(clock: number, staleness: number): boolean {
    return this.clockMin >= clock - staleness;
  }

  /**
   * W6. Throws as `checkMember`, and STALE_UPDATE for a clock that its worker has passed: reads were answered since
   * then that count on having seen it. A clock that the worker has not told us yet is none too early.
   */
  checkUpdate(holder: WorkerIncarnation, clock: number): void {
    const member = this.#memberOf(holder);
    checkClock(holder.worker, clock);
    if (clock >= member.clock) return;
    throw new WeighbridgeError(
      "STALE_UPDATE",
      `${nameOf(holder.worker)} stamped an update with clock ${clock}, and stands at ${member.clock}: join to learn the clock, and push again`,
      { retryable: true },
    );
  }

  /** Throws NOT_JOINED, NODE_DEAD or FENCED for who is no member. */
  checkMember(holder: WorkerIncarnation): void {
    this.#memberOf(holder);
  }

  /** Who holds the minimum, as an error tells it. */
  describeSlowest(): string {
    if (!this.#isFormed) return `${this.missingCount} of ${this.#expectedCount} workers have not joined`;
    const slowest = [...this.#members].filter(([, { clock }]) => clock === this.clockMin).map(([worker]) => worker);
    if (slowest.length === 0) return `nobody is there, and the clock stands at ${this.clockMin}`;
    const names = slowest.slice(0, NAMED_MAX).sort((a, b) => a - b);
    const others = slowest.length > NAMED_MAX ? ` and ${slowest.length - NAMED_MAX} more` : "";
    return `${names.map(nameOf).join(", ")}${others} at clock ${this.clockMin}`;
  }

  #remove({ worker, incarnation }: WorkerIncarnation, finishedCount: number): number | undefined {
    const member = this.#members.get(worker);
    const clock = member?.incarnation === incarnation ? member.clock : undefined;
    if (clock !== undefined) {
      this.#members.delete(worker);
      this.#clockMax = Math.max(this.#clockMax, clock + finishedCount);
      if (clock === this.clockMin) this.#slowestCount--;
      if (this.#slowestCount === 0) this.#findMinimum();
    }
    this.#formIfComplete();
    return clock;
  }

  #formIfComplete(): void {
    if (!this.#isFormed && this.missingCount === 0) this.form();
  }

  #memberOf(holder: WorkerIncarnation): Member {
    const member = this.#members.get(holder.worker);
    if (member?.incarnation === holder.incarnation) return member;
    this.#holders.check(holder);
    throw new WeighbridgeError("NOT_JOINED", `${nameOf(holder.worker)} is not in the clock set: it has to join first`, { retryable: true });
  }

  #findMinimum(): void {
    if (!this.#isFormed) return;
    let clockMin = Infinity;
    let count = 0;
    for (const { clock } of this.#members.values()) {
      if (clock > clockMin) continue;
      count = clock < clockMin ? 1 : count + 1;
      clockMin = clock;
    }
    if (this.#members.size === 0) clockMin = this.#clockMax;
    if (clockMin < this.clockMin) throw new AssertionError(`the minimum would fall from ${this.clockMin} to ${clockMin}`); // W1
    this.clockMin = clockMin;
    this.#slowestCount = count;
  }
}

/** A bound is a whole number of clocks, or Infinity. Throws BAD_ARGUMENT. */
export function checkStaleness(staleness: number): void {
  if (staleness === Infinity || (Number.isSafeInteger(staleness) && staleness >= 0)) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `a staleness of ${staleness}: it is a whole number of clocks, or Infinity`);
}

function checkClock(worker: number, clock: number): void {
  if (Number.isSafeInteger(clock) && clock >= 0) return;
  throw new WeighbridgeError("BAD_REQUEST", `${nameOf(worker)} says its clock is ${clock}`);
}
