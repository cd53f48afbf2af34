// announcement-hold — what keeps a worker from announcing the ends of its clocks while the placement is about to change.
// A server that has heard of the end of a clock has closed it: an update of that clock that another server refuses, and
// that is cut again, would come too late there. So the scheduler prepares all workers before it publishes a placement.
//
//   PREPARE ──► held: announcements, and joins of the clock set, wait ──► answered once all that had left are answered
//                 └── ends with the placement, with PREPARE of holdMs 0, or holdMs after the last PREPARE
//
// Invariants:
//   AnnouncementHold.A1. `prepared` resolves when every announcement that has left the worker is answered by its server.
//   AnnouncementHold.A2. Nothing waits for ever: neither a scheduler that dies nor a change that is abandoned holds a
//       worker for longer than holdMs.

import type { CancelTimer, Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import type { PrepareRequest } from "../../wire/control.ts";

export class AnnouncementHold {
  readonly #clock: Clock;
  readonly #ended: () => void;
  readonly #prepared = new Deferred<void>();
  readonly #released = new Deferred<void>();
  readonly prepared: Promise<void> = this.#prepared.promise;
  readonly released: Promise<void> = this.#released.promise;
  #epoch = 0;
  #cancelTimer: CancelTimer = () => {};

  /** `ended` hears when it is over. */
  constructor(clock: Clock, ended: () => void) {
    this.#clock = clock;
    this.#ended = ended;
  }

  /** Of the placement that is waited for. */
  get epoch(): number {
    return this.#epoch;
  }

  /** From now on it lasts `holdMs` (A2). */
  renew({ epoch, holdMs }: PrepareRequest): void {
    this.#epoch = epoch;
    this.#cancelTimer();
    this.#cancelTimer = this.#clock.after(holdMs, () => this.end());
  }

  /** A1 */
  allAnswered(): void {
    this.#prepared.resolve();
  }

  end(): void {
    this.#cancelTimer();
    this.#ended();
    this.#prepared.resolve();
    this.#released.resolve();
  }
}
