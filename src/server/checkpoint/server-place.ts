// server-place — which server this is among how many, and so what of each parameter is its own. As workers see it (worker/tensor-client, row-plan).

import { type Placement, partOf } from "../../keys/placement.ts";
import { rangePlacement } from "../../keys/range-placement.ts";

export type ServerPlaceOptions = {
  readonly rank: number;
  readonly serverCount: number;
  /** Which run of the job this is: lives of workers mean something within one run only. */
  readonly run: string;
};

export class ServerPlace {
  readonly rank: number;
  readonly serverCount: number;
  readonly run: string;
  /** The parts that are this server's: from, to before. */
  readonly parts: { readonly from: number; readonly to: number };
  readonly placement: Placement;

  constructor({ rank, serverCount, run }: ServerPlaceOptions) {
    this.rank = rank;
    this.serverCount = serverCount;
    this.run = run;
    this.placement = rangePlacement({ servers: Array.from({ length: serverCount }, (_, server) => server), epoch: 0 });
    const owned = this.placement.partsOf(rank);
    this.parts = { from: owned[0] ?? 0, to: (owned.at(-1) ?? -1) + 1 };
  }

  /** The parameter's number, and one of its blocks. */
  ownsBlock(parameter: number, block: number): boolean {
    return this.placement.ownerOf(partOf(block, parameter)) === this.rank;
  }

  /** A key of a table, as its u32 halves. */
  ownsKey(low: number, high: number): boolean {
    return this.placement.ownerOf(partOf(low, high)) === this.rank;
  }
}
