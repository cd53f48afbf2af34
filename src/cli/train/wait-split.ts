// wait-split — tells two kinds of waiting apart: for other workers, and for servers with the links to them. Workers of
// one machine report when they reached each clock and when they waited for its values (step-times.ts), on one clock of
// the machine. Pure.
//
//   worker 0    ── computes ──┬─ waits for worker 1 ─┬─ waits for servers ─┬── computes ──
//   worker 1    ── computes ─────────────────────────┴─ waits for servers ─┴── computes ──
//                             clock 7 at worker 0    clock 7 at worker 1: the round is closed
//
// Invariants:
//   WaitSplit.W1. A wait for the values of clock c is for other workers until each of them has reached clock c − s, s
//       the staleness, and for servers from then on (spec/consistency.md).
//   WaitSplit.W2. What is kept is bounded: of each worker its last WINDOW clocks. A wait that so many others have
//       followed is judged by the workers that have reported: one may be gone.

/** Of one clock: its number, and in microseconds when it was reached, when the wait began, and how long it took. */
export type Exchange = readonly [clock: number, reachedAt: number, waitsFrom: number, waited: number];

type Worker = {
  /** Clocks that it has reached, in order. */
  readonly reached: { readonly clock: number; readonly at: number }[];
  /** Waits that are not judged yet. */
  readonly open: Exchange[];
  waited: number;
  waitedForOthers: number;
};

const WINDOW = 1024;

export class WaitSplit {
  readonly #workerCount: number;
  readonly #staleness: number;
  readonly #workers = new Map<number, Worker>();

  /** `workerCount`: how many are expected to report. `staleness`: Infinity if workers never wait for each other. */
  constructor({ workerCount, staleness }: { readonly workerCount: number; readonly staleness: number }) {
    this.#workerCount = workerCount;
    this.#staleness = staleness;
  }

  take(rank: number, exchanges: readonly Exchange[]): void {
    const worker = this.#workers.get(rank) ?? { reached: [], open: [], waited: 0, waitedForOthers: 0 };
    this.#workers.set(rank, worker);
    for (const exchange of exchanges) {
      worker.reached.push({ clock: exchange[0], at: exchange[1] });
      if (exchange[3] > 0) worker.open.push(exchange);
    }
    worker.reached.splice(0, worker.reached.length - WINDOW);
    for (const each of this.#workers.values()) this.#judge(each);
  }

  /** The part of its waiting, from 0 to 1, that a worker spent on other workers, as far as that is known. */
  othersShare(rank: number): number {
    const { waited, waitedForOthers } = this.#workers.get(rank) ?? { waited: 0, waitedForOthers: 0 };
    return waited > 0 ? waitedForOthers / waited : 0;
  }

  #judge(worker: Worker): void {
    let judged = 0;
    for (const [clock, , from, waited] of worker.open) {
      const until = this.#closedAt(worker, clock - this.#staleness, worker.open.length - judged > WINDOW);
      if (until === undefined) break;
      worker.waited += waited;
      worker.waitedForOthers += Math.min(waited, Math.max(0, until - from)); // WaitSplit.W1
      judged++;
    }
    worker.open.splice(0, judged);
  }

  /** When all others had reached a clock; undefined if that is not known yet. */
  #closedAt(worker: Worker, clock: number, isLate: boolean): number | undefined {
    if (clock <= 0) return 0;
    if (this.#workers.size < this.#workerCount && !isLate) return undefined;
    let closedAt = 0;
    for (const other of this.#workers.values()) {
      if (other === worker) continue;
      const reached = other.reached.find((one) => one.clock >= clock);
      if (reached !== undefined) closedAt = Math.max(closedAt, reached.at);
      else if (!isLate) return undefined; // WaitSplit.W2
    }
    return closedAt;
  }
}
