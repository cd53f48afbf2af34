// partial-reduce — Hetu's kPReduceGetPartner: whoever is ready for a reduction asks for partners, and gets those who are ready too. Hetu blocks a
// thread of the server for each who waits; here they wait parked. Pure; it finds partners and reduces nothing.
//
//   ask ──► group (the first one's patience runs) ──► `want` have come, or the patience is over: all get the same ranks, ascending
//
// Invariants (spec/consistency.md):
//   PartialReduce.Q1. A group closes exactly when its `want`-th rank comes, with `want` ranks, or when the patience of its first ends, with those who are
//       there. So a group of 8 forms with 8, and nobody waits longer than the first one's patience.
//   PartialReduce.Q2. All members of one group are told the same ranks, ascending, themselves included; each rank is in it once.
//   PartialReduce.Q3. Who comes after that opens the next group at once: it waits for nobody to take an answer.
//   PartialReduce.Q4. Who dies, leaves or gives up while it waits is in no answer. The patience of a first who is gone still holds for the others.
//   PartialReduce.Q5. Keys that gather at one time are bounded (QUEUE_FULL); a key without waiters costs nothing.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { nameOf, rankOf } from "../wire/node-id.ts";
import { type WorkerIncarnation, WorkerIncarnations } from "./worker-incarnations.ts";

const GROUPS_MAX = 4096;
const WANT_MAX = 65_536;
/** Longer than anybody waits for partners, and short enough for every timer. */
const PATIENCE_MAX_MS = 86_400_000;

/** Who waits for partners. Exactly one of the two is called, once; neither may throw. Both may ask again. */
export type PartnerWaiter = {
  formed(ranks: readonly number[]): void;
  failed(error: WeighbridgeError): void;
};

export type PartnerRequest = WorkerIncarnation & {
  readonly key: bigint;
  /** How many ranks a group has, the asker included. */
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
   * The ranks, when the asker is the last that its group wants: the others are told now, and its own waiter is not. Otherwise undefined, and it
   * waits. A rank that asks again while it waits stands there once: its earlier waiter fails with ABORTED. Throws BAD_ARGUMENT for
   * numbers that make no sense, or when others gather under this key in another number, QUEUE_FULL, and FENCED
   * or NODE_DEAD for an incarnation that is over.
   */
  ask(request: PartnerRequest): readonly number[] | undefined {
    checkRequest(request);
    this.#holders.check(request);
    this.#holders.began(request);
    const { key, worker, want } = request;
    const group = this.#forming.get(key) ?? this.#open(request);
    if (group.want !== want) {
      throw new WeighbridgeError(
        "BAD_ARGUMENT",
        `${nameOf(worker)} wants a group of ${want} under key ${key}, where a group of ${group.want} is group`,
      );
    }
    const earlier = group.requests.get(worker);
    group.requests.set(worker, request); // PartialReduce.Q2
    const ranks = group.requests.size === want ? this.#close(key, group, worker) : undefined;
    earlier?.waiter.failed(new WeighbridgeError("ABORTED", `${nameOf(worker)} asked for partners under key ${key} again`));
    return ranks;
  }

  /** The caller gave it up. Does nothing when its waiter was told before, or replaced. */
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

  /** The incarnation was taken for dead, and lives: it may ask again. */
  revived(holder: WorkerIncarnation): void {
    this.#holders.revived(holder);
  }

  /** Nobody waits any more. */
  close(): void {
    const groups = [...this.#forming.values()];
    this.#forming.clear();
    for (const { cancelTimer, requests } of groups) {
      cancelTimer();
      for (const { waiter } of requests.values()) waiter.failed(new WeighbridgeError("CLOSED", "the server is closing"));
    }
  }

  #open({ key, want, patienceMs }: PartnerRequest): FormingGroup {
    if (this.#forming.size >= GROUPS_MAX) {
      throw new WeighbridgeError("QUEUE_FULL", `partners are group under ${GROUPS_MAX} keys already`, { retryable: true });
    }
    const group: FormingGroup = {
      want,
      requests: new Map(),
      cancelTimer: this.#clock.after(patienceMs, () => this.#close(key, group)),
    };
    this.#forming.set(key, group);
    return group;
  }

  /** PartialReduce.Q1. Tells everybody but the asker, who gets what is returned. */
  #close(key: bigint, { requests, cancelTimer }: FormingGroup, asker?: number): readonly number[] {
    this.#forming.delete(key); // Q3: before anybody is told, and may ask again
    cancelTimer();
    const ranks = [...requests.keys()].map(rankOf).sort((a, b) => a - b);
    for (const { worker, waiter } of requests.values()) if (worker !== asker) waiter.formed(ranks);
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
  if (!isCount) throw new WeighbridgeError("BAD_ARGUMENT", `${nameOf(worker)} wants a group of ${want}: it has 1 to ${WANT_MAX} members`);
  if (patienceMs >= 0 && patienceMs <= PATIENCE_MAX_MS) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `${nameOf(worker)} waits ${patienceMs} ms for partners: 0 to ${PATIENCE_MAX_MS} are possible`);
}
