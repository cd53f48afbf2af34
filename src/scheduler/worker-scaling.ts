// worker-scaling — the number of workers of a running job changes because somebody asks for it (docs/decisions/0074):
// more are waited for, or some are asked to leave. Not who gets which rank (rank-choice.ts), how data is dealt
// (round-deal.ts), nor who starts processes (`onWorkers`). Pure: the roster and the state in, records out.
//
//   asked ──► more are wished for than are there ──► they come ──► met, and forgotten
//         └─► fewer: those of the highest ranks are asked to leave ──► they leave, or are found dead ──► met
//
// Invariants:
//   WorkerScaling.W1. What is asked for is written down before its caller hears of it (Scheduler.D5).
//   WorkerScaling.W2. A job has as many workers as its range allows (`--workers 2..8`), whatever is asked for.
//   WorkerScaling.W3. Who is asked to leave is one incarnation of a rank: a worker that comes later stays. One that
//       dies instead counts as having left.

import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { idOf } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import type { WorkersReport, WorkersRequest } from "../wire/scaling.ts";
import type { StateJournal } from "./state-journal.ts";

/** What is asked of the number of workers, until it is so. */
export type WorkerWish = {
  readonly count: number;
  /** Who is asked to leave. */
  readonly leaving: readonly { readonly rank: number; readonly incarnation: number }[];
};

/** `wish` left out: it is met. */
export type WorkerRecord = { readonly kind: "workers"; readonly wish?: WorkerWish | undefined };

export type WorkerScalingOptions = {
  readonly journal: StateJournal;
  readonly view: () => RosterView;
  /** Whether every node of the job has been heard of. */
  readonly isSettled: () => boolean;
  readonly workerCount: number;
  readonly workerCountMax?: number | undefined;
  /** The state says something else of the workers: the roster looks at it. */
  readonly changed: () => void;
  /** This worker will not come back. */
  readonly dismiss: (node: number, incarnation: number) => void;
  /** The ranks of the workers that there are to be: whoever starts processes sees to it. */
  readonly onWorkers: (ranks: readonly number[]) => void;
};

export class WorkerScaling {
  readonly #options: WorkerScalingOptions;
  #met = new Deferred<void>();

  constructor(options: WorkerScalingOptions) {
    this.#options = options;
  }

  /**
   * Whether it can be asked for; returns the number of workers then. Throws BAD_REQUEST, NO_ROUTE while the cluster
   * forms.
   */
  check(request: WorkersRequest): number {
    const staying = this.#staying();
    if (this.#options.isSettled() && staying.length > 0) return this.#countAfter(request, staying);
    throw new WeighbridgeError("NO_ROUTE", "the cluster is not ready: not every node of the job is there", { retryable: true });
  }

  /** Throws as `check`; then nothing has changed. */
  ask(request: WorkersRequest): WorkersReport {
    const { journal, changed, onWorkers } = this.#options;
    const count = this.check(request);
    const staying = this.#staying();
    const leavers = request.leave === undefined ? staying.slice(count) : staying.filter(({ rank }) => request.leave?.includes(rank));
    const leaving = [...(this.#wish?.leaving ?? []), ...leavers.map(({ rank, incarnation }) => ({ rank, incarnation }))];
    journal.write({ kind: "workers", wish: { count, leaving } }); // WorkerScaling.W1
    const wished = this.#ranksFor(count);
    journal.told(() => onWorkers(wished));
    changed();
    this.review();
    return this.report();
  }

  report(): WorkersReport {
    const { workerCount: countMin, workerCountMax: countMax = countMin } = this.#options;
    const wish = this.#wish;
    const leaving = wish?.leaving.map(({ rank }) => rank) ?? [];
    return { presentCount: this.#staying().length, countMin, countMax, leaving, ...(wish && { wishedCount: wish.count }) };
  }

  /** Resolves when there are as many workers as were asked for last. */
  async met(): Promise<void> {
    if (this.#wish !== undefined) await this.#met.promise;
  }

  /** The roster has changed. */
  review(): void {
    const { journal, view, isSettled, dismiss } = this.#options;
    const wish = this.#wish;
    if (wish === undefined || !isSettled()) return;
    const entries = workersOf(view());
    const holderOf = ({ rank, incarnation }: WorkerWish["leaving"][number]): RosterEntry | undefined =>
      entries.find((entry) => entry.rank === rank && entry.incarnation === incarnation);
    const leaving = wish.leaving.filter((one) => holderOf(one)?.state === "alive");
    if (leaving.length === 0 && this.#staying().length >= wish.count) {
      journal.write({ kind: "workers" });
      this.#met.resolve();
      this.#met = new Deferred();
    } else if (leaving.length < wish.leaving.length) journal.write({ kind: "workers", wish: { ...wish, leaving } });
    for (const one of wish.leaving) if (holderOf(one)?.state === "dead") dismiss(idOf("worker", one.rank), one.incarnation); // WorkerScaling.W3
  }

  get #wish(): WorkerWish | undefined {
    return this.#options.journal.state.workers;
  }

  /** The workers that are there and not asked to leave, by rank. */
  #staying(): readonly RosterEntry[] {
    const isLeaving = ({ rank, incarnation }: RosterEntry): boolean =>
      this.#wish?.leaving.some((one) => one.rank === rank && one.incarnation === incarnation) === true;
    return workersOf(this.#options.view()).filter((entry) => entry.state === "alive" && !isLeaving(entry));
  }

  /** Throws BAD_REQUEST. */
  #countAfter({ to, add, leave }: WorkersRequest, staying: readonly RosterEntry[]): number {
    const { workerCount: min, workerCountMax: max = min } = this.#options;
    if ([to, add, leave].filter((one) => one !== undefined).length !== 1)
      throw bad("a change of the workers says one thing: to how many workers, how many more, or which ones leave");
    const unknown = leave?.find((rank) => !staying.some((entry) => entry.rank === rank));
    if (unknown !== undefined) throw bad(`the job has worker ${staying.map(({ rank }) => rank).join(", ")}, and no worker ${unknown}`);
    if (leave !== undefined && new Set(leave).size < leave.length) throw bad(`each worker is named once, not ${leave.join(", ")}`);
    const count =
      to ?? (leave === undefined ? Math.max(staying.length, this.#wish?.count ?? 0) + (add ?? 0) : staying.length - leave.length);
    if (count >= min && count <= max) return count; // WorkerScaling.W2
    const allowed =
      min === max ? `${min} workers, no more and no fewer: start it with a range, as --workers 2..8` : `${min} to ${max} workers`;
    throw bad(`this job has ${allowed}; ${count} were asked for`);
  }

  /** Those that stay, and the lowest that nobody has. */
  #ranksFor(count: number): readonly number[] {
    const ranks = this.#staying().map(({ rank }) => rank);
    const held = new Set(workersOf(this.#options.view()).flatMap(({ rank, state }) => (state === "alive" ? [rank] : [])));
    for (let rank = 0; ranks.length < count; rank++) if (!held.has(rank)) ranks.push(rank);
    return ranks;
  }
}

function workersOf({ nodes }: RosterView): readonly RosterEntry[] {
  return nodes.filter(({ role }) => role === "worker").sort((a, b) => a.rank - b.rank);
}

function bad(message: string): WeighbridgeError {
  return new WeighbridgeError("BAD_REQUEST", message);
}
