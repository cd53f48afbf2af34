// staleness-controller — who takes part in the clocks, and whether a read may be answered now. What every update and every
// clock passes is in MemberClocks (update-rounds.ts). Pure; the parking lot holds who waits, and the pacer brings both
// together. Rules W1 to W9 of spec/consistency.md; those that are kept here and there:
//
//   staleness 0: BSP.  staleness s: SSP.  staleness Infinity: ASP.
//
// Invariants:
//   StalenessController.W1. `clockMin` never decreases, whoever joins, leaves, dies or is restarted. Without members it is the highest clock anybody reached.
//       Until the set has formed, because each of the expected workers has joined or is gone, it is 0, or where a restored job began.
//   StalenessController.W2. A read at clock c with bound s is admitted exactly when clockMin >= c - s.
//   StalenessController.W4. A read of a worker that no member is behind is admitted, whatever its bound: so the cluster cannot deadlock.
//   StalenessController.W5. A worker joins at clockMin: an earlier clock would undo StalenessController.W1, a later one would let it run ahead.
//   StalenessController.W6. An update is taken from members only, and only at its worker's clock or later.
//   StalenessController.W7. Who leaves has finished its clock, and may join again. Who dies has not: it finished what lies before it.
//
// Bounded delay τ (OSDI'14: "a new task is blocked until all tasks τ times ago are finished") is the same rule. Task t is what a worker does
// at clock t, and it is finished when its worker's clock is above t, for then all its updates have been applied (W8). That all tasks before
// t - τ are finished says clockMin >= t - τ, which is StalenessController.W2 for a read at clock t with staleness τ. τ = 0 is sequential, τ = Infinity
// eventual, as there. A task that reads nothing waits with a read of nothing.

import { AssertionError } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import { type MemberClock, MemberClocks } from "./update-rounds.ts";
import type { WorkerIncarnation } from "./worker-incarnations.ts";

export type StalenessControllerOptions = {
  /** The set forms when so many have joined or are gone: nobody who comes early runs away from those who are still to come. */
  readonly expectedCount?: number;
};

/** How many of the slowest an error names. */
const NAMED_MAX = 4;

export class StalenessController extends MemberClocks {
  readonly #expectedCount: number;

  constructor({ expectedCount = 0 }: StalenessControllerOptions = {}) {
    super({ isFormed: expectedCount === 0 });
    this.#expectedCount = expectedCount;
  }

  get memberCount(): number {
    return this.memberClocks.size;
  }

  /** How many have to come, or to be known as gone, before the set forms. */
  get missingCount(): number {
    return this.isFormed ? 0 : Math.max(0, this.#expectedCount - this.incarnations.workerCount);
  }

  /**
   * Returns the clock at which the worker joins (StalenessController.W5); a member's own when it joins again. An incarnation that was not heard to have died has died when
   * its next one joins, in this order, so that it makes no difference which news came first. Throws FENCED for an incarnation that was replaced,
   * NODE_DEAD for one that ended.
   */
  join(holder: WorkerIncarnation): number {
    const { worker, incarnation } = holder;
    this.incarnations.check(holder);
    const member = this.memberClocks.get(worker);
    if (member?.incarnation === incarnation) return member.clock;
    if (member !== undefined) this.died({ worker, incarnation: member.incarnation });
    const clock = this.clockMin;
    this.memberClocks.set(worker, { incarnation, clock });
    this.slowestCount++;
    this.incarnations.began(holder);
    this.#formIfComplete();
    return clock;
  }

  /** Who takes part, and the clock that each has told. */
  members(): Iterable<readonly [number, MemberClock]> {
    return this.memberClocks.entries();
  }

  /** What lies before `clock` is done, by whoever did it: a checkpoint was restored. Members that stand before it stand there from now on. */
  startAt(clock: number): void {
    if (clock < this.clockMin) throw new AssertionError(`the minimum would fall from ${this.clockMin} to ${clock}`); // StalenessController.W1
    for (const member of this.memberClocks.values()) member.clock = Math.max(member.clock, clock);
    this.clockMin = clock;
    this.clockHighest = Math.max(this.clockHighest, clock);
    this.slowestCount = [...this.memberClocks.values()].filter((member) => member.clock === clock).length;
    this.findMinimum();
  }

  /** The set is complete with whom it has, however many were expected. */
  form(): void {
    this.isFormed = true;
    this.findMinimum();
  }

  /**
   * The worker leaves the set in good order: it has finished the clock at which it stood, and may join again (StalenessController.W7). Returns that clock, or undefined for who is no
   * member (any more, or never was: then it is not expected any more).
   */
  leave(holder: WorkerIncarnation): number | undefined {
    this.incarnations.began(holder);
    return this.#remove(holder, 1);
  }

  /** As `leave`, but the worker has left the job: this incarnation does not join again. */
  leaveJob(holder: WorkerIncarnation): number | undefined {
    this.incarnations.ended(holder);
    return this.#remove(holder, 1);
  }

  /** The incarnation is over, or taken to be. Returns the clock at which it stood: what it did before that is finished, and nothing else (StalenessController.W7). Otherwise as `leave`. */
  died(holder: WorkerIncarnation): number | undefined {
    this.incarnations.ended(holder);
    return this.#remove(holder, 0);
  }

  /** As `died`, but it may join again at once. */
  withdraw(holder: WorkerIncarnation): number | undefined {
    return this.#remove(holder, 0);
  }

  /** The incarnation was taken for dead, and lives: it may join again. */
  revived(holder: WorkerIncarnation): void {
    this.incarnations.revived(holder);
  }

  /** StalenessController.W2. Whether the reader is a member does not matter here: what it would see is the same. */
  admits(clock: number, staleness: number): boolean {
    return this.clockMin >= clock - staleness;
  }

  /** Throws NOT_JOINED, NODE_DEAD or FENCED for who is no member. */
  checkMember(holder: WorkerIncarnation): void {
    this.memberOf(holder);
  }

  /** Who holds the minimum, as an error tells it. */
  describeSlowest(): string {
    if (!this.isFormed) return `${this.missingCount} of ${this.#expectedCount} workers have not joined`;
    const slowest = [...this.memberClocks].filter(([, { clock }]) => clock === this.clockMin).map(([worker]) => worker);
    if (slowest.length === 0) return `nobody is there, and the clock stands at ${this.clockMin}`;
    const names = slowest.slice(0, NAMED_MAX).sort((a, b) => a - b);
    const others = slowest.length > NAMED_MAX ? ` and ${slowest.length - NAMED_MAX} more` : "";
    return `${names.map(nameOf).join(", ")}${others} at clock ${this.clockMin}`;
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

/** A bound is a whole number of clocks, or Infinity. Throws BAD_ARGUMENT. */
export function checkStaleness(staleness: number): void {
  if (staleness === Infinity || (Number.isSafeInteger(staleness) && staleness >= 0)) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `a staleness of ${staleness}: it is a whole number of clocks, or Infinity`);
}
