// round-deal — how the batches of an epoch are dealt out where workers come and go ("rounds"): each free run of parts
// of one batch is a round, cut among the workers that take part at that moment. Pure; epoch-units.ts keeps one for such
// an epoch, and says which units are lent or done.
//
//   free ── deal ──► in the queue of a worker ── it requests ──► lent (epoch-units.ts)
//     ▲                        │
//     └── it is gone, or leaves┘
//
// Invariants:
//   RoundDeal.D1. A round has one clock, the same for all who have a share of it, and later rounds have later clocks.
//       So a newcomer raises its clock to that of its first round, and every sync round has the samples of one batch.
//   RoundDeal.D2. The shares of a round are disjoint and next to each other, by rank. What no worker has room for stays
//       free, and is in the next round.
//   RoundDeal.D3. The lowest free units are dealt first: what a worker left behind is not left to the end.
//   RoundDeal.D4. After a restart of the scheduler, a round of which some workers were lent their shares goes on as it
//       was dealt, if nobody has come or gone since: the others get theirs, at its clock. So it has the sums that it
//       would have had.

import { RunSet } from "../base/run-set.ts";

/** Units `from` to `to` of one batch, to be done at a clock. */
export type Share = { readonly clock: number; readonly from: number; readonly to: number };

/** A share that a worker tells of. */
export type ToldShare = Share & { readonly rank: number };

/** A worker that takes part, and the most parts of a batch that it has room for. */
export type Taker = { readonly rank: number; readonly partsMax: number };

export class RoundDeal {
  readonly #partCount: number;
  readonly #unitCount: number;
  /** Dealt and not lent, by rank, in the order of clocks. */
  readonly #queues = new Map<number, Share[]>();
  /** What is in queues. */
  readonly #dealt = new RunSet();
  #clock = 0;

  constructor({ batchCount, partCount }: { readonly batchCount: number; readonly partCount: number }) {
    this.#partCount = partCount;
    this.#unitCount = batchCount * partCount;
  }

  /** The clock of the next round: a worker that has done all of its shares stands there. */
  get clock(): number {
    return this.#clock;
  }

  /** A worker that has done all it holds stands at this clock. */
  noteClock(clock: number): void {
    this.#clock = Math.max(this.#clock, clock);
  }

  /** What this worker was dealt and not lent is free again. Returns how many units that is. */
  release(rank: number): number {
    const shares = this.#queues.get(rank) ?? [];
    for (const { from, to } of shares) this.#dealt.remove(from, to);
    this.#queues.delete(rank);
    return shares.reduce((count, { from, to }) => count + to - from, 0);
  }

  /**
   * The next shares of this worker, up to `roundCount`: of batches, and with clocks, that follow each other. `gone` is
   * what is lent or done.
   */
  take(rank: number, roundCount: number, takers: readonly Taker[], gone: RunSet): readonly Share[] {
    const queue = this.#queues.get(rank) ?? [];
    this.#queues.set(rank, queue);
    while (queue.length < roundCount && this.#deal(takers, gone));
    const batchOf = ({ from }: Share): number => Math.floor(from / this.#partCount);
    const [first] = queue;
    const follows = (share: Share, i: number): boolean =>
      first !== undefined && share.clock === first.clock + i && batchOf(share) === batchOf(first) + i;
    const gap = queue.findIndex((share, i) => !follows(share, i));
    const taken = queue.splice(0, Math.min(roundCount, gap < 0 ? queue.length : gap));
    for (const { from, to } of taken) this.#dealt.remove(from, to);
    return taken;
  }

  /**
   * What is told of the round of this clock: the others among `takers` that have not passed it are dealt their shares
   * (RoundDeal.D4). `gone` is what is lent or done.
   */
  resume(clock: number, told: readonly ToldShare[], takers: readonly (Taker & { readonly clock: number })[], gone: RunSet): void {
    const first = told[0]?.from ?? 0;
    const from = first - (first % this.#partCount);
    const cut = cutOf({ from, size: this.#partCount }, takers);
    const isAsCut = (one: ToldShare): boolean => cut.some(({ rank, ...share }) => rank === one.rank && isSame(share, one));
    if (from >= this.#unitCount || !told.every(isAsCut)) return;
    for (const { rank, from: start, to } of cut) {
      const isPast = (takers.find((taker) => taker.rank === rank)?.clock ?? Infinity) > clock;
      const isTaken = Math.min(gone.nextPresent(start), this.#dealt.nextPresent(start)) < to;
      if (!isPast && !isTaken) this.#give(rank, { clock, from: start, to });
    }
    this.noteClock(clock + 1);
  }

  #give(rank: number, share: Share): void {
    const queue = this.#queues.get(rank) ?? [];
    this.#queues.set(rank, queue);
    queue.push(share);
    this.#dealt.add(share.from, share.to);
  }

  /** Deals one round (RoundDeal.D1, RoundDeal.D2, RoundDeal.D3); false if nothing is free. */
  #deal(takers: readonly Taker[], gone: RunSet): boolean {
    const from = this.#nextFree(gone);
    if (from >= this.#unitCount) return false;
    const batchEnd = from - (from % this.#partCount) + this.#partCount;
    const size = Math.min(batchEnd, gone.nextPresent(from), this.#dealt.nextPresent(from)) - from;
    const cut = cutOf({ from, size }, takers);
    for (const { rank, from: start, to } of cut) this.#give(rank, { clock: this.#clock, from: start, to });
    if (cut.length > 0) this.#clock++;
    return cut.length > 0;
  }

  #nextFree(gone: RunSet): number {
    let at = 0;
    for (;;) {
      const free = this.#dealt.nextAbsent(gone.nextAbsent(at));
      if (!gone.has(free)) return free;
      at = free;
    }
  }
}

type Span = { readonly from: number; readonly to: number };

/** Who gets what of these units, by rank (RoundDeal.D2). */
function cutOf({ from, size }: { readonly from: number; readonly size: number }, takers: readonly Taker[]): (Span & { rank: number })[] {
  return takers.flatMap(({ rank, partsMax }, i) => {
    const start = from + Math.floor((i * size) / takers.length);
    const to = Math.min(from + Math.floor(((i + 1) * size) / takers.length), start + partsMax);
    return start < to ? [{ rank, from: start, to }] : [];
  });
}

function isSame(one: Span, other: Span): boolean {
  return one.from === other.from && one.to === other.to;
}
