// split-table — splits the index of an empty table for rows that are about to come, as it is once they are there. The
// rows of a checkpoint come by part: an index that is split meanwhile would take half as much again. Not the split
// itself (kernels/table-growth.as.ts, G5).

import type { Kernels } from "../kernel/kernels.ts";
import { PART_BITS } from "../keys/part.ts";

/** A segment that gets slightly more than it holds is split then, as in a table that grew. */
const FULLNESS_MAX = 1.1;
/** Bits of a hash that choose a segment, at most (kernels/table-growth.as.ts, DEPTH_MAX). */
const DEPTH_MAX = 24;
const HASH_BITS = 32;

/** `byPart` has the rows of each part. False when there is no room. */
export function splitFor(kernels: Kernels, table: number, byPart: Float64Array): boolean {
  const rowsMax = kernels.segmentRowsMax(table) * FULLNESS_MAX;
  const upTo = new Float64Array(byPart.length + 1);
  for (const [part, count] of byPart.entries()) upTo[part + 1] = (upTo[part] as number) + count;
  const countOf = (prefix: number, depth: number): number => {
    const parts = 2 ** (PART_BITS - depth);
    if (parts < 1) return (byPart[Math.floor(prefix * parts)] as number) * parts; // below a part rows are spread evenly
    return (upTo[(prefix + 1) * parts] as number) - (upTo[prefix * parts] as number);
  };
  const split = (prefix: number, depth: number): boolean => {
    if (depth < DEPTH_MAX && countOf(prefix, depth) > rowsMax) return split(2 * prefix, depth + 1) && split(2 * prefix + 1, depth + 1);
    return kernels.splitTo(table, (prefix * 2 ** (HASH_BITS - depth)) >>> 0, depth);
  };
  return split(0, 0);
}
