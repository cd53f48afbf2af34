// placement-of — makes a placement from its description. The scheduler publishes the description with the roster, and
// refusals carry it.
//
// Invariants:
//   PlacementOf.D1. While parts move from some servers to others, part by part in the order of their numbers, every
//       placement on the way is described by how far the move has come: no list of parts is needed, and the way back
//       has the same descriptions.
//   PlacementOf.D2. What a policy computes for a set of servers is an immutable value that everything in a process
//       shares: a server and its exchange of parts, and every node of a simulation.

import { badArgument } from "../base/errors.ts";
import { PART_COUNT, Placement, type PlacementOptions } from "./placement.ts";
import type { PlacementDescription, PlacementMove } from "./placement-description.ts";
import { ringPlacement } from "./ring-placement.ts";

/** Throws BAD_ARGUMENT if the description is invalid. */
export function placementOf(description: PlacementDescription): Placement {
  return new Placements().of(description);
}

type Policy = PlacementDescription["policy"];

/** Far more than a job has at a time: the two ends of a move. */
const ENDS_MAX = 32;

/** Makes placements one after the other. What takes longest, those of a policy, is kept (PlacementOf.D2). */
export class Placements {
  static readonly #ends = new Map<string, Placement>();

  /** Throws BAD_ARGUMENT if the description is invalid. */
  of({ policy, moved = [], move, servers, epoch }: PlacementDescription): Placement {
    const options = { servers, epoch };
    if (move !== undefined) return this.#between(policy, move, options);
    const end = this.#end(policy, servers);
    const others = movedOwners(moved, end.servers);
    return new Placement(options, others.size === 0 ? end : () => (part) => others.get(part) ?? end.owners[part]!);
  }

  /** PlacementOf.D1 */
  #between(policy: Policy, { from, to, below }: PlacementMove, options: PlacementOptions): Placement {
    const [before, after] = [this.#end(policy, from), this.#end(policy, to)];
    const both = [...new Set([...from, ...to])].sort((a, b) => a - b);
    if (String(both) !== String(options.servers) || !Number.isInteger(below) || below < 0 || below > PART_COUNT)
      throw badArgument(`a placement on the way from servers ${from.join()} to ${to.join()} names both, and so many parts`);
    return new Placement(options, (ranks) => (part) => ranks.indexOf((part < below ? after : before).ownerOf(part)));
  }

  /** As the policy has it; its epoch is of no use. */
  #end(policy: Policy, servers: readonly number[]): Placement {
    const name = `${policy} ${servers.join()}`;
    const made = Placements.#ends.get(name) ?? (policy === "ring" ? ringPlacement : rangePlacement)({ servers, epoch: 0 });
    if (Placements.#ends.size === ENDS_MAX) Placements.#ends.clear();
    Placements.#ends.set(name, made);
    return made;
  }
}

/** The index of the owner of every moved part. */
function movedOwners(moved: readonly number[], servers: readonly number[]): Map<number, number> {
  const owners = new Map<number, number>();
  for (let i = 0; i < moved.length; i += 2) {
    const part = moved[i]!;
    const server = servers.indexOf(moved[i + 1] ?? -1);
    if (!Number.isInteger(part) || part < 0 || part >= PART_COUNT || server < 0)
      throw badArgument(`a placement moves a part below ${PART_COUNT} to one of its servers, not ${part} to ${moved[i + 1]}`);
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
