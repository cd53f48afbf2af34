// worker-scaling — the number of workers of a running job changes because somebody asks for it (docs/decisions/0074):
// more are waited for, or some are asked to leave. Not who gets which rank (rank-choice.ts), how data is dealt
// (round-deal.ts), nor who starts processes (`onWorkers`). The roster, the state and time in, records out.
//
//   asked ──► more are wished for than are there ──► they come ──────────────────────────────────────────► done
//     │                     └ too late, or rolled back: there are to be as many as before ──► rolledBack    ▲
//     └─► fewer: those of the highest ranks are asked to leave ──► they leave, or are found dead ──────────┘
//
// Invariants:
//   WorkerScaling.W1. What is asked for is written down before its caller hears of it (Scheduler.D5).
//   WorkerScaling.W2. A job has as many workers as its range allows (`--workers 2..8`), whatever is asked for; without
//       one (`--workers 2`) as many as that, or more.
//   WorkerScaling.W3. Who is asked to leave is one incarnation of a rank: a worker that comes later stays. One that
//       dies instead counts as having left.
//   WorkerScaling.W4. Workers that do not come are waited for `timeoutMs`, after a restart of the scheduler as long
//       again. Then the change is taken back: those that came are asked to leave. Nobody is asked twice whether to
//       leave.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred, waitFor } from "../base/deferred.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { idOf } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import type { WorkersEnd, WorkersReport, WorkersRequest } from "../wire/scaling.ts";
import { WORKERS_MAX, workersMaxOf } from "./applicant.ts";
import { maybeRepeated } from "./known-requests.ts";
import type { StateJournal } from "./state-journal.ts";

const WORKERS_TIMEOUT_MS = 60_000;
/** How long the caller of a rollback waits for those that leave because of it; they do it between two rounds. */
const LEAVE_MS = 10_000;

/** What is asked of the number of workers, until it is so. */
export type WorkerWish = {
  readonly count: number;
  /** How many there were before, and are to be again if the others do not come (WorkerScaling.W4). */
  readonly from: number;
  readonly timeoutMs: number;
  /** Why it is taken back, if it is; then `count` is `from`. */
  readonly backReason?: string | undefined;
  /** Numbers of workers that were asked for in addition (KnownRequests.K2). */
  readonly adds?: readonly number[] | undefined;
  /** Who is asked to leave. */
  readonly leaving: readonly { readonly rank: number; readonly incarnation: number }[];
};

/** `wish` left out: it has ended so, and there are to be `count` workers. */
export type WorkerRecord = {
  readonly kind: "workers";
  readonly wish?: WorkerWish | undefined;
  readonly end?: WorkersEnd | undefined;
  readonly count?: number | undefined;
};

export type WorkerScalingOptions = {
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: StateJournal;
  readonly view: () => RosterView;
  /** Whether every node of the job has been heard of. */
  readonly isSettled: () => boolean;
  /** As ClusterCounts. */
  readonly workerCount: number;
  readonly workerCountMax?: number | undefined;
  readonly mayScale?: boolean | undefined;
  /** The state says something else of the workers: the roster looks at it. */
  readonly changed: () => void;
  /** This worker will not come back. */
  readonly dismiss: (node: number, incarnation: number) => void;
  /** The ranks of the workers that there are to be: whoever starts processes sees to it. */
  readonly onWorkers: (ranks: readonly number[]) => void;
};

export class WorkerScaling {
  readonly #options: WorkerScalingOptions;
  #end = new Deferred<WorkersEnd>();
  /** Until when those that have not come are waited for (WorkerScaling.W4). */
  #untilMs: number | undefined;
  #cancelTimer: CancelTimer = () => {};

  constructor(options: WorkerScalingOptions) {
    this.#options = options;
  }

  /**
   * Whether it can be asked for; returns the number of workers then. Throws BAD_REQUEST, NO_ROUTE while the cluster
   * forms.
   */
  check(request: WorkersRequest): number {
    const staying = this.#staying();
    const { isSettled, workerCount } = this.#options;
    if (workerCount === 0) throw badRequest("this job was started without workers (--workers 0): services join it as guests");
    if (isSettled() && staying.length > 0) return this.#countAfter(request, staying);
    throw new WeighbridgeError("NO_ROUTE", "the cluster is not ready: not every node of the job is there", { retryable: true });
  }

  /** Throws as `check`; then nothing has changed. */
  request(request: WorkersRequest): WorkersReport {
    const { timeoutMs = WORKERS_TIMEOUT_MS } = request;
    const count = this.check(request);
    const staying = this.#staying();
    const leavers = request.leave === undefined ? staying.slice(count) : staying.filter(({ rank }) => request.leave?.includes(rank));
    // WorkerScaling.W4: what is waited for already is taken back as well. Those that leave are not there to go back to.
    const { from, adds = [] } = this.#wish !== undefined && this.isAwaiting ? this.#wish : { from: staying.length };
    this.#stopWaiting();
    this.#write({ count, from, timeoutMs, adds: [...new Set([...adds, ...(request.add === undefined ? [] : [request.add])])] }, leavers);
    return this.report();
  }

  /** Whether workers are waited for, so that `rollBack` does not throw. */
  get isAwaiting(): boolean {
    return this.#wish !== undefined && this.#isAwaiting(this.#wish);
  }

  /**
   * Takes the change back. Returns how many workers there are to be again, when those that came have left, or after a
   * while. Throws BAD_REQUEST when none is waited for: those that were asked to leave may have begun to.
   */
  async rollBack(): Promise<number> {
    const wish = this.#wish;
    if (wish === undefined || !this.#isAwaiting(wish)) throw badRequest("no workers are waited for, and nothing can be taken back");
    const ended = this.#end.promise;
    this.#goBack("its rollback was asked for");
    // They leave later.
    await waitFor(ended, "workers to leave", this.#options.clock, { timeoutMs: LEAVE_MS }).catch(() => {});
    return wish.from;
  }

  report(): WorkersReport {
    const { clock, journal, workerCount: countMin } = this.#options;
    const countMax = this.#countMax;
    const presentCount = this.#staying().length;
    const { workers: wish, workersEnd: ended } = journal.state;
    if (wish === undefined) return { presentCount, countMin, countMax, leaving: [], ...(ended && { ended }) };
    const waitMs = this.#untilMs === undefined ? undefined : Math.max(0, Math.round(this.#untilMs - clock.nowMs()));
    const steps = { ...(waitMs === undefined ? {} : { waitMs }), ...(wish.backReason === undefined ? {} : { isBack: true }) };
    return { presentCount, countMin, countMax, leaving: wish.leaving.map(({ rank }) => rank), wishedCount: wish.count, ...steps };
  }

  /** Resolves when the change that was asked for last has ended; at once without one. Rejects when this is closed. */
  async ended(): Promise<WorkersEnd> {
    const { workers, workersEnd = { outcome: "done" } } = this.#options.journal.state;
    return workers === undefined ? workersEnd : await this.#end.promise;
  }

  /** Nothing more happens here; a scheduler that finds the state goes on. */
  close(error: WeighbridgeError): void {
    this.#stopWaiting();
    this.#end.reject(error);
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
    const isAwaiting = this.#isAwaiting(wish);
    if (isAwaiting) this.#wait(wish);
    else this.#stopWaiting();
    if (leaving.length === 0 && !isAwaiting) this.#finish(wish);
    else if (leaving.length < wish.leaving.length) journal.write({ kind: "workers", wish: { ...wish, leaving } });
    // WorkerScaling.W3
    for (const one of wish.leaving) if (holderOf(one)?.state === "dead") dismiss(idOf("worker", one.rank), one.incarnation);
  }

  #write(wish: Omit<WorkerWish, "leaving">, leavers: readonly RosterEntry[]): void {
    const { journal, changed, onWorkers } = this.#options;
    const leaving = [...(this.#wish?.leaving ?? []), ...leavers.map(({ rank, incarnation }) => ({ rank, incarnation }))];
    journal.write({ kind: "workers", wish: { ...wish, leaving } }); // WorkerScaling.W1
    const wished = this.#ranksFor(wish.count);
    journal.told(() => onWorkers(wished));
    changed();
    this.review();
  }

  /** Somebody who is to come is not there yet. One that dies while others leave is waited for by nobody. */
  #isAwaiting({ count, from, backReason }: WorkerWish): boolean {
    return backReason === undefined && count > from && this.#staying().length < count;
  }

  /** WorkerScaling.W4 */
  #wait({ timeoutMs, count }: WorkerWish): void {
    const { clock } = this.#options;
    if (this.#untilMs !== undefined) return;
    this.#untilMs = clock.nowMs() + timeoutMs;
    this.#cancelTimer = clock.after(timeoutMs, () => {
      this.#goBack(`${this.#staying().length} of ${count} workers were there after ${timeoutMs} ms`);
    });
  }

  #stopWaiting(): void {
    this.#cancelTimer();
    this.#untilMs = undefined;
  }

  #goBack(backReason: string): void {
    const wish = this.#wish;
    if (wish === undefined || !this.#isAwaiting(wish)) return;
    this.#stopWaiting();
    const { from, timeoutMs, adds } = wish;
    this.#options.log.warn("a change of the workers is taken back", { reason: backReason, to: from });
    this.#write({ count: from, from, timeoutMs, adds, backReason }, this.#staying().slice(from));
  }

  #finish({ count, backReason: reason }: WorkerWish): void {
    const end: WorkersEnd = reason === undefined ? { outcome: "done" } : { outcome: "rolledBack", reason };
    this.#options.journal.write({ kind: "workers", end, count });
    this.#end.resolve(end);
    this.#end = new Deferred();
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

  get #countMax(): number {
    return workersMaxOf(this.#options);
  }

  /** Throws BAD_REQUEST. */
  #countAfter({ to, add, leave, timeoutMs = 1, requestId }: WorkersRequest, staying: readonly RosterEntry[]): number {
    const { workerCount: min } = this.#options;
    const max = this.#countMax;
    if (timeoutMs < 1) throw badRequest(`new workers are waited for at least 1 ms, not ${timeoutMs}`);
    if ([to, add, leave].filter((one) => one !== undefined).length !== 1)
      throw badRequest("a change of the workers says one thing: to how many workers, how many more, or which ones leave");
    if (add !== undefined && requestId === undefined && this.#wish?.adds?.includes(add) === true)
      throw maybeRepeated(`a change that adds ${add} to the workers`);
    const unknown = leave?.find((rank) => !staying.some((entry) => entry.rank === rank));
    if (unknown !== undefined)
      throw badRequest(`the job has worker ${staying.map(({ rank }) => rank).join(", ")}, and no worker ${unknown}`);
    if (leave !== undefined && new Set(leave).size < leave.length) throw badRequest(`each worker is named once, not ${leave.join(", ")}`);
    const count =
      to ?? (leave === undefined ? Math.max(staying.length, this.#wish?.count ?? 0) + (add ?? 0) : staying.length - leave.length);
    if (count >= min && count <= max) return count; // WorkerScaling.W2
    throw badRequest(`this job has ${allowedText(min, max)}; ${count} were asked for`);
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

function allowedText(min: number, max: number): string {
  if (min === max) return `${min} workers, no more and no fewer: start it with a range, as --workers 2..8`;
  return max >= WORKERS_MAX ? `at least ${min} workers` : `${min} to ${max} workers`;
}
