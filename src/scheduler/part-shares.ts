// part-shares — how many parts each server owns, for reports of changes of the servers (scaling.ts). Counted once for
// each placement.

import { placementOf } from "../keys/placement-of.ts";
import type { PlacementView } from "../wire/roster.ts";
import type { ScalingReport } from "../wire/scaling.ts";

export class PartShares {
  #last: { readonly epoch: number; readonly shares: ScalingReport["shares"] } = { epoch: 0, shares: [] };

  /** By rank; those of the last placement while there is none. */
  of(view: PlacementView | undefined): ScalingReport["shares"] {
    if (view !== undefined && view.epoch !== this.#last.epoch) {
      const placement = placementOf(view);
      const shares = placement.servers.map((rank) => ({ rank, parts: placement.partsOf(rank).length }));
      this.#last = { epoch: view.epoch, shares };
    }
    return this.#last.shares;
  }
}
