// consistency-text — how fresh reads are and when updates count, in the words that users have for it: bsp, bsp mean, ssp:4, asp. Pure.
//
// Invariants:
//   W1. What differs has different words.

export type ConsistencyFields = {
  readonly updates: "async" | "sync";
  readonly reduce: "sum" | "mean";
  /** Left out: any number of clocks. */
  readonly staleness: number | undefined;
};

export function consistencyText({ updates, reduce, staleness }: ConsistencyFields): string {
  const mean = reduce === "mean" ? " mean" : "";
  if (updates === "async") return `${staleness === undefined ? "asp" : `ssp:${staleness}`}${mean}`;
  return `bsp${mean}${staleness === 0 ? "" : `, staleness ${staleness ?? "any"}`}`;
}
