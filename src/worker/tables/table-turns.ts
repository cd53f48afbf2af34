// table-turns — the turns of the thread that speaks for a process at rows which threads of the system share with it:
// what changes which rows are here runs while none of those threads is at any row. Without such threads a turn is a
// plain call.
//
// Invariants:
//   TableTurns.T1. Turns are taken in the order in which they were asked for.
//   TableTurns.T2. The event loop never waits for a lock (RowLocks.L3): where a row is in use the turn is tried again a
//       little later.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { RowLocks } from "./row-locks.ts";

/** When rows are in use by threads of the system, how long until the next try. */
const AGAIN_MS = 1;

export class TableTurns {
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  /** Once threads of the system share the rows. */
  #locks: RowLocks | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a turn may have to wait. */
  get isShared(): boolean {
    return this.#locks !== undefined;
  }

  /** A thread of the system shares the rows from now on: its locks. */
  share(): RowLocks {
    this.#locks ??= new RowLocks();
    return this.#locks;
  }

  /** Whether a row is of one of the groups whose locks a thread had when it ended; they are free now (RowLocks.L2). */
  takeFrom(thread: number): (low: number) => boolean {
    const locks = this.#locks;
    const groups = locks?.takeFrom(thread) ?? [];
    return (low) => locks !== undefined && groups.includes(locks.groupOf(low));
  }

  /** Runs `turn`: at once, or as soon as no thread of the system is at the rows. Rejects with what it throws. */
  take(turn: () => void): Promise<void> {
    if (this.#locks === undefined) {
      turn();
      return Promise.resolve();
    }
    const done = new Deferred<void>();
    this.#waiting.push(() => {
      try {
        turn();
        done.resolve();
      } catch (thrown) {
        done.reject(thrown);
      }
    });
    if (this.#waiting.length === 1) this.#try(this.#locks);
    return done.promise;
  }

  /** TableTurns.T2 */
  #try(locks: RowLocks): void {
    if (!locks.tryLockAll()) {
      this.#clock.after(AGAIN_MS, () => this.#try(locks));
      return;
    }
    try {
      for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
        next();
        this.#waiting.shift();
      }
    } finally {
      locks.unlockAll();
    }
  }
}
