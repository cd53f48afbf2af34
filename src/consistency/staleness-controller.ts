// staleness-controller — the members of the clock set, and whether a read may be answered now. MemberClocks
// (update-rounds.ts) has what every update and every clock passes. Pure; the parking lot holds reads that wait, the
// pacer joins both. Both keep these rules (spec/consistency.md, W1 to W9):
//
//   staleness 0: BSP.  staleness s: SSP.  staleness Infinity: ASP.
//
// Invariants:
//   StalenessController.W1. `clockMin` never decreases when workers join, leave, die or restart. Without members it
//       is the highest clock anybody reached. Until every expected worker has joined or is gone, it is 0, or the clock
//       of a restored job. A standby and a new owner of parts have the same clocks (Availability.I6 of
//       docs/decisions/0079).
//   StalenessController.W2. A read at clock c with bound s is admitted exactly when clockMin >= c - s.
//   StalenessController.W4. A read of a slowest member is admitted, whatever its bound: the cluster cannot deadlock.
//   StalenessController.W5. A worker joins at clockMin: an earlier clock would undo StalenessController.W1, a later one
//       would let it run ahead.
//   StalenessController.W6. An update is taken from members only, and only at its worker's clock or later.
//   StalenessController.W7. A worker that leaves has finished its clock, and may join again. One that dies has finished
//       only the clocks before.
//   StalenessController.W8. A member that was taken for dead reads nothing that has a bound until it joins again:
//       others have continued without it, and it learns that from the refusal.
//
// Bounded delay τ (OSDI'14: "a new task is blocked until all tasks τ times ago are finished") is the same rule. Task t
// is the work at clock t; it is finished when its worker's clock is above t, since all its updates have then been
// applied (spec/consistency.md, W8). All tasks before t - τ are finished exactly when clockMin >= t - τ:
// StalenessController.W2 for a read at clock t with staleness τ. τ = 0 is sequential, τ = Infinity eventual. A task
// that reads nothing waits with a read of nothing.

import { AssertionError } from "../base/assert.ts";
import { badArgument } from "../base/errors.ts";
import { idOf, isGuest, nameOf } from "../wire/node-id.ts";
import { type MemberClock, MemberClocks } from "./update-rounds.ts";
import { guestError, type WorkerIncarnation } from "./worker-incarnations.ts";

type StalenessControllerOptions = {
  /** The set forms when so many workers have joined or are gone: an early worker cannot run away from later ones. */
  readonly expectedCount?: number;
  /** Whether those are the first workers of the job, so that the missing ones have names. Defaults to false. */
  readonly isOfJob?: boolean;
};

/** The clocks of a server, and who may join. */
export type ClocksImage = {
  readonly isFormed: boolean;
  readonly clockMin: number;
  readonly clockHighest: number;
  readonly slowestCount: number;
  readonly members: readonly (WorkerIncarnation & { readonly clock: number })[];
  readonly incarnations: readonly (WorkerIncarnation & { readonly isOver: boolean })[];
};

/** How many of the slowest an error names. */
const NAMED_MAX = 4;

export class StalenessController extends MemberClocks {
  readonly #expectedCount: number;
  readonly #isOfJob: boolean;

  constructor({ expectedCount = 0, isOfJob = false }: StalenessControllerOptions = {}) {
    super({ isFormed: expectedCount === 0 });
    this.#expectedCount = expectedCount;
    this.#isOfJob = isOfJob;
  }

  /** How many have to come, or to be known as gone, before the set forms. */
  get missingCount(): number {
    return this.isFormed ? 0 : Math.max(0, this.#expectedCount - this.incarnations.workerCount);
  }

  /**
   * Returns the clock at which the worker joins (StalenessController.W5); a member's own if it joins again. Joining
   * ends earlier incarnations, so the order of reports does not matter. Throws FENCED for an incarnation that was
   * replaced, NODE_DEAD for one that ended.
   */
  join(holder: WorkerIncarnation): number {
    const { worker, incarnation } = holder;
    this.incarnations.check(holder);
    const member = this.memberClocks.get(worker);
    if (member?.incarnation === incarnation) return member.clock;
    if (member !== undefined) this.died({ worker, incarnation: member.incarnation });
    const clock = this.clockMin;
    this.clockReported = Math.max(this.clockReported, clock);
    this.memberClocks.set(worker, { incarnation, clock });
    this.slowestCount++;
    this.takenOut.delete(worker);
    this.hasTakenOut = this.takenOut.size > 0;
    this.incarnations.began(holder);
    this.#formIfComplete();
    return clock;
  }

  /** The members, and the clock that each has reported. */
  members(): Iterable<readonly [number, MemberClock]> {
    return this.memberClocks.entries();
  }

  /** A checkpoint was restored that holds everything before `clock`. Members below it stand there from now on. */
  startAt(clock: number): void {
    // StalenessController.W1
    if (clock < this.clockMin) throw new AssertionError(`the minimum would fall from ${this.clockMin} to ${clock}`);
    for (const member of this.memberClocks.values()) member.clock = Math.max(member.clock, clock);
    this.clockMin = clock;
    this.clockHighest = Math.max(this.clockHighest, clock);
    this.clockReported = Math.max(this.clockReported, clock);
    this.slowestCount = [...this.memberClocks.values()].filter((member) => member.clock === clock).length;
    this.findMinimum();
  }

  /** Everything, for a standby that is filled. */
  save(): ClocksImage {
    const { isFormed, clockMin, clockHighest, slowestCount } = this;
    const members = [...this.memberClocks].map(([worker, member]) => ({ worker, ...member }));
    return { isFormed, clockMin, clockHighest, slowestCount, members, incarnations: this.incarnations.save() };
  }

  /** Replaces what was here. */
  load({ isFormed, clockMin, clockHighest, slowestCount, members, incarnations }: ClocksImage): void {
    this.memberClocks.clear();
    for (const { worker, incarnation, clock } of members) this.memberClocks.set(worker, { incarnation, clock });
    this.incarnations.load(incarnations);
    this.isFormed = isFormed;
    this.clockMin = clockMin;
    this.clockHighest = clockHighest;
    this.clockReported = members.length === 0 ? clockHighest : Math.max(...members.map(({ clock }) => clock));
    this.slowestCount = slowestCount;
  }

  /** The set is complete with its present members, however many were expected. */
  form(): void {
    this.isFormed = true;
    this.findMinimum();
  }

  /**
   * The worker leaves the set in good order: it has finished its clock, and may join again (StalenessController.W7).
   * Returns that clock, or undefined for a worker that is not a member; it is not expected any more.
   */
  leave(holder: WorkerIncarnation): number | undefined {
    if (isGuest(holder.worker)) throw guestError(holder.worker, "has no clock");
    this.incarnations.began(holder);
    this.takenOut.delete(holder.worker);
    this.hasTakenOut = this.takenOut.size > 0;
    return this.#remove(holder, 1);
  }

  /** As `leave`, but the worker has left the job: this incarnation does not join again. */
  leaveJob(holder: WorkerIncarnation): number | undefined {
    this.incarnations.ended(holder);
    return this.#remove(holder, 1);
  }

  /**
   * The incarnation is over, or taken for dead. Returns the clock it stood at, which it has not finished. Otherwise as
   * `leave`.
   */
  died(holder: WorkerIncarnation): number | undefined {
    this.incarnations.ended(holder);
    const clock = this.#remove(holder, 0);
    if (clock !== undefined) this.takenOut.set(holder.worker, holder.incarnation);
    this.hasTakenOut = this.takenOut.size > 0;
    return clock;
  }

  /** As `died`, but it may join again at once. */
  withdraw(holder: WorkerIncarnation): number | undefined {
    return this.#remove(holder, 0);
  }

  /** The incarnation was taken for dead, and lives: it may join again. */
  revived(holder: WorkerIncarnation): void {
    this.incarnations.revived(holder);
  }

  /** Throws NOT_JOINED, NODE_DEAD or FENCED if the worker is not a member. */
  checkMember(holder: WorkerIncarnation): void {
    this.memberOf(holder);
  }

  /** Names the slowest, for errors. */
  describeSlowest(): string {
    if (!this.isFormed) return `${this.missingCount} of ${this.#expectedCount} workers have not joined${this.#missingNames()}`;
    const slowest = [...this.memberClocks].filter(([, { clock }]) => clock === this.clockMin).map(([worker]) => worker);
    if (slowest.length === 0) return `nobody is there, and the clock stands at ${this.clockMin}`;
    return `${namesOf(slowest)} at clock ${this.clockMin}`;
  }

  #missingNames(): string {
    if (!this.#isOfJob) return "";
    const expected = Array.from({ length: this.#expectedCount }, (_, rank) => idOf("worker", rank));
    return `: ${namesOf(expected.filter((worker) => !this.incarnations.has(worker)))}`;
  }

  #remove({ worker, incarnation }: WorkerIncarnation, finishedCount: number): number | undefined {
    const member = this.memberClocks.get(worker);
    const clock = member?.incarnation === incarnation ? member.clock : undefined;
    if (clock !== undefined) {
      this.memberClocks.delete(worker);
      this.clockHighest = Math.max(this.clockHighest, clock + finishedCount);
      if (clock === this.clockMin) this.slowestCount--;
      if (this.slowestCount === 0) this.findMinimum();
    }
    this.#formIfComplete();
    return clock;
  }

  #formIfComplete(): void {
    if (!this.isFormed && this.missingCount === 0) this.form();
  }
}

function namesOf(workers: readonly number[]): string {
  const names = workers.slice(0, NAMED_MAX).sort((a, b) => a - b);
  const others = workers.length > NAMED_MAX ? ` and ${workers.length - NAMED_MAX} more` : "";
  return `${names.map(nameOf).join(", ")}${others}`;
}

/** A bound is a whole number of clocks, or Infinity. Throws BAD_ARGUMENT. */
export function checkStaleness(staleness: number): void {
  if (staleness === Infinity || (Number.isSafeInteger(staleness) && staleness >= 0)) return;
  throw badArgument(`a staleness of ${staleness}: it is a whole number of clocks, or Infinity`);
}
