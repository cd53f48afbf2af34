// slicer — which keys of a request go to which server. The default cuts an ascending list at the servers' ranges; users may bring their own.

import { lowerBound } from "./ascending.ts";
import type { Range } from "./key-range.ts";

/** Server i gets keys[cuts[i] … cuts[i + 1]); one more entry than servers, from 0 to the number of keys, never falling. */
export type Cuts = readonly number[];

/** Decides the cuts of one request. The values go with their keys. */
export type Slicer = (keys: BigUint64Array, ranges: readonly Range[]) => Cuts;

export const sliceByRange: Slicer = (keys, ranges) => {
  if (ranges.length === 1) return [0, keys.length];
  const cuts = new Array<number>(ranges.length + 1);
  cuts[0] = 0;
  for (let i = 1; i < ranges.length; i++) cuts[i] = lowerBound(keys, (ranges[i] as Range).begin);
  cuts[ranges.length] = keys.length;
  return cuts;
};

/** The server that gets all keys when they are cut at the ranges; -1 when there are several. Makes no list, for requests of a few keys. */
export function soleOwner(keys: BigUint64Array, ranges: readonly Range[]): number {
  if (ranges.length === 1) return 0;
  const first = keys[0] as bigint;
  let rank = ranges.length - 1;
  while (rank > 0 && first < (ranges[rank] as Range).begin) rank--;
  const next = ranges[rank + 1];
  return next === undefined || (keys[keys.length - 1] as bigint) < next.begin ? rank : -1;
}

/** What is wrong with these cuts, or undefined. */
export function problemWithCuts(cuts: Cuts, keyCount: number, serverCount: number): string | undefined {
  if (cuts.length !== serverCount + 1) return `${cuts.length} cuts for ${serverCount} servers; one more than servers is needed`;
  if (cuts[0] !== 0 || cuts[serverCount] !== keyCount)
    return `cuts from ${cuts[0]} to ${cuts[serverCount]}; they must cover 0 to ${keyCount}`;
  for (let i = 0; i < serverCount; i++) {
    const cut = cuts[i + 1] as number;
    if (!Number.isInteger(cut)) return `cut ${i + 1} as ${cut}, which is no position`;
    if (cut < (cuts[i] as number)) return `cut ${i + 1} below cut ${i}`;
  }
  return undefined;
}
