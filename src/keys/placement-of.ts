// placement-of — makes the placement that a few words describe: how the scheduler publishes it with the roster, and how a refusal carries it.

import { WeighbridgeError } from "../base/errors.ts";
import { PART_COUNT, Placement, type PlacementOptions } from "./placement.ts";
import { ringPlacement } from "./ring-placement.ts";

/** The same words give the same placement on every node (Placement.P3). */
export type PlacementDescription = {
  readonly epoch: number;
  readonly policy: "ring" | "range";
  /** Ranks. */
  readonly servers: readonly number[];
  /** Parts whose owner is not the policy's: part, rank, part, rank … Left out: none. */
  readonly moved?: readonly number[] | undefined;
};

/** Throws BAD_ARGUMENT when the words make no sense. */
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
 * Every server owns one range of consecutive parts, all of one size but for one part: the most even there is. A server that
 * joins or leaves moves about half of all parts. Throws BAD_ARGUMENT.
 */
export function rangePlacement(options: PlacementOptions): Placement {
  return new Placement(
    options,
    ({ length: serverCount }) =>
      (part) =>
        Math.floor((part * serverCount) / PART_COUNT),
  );
}
