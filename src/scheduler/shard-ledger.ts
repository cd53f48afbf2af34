// shard-ledger — the scheduler's record of epochs: who borrows which units, and which epochs are over. Pure: reports of
// workers and who is present in, units out. unit-service.ts carries it out; epoch-units.ts has the units of one epoch.
//
// Invariants:
//   ShardLedger.L1. Without deaths every unit of an epoch is done exactly once; units of a worker that is gone go to
//       those present (EpochUnits.U1, EpochUnits.U2).
//   ShardLedger.L2. All workers describe an epoch alike: the first description holds; another one gets SPEC_MISMATCH.
//   ShardLedger.L3. An epoch that is over stays over; of it only that is kept, and for a while its `repeatedCount`.
//   ShardLedger.L4. After a restart nothing is lent before every live worker has reported what it has done and holds.

import { badRequest, WeighbridgeError } from "../base/errors.ts";
import { RunSet } from "../base/run-set.ts";
import { epochProblem, type UnitsReply, type UnitsRequest } from "../wire/units.ts";
import type { EpochDescription, Runs, UnitsClaim } from "../wire/units-claim.ts";
import { EpochUnits, type ReleasedUnits } from "./epoch-units.ts";

/** Epochs that are not over; one without lent units gives way to a new one. */
const OPEN_EPOCHS_MAX = 64;
const NAMES_MAX = 256;
/** For how many epochs of a name `repeatedCount` is known after they are over. */
const COUNTS_MAX = 64;

/** What is known of the epochs of one name that are over. */
type PastEpochs = {
  readonly over: RunSet;
  readonly repeatedCounts: Map<number, number>;
  /** In rounds: where the clocks of workers stand at the end of the last one; 0 after a restart, or without rounds. */
  clock: number;
};

type Outcome = Pick<UnitsReply, "isOver" | "units" | "repeatedCount" | "inherited" | "awaited" | "clock">;

/** The units of an epoch that a worker had when it was lost. */
export type LostShare = { readonly rank: number } & EpochDescription & ReleasedUnits;

export class ShardLedger {
  /** By `keyOf`, the last reported one at the end. */
  readonly #open = new Map<string, EpochUnits>();
  readonly #past = new Map<string, PastEpochs>();
  /** Ranks, rising. */
  #present: readonly number[] = [];
  /** By name, the ranks that took part in an epoch of it, in their present incarnation. */
  readonly #regulars = new Map<string, Set<number>>();
  /** How many the start waited for. */
  readonly #startCount: number;
  /** How many ranks there are, of workers that live or not. */
  #rankCount: number;
  /** Ranks of which an incarnation ended, and that have not reported since: nothing waits for them. */
  readonly #silent = new Set<number>();
  #isSettled = true;
  /** Those who have reported what they know of an earlier scheduler's time, by rank. */
  readonly #told = new Set<number>();

  constructor({ workerCount }: { readonly workerCount: number }) {
    this.#startCount = workerCount;
    this.#rankCount = workerCount;
  }

  /** False while workers may still report what an earlier scheduler lent them (ShardLedger.L4). */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** The workers that are alive now, of so many, by rank, rising; the units of others are free. */
  follow(present: readonly number[], rankCount: number = this.#rankCount): readonly LostShare[] {
    const lost = this.#present.filter((rank) => !present.includes(rank)).flatMap((rank) => this.died(rank));
    this.#present = present;
    this.#rankCount = rankCount;
    return lost;
  }

  /** An incarnation of this worker is over; it may have a new one already. Returns what the others do now. */
  died(rank: number): readonly LostShare[] {
    this.#silent.add(rank);
    for (const regulars of this.#regulars.values()) regulars.delete(rank);
    const lost = [...this.#open.values()].map((epoch) => ({ rank, ...epoch.description, ...epoch.release(rank) }));
    return lost.filter(({ lentCount, dealtCount }) => lentCount + dealtCount > 0);
  }

  /** An earlier scheduler of this job lent units, and a live worker has not reported them. */
  unsettle(): void {
    this.#isSettled = false;
  }

  /** What this worker reports of what an earlier scheduler lent. */
  recall(rank: number, { open, over }: UnitsClaim): void {
    this.#told.add(rank);
    for (const { name, epochs } of over) {
      if (!this.#past.has(name) && this.#past.size >= NAMES_MAX) continue;
      this.#pastOf(name).over.addRuns(epochs);
    }
    for (const account of open) {
      if (epochProblem(account) !== undefined || this.#isOver(account)) continue;
      const known = this.#open.get(keyOf(account));
      if (known === undefined && this.#open.size >= OPEN_EPOCHS_MAX) continue;
      // its next request fails
      if (known !== undefined && difference(known.description, account) !== undefined) continue;
      const epoch = known ?? this.#begin(account);
      epoch.recall(rank, account);
      this.#regularsOf(account).add(rank);
      this.#endIfOver(epoch);
    }
    for (const [key, epoch] of this.#open) if (this.#isOver(epoch.description)) this.#open.delete(key);
  }

  /** Every live worker has reported what it knows. */
  settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    if (this.#told.size < this.#rankCount) for (const epoch of this.#open.values()) epoch.suspectUnclaimed(this.#told);
    for (const epoch of this.#open.values()) epoch.resumeRounds(this.#takers);
  }

  /**
   * Records a report of the worker of this rank. Returns what it holds no longer. Throws SPEC_MISMATCH
   * (ShardLedger.L2), BAD_REQUEST for units that it cannot have done, QUEUE_FULL for one epoch too many; nothing has
   * changed then.
   */
  report(rank: number, request: UnitsRequest): Runs {
    const problem = epochProblem(request);
    if (problem !== undefined) throw badRequest(problem);
    if (this.#isOver(request)) return request.held;
    const epoch = this.#epochOf(request);
    if (!this.#present.includes(rank)) {
      // A late report of one that is gone: what it has done counts, and nothing is kept for it.
      epoch.report(rank, { ...request, held: [], unused: [] });
      this.#endIfOver(epoch);
      return request.held;
    }
    this.#silent.delete(rank);
    const lost = epoch.report(rank, request);
    epoch.setPart(rank, !request.leaves);
    if (request.leaves) this.#regularsOf(request).delete(rank);
    else this.#regularsOf(request).add(rank);
    this.#endIfOver(epoch);
    return lost;
  }

  /** What the worker of this rank is lent now, after its report: perhaps nothing. */
  lend(rank: number, request: UnitsRequest): Outcome {
    const epoch = this.#open.get(keyOf(request));
    if (epoch === undefined || this.#isOver(request)) {
      const { repeatedCounts, clock } = this.#pastOf(request.name);
      const repeatedCount = repeatedCounts.get(request.epoch) ?? 0;
      return { isOver: true, units: [], repeatedCount, inherited: undefined, ...(clock === 0 ? {} : { clock }) };
    }
    const { want, waitMs, leaves } = request;
    // workers that are gone never return them
    const isLending = this.#isSettled && want > 0 && !leaves && this.#present.includes(rank);
    const crew = { present: this.#takers, regulars: this.#regularsOf(request), startCount: this.#startCount };
    const { units, clock } = isLending ? epoch.lend(rank, { want, isWaiting: waitMs > 0 }, crew) : { units: [] };
    const { repeatedCount, inheritedVersion } = epoch;
    const awaited = units.length === 0 && waitMs > 0 ? epoch.awaited(crew) : [];
    return {
      isOver: false,
      units,
      repeatedCount,
      inherited: inheritedVersion > request.inherited ? epoch.inherited : undefined,
      ...(awaited.length === 0 ? {} : { awaited }),
      ...(clock === undefined ? {} : { clock }),
    };
  }

  get #takers(): readonly number[] {
    return this.#silent.size === 0 ? this.#present : this.#present.filter((rank) => !this.#silent.has(rank));
  }

  #regularsOf({ name }: EpochDescription): Set<number> {
    const regulars = this.#regulars.get(name) ?? new Set();
    this.#regulars.set(name, regulars);
    return regulars;
  }

  #isOver({ name, epoch }: EpochDescription): boolean {
    return this.#past.get(name)?.over.has(epoch) ?? false;
  }

  #epochOf(description: EpochDescription): EpochUnits {
    const key = keyOf(description);
    const epoch = this.#open.get(key) ?? this.#begin(description);
    const differs = difference(epoch.description, description); // ShardLedger.L2
    if (differs !== undefined) {
      const { name, epoch: number } = description;
      throw new WeighbridgeError("SPEC_MISMATCH", `epoch ${number} of "${name}" ${differs}, as it was described first`);
    }
    this.#open.delete(key);
    this.#open.set(key, epoch);
    return epoch;
  }

  #begin({ name, epoch: number, batchCount, partCount, assignment }: EpochDescription): EpochUnits {
    const names = new Set([...this.#past.keys(), ...[...this.#open.values()].map(({ description }) => description.name)]);
    if (!names.has(name) && names.size >= NAMES_MAX) {
      throw new WeighbridgeError(
        "QUEUE_FULL",
        `units of "${name}": there are units of ${names.size} names already, and no more can be kept`,
      );
    }
    if (this.#open.size >= OPEN_EPOCHS_MAX) this.#forgetOne(name);
    const epoch = new EpochUnits({ name, epoch: number, batchCount, partCount, assignment });
    this.#open.set(keyOf(epoch.description), epoch);
    return epoch;
  }

  /** An epoch that was left before its end. */
  #forgetOne(forWhom: string): void {
    for (const [key, epoch] of this.#open) {
      if (epoch.isLent) continue;
      this.#open.delete(key);
      return;
    }
    const message = `units of "${forWhom}": there are ${this.#open.size} epochs that are not over, with units lent of each`;
    throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
  }

  #endIfOver(epoch: EpochUnits): void {
    if (!epoch.isOver) return;
    const { name, epoch: number } = epoch.description;
    this.#open.delete(keyOf(epoch.description));
    const past = this.#pastOf(name);
    const { over, repeatedCounts } = past;
    over.add(number);
    past.clock = Math.max(past.clock, epoch.clock ?? 0);
    if (epoch.repeatedCount > 0) repeatedCounts.set(number, epoch.repeatedCount);
    for (const oldest of repeatedCounts.keys()) {
      if (repeatedCounts.size <= COUNTS_MAX) break;
      repeatedCounts.delete(oldest);
    }
  }

  #pastOf(name: string): PastEpochs {
    const past = this.#past.get(name) ?? { over: new RunSet(), repeatedCounts: new Map<number, number>(), clock: 0 };
    this.#past.set(name, past);
    return past;
  }
}

function keyOf({ name, epoch }: EpochDescription): string {
  return `${epoch}/${name}`;
}

/** How another description differs from the one that holds, as "has 7 batches, not 8". */
function difference(holds: EpochDescription, other: EpochDescription): string | undefined {
  const told: string[] = [];
  if (holds.batchCount !== other.batchCount) told.push(`has ${holds.batchCount} batches, not ${other.batchCount}`);
  if (holds.partCount !== other.partCount) told.push(`has ${holds.partCount} parts of each batch, not ${other.partCount}`);
  if (holds.assignment !== other.assignment) told.push(`is assigned "${holds.assignment}", not "${other.assignment}"`);
  return told.length === 0 ? undefined : told.join(" and ");
}
