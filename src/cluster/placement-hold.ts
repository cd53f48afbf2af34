// placement-hold — what a node holds back while the placement is about to change: a worker the ends of its clocks
// (Router.R7), a server the loading of checkpoints (CheckpointService.V7). The scheduler prepares both before it
// publishes a placement.
//
//   PREPARE ──► held ──► answered once all that had begun is over
//                 └── ends with the placement, with PREPARE of holdMs 0, or holdMs after the last PREPARE
//
// Invariants:
//   PlacementHold.A1. `prepared` resolves when all that had begun is over: of a worker, when servers have answered
//       every clock message that has left it.
//   PlacementHold.A2. Neither a scheduler that dies nor an abandoned change holds a node for longer than holdMs.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import type { PrepareRequest } from "../wire/control.ts";

export class PlacementHold {
  readonly #clock: Clock;
  readonly #ended: () => void;
  readonly #prepared = new Deferred<void>();
  readonly #released = new Deferred<void>();
  readonly prepared: Promise<void> = this.#prepared.promise;
  readonly released: Promise<void> = this.#released.promise;
  #epoch = 0;
  #cancelTimer: CancelTimer = () => {};

  /** Calls `ended` when it is over. */
  constructor(clock: Clock, ended: () => void) {
    this.#clock = clock;
    this.#ended = ended;
  }

  /** Of the placement that the node waits for. */
  get epoch(): number {
    return this.#epoch;
  }

  /** From now on it lasts `holdMs` (PlacementHold.A2). */
  renew({ epoch, holdMs }: PrepareRequest): void {
    this.#epoch = epoch;
    this.#cancelTimer();
    this.#cancelTimer = this.#clock.after(holdMs, () => this.end());
  }

  /** PlacementHold.A1 */
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
