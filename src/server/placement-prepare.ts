// placement-prepare — what a server does when the scheduler prepares it for another placement (PREPARE): it holds back
// loads of checkpoints until that placement has come, does not come, or is late.
//
// Invariants:
//   PlacementPrepare.P1. A server that loads is not prepared: QUEUE_FULL, and the scheduler tries again
//       (CheckpointService.V7).
//   PlacementPrepare.P2. State that an application assigned to servers itself does not move: a server that has any
//       refuses placements with other servers.

import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { PlacementHold } from "../cluster/placement-hold.ts";
import type { PrepareRequest } from "../wire/control.ts";
import type { Ownership } from "./ownership.ts";

export class PlacementPrepare {
  readonly #ownership: Ownership;
  readonly #clock: Clock;
  /** Undefined while no placement is about to come. */
  #hold: PlacementHold | undefined;

  constructor(ownership: Ownership, clock: Clock) {
    this.#ownership = ownership;
    this.#clock = clock;
    ownership.onChange(() => {
      if (this.#hold !== undefined && ownership.servedEpoch >= this.#hold.epoch) this.#hold.end();
    });
  }

  /** Resolves when loads may begin again; undefined: they may. */
  get released(): Promise<void> | undefined {
    return this.#hold?.released;
  }

  /**
   * The placement is about to change, or does not. Throws QUEUE_FULL (PlacementPrepare.P1) and UNSUPPORTED
   * (PlacementPrepare.P2), nothing held.
   */
  take(request: PrepareRequest, { isLoading }: { readonly isLoading: boolean }): void {
    const ownership = this.#ownership;
    const { epoch, holdMs, servers } = request;
    if (epoch <= ownership.epoch) return;
    if (holdMs === 0) {
      if (this.#hold?.epoch === epoch) this.#hold.end();
      return;
    }
    if (isLoading) throw new WeighbridgeError("QUEUE_FULL", `server ${ownership.rank} is loading what was saved`, { retryable: true });
    if (servers !== undefined && ownership.hasAppCut) {
      const why = "an application of this job chose the servers of its requests itself (setSlicer, or a C++ worker)";
      throw new WeighbridgeError("UNSUPPORTED", `server ${ownership.rank} cannot go along with a change of the servers: ${why}`);
    }
    this.#hold ??= new PlacementHold(this.#clock, () => {
      this.#hold = undefined;
      ownership.areServersChanging = false;
    });
    this.#hold.renew(request);
    ownership.areServersChanging = servers !== undefined; // Ownership.O4
  }

  close(): void {
    this.#hold?.end();
  }
}
