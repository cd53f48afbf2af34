// subscribed-rows — which rows of a process cache servers push (SSPPush), to which clock each server has pushed, and who
// waits for the next push. A row that a push of a clock did not bring is as it was, and fresh to that clock too.
//
// Invariants:
//   SubscribedRows.S1. A row counts as pushed only while the placement stands by which it was subscribed to, and if it
//       was read after what its server pushed last (TableContracts.T4).
//   SubscribedRows.S2. Nobody waits for a push for longer than PUSH_WAIT_MS: then the row is asked for.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";

/** How long a read waits for a push of its row before it asks for it. */
const PUSH_WAIT_MS = 1000;

export class SubscribedRows {
  readonly #clock: Clock;
  /** By slot. */
  readonly #isSubscribed: Uint8Array;
  /** By server. */
  readonly #clocks = new Map<number, number>();
  readonly #orders = new Map<number, number>();
  /** Of the placement by which rows were subscribed to. */
  #epoch = 0;
  /** Look whether what came in is what they wait for. */
  readonly #waiters = new Set<() => void>();

  constructor(slotCount: number, clock: Clock) {
    this.#clock = clock;
    this.#isSubscribed = new Uint8Array(slotCount);
  }

  /** The new owners of rows push nothing (S1). */
  follow(epoch: number): void {
    if (epoch === this.#epoch) return;
    this.#epoch = epoch;
    this.#isSubscribed.fill(0);
    this.#clocks.clear();
  }

  has(slot: number): boolean {
    return this.#isSubscribed[slot] === 1;
  }

  /** The row in a slot was read from a server at an order (S1). */
  read(slot: number, server: number, order: number): void {
    this.#isSubscribed[slot] = order >= (this.#orders.get(server) ?? 0) ? 1 : 0;
  }

  /** The server pushes it no more. */
  drop(slot: number): void {
    this.#isSubscribed[slot] = 0;
  }

  /** The clock that a server pushed last. */
  clockOf(server: number): number {
    return this.#clocks.get(server) ?? 0;
  }

  /** A push at this order begins to come in. */
  began(server: number, order: number): void {
    this.#orders.set(server, Math.max(order, this.#orders.get(server) ?? 0));
  }

  /** All of a server's push of this clock has come in. */
  ended(server: number, clock: number): void {
    this.#clocks.set(server, Math.max(clock, this.clockOf(server)));
    for (const look of this.#waiters) look();
  }

  /** What `find` returns once it is not undefined: it is asked after every push. Undefined when none helped (S2). */
  wait<T>(find: () => T | undefined): T | Promise<T | undefined> {
    const found = find();
    if (found !== undefined) return found;
    const done = new Deferred<T | undefined>();
    const end = (value: T | undefined): void => {
      this.#waiters.delete(look);
      cancel();
      done.resolve(value);
    };
    const look = (): void => {
      const next = find();
      if (next !== undefined) end(next);
    };
    const cancel = this.#clock.after(PUSH_WAIT_MS, () => end(undefined));
    this.#waiters.add(look);
    return done.promise;
  }
}
