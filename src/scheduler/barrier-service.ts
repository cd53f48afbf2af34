// barrier-service — answers nodes that stand at barriers. cluster/barrier.ts decides who may pass.
//
// Invariants:
//   BarrierService.B1. In a job that serves, workers that are done wait for each other alone: servers and the scheduler
//       stay. So the last barrier of the workers is one of its own.

import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { type BarrierMember, Barriers, type SettledEntry } from "../cluster/barrier.ts";
import type { BarrierReply, BarrierRequest } from "../wire/control.ts";
import { Group, roleOf } from "../wire/node-id.ts";

export class BarrierService {
  readonly #barriers: Barriers<Deferred<BarrierReply>>;
  /** BarrierService.B1; undefined in a job that ends with its workers. */
  readonly #lastOfWorkers: Barriers<Deferred<BarrierReply>> | undefined;
  #closed: WeighbridgeError | undefined;

  /** `members` lists everybody who has a slot in the job, the scheduler included. */
  constructor(members: () => readonly BarrierMember[], { serves = false }: { readonly serves?: boolean | undefined } = {}) {
    this.#barriers = new Barriers(members);
    if (serves) this.#lastOfWorkers = new Barriers(() => members().filter(({ role }) => role === "worker"));
  }

  /** The nodes that are done, and wait at the barrier of all nodes to leave. */
  get leaving(): ReadonlySet<number> {
    const last = { group: Group.ALL, customer: 0 };
    return new Set(this.#all.flatMap((barriers) => [...barriers.lasting(last)]));
  }

  /**
   * Whether everybody has passed the barrier of the start. In a resumed job perhaps all who passed it were restarted
   * since, and none of them says so: then nobody stands there, but for those that wait for the end of the job.
   */
  hasStarted(isResumed: boolean): boolean {
    const barrier = { group: Group.ALL, customer: 0 };
    return this.#barriers.lastRound(barrier) > 0 || (isResumed && !this.#barriers.hasStanding(barrier));
  }

  /** A node enters a barrier; answered when it may pass. Throws if it must not enter, and once the job is over. */
  enter(node: number, request: BarrierRequest): Promise<BarrierReply> {
    if (this.#closed !== undefined) throw this.#closed;
    const caller = new Deferred<BarrierReply>();
    const isLast = request.outlivesDeaths === true && request.group === Group.ALL && request.customer === 0;
    const barriers = (isLast && roleOf(node) === "worker" && this.#lastOfWorkers) || this.#barriers;
    this.#settle(barriers.enter({ ...request, node, caller }));
    return caller.promise;
  }

  /** What a node reports of rounds that an earlier scheduler kept. */
  recall(node: number, passed: readonly BarrierRequest[]): void {
    for (const round of passed) this.#settle(this.#barriers.passed({ node, ...round }));
  }

  /** `goesOn`: the rank of the node does, in another process. */
  died(node: number, { goesOn }: { readonly goesOn: boolean }): void {
    for (const barriers of this.#all) this.#settle(goesOn ? barriers.replaced(node) : barriers.died(node));
  }

  /** Members have changed. */
  review(): void {
    for (const barriers of this.#all) this.#settle(barriers.review());
  }

  /** Fails all who wait, or come later. */
  close(error: WeighbridgeError): void {
    this.#closed ??= error;
    for (const barriers of this.#all) this.#settle(barriers.failAll(error));
  }

  get #all(): readonly Barriers<Deferred<BarrierReply>>[] {
    return this.#lastOfWorkers === undefined ? [this.#barriers] : [this.#barriers, this.#lastOfWorkers];
  }

  #settle(settled: readonly SettledEntry<Deferred<BarrierReply>>[]): void {
    for (const { caller, outcome } of settled) {
      if (outcome instanceof WeighbridgeError) caller.reject(outcome);
      else caller.resolve({ round: outcome });
    }
  }
}
