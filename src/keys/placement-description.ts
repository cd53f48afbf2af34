// placement-description — the few words that give a placement: published with the roster, carried by refusals, and
// kept.

/**
 * Equal descriptions give the same placement on every node (Placement.P3). A newer one has a higher epoch, from 1 on.
 */
export type PlacementDescription = {
  readonly epoch: number;
  readonly policy: "ring" | "range";
  /** The ranks of the servers that take part. */
  readonly servers: readonly number[];
  /** Parts whose owner is not the policy's: part, rank, part, rank … Left out: none. */
  readonly moved?: readonly number[] | undefined;
  /** Parts are on their way from servers to servers; all of both are `servers`. Left out: none are. */
  readonly move?: PlacementMove | undefined;
};

/** Parts below `below` are where the policy puts them over the ranks `to`, the others where it does over `from`. */
export type PlacementMove = { readonly from: readonly number[]; readonly to: readonly number[]; readonly below: number };
