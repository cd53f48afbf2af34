// subscribed-rows — which rows of a process cache servers push (SSPPush), to which clock each server has pushed, and
// who waits for the next push. A row that a push of a clock did not bring is as it was, and fresh to that clock too.
//
// Invariants:
//   SubscribedRows.S1. A row counts as pushed only while the placement stands by which it was subscribed to, and the
//       process of its server, and if it was read after what that pushed last (TableContracts.T4). A server that was
//       restarted, or took over, knows of no subscription before the row is read again.
//   SubscribedRows.S2. Nobody waits for a push for longer than PUSH_WAIT_MS: then the row is asked for.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";

/** How long a read waits for a push of its row before it asks for it. */
const PUSH_WAIT_MS = 1000;

/** A server as subscriptions know it. */
export type Pusher = {
  readonly server: number;
  /** Which process it is. */
  readonly incarnation: number;
  /** Of the placement by which it owns rows. */
  readonly epoch: number;
};

export class SubscribedRows {
  readonly #clock: Clock;
  /** By slot. */
  readonly #isSubscribed: Uint8Array;
  /** By server: the clock and the order of what it pushed last. */
  readonly #pushed = new Map<number, { readonly incarnation: number; clock: number; order: number }>();
  /** Of the placement by which rows were subscribed to. */
  #epoch = 0;
  /** Look whether what came in is what they wait for. */
  readonly #waiters = new Set<() => void>();

  constructor(slotCount: number, clock: Clock) {
    this.#clock = clock;
    this.#isSubscribed = new Uint8Array(slotCount);
  }

  /** What this server has pushed; undefined for a process or a placement that has been replaced (SubscribedRows.S1). */
  #of({ server, incarnation, epoch }: Pusher): { clock: number; order: number } | undefined {
    const known = this.#pushed.get(server);
    if (epoch < this.#epoch || (known !== undefined && incarnation < known.incarnation)) return undefined;
    if (epoch > this.#epoch) {
      this.#epoch = epoch; // the new owners of rows push nothing
      this.#isSubscribed.fill(0);
      for (const pushed of this.#pushed.values()) pushed.clock = 0;
    }
    if (known?.incarnation === incarnation) return known;
    if (known !== undefined) this.#isSubscribed.fill(0);
    const pushed = { incarnation, clock: 0, order: 0 };
    this.#pushed.set(server, pushed);
    return pushed;
  }

  has(slot: number): boolean {
    return this.#isSubscribed[slot] === 1;
  }

  /** The row in a slot was read from a server at an order (SubscribedRows.S1). */
  read(slot: number, from: Pusher, order: number): void {
    const pushed = this.#of(from);
    this.#isSubscribed[slot] = pushed !== undefined && order >= pushed.order ? 1 : 0;
  }

  /** The server pushes it no more. */
  drop(slot: number): void {
    this.#isSubscribed[slot] = 0;
  }

  /** To which clock a subscribed row of this server is fresh though it was not pushed; 0 when nobody pushes it. */
  clockOf(server: Pusher): number {
    return this.#of(server)?.clock ?? 0;
  }

  /** A push at this order begins to come in. */
  began(from: Pusher, order: number): void {
    const pushed = this.#of(from);
    if (pushed !== undefined) pushed.order = Math.max(order, pushed.order);
  }

  /** All of a server's push of this clock has come in. */
  ended(from: Pusher, clock: number): void {
    const pushed = this.#of(from);
    if (pushed !== undefined) pushed.clock = Math.max(clock, pushed.clock);
    for (const look of this.#waiters) look();
  }

  /**
   * What `find` returns once it is not undefined: it is asked after every push. Undefined when none helped
   * (SubscribedRows.S2).
   */
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
