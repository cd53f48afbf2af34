// update-rounds — gathers sync updates until their round is complete, and says what to reduce then, and in which order. Pure: it holds the
// caller's handles (an address, an array), never values; adding and freeing is the caller's.
//
// A round is all updates of one clock to one parameter. It is complete when every worker of the clock set has passed its clock: when
// clockMin is above it. A worker that pushed nothing is not waited for longer than that.
//
// Invariants (spec/consistency.md):
//   U1. A round is handed out once, complete; rounds of one parameter by rising clock.
//   U2. What it holds is ordered by (worker, life): the order of arrival between workers leaves no trace in a bit of the sum.
//   U3. What one life pushed at one clock to one parameter is one contribution, summed in the order it came; it is in the round whole, or not at all.
//   U4. A life that died keeps the contributions to the clocks that it had passed here, and no others. One that left keeps all.
//   U5. Nothing joins a round that was handed out: STALE_UPDATE. It joins no later one instead, for then the sum would depend on the network,
//       and one server could count in this round what another counts in the next; dropping it silently would lose an update.
//   U6. Bounded: `contributionsMax` and `bytesMax`, QUEUE_FULL beyond. The oldest open round is exempt: somebody must be able to finish it.

import { AssertionError } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import type { WorkerLife } from "./worker-lives.ts";

/** Which update: whose, of which clock, to what. `parameter` is the caller's number of what is reduced as one: a block, the part of a table. */
export type UpdateStamp = WorkerLife & { readonly parameter: number; readonly clock: number };

/** What one worker pushed at one clock to one thing that is reduced as a whole. Neither may throw. */
export interface GatheredUpdate<H> {
  /** Applies this and the others of its round, in their order, as one update, and frees all of them. */
  applyRound(round: CompleteRound<H>): void;
  /** It is part of no round. */
  free(): void;
}

export type Contribution<H> = WorkerLife & { readonly handle: H };

/** A complete round, its contributions in the order in which they are to be added. */
export type CompleteRound<H> = { readonly parameter: number; readonly clock: number; readonly contributions: readonly Contribution<H>[] };

export type UpdateRoundsOptions = { readonly contributionsMax: number; readonly bytesMax: number };

type Kept<H> = Contribution<H> & { bytes: number };
/** The contributions to each parameter at one clock. */
type Gathering<H> = Map<number, Kept<H>[]>;

export class UpdateRounds<H> {
  readonly #options: UpdateRoundsOptions;
  readonly #gatherings = new Map<number, Gathering<H>>();
  /** Rounds below this clock were handed out. */
  #clockMin = 0;
  #contributionCount = 0;
  #gatheredBytes = 0;

  constructor(options: UpdateRoundsOptions) {
    this.#options = options;
  }

  get contributionCount(): number {
    return this.#contributionCount;
  }

  get gatheredBytes(): number {
    return this.#gatheredBytes;
  }

  /** What this life has pushed at this clock so far, to be added to (U3); undefined when it is the first: then `put` follows. Throws STALE_UPDATE. */
  find(stamp: UpdateStamp): H | undefined {
    return this.#find(stamp)?.handle;
  }

  /** What this life has pushed at this clock takes so many bytes more. Throws QUEUE_FULL (U6) or STALE_UPDATE: ask before memory is made for it. */
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

  /** Keeps the handle until its round is complete or its life has died. Throws as `checkRoom`. */
  put(stamp: UpdateStamp, handle: H, bytes: number): void {
    this.checkRoom(stamp, bytes);
    if (this.find(stamp) !== undefined) throw new AssertionError("one life has one contribution to a round (U3)");
    const { worker, incarnation, parameter, clock } = stamp;
    const gathering = this.#gatherings.get(clock) ?? new Map<number, Kept<H>[]>();
    const contributions = gathering.get(parameter) ?? [];
    contributions.push({ worker, incarnation, handle, bytes });
    gathering.set(parameter, contributions);
    this.#gatherings.set(clock, gathering);
    this.#contributionCount++;
    this.#gatheredBytes += bytes;
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
   * The life died when it stood at `clock` here: what it pushed at that clock or later is no part of any round (U4). Comes before the
   * `complete` that its death makes possible. Returns the handles, to be freed.
   */
  drop({ worker, incarnation }: WorkerLife, clock: number): H[] {
    return this.#removeIf((kept, at) => at.clock >= clock && kept.worker === worker && kept.incarnation === incarnation);
  }

  /** The open rounds from this clock on to which the life has contributed, ascending. */
  clocksOf({ worker, incarnation }: WorkerLife, from: number): number[] {
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

  /** Of what this life has pushed at this clock so many bytes are gone. */
  shrink(stamp: UpdateStamp, bytes: number): void {
    const kept = this.#find(stamp);
    if (kept === undefined || kept.bytes < bytes) throw new AssertionError("what is gone was there");
    kept.bytes -= bytes;
    this.#gatheredBytes -= bytes;
  }

  /** Takes out what this life has pushed at this clock. Returns the handle, to be freed. */
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
