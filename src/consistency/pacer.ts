// pacer — the pace of a job on one server: the clocks, the reads that wait for them and the updates that do, moved together in the one order
// that keeps the promises of spec/consistency.md. Pure, and without I/O: what it decides it tells its caller at once.
//
//   the minimum moved ──► dead lives' unfinished updates dropped ──► complete rounds applied ──► reads admitted
//                                                                      ▲ the cut, between the rounds before its clock and the others
//
// Invariants:
//   W3. When a read is admitted, every round below the minimum it waited for has been applied, and so has every async update that its caller
//       took (W6): the caller applies before it calls here again.
//   U4. What a dead life did not finish is dropped before the round that its death completes is applied.
//   N4. Steps and means of a round are counted before it is applied: who pushed at its clock, also to other servers, is
//       known by then (push-counts.ts).
//   D1. A cut at clock c comes when every round below c has been applied, and before any other is.

import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import { type Bound, type ParkedTicket, type Parking, ParkingLot } from "./parking-lot.ts";
import { NO_PUSHES, type PushCounter, PushCounts, type PushReport } from "./push-counts.ts";
import { checkStaleness, StalenessController } from "./staleness-controller.ts";
import { type GatheredUpdate, UpdateRounds, type UpdateStamp } from "./update-rounds.ts";
import type { WorkerLife } from "./worker-lives.ts";

export type PacerOptions = {
  readonly clock: Clock;
  /** As the staleness controller's. */
  readonly expectedCount?: number;
  readonly parkedReadsMax: number;
  readonly parkedBytesMax: number;
  readonly contributionsMax: number;
  readonly gatheredBytesMax: number;
  /** Counts pushes to whole parameters, where the caller does. Must not throw, nor call the pacer. */
  readonly counter?: PushCounter;
};

/** Of updates `H`, which must not call the pacer when they are applied or freed. */
export class Pacer<H extends GatheredUpdate<H>> {
  /** To be looked at, and asked about updates (W6); who moves is told to the pacer. */
  readonly clocks: StalenessController;
  /** What is gathered; the pacer completes it. */
  readonly rounds: UpdateRounds<H>;
  readonly pushes: PushCounts;
  /** Who waits; the pacer parks and admits. */
  readonly lot: ParkingLot;
  /** By worker: what was dropped of a life that was taken for dead, until it joins again. */
  readonly #lost = new Map<number, { readonly incarnation: number; readonly clocks: readonly number[] }>();
  /** The minimum up to which everything was settled. */
  #settledMin = 0;
  /** Somebody who waits for the moment between two clocks. */
  #cut: { readonly clock: number; readonly reached: () => void } | undefined;

  constructor(options: PacerOptions) {
    this.clocks = new StalenessController({ expectedCount: options.expectedCount ?? 0 });
    this.lot = new ParkingLot({
      clock: options.clock,
      readsMax: options.parkedReadsMax,
      bytesMax: options.parkedBytesMax,
      describeSlowest: () => this.clocks.describeSlowest(),
    });
    this.pushes = new PushCounts(options.counter ?? { pushed: () => undefined, roundOver: () => {} });
    this.rounds = new UpdateRounds({ contributionsMax: options.contributionsMax, bytesMax: options.gatheredBytesMax });
  }

  get clockMin(): number {
    return this.clocks.clockMin;
  }

  /**
   * Returns the clock at which the worker stands here from now on, which it has to be told (W5). It is a new beginning, also for a life that is
   * a member: what it pushed and did not finish is dropped, here as on the servers that took it for dead, so that it can push it again
   * everywhere. Such a member stays where it stands: no round is completed without what it is about to push again.
   * `numbers` says what it has pushed so far. Throws FENCED for a life that was replaced, NODE_DEAD for one that is
   * over as far as is known here.
   */
  join(life: WorkerLife, numbers: Omit<PushReport, "clocks"> = NO_PUSHES): number {
    const member = this.clocks.memberAt(life.worker);
    if (member?.incarnation === life.incarnation) this.#end(life, member.clock);
    else this.#endEarlier(life);
    const clock = this.clocks.join(life);
    this.pushes.join(life, numbers, clock);
    this.#settle(); // It may have been the last who was expected.
    return clock;
  }

  /** Who takes part, and where each stands. */
  members(): readonly (WorkerLife & { readonly clock: number })[] {
    return [...this.clocks.members()].map(([worker, { incarnation, clock }]) => ({ worker, incarnation, clock }));
  }

  /** The highest clock at which a member stands; the minimum when there is none. */
  get clockMax(): number {
    return this.members().reduce((highest, { clock }) => Math.max(highest, clock), this.clockMin);
  }

  /** What lies before `clock` is done: a checkpoint was restored, and nothing happened here before. */
  startAt(clock: number): void {
    this.clocks.startAt(clock);
    this.#settle();
  }

  /**
   * Calls `reached` once, when every worker has finished what lies before `clock`: at once if so (D1). It must not throw, nor call the pacer. One at a
   * time: throws QUEUE_FULL while another is waited for, BAD_ARGUMENT when that moment has passed.
   */
  cutAt(clock: number, reached: () => void): void {
    if (this.#cut !== undefined) {
      const message = `a cut at clock ${clock}: one at clock ${this.#cut.clock} is waited for, and there is one at a time`;
      throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
    }
    if (this.clockMin > clock) {
      throw new WeighbridgeError("BAD_ARGUMENT", `a cut at clock ${clock}: everybody is past it, the slowest at ${this.clockMin}`, {
        retryable: true,
      });
    }
    if (this.clockMin === clock) reached();
    else this.#cut = { clock, reached };
  }

  /** Nobody waits for the cut any more. */
  cancelCut(): void {
    this.#cut = undefined;
  }

  /** The set is complete with whom it has. */
  form(): void {
    this.clocks.form();
    this.#settle();
  }

  /** The worker leaves the clock set in good order, and may join again. */
  leave(life: WorkerLife, pushes: PushReport = NO_PUSHES): void {
    const member = this.clocks.memberAt(life.worker);
    if (member?.incarnation === life.incarnation) this.pushes.ended(life, pushes, { from: member.clock, to: member.clock + 1 });
    this.#endInOrder(life, this.clocks.leave(life), "the clock set");
  }

  /** The worker left the job in good order. To be told of every worker: one that never joined is not waited for any more. */
  leaveJob(life: WorkerLife): void {
    this.#endEarlier(life);
    this.pushes.forgetWorker(life);
    this.#endInOrder(life, this.clocks.leaveJob(life), "the job");
  }

  /** The life is over, or is taken to be. To be told of every worker, as `leaveJob`. */
  died(life: WorkerLife): void {
    this.#endEarlier(life);
    const clock = this.clocks.died(life);
    const clocks = clock === undefined ? [] : this.rounds.clocksOf(life, clock);
    if (clocks.length > 0) this.#lost.set(life.worker, { incarnation: life.incarnation, clocks });
    this.#end(life, clock);
  }

  /** The clocks of which contributions of this life were dropped because it was taken for dead; told once. */
  takeLost({ worker, incarnation }: WorkerLife): readonly number[] {
    const lost = this.#lost.get(worker);
    this.#lost.delete(worker);
    return lost?.incarnation === incarnation ? lost.clocks : [];
  }

  /** The life lives; one that was taken for dead may join again. To be told of every worker, as `leaveJob`. */
  revived(life: WorkerLife): void {
    this.#endEarlier(life);
    this.clocks.revived(life);
  }

  /**
   * The worker has finished all clocks before this one, and says what it pushed at them. Throws NOT_JOINED, NODE_DEAD,
   * FENCED.
   */
  advance(life: WorkerLife, clock: number, pushes: PushReport = NO_PUSHES): void {
    const from = this.clocks.memberAt(life.worker)?.clock ?? 0;
    this.clocks.advance(life, clock);
    if (pushes.parameters.length > 0) this.pushes.ended(life, pushes, { from, to: clock });
    this.#settle();
  }

  /**
   * Keeps what another server had gathered, in the place of what is here of the same life and clock. Throws
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
  read(parking: Parking & WorkerLife): ParkedTicket | undefined {
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

  /** A life that was not heard to have died has died when its next one is heard of: the news in between may have been missed. */
  #endEarlier({ worker, incarnation }: WorkerLife): void {
    const member = this.clocks.memberAt(worker);
    if (member === undefined || member.incarnation >= incarnation) return;
    const earlier = { worker, incarnation: member.incarnation };
    this.#end(earlier, this.clocks.died(earlier));
  }

  /** `clock` is where it stood, if it was a member. What it pushed stays (U4). */
  #endInOrder({ worker }: WorkerLife, clock: number | undefined, what: string): void {
    if (clock !== undefined) this.lot.failWorker(worker, new WeighbridgeError("ABORTED", `${nameOf(worker)} left ${what}`));
    this.#settle();
  }

  /** `clock` is where it stood, if it was a member. */
  #end(life: WorkerLife, clock: number | undefined): void {
    if (clock !== undefined) {
      for (const handle of this.rounds.drop(life, clock)) handle.free(); // U4
      const text = `${nameOf(life.worker)} is no member any more, and has to join again`;
      this.lot.failWorker(life.worker, new WeighbridgeError("NODE_DEAD", text, { retryable: true }));
    }
    this.#settle();
  }

  #settle(): void {
    const clockMin = this.clocks.clockMin;
    if (clockMin === this.#settledMin) return;
    this.#settledMin = clockMin;
    const cut = this.#cut;
    if (cut !== undefined && clockMin >= cut.clock) {
      this.#cut = undefined;
      this.#apply(cut.clock);
      cut.reached(); // D1
    }
    this.#apply(clockMin);
    if (this.lot.readCount > 0) this.lot.release(clockMin);
  }

  #apply(clockMin: number): void {
    const { pushes } = this;
    const clocks = pushes.openClocks.size === 0 ? [] : pushes.clocksBelow(clockMin);
    let endedCount = 0;
    for (const round of this.rounds.complete(clockMin)) {
      for (let next = clocks[endedCount]; next !== undefined && next <= round.clock; next = clocks[++endedCount]) pushes.end(next); // N4
      round.contributions[0]?.handle.applyRound(round);
    }
    for (; endedCount < clocks.length; endedCount++) pushes.end(clocks[endedCount] as number);
    for (const clock of clocks) pushes.forget(clock);
  }
}
