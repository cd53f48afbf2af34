// part-shares — how many parts each server owns, and how uneven that is, for reports of changes of the servers
// (scaling.ts). Counted once for each placement.

import { placementOf } from "../keys/placement-of.ts";
import type { PlacementView } from "../wire/roster.ts";
import type { ScalingReport } from "../wire/scaling.ts";

type Shares = Pick<ScalingReport, "shares" | "skew">;

export class PartShares {
  #epoch = 0;
  #last: Shares = { shares: [] };

  /** By rank; those of the last placement while there is none. */
  of(view: PlacementView | undefined): Shares {
    if (view !== undefined && view.epoch !== this.#epoch) {
      const placement = placementOf(view);
      const shares = placement.servers.map((rank) => ({ rank, parts: placement.partsOf(rank).length }));
      const skew = skewOf(shares);
      this.#epoch = view.epoch;
      this.#last = { shares, ...(skew === undefined ? {} : { skew }) };
    }
    return this.#last;
  }
}

/** How much the fullest server has of what each would have if all had the same; undefined for one server. */
export function skewOf(shares: ScalingReport["shares"]): number | undefined {
  const counts = shares.map(({ parts }) => parts);
  const mean = counts.reduce((sum, parts) => sum + parts, 0) / counts.length;
  return counts.length < 2 ? undefined : Math.max(...counts) / mean;
}
