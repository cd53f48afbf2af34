// pacer — the pace of a job on one server as workers come and go: it moves their clocks, the reads that wait for them
// and the updates of open rounds together, in the one order that keeps the promises of spec/consistency.md.
// update-rounds.ts has what follows when the minimum moves. Pure: it returns each decision to its caller at once.
//
// Invariants:
//   Pacer.U4. What a dead incarnation did not finish is dropped before the round that its death completes is applied.

import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { takenOutError } from "../wire/failure.ts";
import { nameOf } from "../wire/node-id.ts";
import { type Bound, type ParkedReadId, type Parking, ParkingLot } from "./parking-lot.ts";
import { NO_PUSHES, type PushCounter, PushCounts, type PushCountsImage, type PushReport } from "./push-counts.ts";
import { type ClocksImage, checkStaleness, StalenessController } from "./staleness-controller.ts";
import { type RoundKey, type SyncUpdate, UpdateRounds } from "./update-rounds.ts";
import type { WorkerIncarnation } from "./worker-incarnations.ts";

type PacerOptions = {
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

/** The clocks of a server, the pushes that it knows of, and whose updates it has dropped. */
export type PacerImage = {
  readonly clocks: ClocksImage;
  readonly pushes: PushCountsImage;
  readonly lost: readonly (WorkerIncarnation & { readonly clocks: readonly number[] })[];
};

/** Of updates `H`, which must not call the pacer when they are applied or freed. */
export class Pacer<H extends SyncUpdate<H>> {
  /** For reading, and for the checks of updates (StalenessController.W6). Only the pacer moves members. */
  readonly clocks: StalenessController;
  /** The open rounds, and what follows when the minimum moves. */
  readonly rounds: UpdateRounds<H>;
  readonly pushes: PushCounts;
  /** Who waits; the pacer parks and admits. */
  readonly lot: ParkingLot;
  /** By worker: the clocks whose updates were dropped when its incarnation was taken for dead, until it joins again. */
  readonly #lost = new Map<number, { readonly incarnation: number; readonly clocks: readonly number[] }>();

  constructor(options: PacerOptions) {
    this.clocks = new StalenessController({ expectedCount: options.expectedCount ?? 0, isOfJob: true });
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
   * Returns the clock of the worker on this server, which the caller sends to it (StalenessController.W5). Joining
   * starts anew, also for an incarnation that is a member: its unfinished pushes are dropped, here as on servers that
   * declared it dead, and it pushes them again everywhere. Such a member keeps its clock: no round completes without
   * these pushes. `numbers` are the numbers of its pushes so far. Throws FENCED for an incarnation that was replaced,
   * NODE_DEAD for one that ended.
   */
  join(holder: WorkerIncarnation, numbers: Omit<PushReport, "clocks"> = NO_PUSHES): number {
    const member = this.clocks.memberAt(holder.worker);
    if (member?.incarnation === holder.incarnation) this.#end(holder, member.clock);
    else this.#endEarlier(holder);
    const clock = this.clocks.join(holder);
    this.pushes.join(holder, numbers, clock);
    this.rounds.settle(); // it may have been the last expected worker
    return clock;
  }

  /** The members and their clocks. */
  members(): readonly (WorkerIncarnation & { readonly clock: number })[] {
    return [...this.clocks.members()].map(([worker, { incarnation, clock }]) => ({ worker, incarnation, clock }));
  }

  /** The highest clock at which a member stands; the minimum when there is none. */
  get clockMax(): number {
    return this.members().reduce((highest, { clock }) => Math.max(highest, clock), this.clockMin);
  }

  /** A checkpoint was restored that holds everything before `clock`, and nothing happened here before. */
  startAt(clock: number): void {
    this.clocks.startAt(clock);
    this.rounds.settle();
  }

  /** What is a server's and not a part's, for a standby that is filled: open rounds come with their parts. */
  save(): PacerImage {
    const lost = [...this.#lost].map(([worker, of]) => ({ worker, ...of }));
    return { clocks: this.clocks.save(), pushes: this.pushes.save(), lost };
  }

  /** Replaces what was here; there are no open rounds. */
  load({ clocks, pushes, lost }: PacerImage): void {
    this.clocks.load(clocks);
    this.pushes.load(pushes);
    this.#lost.clear();
    for (const { worker, incarnation, clocks: of } of lost) this.#lost.set(worker, { incarnation, clocks: of });
    this.rounds.follow();
  }

  /** The set is complete with its present members. */
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

  /** The worker left the job in good order. Call it for every worker: one that never joined is no longer expected. */
  leaveJob(holder: WorkerIncarnation): void {
    this.#endEarlier(holder);
    this.pushes.forgetWorker(holder);
    this.#endInOrder(holder, this.clocks.leaveJob(holder), "the job");
  }

  /** The incarnation is over, or taken for dead. Call it for every worker, as `leaveJob`. */
  died(holder: WorkerIncarnation): void {
    this.#endEarlier(holder);
    const clock = this.clocks.died(holder);
    const clocks = clock === undefined ? [] : this.rounds.clocksOf(holder, clock);
    if (clocks.length > 0) this.#lost.set(holder.worker, { incarnation: holder.incarnation, clocks });
    this.#end(holder, clock);
  }

  /** The clocks whose contributions of this incarnation were dropped when it was taken for dead. Returns them once. */
  takeLost({ worker, incarnation }: WorkerIncarnation): readonly number[] {
    const lost = this.#lost.get(worker);
    this.#lost.delete(worker);
    return lost?.incarnation === incarnation ? lost.clocks : [];
  }

  /** The incarnation lives: one that was taken for dead may join again. Call it for every worker, as `leaveJob`. */
  revived(holder: WorkerIncarnation): void {
    this.#endEarlier(holder);
    this.clocks.revived(holder);
  }

  /**
   * Keeps the contribution that another server held, and drops that of the same incarnation and clock here. Throws
   * STALE_UPDATE, QUEUE_FULL.
   */
  adopt(roundKey: RoundKey, handle: H, bytes: number): void {
    this.rounds.checkRoom(roundKey, bytes);
    const replaced = this.rounds.remove(roundKey);
    if (replaced !== undefined) replaced.free();
    this.rounds.put(roundKey, handle, bytes);
  }

  /** Drops the open rounds of a parameter. */
  dropRounds(parameter: number): void {
    for (const handle of this.rounds.dropParameter(parameter)) handle.free();
  }

  /**
   * Undefined: answer it now, nothing was kept. Otherwise it is parked until its minimum comes. Only members wait: the
   * server knows no clock and no death of others. Throws NOT_JOINED, NODE_DEAD, FENCED, QUEUE_FULL, and BAD_ARGUMENT
   * for an invalid bound or deadline.
   */
  read(parking: Parking & WorkerIncarnation): ParkedReadId | undefined {
    checkStaleness(parking.staleness);
    const { clocks } = this;
    if (clocks.admits(parking.clock, parking.staleness) && !clocks.isOut(parking, parking.staleness)) return undefined;
    clocks.checkMember(parking);
    return this.lot.park(parking);
  }

  /** The parameter has another bound from now on, also for parked reads. Throws BAD_ARGUMENT. */
  changeStaleness(parameter: number, staleness: Bound): void {
    if (typeof staleness === "number") checkStaleness(staleness);
    this.lot.changeStaleness({ parameter, staleness, clockMin: this.clocks.clockMin });
  }

  /** The parameter is removed: its parked reads fail with `error`, its open rounds are dropped. */
  forget(parameter: number, error: WeighbridgeError): void {
    this.dropRounds(parameter);
    this.lot.failParameter(parameter, error);
  }

  /** Nothing waits any more. Open rounds stay: a checkpoint may need them. */
  close(): void {
    this.lot.failEverybody(new WeighbridgeError("CLOSED", "the server is closing"));
  }

  /** A newer incarnation ends the earlier one: the report of its death may have been missed. */
  #endEarlier({ worker, incarnation }: WorkerIncarnation): void {
    const member = this.clocks.memberAt(worker);
    if (member === undefined || member.incarnation >= incarnation) return;
    const earlier = { worker, incarnation: member.incarnation };
    this.#end(earlier, this.clocks.died(earlier));
  }

  /** `clock` is that of the member, if it was one. Its pushes stay (Pacer.U4). */
  #endInOrder({ worker }: WorkerIncarnation, clock: number | undefined, what: string): void {
    if (clock !== undefined) this.lot.failWorker(worker, new WeighbridgeError("ABORTED", `${nameOf(worker)} left ${what}`));
    this.rounds.settle();
  }

  /** `clock` is that of the member, if it was one. */
  #end(holder: WorkerIncarnation, clock: number | undefined): void {
    if (clock !== undefined) {
      for (const handle of this.rounds.drop(holder, clock)) handle.free(); // Pacer.U4
      const text = `${nameOf(holder.worker)} is no member any more, and has to join again`;
      this.lot.failWorker(holder.worker, takenOutError(text));
    }
    this.rounds.settle();
  }
}
