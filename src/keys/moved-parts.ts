// moved-parts — what has to move when one placement takes the place of another.

import { PART_COUNT, type Placement } from "./placement.ts";

/** The parts whose owner differs between two placements: those that have to move. */
export function movedParts(before: Placement, after: Placement): readonly number[] {
  const parts: number[] = [];
  for (let part = 0; part < PART_COUNT; part++) if (before.ownerOf(part) !== after.ownerOf(part)) parts.push(part);
  return parts;
}
