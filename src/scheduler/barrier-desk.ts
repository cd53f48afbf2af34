// barrier-desk — answers nodes that stand at barriers, and knows who stands at the last one. Who may pass is consistency/barrier.ts's.

import type { Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { type BarrierMember, Barriers, type SettledEntry } from "../cluster/barrier.ts";
import type { BarrierReply, BarrierRequest } from "../wire/control.ts";
import { Group } from "../wire/node-id.ts";

export type BarrierDeskOptions = {
  readonly clock: Clock;
  /** Everybody who has a place in the job, the scheduler included. */
  readonly members: () => readonly BarrierMember[];
};

export class BarrierDesk {
  readonly #clock: Clock;
  readonly #barriers: Barriers<Deferred<BarrierReply>>;
  /** When a node came last to the barrier at which all leave. */
  readonly #leavingAtMs = new Map<number, number>();

  constructor({ clock, members }: BarrierDeskOptions) {
    this.#clock = clock;
    this.#barriers = new Barriers(members);
  }

  /** A node stands at a barrier; answered when it may go. Throws when it has no business there. */
  enter(node: number, { group, customer, round }: BarrierRequest): Promise<BarrierReply> {
    const ticket = new Deferred<BarrierReply>();
    if (group === Group.ALL && customer === 0) this.#noteLeaving(node, ticket);
    this.#settle(this.#barriers.enter({ group, customer, node, round, ticket }));
    return ticket.promise;
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

  /** Everybody who waits is told that it was in vain. */
  close(error: WeighbridgeError): void {
    this.#settle(this.#barriers.failAll(error));
  }

  /** Whether this node has not stood at the last barrier (all nodes, customer 0) for so long: it still has work to do. */
  isAtWork(node: number, withinMs: number): boolean {
    return (this.#leavingAtMs.get(node) ?? -Infinity) < this.#clock.nowMs() - withinMs;
  }

  /** The start, and users, have barriers of all nodes too: who passes one was not leaving, or has left. */
  #noteLeaving(node: number, { promise }: Deferred<BarrierReply>): void {
    this.#leavingAtMs.set(node, this.#clock.nowMs());
    const passed = (): void => void this.#leavingAtMs.delete(node);
    promise.then(passed, () => {}); // a barrier that failed is come to again
  }

  #settle(settled: readonly SettledEntry<Deferred<BarrierReply>>[]): void {
    for (const { ticket, outcome } of settled) {
      if (outcome instanceof WeighbridgeError) ticket.reject(outcome);
      else ticket.resolve({ round: outcome });
    }
  }
}
