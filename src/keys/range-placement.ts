// range-placement — every server owns one range of consecutive parts, all of the same size but for one part. The most even there is, and
// the one to choose when the servers of a job stay the same; a server that joins or leaves moves about half of all parts.

import { PART_COUNT, Placement, type PlacementOptions } from "./placement.ts";

/** Throws BAD_ARGUMENT. */
export function rangePlacement(options: PlacementOptions): Placement {
  return new Placement(
    options,
    ({ length: serverCount }) =>
      (part) =>
        Math.floor((part * serverCount) / PART_COUNT),
  );
}
