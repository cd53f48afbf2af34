// barrier-service — answers nodes that stand at barriers. cluster/barrier.ts decides who may pass.

import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { type BarrierMember, Barriers, type SettledEntry } from "../cluster/barrier.ts";
import type { BarrierReply, BarrierRequest } from "../wire/control.ts";
import { Group } from "../wire/node-id.ts";

export class BarrierService {
  readonly #barriers: Barriers<Deferred<BarrierReply>>;
  #closed: WeighbridgeError | undefined;

  /** `members` lists everybody who has a slot in the job, the scheduler included. */
  constructor(members: () => readonly BarrierMember[]) {
    this.#barriers = new Barriers(members);
  }

  /** The nodes that are done, and wait at the barrier of all nodes to leave. */
  get leaving(): ReadonlySet<number> {
    return this.#barriers.lasting({ group: Group.ALL, customer: 0 });
  }

  /**
   * Whether everybody has passed the barrier of the start. In a resumed job perhaps all who passed it were restarted
   * since, and none of them says so: then nobody stands there.
   */
  hasStarted(isResumed: boolean): boolean {
    const barrier = { group: Group.ALL, customer: 0 };
    return this.#barriers.lastRound(barrier) > 0 || (isResumed && !this.#barriers.hasStanding(barrier));
  }

  /** A node enters a barrier; answered when it may pass. Throws if it must not enter, and once the job is over. */
  enter(node: number, request: BarrierRequest): Promise<BarrierReply> {
    if (this.#closed !== undefined) throw this.#closed;
    const caller = new Deferred<BarrierReply>();
    this.#settle(this.#barriers.enter({ ...request, node, caller }));
    return caller.promise;
  }

  /** What a node reports of rounds that an earlier scheduler kept. */
  recall(node: number, passed: readonly BarrierRequest[]): void {
    for (const round of passed) this.#settle(this.#barriers.passed({ node, ...round }));
  }

  died(node: number): void {
    this.#settle(this.#barriers.died(node));
  }

  /** Members have changed. */
  review(): void {
    this.#settle(this.#barriers.review());
  }

  /** Fails all who wait, or come later. */
  close(error: WeighbridgeError): void {
    this.#closed ??= error;
    this.#settle(this.#barriers.failAll(error));
  }

  #settle(settled: readonly SettledEntry<Deferred<BarrierReply>>[]): void {
    for (const { caller, outcome } of settled) {
      if (outcome instanceof WeighbridgeError) caller.reject(outcome);
      else caller.resolve({ round: outcome });
    }
  }
}
