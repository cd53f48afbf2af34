// partial-reduce — Hetu's kPReduceGetPartner: a worker that is ready for a reduction gets as partners those that are
// ready, too. Hetu blocks a server thread for each waiting worker; here they wait parked. Pure; it reduces nothing.
//
//   join ──► group (the patience of its first runs) ──► `want` have joined, or it ends: all get the same ranks
//
// Invariants (spec/consistency.md):
//   PartialReduce.Q1. A group closes exactly when its `want`-th rank joins, with `want` ranks, or when the patience of
//       its first ends, with those that have joined. So nobody waits longer than the patience of the first.
//   PartialReduce.Q2. All members of one group get the same ranks, ascending, their own included, each once.
//   PartialReduce.Q3. The next worker opens the next group at once, whether or not the members have their answers.
//   PartialReduce.Q4. A worker that dies, leaves or cancels while it waits is in no answer. The patience of a first
//       that is gone still holds for the others.
//   PartialReduce.Q5. Open groups are bounded (QUEUE_FULL); a key without waiters costs nothing.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { nameOf, rankOf } from "../wire/node-id.ts";
import { type WorkerIncarnation, WorkerIncarnations } from "./worker-incarnations.ts";

const GROUPS_MAX = 4096;
const WANT_MAX = 65_536;
/** Longer than anybody waits for partners, and short enough for every timer. */
const PATIENCE_MAX_MS = 86_400_000;

/** A worker that waits for partners. Exactly one of the two is called, once. Neither may throw; both may join again. */
export type PartnerWaiter = {
  formed(ranks: readonly number[]): void;
  failed(error: WeighbridgeError): void;
};

type PartnerRequest = WorkerIncarnation & {
  readonly key: bigint;
  /** How many ranks a group has, the caller included. */
  readonly want: number;
  /** How long the first of a group waits at most. */
  readonly patienceMs: number;
  readonly waiter: PartnerWaiter;
};

type FormingGroup = {
  readonly want: number;
  /** By worker. */
  readonly requests: Map<number, PartnerRequest>;
  readonly cancelTimer: CancelTimer;
};

export class PartialReduce {
  readonly #clock: Clock;
  readonly #forming = new Map<bigint, FormingGroup>();
  readonly #holders = new WorkerIncarnations();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get groupCount(): number {
    return this.#forming.size;
  }

  /**
   * Returns the ranks if the caller completes its group: the other waiters get them now, its own does not. Otherwise
   * undefined, and it waits. A rank that joins again while it waits replaces its earlier waiter, which fails with
   * ABORTED. Throws BAD_ARGUMENT for invalid numbers or if the group of this key has another size, QUEUE_FULL, and
   * FENCED or NODE_DEAD for an incarnation that is over.
   */
  join(request: PartnerRequest): readonly number[] | undefined {
    checkRequest(request);
    this.#holders.check(request);
    this.#holders.began(request);
    const { key, worker, want } = request;
    const group = this.#forming.get(key) ?? this.#open(request);
    if (group.want !== want) {
      throw badArgument(`${nameOf(worker)} wants a group of ${want} under key ${key}, where a group of ${group.want} forms`);
    }
    const earlier = group.requests.get(worker);
    group.requests.set(worker, request); // PartialReduce.Q2
    const ranks = group.requests.size === want ? this.#close(key, group, worker) : undefined;
    earlier?.waiter.failed(new WeighbridgeError("ABORTED", `${nameOf(worker)} asked for partners under key ${key} again`));
    return ranks;
  }

  /** The caller gave up. Does nothing if its waiter was called before, or replaced. */
  cancel({ key, worker, waiter }: Pick<PartnerRequest, "key" | "worker" | "waiter">): void {
    const group = this.#forming.get(key);
    if (group?.requests.get(worker)?.waiter === waiter) this.#remove(key, group, worker);
  }

  /** The incarnation is over, or has left: it is nobody's partner (PartialReduce.Q4). */
  gone(holder: WorkerIncarnation): void {
    const { worker, incarnation } = holder;
    this.#holders.ended(holder);
    for (const [key, group] of this.#forming) {
      const request = group.requests.get(worker);
      if (request?.incarnation !== incarnation) continue;
      this.#remove(key, group, worker);
      request.waiter.failed(
        new WeighbridgeError("NODE_DEAD", `${nameOf(worker)} was taken for dead, and has to ask again`, { retryable: true }),
      );
    }
  }

  /** The incarnation was taken for dead, and lives: it may join again. */
  revived(holder: WorkerIncarnation): void {
    this.#holders.revived(holder);
  }

  /** Groups under these keys form at another server: waiting calls fail with `error`, and are made there. */
  drop(isMeant: (key: bigint) => boolean, error: WeighbridgeError): void {
    for (const [key, { cancelTimer, requests }] of this.#forming) {
      if (!isMeant(key)) continue;
      this.#forming.delete(key);
      cancelTimer();
      for (const { waiter } of requests.values()) waiter.failed(error);
    }
  }

  /** Nobody waits any more. */
  close(): void {
    this.drop(() => true, new WeighbridgeError("CLOSED", "the server is closing"));
  }

  #open({ key, want, patienceMs }: PartnerRequest): FormingGroup {
    if (this.#forming.size >= GROUPS_MAX) {
      throw new WeighbridgeError("QUEUE_FULL", `groups form under ${GROUPS_MAX} keys already`, { retryable: true });
    }
    const group: FormingGroup = {
      want,
      requests: new Map(),
      cancelTimer: this.#clock.after(patienceMs, () => this.#close(key, group)),
    };
    this.#forming.set(key, group);
    return group;
  }

  /** PartialReduce.Q1. Calls all waiters but that of `caller`, which gets the returned ranks. */
  #close(key: bigint, { requests, cancelTimer }: FormingGroup, caller?: number): readonly number[] {
    this.#forming.delete(key); // PartialReduce.Q3: before any waiter is called, which may join again
    cancelTimer();
    const ranks = [...requests.keys()].map(rankOf).sort((a, b) => a - b);
    for (const { worker, waiter } of requests.values()) if (worker !== caller) waiter.formed(ranks);
    return ranks;
  }

  #remove(key: bigint, { requests, cancelTimer }: FormingGroup, worker: number): void {
    requests.delete(worker);
    if (requests.size > 0) return;
    cancelTimer();
    this.#forming.delete(key);
  }
}

function checkRequest({ worker, want, patienceMs }: PartnerRequest): void {
  const isCount = Number.isSafeInteger(want) && want >= 1 && want <= WANT_MAX;
  if (!isCount) throw badArgument(`${nameOf(worker)} wants a group of ${want}: it has 1 to ${WANT_MAX} members`);
  if (patienceMs >= 0 && patienceMs <= PATIENCE_MAX_MS) return;
  throw badArgument(`${nameOf(worker)} waits ${patienceMs} ms for partners: 0 to ${PATIENCE_MAX_MS} are possible`);
}
