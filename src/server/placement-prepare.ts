// placement-prepare — what a server does when the scheduler prepares it for another placement (PREPARE): it holds back
// loads and cuts of checkpoints until the parts of that placement are handed over, it does not come, or is late.
//
// Invariants:
//   PlacementPrepare.P1. A server that loads, or makes a cut, is not prepared: QUEUE_FULL, and the scheduler tries
//       again (CheckpointService.V7, V8).
//   PlacementPrepare.P2. State that an application assigned to servers itself does not move: a server that has any
//       refuses placements with other servers.

import type { Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { unsupported, WeighbridgeError } from "../base/errors.ts";
import { PlacementHold } from "../cluster/placement-hold.ts";
import type { PrepareRequest } from "../wire/control.ts";
import type { Ownership } from "./ownership.ts";

export class PlacementPrepare {
  readonly #ownership: Ownership;
  readonly #clock: Clock;
  /** Undefined while no placement is about to come. */
  #hold: PlacementHold | undefined;
  /** Resolves when parts that come or go have settled. */
  #settled: Deferred<void> | undefined;

  constructor(ownership: Ownership, clock: Clock) {
    this.#ownership = ownership;
    this.#clock = clock;
    ownership.onChange(() => {
      if (ownership.isSettling) return;
      this.#settled?.resolve();
      this.#settled = undefined;
    });
  }

  /** Resolves when loads and cuts may begin, or have to look again; undefined: they may. */
  get released(): Promise<void> | undefined {
    if (this.#hold !== undefined) return this.#hold.released;
    if (!this.#ownership.isSettling) return undefined;
    this.#settled ??= new Deferred();
    return this.#settled.promise;
  }

  /** Parts of placements up to this epoch are with their owners, also where this server has nothing to do with them. */
  handedOver(epoch: number): void {
    if (this.#hold !== undefined && epoch >= this.#hold.epoch) this.#hold.end();
  }

  /**
   * The placement is about to change, or does not. Throws QUEUE_FULL (PlacementPrepare.P1) and UNSUPPORTED
   * (PlacementPrepare.P2), nothing held.
   */
  take(request: PrepareRequest, { isLoading, isCutting }: { readonly isLoading: boolean; readonly isCutting: boolean }): void {
    const ownership = this.#ownership;
    const { epoch, holdMs, servers } = request;
    if (epoch <= ownership.epoch) return;
    if (holdMs === 0) {
      if (this.#hold?.epoch === epoch) this.#hold.end();
      return;
    }
    if (isCutting) throw new WeighbridgeError("QUEUE_FULL", `server ${ownership.rank} makes a cut of a checkpoint`, { retryable: true });
    if (isLoading) throw new WeighbridgeError("QUEUE_FULL", `server ${ownership.rank} is loading what was saved`, { retryable: true });
    if (servers !== undefined && ownership.hasAppCut) {
      const why = "an application of this job chose the servers of its requests itself (setSlicer, or a C++ worker)";
      throw unsupported(`server ${ownership.rank} cannot take part in a change of the servers: ${why}`);
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
    this.#settled?.resolve();
  }
}
