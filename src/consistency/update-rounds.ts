// update-rounds — gathers sync updates until their round is complete, and applies it then, in the one order that keeps the promises of spec/consistency.md. It holds
// the caller's handles, never values; adding and freeing is theirs. Pure, and without I/O. Who comes and goes is the pacer's.
//
//   the minimum moved ──► complete rounds applied ──► reads admitted
//                           ▲ the cut, between the rounds before its clock and the others
//
// A round is all updates of one clock to one parameter. It is complete when every worker of the clock set has passed its clock: when
// clockMin is above it. A worker that pushed nothing is not waited for longer than that.
//
// Invariants (spec/consistency.md):
//   U1. A round is handed out once, complete; rounds of one parameter by rising clock.
//   U2. What it holds is ordered by (worker, incarnation): the order of arrival between workers leaves no trace in a bit of the sum.
//   U3. What one incarnation pushed at one clock to one parameter is one contribution, summed in the order it came; it is in the round whole, or not at all.
//   U4. An incarnation that died keeps the contributions to the clocks that it had passed here, and no others. One that left keeps all.
//   U5. Nothing joins a round that was handed out: STALE_UPDATE. It joins no later one instead, for then the sum would depend on the network,
//       and one server could count in this round what another counts in the next; dropping it silently would lose an update.
//   W3. When a read is admitted, every round below the minimum it waited for has been applied, and so has every async update that was taken (W6): whoever
//       takes one applies it before anything else comes here.
//   N4. Steps and means of a round are counted before it is applied: who pushed at its clock, also to other servers, is known by then (push-counts.ts).
//   D1. A cut at clock c comes when every round below c has been applied, and before any other is.
//   U6. Bounded: `contributionsMax` and `bytesMax`, QUEUE_FULL beyond. The oldest open round is exempt: somebody must be able to finish it.

import { AssertionError } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import type { ParkingLot } from "./parking-lot.ts";
import { NO_PUSHES, type PushCounts, type PushReport } from "./push-counts.ts";
import type { StalenessController } from "./staleness-controller.ts";
import type { WorkerIncarnation } from "./worker-incarnations.ts";

/** Which update: whose, of which clock, to what. `parameter` is the caller's number of what is reduced as one: a block, the part of a table. */
export type UpdateStamp = WorkerIncarnation & { readonly parameter: number; readonly clock: number };

/** What one worker pushed at one clock to one thing that is reduced as a whole. Neither may throw. */
export interface GatheredUpdate<H> {
  /** Applies this and the others of its round, in their order, as one update, and frees all of them. */
  applyRound(round: CompleteRound<H>): void;
  /** It is part of no round. */
  free(): void;
}

export type Contribution<H> = WorkerIncarnation & { readonly handle: H };

/** A complete round, its contributions in the order in which they are to be added. */
export type CompleteRound<H> = { readonly parameter: number; readonly clock: number; readonly contributions: readonly Contribution<H>[] };

export type UpdateRoundsOptions = {
  readonly contributionsMax: number;
  readonly bytesMax: number;
  /** Whose minimum completes rounds. */
  readonly clocks: StalenessController;
  /** Who reads once they are applied. */
  readonly lot: ParkingLot;
  /** Who pushed at which clock. */
  readonly pushes: PushCounts;
};

type Kept<H> = Contribution<H> & { bytes: number };
/** The contributions to each parameter at one clock. */
type Gathering<H> = Map<number, Kept<H>[]>;

/** Of updates `H`, which must not call back when they are applied or freed. */
export class UpdateRounds<H extends GatheredUpdate<H>> {
  readonly #options: UpdateRoundsOptions;
  readonly #clocks: StalenessController;
  readonly #lot: ParkingLot;
  readonly #pushes: PushCounts;
  readonly #gatherings = new Map<number, Gathering<H>>();
  /** Rounds below this clock were handed out. */
  #clockMin = 0;
  #contributionCount = 0;
  #gatheredBytes = 0;
  /** Somebody who waits for the moment between two clocks. */
  #cut: { readonly clock: number; readonly reached: () => void } | undefined;

  constructor(options: UpdateRoundsOptions) {
    this.#options = options;
    this.#clocks = options.clocks;
    this.#lot = options.lot;
    this.#pushes = options.pushes;
  }

  get contributionCount(): number {
    return this.#contributionCount;
  }

  get gatheredBytes(): number {
    return this.#gatheredBytes;
  }

  /** What this incarnation has pushed at this clock so far, to be added to (U3); undefined when it is the first: then `put` follows. Throws STALE_UPDATE. */
  find(stamp: UpdateStamp): H | undefined {
    return this.#find(stamp)?.handle;
  }

  /** What this incarnation has pushed at this clock takes so many bytes more. Throws QUEUE_FULL (U6) or STALE_UPDATE: ask before memory is made for it. */
  grow(stamp: UpdateStamp, bytes: number): void {
    const kept = this.#find(stamp);
    if (kept === undefined) throw new AssertionError("a first contribution is put");
    if (stamp.clock !== this.#clockMin && this.#gatheredBytes + bytes > this.#options.bytesMax) throw this.#full(stamp);
    kept.bytes += bytes;
    this.#gatheredBytes += bytes;
  }

  /** Throws QUEUE_FULL or STALE_UPDATE when a first contribution of so many bytes cannot be put: ask before memory is made for it. */
  checkRoom(stamp: UpdateStamp, bytes: number): void {
    this.#checkOpen(stamp);
    if (stamp.clock === this.#clockMin) return; // U6
    const { contributionsMax, bytesMax } = this.#options;
    if (this.#contributionCount < contributionsMax && this.#gatheredBytes + bytes <= bytesMax) return;
    throw this.#full(stamp);
  }

  /** Keeps the handle until its round is complete or its incarnation has died. Throws as `checkRoom`. */
  put(stamp: UpdateStamp, handle: H, bytes: number): void {
    this.checkRoom(stamp, bytes);
    if (this.find(stamp) !== undefined) throw new AssertionError("one incarnation has one contribution to a round (U3)");
    const { worker, incarnation, parameter, clock } = stamp;
    const gathering = this.#gatherings.get(clock) ?? new Map<number, Kept<H>[]>();
    const contributions = gathering.get(parameter) ?? [];
    contributions.push({ worker, incarnation, handle, bytes });
    gathering.set(parameter, contributions);
    this.#gatherings.set(clock, gathering);
    this.#contributionCount++;
    this.#gatheredBytes += bytes;
  }

  /**
   * The worker has finished all clocks before this one, and says what it pushed at them. Throws NOT_JOINED, NODE_DEAD,
   * FENCED.
   */
  advance(holder: WorkerIncarnation, clock: number, pushes: PushReport = NO_PUSHES): void {
    const from = this.#clocks.memberAt(holder.worker)?.clock ?? 0;
    this.#clocks.advance(holder, clock);
    if (pushes.parameters.length > 0) this.#pushes.ended(holder, pushes, { from, to: clock });
    this.settle();
  }

  /** Applies what the minimum completes where it has moved, and lets those go who wait for it. */
  settle(): void {
    const { clockMin } = this.#clocks;
    if (clockMin === this.#clockMin) return;
    const cut = this.#cut;
    if (cut !== undefined && clockMin >= cut.clock) {
      this.#cut = undefined;
      this.#apply(cut.clock);
      cut.reached(); // D1
    }
    this.#apply(clockMin);
    if (this.#lot.readCount > 0) this.#lot.release(clockMin); // W3
  }

  #apply(clockMin: number): void {
    const pushes = this.#pushes;
    const clocks = pushes.openClocks.size === 0 ? [] : pushes.clocksBelow(clockMin);
    let endedCount = 0;
    for (const round of this.complete(clockMin)) {
      for (let next = clocks[endedCount]; next !== undefined && next <= round.clock; next = clocks[++endedCount]) pushes.end(next); // N4
      round.contributions[0]?.handle.applyRound(round);
    }
    for (; endedCount < clocks.length; endedCount++) pushes.end(clocks[endedCount] as number);
    for (const clock of clocks) pushes.forget(clock);
  }

  /**
   * Calls `reached` once, when every worker has finished what lies before `clock`: at once if so (D1). It must not throw, nor call back. One at a
   * time: throws QUEUE_FULL while another is waited for, BAD_ARGUMENT when that moment has passed.
   */
  cutAt(clock: number, reached: () => void): void {
    if (this.#cut !== undefined) {
      const message = `a cut at clock ${clock}: one at clock ${this.#cut.clock} is waited for, and there is one at a time`;
      throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
    }
    const { clockMin } = this.#clocks;
    if (clockMin > clock) {
      const message = `a cut at clock ${clock}: everybody is past it, the slowest at ${clockMin}`;
      throw new WeighbridgeError("BAD_ARGUMENT", message, { retryable: true });
    }
    if (clockMin === clock) reached();
    else this.#cut = { clock, reached };
  }

  /** Nobody waits for the cut any more. */
  cancelCut(): void {
    this.#cut = undefined;
  }

  /** The minimum is `clockMin` now: the rounds that this completes, by clock and then by parameter. They are the caller's from here on. */
  complete(clockMin: number): CompleteRound<H>[] {
    if (clockMin < this.#clockMin) throw new AssertionError("the minimum never falls (W1)");
    this.#clockMin = clockMin;
    const rounds: CompleteRound<H>[] = [];
    const clocks = [...this.#gatherings.keys()].filter((clock) => clock < clockMin).sort((a, b) => a - b);
    for (const clock of clocks) {
      const gathering = this.#gatherings.get(clock) as Gathering<H>;
      this.#gatherings.delete(clock);
      for (const [parameter, contributions] of [...gathering].sort(([a], [b]) => a - b)) {
        for (const { bytes } of contributions) this.#forget(bytes);
        contributions.sort((a, b) => a.worker - b.worker || a.incarnation - b.incarnation); // U2
        rounds.push({ parameter, clock, contributions });
      }
    }
    return rounds;
  }

  /**
   * The incarnation died when it stood at `clock` here: what it pushed at that clock or later is no part of any round (U4). Comes before the
   * `complete` that its death makes possible. Returns the handles, to be freed.
   */
  drop({ worker, incarnation }: WorkerIncarnation, clock: number): H[] {
    return this.#removeIf((kept, at) => at.clock >= clock && kept.worker === worker && kept.incarnation === incarnation);
  }

  /** The open rounds from this clock on to which the incarnation has contributed, ascending. */
  clocksOf({ worker, incarnation }: WorkerIncarnation, from: number): number[] {
    const isOwn = (kept: Kept<H>): boolean => kept.worker === worker && kept.incarnation === incarnation;
    const clocks = [...this.#gatherings].filter(
      ([clock, gathering]) => clock >= from && [...gathering.values()].some((list) => list.some(isOwn)),
    );
    return clocks.map(([clock]) => clock).sort((a, b) => a - b);
  }

  /** What is open of a parameter, by clock and then as U2 has it: it moves with its part (W10). */
  openOf(parameter: number): (Contribution<H> & { readonly clock: number })[] {
    const open = [...this.#gatherings].flatMap(([clock, gathering]) =>
      (gathering.get(parameter) ?? []).map(({ worker, incarnation, handle }) => ({ clock, worker, incarnation, handle })),
    );
    return open.sort((a, b) => a.clock - b.clock || a.worker - b.worker || a.incarnation - b.incarnation);
  }

  /** Of what this incarnation has pushed at this clock so many bytes are gone. */
  shrink(stamp: UpdateStamp, bytes: number): void {
    const kept = this.#find(stamp);
    if (kept === undefined || kept.bytes < bytes) throw new AssertionError("what is gone was there");
    kept.bytes -= bytes;
    this.#gatheredBytes -= bytes;
  }

  /** Takes out what this incarnation has pushed at this clock. Returns the handle, to be freed. */
  remove({ parameter, clock, worker, incarnation }: UpdateStamp): H | undefined {
    const isIt = (kept: Kept<H>, at: { clock: number; parameter: number }): boolean =>
      at.clock === clock && at.parameter === parameter && kept.worker === worker && kept.incarnation === incarnation;
    return this.#removeIf(isIt)[0];
  }

  /** The parameter is no more. Returns the handles, to be freed. */
  dropParameter(parameter: number): H[] {
    return this.#removeIf((_, at) => at.parameter === parameter);
  }

  #removeIf(isGone: (kept: Kept<H>, at: { clock: number; parameter: number }) => boolean): H[] {
    const gone: H[] = [];
    for (const [clock, gathering] of this.#gatherings) {
      for (const [parameter, contributions] of gathering) {
        const staying: Kept<H>[] = [];
        for (const kept of contributions) {
          if (isGone(kept, { clock, parameter })) {
            this.#forget(kept.bytes);
            gone.push(kept.handle);
          } else staying.push(kept);
        }
        if (staying.length > 0) gathering.set(parameter, staying);
        else gathering.delete(parameter);
      }
      if (gathering.size === 0) this.#gatherings.delete(clock);
    }
    return gone;
  }

  #find(stamp: UpdateStamp): Kept<H> | undefined {
    this.#checkOpen(stamp);
    return this.#gatherings
      .get(stamp.clock)
      ?.get(stamp.parameter)
      ?.find((kept) => kept.worker === stamp.worker && kept.incarnation === stamp.incarnation);
  }

  #full(stamp: UpdateStamp): WeighbridgeError {
    return new WeighbridgeError(
      "QUEUE_FULL",
      `${nameOf(stamp.worker)} is at clock ${stamp.clock}, the slowest at ${this.#clockMin}: ${this.#contributionCount} updates with ` +
        `${this.#gatheredBytes} bytes are gathered already`,
      { retryable: true },
    );
  }

  #forget(bytes: number): void {
    this.#contributionCount--;
    this.#gatheredBytes -= bytes;
  }

  #checkOpen({ worker, parameter, clock }: UpdateStamp): void {
    if (clock >= this.#clockMin) return;
    throw new WeighbridgeError(
      "STALE_UPDATE",
      `${nameOf(worker)} stamped an update of parameter ${parameter} with clock ${clock}, whose round is over: the slowest is at ${this.#clockMin}`,
      { retryable: true },
    );
  }
}
