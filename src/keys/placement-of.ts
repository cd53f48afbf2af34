// placement-of — makes a placement from its description, which the scheduler publishes with the roster and refusals
// carry.

import { WeighbridgeError } from "../base/errors.ts";
import { PART_COUNT, Placement, type PlacementOptions } from "./placement.ts";
import { ringPlacement } from "./ring-placement.ts";

/** Equal descriptions give the same placement on every node (Placement.P3). */
export type PlacementDescription = {
  readonly epoch: number;
  readonly policy: "ring" | "range";
  /** Ranks. */
  readonly servers: readonly number[];
  /** Parts whose owner is not the policy's: part, rank, part, rank … Left out: none. */
  readonly moved?: readonly number[] | undefined;
};

/** Throws BAD_ARGUMENT if the description is invalid. */
export function placementOf({ policy, moved = [], ...options }: PlacementDescription): Placement {
  const placement = policy === "ring" ? ringPlacement(options) : rangePlacement(options);
  if (moved.length === 0) return placement;
  const owners = movedOwners(moved, placement.servers);
  return new Placement(options, () => (part) => owners.get(part) ?? placement.owners[part]!);
}

/** The index of the owner of every moved part. */
function movedOwners(moved: readonly number[], servers: readonly number[]): Map<number, number> {
  const owners = new Map<number, number>();
  for (let i = 0; i < moved.length; i += 2) {
    const part = moved[i]!;
    const server = servers.indexOf(moved[i + 1] ?? -1);
    if (!Number.isInteger(part) || part < 0 || part >= PART_COUNT || server < 0)
      throw new WeighbridgeError(
        "BAD_ARGUMENT",
        `a placement moves a part below ${PART_COUNT} to one of its servers, not ${part} to ${moved[i + 1]}`,
      );
    owners.set(part, server);
  }
  return owners;
}

/**
 * Every server owns one range of consecutive parts, all equal in size but for one part. A server that joins or leaves
 * moves about half of all parts. Throws BAD_ARGUMENT.
 */
export function rangePlacement(options: PlacementOptions): Placement {
  return new Placement(
    options,
    ({ length: serverCount }) =>
      (part) =>
        Math.floor((part * serverCount) / PART_COUNT),
  );
}
