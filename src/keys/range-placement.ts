// range-placement — every server owns one range of consecutive parts, all of the same size but for one part. The most even there is, and
// the one to choose when the servers of a job stay the same; a server that joins or leaves moves about half of all parts.

import { PART_COUNT, Placement, type PlacementOptions } from "./placement.ts";

/** Throws BAD_ARGUMENT. A chain goes on with the servers after the owner, around the end. */
export function rangePlacement(options: PlacementOptions): Placement {
  return new Placement(options, ({ length: serverCount }) => (part, chain) => {
    const owner = Math.floor((part * serverCount) / PART_COUNT);
    for (let i = 0; i < chain.length; i++) chain[i] = (owner + i) % serverCount;
  });
}
