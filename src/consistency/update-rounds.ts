// update-rounds — keeps sync updates until their round is complete, and then applies it, in the one order that keeps
// the promises of spec/consistency.md; also the clocks that complete rounds. It holds the caller's handles, no values.
// Pure.
//
//   the minimum moved ──► complete rounds applied ──► reads admitted
//                           ▲ the cut, between the rounds before its clock and the others
//
// A round is all updates of one clock to one parameter. It is complete when every member has passed its clock: when
// clockMin is above it.
//
// Invariants (spec/consistency.md):
//   UpdateRounds.U1. A round is handed out once, complete; rounds of one parameter by rising clock.
//   UpdateRounds.U2. Its contributions are ordered by (worker, incarnation): the order of arrival does not change the
//       sum.
//   UpdateRounds.U3. What one incarnation pushed at one clock to one parameter is one contribution, summed in the order
//       of arrival. The round has all of it or nothing.
//   UpdateRounds.U4. An incarnation that died keeps its contributions to the clocks that it had passed here. One that
//       left keeps all.
//   UpdateRounds.U5. Nothing joins a round that was handed out: STALE_UPDATE. In a later round the sum would depend on
//       the network, and servers could count one update in different rounds.
//   UpdateRounds.U6. Bounded: `contributionsMax` and `bytesMax`, QUEUE_FULL beyond. The oldest open round is exempt: it
//       must be able to complete.
//   UpdateRounds.W3. When a read is admitted, every round below the minimum it waited for has been applied, and so has
//       every accepted async update (StalenessController.W6).
//   UpdateRounds.N4. Before a round is applied the server knows who pushed at its clock, also to other servers
//       (push-counts.ts).
//   UpdateRounds.D1. A cut at clock c comes when every round below c has been applied, and before any other is. Once no
//       worker comes any more, a set without members has applied every round: its cut comes at whatever clock.

import { AssertionError } from "../base/assert.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";
import { nameOf } from "../wire/node-id.ts";
import type { ConsistencyPhases } from "./consistency-phases.ts";
import type { ParkingLot } from "./parking-lot.ts";
import { NO_PUSHES, type PushCounts, type PushReport } from "./push-counts.ts";
import { type WorkerIncarnation, WorkerIncarnations } from "./worker-incarnations.ts";

/**
 * Which contribution to which round. `parameter` is the caller's number of what is reduced as one: a block, or a table.
 */
export type RoundKey = WorkerIncarnation & { readonly parameter: number; readonly clock: number };

/** What one worker pushed at one clock to one parameter or block. Neither method may throw. */
export interface SyncUpdate<H> {
  /** Applies this and the others of its round, in their order, as one update, and frees all of them. */
  applyRound(round: CompleteRound<H>): void;
  /** It is part of no round. */
  free(): void;
}

type Contribution<H> = WorkerIncarnation & { readonly handle: H };

/** A complete round, its contributions in the order in which they are to be added. */
export type CompleteRound<H> = { readonly parameter: number; readonly clock: number; readonly contributions: readonly Contribution<H>[] };

type UpdateRoundsOptions = {
  readonly contributionsMax: number;
  readonly bytesMax: number;
  /** Whose minimum completes rounds. */
  readonly clocks: MemberClocks;
  /** The reads that wait for them. */
  readonly lot: ParkingLot;
  /** Who pushed at which clock. */
  readonly pushes: PushCounts;
};

type Kept<H> = Contribution<H> & { bytes: number };
/** The open rounds of one clock, by parameter. */
type OpenRounds<H> = Map<number, Kept<H>[]>;

/** The clock that a member has reported. */
export type MemberClock = { readonly incarnation: number; clock: number };

/**
 * The clocks of the members of a set: what every update and every clock passes (StalenessController.W1,
 * StalenessController.W6).
 */
export class MemberClocks {
  protected readonly memberClocks: Map<number, MemberClock> = new Map();
  protected readonly incarnations: WorkerIncarnations = new WorkerIncarnations();
  /** By worker: the incarnation that was a member, was taken for dead, and has not joined again. */
  protected readonly takenOut: Map<number, number> = new Map();
  /** Whether there is one: a field that a steady read looks at (docs/decisions/0047). */
  hasTakenOut = false;
  /** Whether everybody who was expected has joined or is gone. */
  isFormed: boolean;
  /** The clock of the slowest. Nobody else writes it. */
  clockMin = 0;
  /** The highest clock that anybody finished or stands at, those who are gone included. */
  protected clockHighest = 0;
  /** The highest clock that anybody stood at: one that leaves has ended its clock, and begun no other. */
  clockReported = 0;
  /** Members that stand at `clockMin`: the minimum moves only when nobody is left there. */
  protected slowestCount = 0;

  constructor({ isFormed }: { readonly isFormed: boolean }) {
    this.isFormed = isFormed;
  }

  get memberCount(): number {
    return this.memberClocks.size;
  }

  memberAt(worker: number): Readonly<MemberClock> | undefined {
    return this.memberClocks.get(worker);
  }

  /**
   * Whether a read at this clock may be answered now, by a parameter's consistency then (StalenessController.W2,
   * StalenessController.W8).
   */
  isFresh(clock: number, phases: ConsistencyPhases, holder: WorkerIncarnation): boolean {
    const { staleness } = phases.constant ?? phases.at(clock);
    return this.admits(clock, staleness) && !(this.hasTakenOut && this.isOut(holder, staleness));
  }

  /** Whether a read with this bound is refused (StalenessController.W8). */
  isOut({ worker, incarnation }: WorkerIncarnation, staleness: number): boolean {
    return staleness !== Infinity && this.takenOut.get(worker) === incarnation;
  }

  /** StalenessController.W2. The reader need not be a member. */
  admits(clock: number, staleness: number): boolean {
    return this.clockMin >= clock - staleness;
  }

  /**
   * The worker has finished all clocks before this one; an earlier one than it has reported changes nothing. Throws
   * NOT_JOINED, NODE_DEAD, FENCED or BAD_REQUEST.
   */
  advance(holder: WorkerIncarnation, clock: number): void {
    const member = this.memberOf(holder);
    checkClock(holder.worker, clock);
    if (clock <= member.clock) return;
    const wasSlowest = member.clock === this.clockMin;
    member.clock = clock;
    this.clockHighest = Math.max(this.clockHighest, clock);
    this.clockReported = Math.max(this.clockReported, clock);
    if (wasSlowest && --this.slowestCount === 0) this.findMinimum();
  }

  /**
   * StalenessController.W6. Throws as `advance`, and STALE_UPDATE for a clock that its worker has passed: reads
   * answered since then rely on having seen it. A clock that the worker has not reported yet is valid.
   */
  checkUpdate(holder: WorkerIncarnation, clock: number): void {
    const member = this.memberOf(holder);
    checkClock(holder.worker, clock);
    if (clock >= member.clock) return;
    throw new WeighbridgeError(
      "STALE_UPDATE",
      `${nameOf(holder.worker)} stamped an update with clock ${clock}, and stands at ${member.clock}: join to learn the clock, and push again`,
      { retryable: true },
    );
  }

  /** Throws NOT_JOINED, NODE_DEAD or FENCED if the worker is not a member. */
  protected memberOf(holder: WorkerIncarnation): MemberClock {
    const member = this.memberClocks.get(holder.worker);
    if (member?.incarnation === holder.incarnation) return member;
    this.incarnations.check(holder);
    throw new WeighbridgeError("NOT_JOINED", `${nameOf(holder.worker)} is not in the clock set: it has to join first`, { retryable: true });
  }

  protected findMinimum(): void {
    if (!this.isFormed) return;
    let clockMin = Infinity;
    let count = 0;
    for (const { clock } of this.memberClocks.values()) {
      if (clock > clockMin) continue;
      count = clock < clockMin ? 1 : count + 1;
      clockMin = clock;
    }
    if (this.memberClocks.size === 0) clockMin = this.clockHighest;
    // StalenessController.W1
    if (clockMin < this.clockMin) throw new AssertionError(`the minimum would fall from ${this.clockMin} to ${clockMin}`);
    this.clockMin = clockMin;
    this.slowestCount = count;
  }
}

type Paced = { readonly phases: ConsistencyPhases };

/** The worker that ends a clock, and the server's state that depends on it. */
type ClockCaller = {
  readonly holder: WorkerIncarnation;
  readonly parameters: {
    readonly pacer: {
      readonly rounds: Pick<UpdateRounds<never>, "advance">;
      readonly pushes: PushCounts;
      leave(holder: WorkerIncarnation, pushed: PushReport): void;
    };
    readonly tensors: ReadonlyMap<number, Paced>;
    readonly tables: ReadonlyMap<number, Paced>;
  };
};

/**
 * Serves clockAdvance: the caller has finished all clocks before this one, and perhaps leaves. Throws as `advance`, and
 * BAD_REQUEST.
 */
export function endClock(
  { parameters, holder }: ClockCaller,
  { clock, leaves, ...pushes }: PushReport & { readonly clock: number; readonly leaves: boolean },
): Record<never, never> {
  const counted = countedPushes(parameters, pushes);
  if (leaves) parameters.pacer.leave(holder, counted);
  else parameters.pacer.rounds.advance(holder, clock, counted);
  return {};
}

/**
 * The report, if anything depends on the numbers of pushes. Otherwise a parameter only needs the highest clock with an
 * update, also if none came here (ConsistencyPhases.M2). Throws BAD_REQUEST.
 */
function countedPushes({ tables, tensors, pacer }: ClockCaller["parameters"], report: PushReport): PushReport {
  const { parameters, clocks, numbers } = report;
  checkColumns(parameters.length, numbers.length, clocks.length);
  if (pacer.pushes.isCounted) return report;
  for (let i = 0; i < parameters.length; i++) {
    const number = parameters[i] as number;
    const phases = (tensors.get(number) ?? tables.get(number))?.phases;
    const clock = clocks[i] as number;
    if (phases !== undefined && clock > phases.clockTop) phases.clockTop = clock;
  }
  return NO_PUSHES;
}

/** A report has columns of one length. Throws BAD_REQUEST. */
export function checkColumns(...lengths: readonly number[]): void {
  if (lengths.every((length) => length === lengths[0])) return;
  throw badRequest(`a report of pushes has columns of different lengths: ${lengths.join(", ")}`);
}

/** Of updates `H`, which must not call back when they are applied or freed. */
export class UpdateRounds<H extends SyncUpdate<H>> {
  readonly #options: UpdateRoundsOptions;
  readonly #clocks: MemberClocks;
  readonly #lot: ParkingLot;
  readonly #pushes: PushCounts;
  readonly #open = new Map<number, OpenRounds<H>>();
  /** Rounds below this clock were handed out. */
  #clockMin = 0;
  /** Of the open rounds. Nobody else writes them. */
  contributionCount = 0;
  openBytes = 0;
  /** A checkpoint that waits for the moment between two clocks. */
  #cut: { readonly clock: number; readonly reached: () => void } | undefined;
  #isEnded = false;

  constructor(options: UpdateRoundsOptions) {
    this.#options = options;
    this.#clocks = options.clocks;
    this.#lot = options.lot;
    this.#pushes = options.pushes;
  }

  /**
   * What this incarnation has pushed at this clock, to add to (UpdateRounds.U3); undefined: `put`. Throws STALE_UPDATE.
   */
  find(roundKey: RoundKey): H | undefined {
    return this.#find(roundKey)?.handle;
  }

  /** A contribution is about to grow by so many bytes. Throws QUEUE_FULL (UpdateRounds.U6) or STALE_UPDATE. */
  grow(roundKey: RoundKey, bytes: number): void {
    const kept = this.#find(roundKey);
    if (kept === undefined) throw new AssertionError("a first contribution is put");
    if (roundKey.clock !== this.#clockMin && this.openBytes + bytes > this.#options.bytesMax) throw this.#full(roundKey);
    kept.bytes += bytes;
    this.openBytes += bytes;
  }

  /** Throws QUEUE_FULL or STALE_UPDATE if `put` of a first contribution of so many bytes would. */
  checkRoom(roundKey: RoundKey, bytes: number): void {
    this.#checkOpen(roundKey);
    if (roundKey.clock === this.#clockMin) return; // UpdateRounds.U6
    const { contributionsMax, bytesMax } = this.#options;
    if (this.contributionCount < contributionsMax && this.openBytes + bytes <= bytesMax) return;
    throw this.#full(roundKey);
  }

  /** Keeps the handle until its round is complete or its incarnation has died. Throws as `checkRoom`. */
  put(roundKey: RoundKey, handle: H, bytes: number): void {
    this.checkRoom(roundKey, bytes);
    if (this.find(roundKey) !== undefined) throw new AssertionError("one incarnation has one contribution to a round (UpdateRounds.U3)");
    const { worker, incarnation, parameter, clock } = roundKey;
    const rounds = this.#open.get(clock) ?? new Map<number, Kept<H>[]>();
    const contributions = rounds.get(parameter) ?? [];
    contributions.push({ worker, incarnation, handle, bytes });
    rounds.set(parameter, contributions);
    this.#open.set(clock, rounds);
    this.contributionCount++;
    this.openBytes += bytes;
  }

  /** As MemberClocks.advance; `pushes` is what the worker pushed at the clocks that it has finished. */
  advance(holder: WorkerIncarnation, clock: number, pushes: PushReport = NO_PUSHES): void {
    const from = this.#clocks.memberAt(holder.worker)?.clock ?? 0;
    this.#clocks.advance(holder, clock);
    if (pushes.parameters.length > 0) this.#pushes.ended(holder, pushes, { from, to: clock });
    this.settle();
  }

  /** If the minimum has moved, applies the rounds that this completes, and then admits reads. */
  settle(): void {
    const { clockMin } = this.#clocks;
    if (this.#isEnded) this.#cutLast();
    if (clockMin === this.#clockMin) return;
    const cut = this.#cut;
    if (cut !== undefined && clockMin >= cut.clock) {
      this.#cut = undefined;
      this.#apply(cut.clock);
      cut.reached(); // UpdateRounds.D1
    }
    this.#apply(clockMin);
    if (this.#lot.readCount > 0) this.#lot.release(clockMin); // UpdateRounds.W3
  }

  #apply(clockMin: number): void {
    const pushes = this.#pushes;
    const clocks = pushes.openClocks.size === 0 ? [] : pushes.clocksBelow(clockMin);
    let endedCount = 0;
    for (const round of this.complete(clockMin)) {
      // UpdateRounds.N4
      for (let next = clocks[endedCount]; next !== undefined && next <= round.clock; next = clocks[++endedCount]) pushes.end(next);
      round.contributions[0]?.handle.applyRound(round);
    }
    for (; endedCount < clocks.length; endedCount++) pushes.end(clocks[endedCount] as number);
    for (const clock of clocks) pushes.forget(clock);
  }

  /**
   * Calls `reached` once, when every worker has finished the clocks before `clock`, perhaps now (UpdateRounds.D1). It
   * must not throw or call back. Throws QUEUE_FULL while another cut is awaited, BAD_ARGUMENT if that moment has
   * passed.
   */
  cutAt(clock: number, reached: () => void): void {
    if (this.#cut !== undefined) {
      const message = `a cut at clock ${clock}: one at clock ${this.#cut.clock} is awaited, and there is one at a time`;
      throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
    }
    const { clockMin } = this.#clocks;
    if (clockMin > clock) {
      const message = `a cut at clock ${clock}: everybody is past it, the slowest at ${clockMin}`;
      throw new WeighbridgeError("BAD_ARGUMENT", message, { retryable: true });
    }
    if (clockMin === clock) reached();
    else this.#cut = { clock, reached };
    if (this.#isEnded) this.#cutLast();
  }

  /**
   * No worker comes any more. One that was killed may have told other servers alone of the clock at which they cut
   * (UpdateRounds.D1).
   */
  end(): void {
    this.#isEnded = true;
    this.#cutLast();
  }

  #cutLast(): void {
    const cut = this.#cut;
    const { clockMin, memberCount } = this.#clocks;
    if (cut === undefined || memberCount > 0 || clockMin >= cut.clock) return;
    this.#cut = undefined;
    this.#apply(clockMin);
    cut.reached();
  }

  /** Nobody waits for the cut any more. */
  cancelCut(): void {
    this.#cut = undefined;
  }

  /** Goes on with the clocks of another server, which has applied the rounds below their minimum. */
  follow(): void {
    if (this.contributionCount > 0) throw new AssertionError("nothing was pushed before");
    this.#clockMin = this.#clocks.clockMin;
  }

  /** The rounds that this minimum completes, by clock and then by parameter. They are the caller's from here on. */
  complete(clockMin: number): CompleteRound<H>[] {
    if (clockMin < this.#clockMin) throw new AssertionError("the minimum never falls (StalenessController.W1)");
    this.#clockMin = clockMin;
    const complete: CompleteRound<H>[] = [];
    const clocks = [...this.#open.keys()].filter((clock) => clock < clockMin).sort((a, b) => a - b);
    for (const clock of clocks) {
      const rounds = this.#open.get(clock) as OpenRounds<H>;
      this.#open.delete(clock);
      for (const [parameter, contributions] of [...rounds].sort(([a], [b]) => a - b)) {
        for (const { bytes } of contributions) this.#forget(bytes);
        contributions.sort((a, b) => a.worker - b.worker || a.incarnation - b.incarnation); // UpdateRounds.U2
        complete.push({ parameter, clock, contributions });
      }
    }
    return complete;
  }

  /**
   * The incarnation died at `clock`: what it pushed at that clock or later is in no round (UpdateRounds.U4). Call it
   * before the `complete` that its death makes possible. Returns the handles, for the caller to free.
   */
  drop({ worker, incarnation }: WorkerIncarnation, clock: number): H[] {
    return this.#removeIf((kept, at) => at.clock >= clock && kept.worker === worker && kept.incarnation === incarnation);
  }

  /** The open rounds from this clock on to which the incarnation has contributed, ascending. */
  clocksOf({ worker, incarnation }: WorkerIncarnation, from: number): number[] {
    const isOwn = (kept: Kept<H>): boolean => kept.worker === worker && kept.incarnation === incarnation;
    const clocks = [...this.#open].filter(([clock, rounds]) => clock >= from && [...rounds.values()].some((list) => list.some(isOwn)));
    return clocks.map(([clock]) => clock).sort((a, b) => a - b);
  }

  /**
   * The open contributions of a parameter, by clock and then as in UpdateRounds.U2: they move with its part
   * (spec/consistency.md, W10).
   */
  openOf(parameter: number): readonly (Contribution<H> & { readonly clock: number })[] {
    if (this.#open.size === 0) return []; // Copies ask for every part of every parameter.
    const open = [...this.#open].flatMap(([clock, rounds]) =>
      (rounds.get(parameter) ?? []).map(({ worker, incarnation, handle }) => ({ clock, worker, incarnation, handle })),
    );
    return open.sort((a, b) => a.clock - b.clock || a.worker - b.worker || a.incarnation - b.incarnation);
  }

  /** The contribution of this incarnation at this clock has lost so many bytes. */
  shrink(roundKey: RoundKey, bytes: number): void {
    const kept = this.#find(roundKey);
    if (kept === undefined || kept.bytes < bytes) throw new AssertionError("what is gone was there");
    kept.bytes -= bytes;
    this.openBytes -= bytes;
  }

  /** Removes what this incarnation has pushed at this clock. Returns the handle, for the caller to free. */
  remove({ parameter, clock, worker, incarnation }: RoundKey): H | undefined {
    const isIt = (kept: Kept<H>, at: { clock: number; parameter: number }): boolean =>
      at.clock === clock && at.parameter === parameter && kept.worker === worker && kept.incarnation === incarnation;
    return this.#removeIf(isIt)[0];
  }

  /** The parameter is removed. Returns the handles, for the caller to free. */
  dropParameter(parameter: number): H[] {
    return this.#removeIf((_, at) => at.parameter === parameter);
  }

  #removeIf(isGone: (kept: Kept<H>, at: { clock: number; parameter: number }) => boolean): H[] {
    const gone: H[] = [];
    for (const [clock, rounds] of this.#open) {
      for (const [parameter, contributions] of rounds) {
        const staying: Kept<H>[] = [];
        for (const kept of contributions) {
          if (isGone(kept, { clock, parameter })) {
            this.#forget(kept.bytes);
            gone.push(kept.handle);
          } else staying.push(kept);
        }
        if (staying.length > 0) rounds.set(parameter, staying);
        else rounds.delete(parameter);
      }
      if (rounds.size === 0) this.#open.delete(clock);
    }
    return gone;
  }

  #find(roundKey: RoundKey): Kept<H> | undefined {
    this.#checkOpen(roundKey);
    return this.#open
      .get(roundKey.clock)
      ?.get(roundKey.parameter)
      ?.find((kept) => kept.worker === roundKey.worker && kept.incarnation === roundKey.incarnation);
  }

  #full(roundKey: RoundKey): WeighbridgeError {
    return new WeighbridgeError(
      "QUEUE_FULL",
      `${nameOf(roundKey.worker)} is at clock ${roundKey.clock}, the slowest at ${this.#clockMin}: ${this.contributionCount} updates with ` +
        `${this.openBytes} bytes are open already`,
      { retryable: true },
    );
  }

  #forget(bytes: number): void {
    this.contributionCount--;
    this.openBytes -= bytes;
  }

  #checkOpen({ worker, parameter, clock }: RoundKey): void {
    if (clock >= this.#clockMin) return;
    throw new WeighbridgeError(
      "STALE_UPDATE",
      `${nameOf(worker)} stamped an update of parameter ${parameter} with clock ${clock}, whose round is over: the slowest is at ${this.#clockMin}`,
      { retryable: true },
    );
  }
}

function checkClock(worker: number, clock: number): void {
  if (Number.isSafeInteger(clock) && clock >= 0) return;
  throw badRequest(`${nameOf(worker)} reports the clock ${clock}`);
}
