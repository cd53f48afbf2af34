// barrier-service — answers nodes that stand at barriers. Who may pass is cluster/barrier.ts's.

import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { type BarrierMember, Barriers, type SettledEntry } from "../cluster/barrier.ts";
import type { BarrierReply, BarrierRequest } from "../wire/control.ts";
import { Group } from "../wire/node-id.ts";

export class BarrierService {
  readonly #barriers: Barriers<Deferred<BarrierReply>>;
  #closed: WeighbridgeError | undefined;

  /** `members` tells everybody who has a slot in the job, the scheduler included. */
  constructor(members: () => readonly BarrierMember[]) {
    this.#barriers = new Barriers(members);
  }

  /** The nodes that are done, and wait at the barrier of all nodes to leave. */
  get leaving(): ReadonlySet<number> {
    return this.#barriers.lasting({ group: Group.ALL, customer: 0 });
  }

  /** A node stands at a barrier; answered when it may go. Throws when it has no business there, and once the job is over. */
  enter(node: number, request: BarrierRequest): Promise<BarrierReply> {
    if (this.#closed !== undefined) throw this.#closed;
    const caller = new Deferred<BarrierReply>();
    this.#settle(this.#barriers.enter({ ...request, node, caller }));
    return caller.promise;
  }

  /** What a node says of rounds that an earlier scheduler kept. */
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

  /** Everybody who waits, or comes later, is told that they cannot pass. */
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
