// pacer — the pace of a job on one server as workers come and go: their clocks, the reads that wait for them and the updates that do, moved together in the one
// order that keeps the promises of spec/consistency.md. What follows when the minimum moves is in update-rounds.ts. Pure, and without I/O: what it decides
// it tells its caller at once.
//
// Invariants:
//   Pacer.U4. What a dead incarnation did not finish is dropped before the round that its death completes is applied.

import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import { type Bound, type ParkedReadId, type Parking, ParkingLot } from "./parking-lot.ts";
import { NO_PUSHES, type PushCounter, PushCounts, type PushReport } from "./push-counts.ts";
import { checkStaleness, StalenessController } from "./staleness-controller.ts";
import { type SyncUpdate, UpdateRounds, type UpdateStamp } from "./update-rounds.ts";
import type { WorkerIncarnation } from "./worker-incarnations.ts";

export type PacerOptions = {
  readonly clock: Clock;
  /** As the staleness controller's. */
  readonly expectedCount?: number;
  readonly parkedReadsMax: number;
  readonly parkedBytesMax: number;
  readonly contributionsMax: number;
  readonly openBytesMax: number;
  /** Counts pushes to whole parameters, where the caller does. Must not throw, nor call the pacer. */
  readonly counter?: PushCounter;
};

/** Of updates `H`, which must not call the pacer when they are applied or freed. */
export class Pacer<H extends SyncUpdate<H>> {
  /** To be looked at, and asked about updates (W6); who moves is told to the pacer. */
  readonly clocks: StalenessController;
  /** What is gathered, and what follows when the minimum moves. */
  readonly rounds: UpdateRounds<H>;
  readonly pushes: PushCounts;
  /** Who waits; the pacer parks and admits. */
  readonly lot: ParkingLot;
  /** By worker: what was dropped of an incarnation that was taken for dead, until it joins again. */
  readonly #lost = new Map<number, { readonly incarnation: number; readonly clocks: readonly number[] }>();

  constructor(options: PacerOptions) {
    this.clocks = new StalenessController({ expectedCount: options.expectedCount ?? 0 });
    this.lot = new ParkingLot({
      clock: options.clock,
      readsMax: options.parkedReadsMax,
      bytesMax: options.parkedBytesMax,
      describeSlowest: () => this.clocks.describeSlowest(),
    });
    this.pushes = new PushCounts(options.counter ?? { pushed: () => undefined, roundOver: () => {} });
    const { clocks, lot, pushes } = this;
    this.rounds = new UpdateRounds({
      ...{ clocks, lot, pushes },
      contributionsMax: options.contributionsMax,
      bytesMax: options.openBytesMax,
    });
  }

  get clockMin(): number {
    return this.clocks.clockMin;
  }

  /**
   * Returns the clock at which the worker stands here from now on, which it has to be told (W5). It is a new beginning, also for an incarnation that is
   * a member: what it pushed and did not finish is dropped, here as on the servers that took it for dead, so that it can push it again
   * everywhere. Such a member stays where it stands: no round is completed without what it is about to push again.
   * `numbers` says what it has pushed so far. Throws FENCED for an incarnation that was replaced, NODE_DEAD for one that is
   * over as far as is known here.
   */
  join(holder: WorkerIncarnation, numbers: Omit<PushReport, "clocks"> = NO_PUSHES): number {
    const member = this.clocks.memberAt(holder.worker);
    if (member?.incarnation === holder.incarnation) this.#end(holder, member.clock);
    else this.#endEarlier(holder);
    const clock = this.clocks.join(holder);
    this.pushes.join(holder, numbers, clock);
    this.rounds.settle(); // It may have been the last who was expected.
    return clock;
  }

  /** Who takes part, and where each stands. */
  members(): readonly (WorkerIncarnation & { readonly clock: number })[] {
    return [...this.clocks.members()].map(([worker, { incarnation, clock }]) => ({ worker, incarnation, clock }));
  }

  /** The highest clock at which a member stands; the minimum when there is none. */
  get clockMax(): number {
    return this.members().reduce((highest, { clock }) => Math.max(highest, clock), this.clockMin);
  }

  /** What lies before `clock` is done: a checkpoint was restored, and nothing happened here before. */
  startAt(clock: number): void {
    this.clocks.startAt(clock);
    this.rounds.settle();
  }

  /** The set is complete with whom it has. */
  form(): void {
    this.clocks.form();
    this.rounds.settle();
  }

  /** The worker leaves the clock set in good order, and may join again. */
  leave(holder: WorkerIncarnation, pushes: PushReport = NO_PUSHES): void {
    const member = this.clocks.memberAt(holder.worker);
    if (member?.incarnation === holder.incarnation) this.pushes.ended(holder, pushes, { from: member.clock, to: member.clock + 1 });
    this.#endInOrder(holder, this.clocks.leave(holder), "the clock set");
  }

  /** The worker left the job in good order. To be told of every worker: one that never joined is not waited for any more. */
  leaveJob(holder: WorkerIncarnation): void {
    this.#endEarlier(holder);
    this.pushes.forgetWorker(holder);
    this.#endInOrder(holder, this.clocks.leaveJob(holder), "the job");
  }

  /** The incarnation is over, or is taken to be. To be told of every worker, as `leaveJob`. */
  died(holder: WorkerIncarnation): void {
    this.#endEarlier(holder);
    const clock = this.clocks.died(holder);
    const clocks = clock === undefined ? [] : this.rounds.clocksOf(holder, clock);
    if (clocks.length > 0) this.#lost.set(holder.worker, { incarnation: holder.incarnation, clocks });
    this.#end(holder, clock);
  }

  /** The clocks of which contributions of this incarnation were dropped because it was taken for dead; told once. */
  takeLost({ worker, incarnation }: WorkerIncarnation): readonly number[] {
    const lost = this.#lost.get(worker);
    this.#lost.delete(worker);
    return lost?.incarnation === incarnation ? lost.clocks : [];
  }

  /** The incarnation lives; one that was taken for dead may join again. To be told of every worker, as `leaveJob`. */
  revived(holder: WorkerIncarnation): void {
    this.#endEarlier(holder);
    this.clocks.revived(holder);
  }

  /**
   * Keeps what another server had gathered, in the place of what is here of the same incarnation and clock. Throws
   * STALE_UPDATE, QUEUE_FULL.
   */
  adopt(stamp: UpdateStamp, handle: H, bytes: number): void {
    this.rounds.checkRoom(stamp, bytes);
    const replaced = this.rounds.remove(stamp);
    if (replaced !== undefined) replaced.free();
    this.rounds.put(stamp, handle, bytes);
  }

  /** What was gathered for a parameter is no part of any round here any more. */
  dropRounds(parameter: number): void {
    for (const handle of this.rounds.dropParameter(parameter)) handle.free();
  }

  /**
   * Undefined: answer it now, nothing was kept. Otherwise it is parked, and told later. Only members wait: whoever is none is not told when it
   * dies, and has not told its clock. Throws NOT_JOINED, NODE_DEAD, FENCED, QUEUE_FULL, and BAD_ARGUMENT for a bound or deadline that is none.
   */
  read(parking: Parking & WorkerIncarnation): ParkedReadId | undefined {
    checkStaleness(parking.staleness);
    if (this.clocks.admits(parking.clock, parking.staleness)) return undefined;
    this.clocks.checkMember(parking);
    return this.lot.park(parking);
  }

  /** The parameter has another bound from now on; reads that are parked for it included. Throws BAD_ARGUMENT. */
  changeStaleness(parameter: number, staleness: Bound): void {
    if (typeof staleness === "number") checkStaleness(staleness);
    this.lot.changeStaleness({ parameter, staleness, clockMin: this.clocks.clockMin });
  }

  /** The parameter is no more: what waits for it fails with `error`, what was gathered is discarded. */
  forget(parameter: number, error: WeighbridgeError): void {
    this.dropRounds(parameter);
    this.lot.failParameter(parameter, error);
  }

  /** Nothing waits any more. What was gathered stays: a checkpoint may want it. */
  close(): void {
    this.lot.failEverybody(new WeighbridgeError("CLOSED", "the server is closing"));
  }

  /** An incarnation that was not heard to have died has died when its next one is heard of: the news in between may have been missed. */
  #endEarlier({ worker, incarnation }: WorkerIncarnation): void {
    const member = this.clocks.memberAt(worker);
    if (member === undefined || member.incarnation >= incarnation) return;
    const earlier = { worker, incarnation: member.incarnation };
    this.#end(earlier, this.clocks.died(earlier));
  }

  /** `clock` is where it stood, if it was a member. What it pushed stays (Pacer.U4). */
  #endInOrder({ worker }: WorkerIncarnation, clock: number | undefined, what: string): void {
    if (clock !== undefined) this.lot.failWorker(worker, new WeighbridgeError("ABORTED", `${nameOf(worker)} left ${what}`));
    this.rounds.settle();
  }

  /** `clock` is where it stood, if it was a member. */
  #end(holder: WorkerIncarnation, clock: number | undefined): void {
    if (clock !== undefined) {
      for (const handle of this.rounds.drop(holder, clock)) handle.free(); // Pacer.U4
      const text = `${nameOf(holder.worker)} is no member any more, and has to join again`;
      this.lot.failWorker(holder.worker, new WeighbridgeError("NODE_DEAD", text, { retryable: true }));
    }
    this.rounds.settle();
  }
}
