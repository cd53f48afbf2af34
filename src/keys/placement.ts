// placement — who owns which part of the key space: part → server rank. An immutable value; a new placement has a
// higher epoch. A policy assigns the parts: placement-of, ring-placement. Replicas are not part of it: they belong to
// ranks.
//
// Invariants:
//   Placement.P1. Parts are those of part.ts, whatever the servers are.
//   Placement.P2. Every part has one owner, which is one of the servers.
//   Placement.P3. The same servers, in any order, epoch and policy give the same placement on every node.

import { assert } from "../base/assert.ts";
import { badArgument, type WeighbridgeError } from "../base/errors.ts";
import { PART_COUNT } from "./part.ts";

export { PART_BITS, PART_COUNT, partOf } from "./part.ts";

export type PlacementOptions = {
  /** The ranks of the servers that take part: at least one, each once, at most PART_COUNT. */
  readonly servers: readonly number[];
  readonly epoch: number;
};

/**
 * Takes the ranks of all servers, ascending. Returns a function that maps each part, called in order, to an index of
 * that list.
 */
type PlacementPolicy = (servers: readonly number[]) => (part: number) => number;

export class Placement {
  readonly epoch: number;
  /** Ranks, ascending. Elsewhere in this class a server is its index in this list. */
  readonly servers: readonly number[];
  /** For each part the index of its owner in `servers`: what the partition kernel wants. */
  readonly owners: Uint16Array;

  /**
   * For the policies, and for a placement of the same servers with another epoch. Throws BAD_ARGUMENT before it calls
   * the policy.
   */
  constructor(options: PlacementOptions, policy: PlacementPolicy | Placement) {
    this.epoch = options.epoch;
    this.servers = checkedServers(options);
    this.owners = policy instanceof Placement ? policy.owners : new Uint16Array(PART_COUNT);
    if (policy instanceof Placement) return;
    const ownerIndexOf = policy(this.servers);
    for (let part = 0; part < PART_COUNT; part++) {
      const owner = ownerIndexOf(part);
      assert(owner >= 0 && owner < this.servers.length, "Placement.P2: every part has an owner");
      this.owners[part] = owner;
    }
  }

  /** The rank of the server that serves a part. */
  ownerOf(part: number): number {
    return this.servers[this.owners[part]!]!;
  }

  /** All parts that a server owns, ascending. */
  partsOf(rank: number): readonly number[] {
    const index = this.servers.indexOf(rank);
    const parts: number[] = [];
    for (let part = 0; part < PART_COUNT; part++) if (this.owners[part] === index) parts.push(part);
    return parts;
  }
}

function checkedServers({ servers, epoch }: PlacementOptions): readonly number[] {
  const bad = (what: string): WeighbridgeError => badArgument(`a placement ${what}`);
  if (servers.length < 1 || servers.length > PART_COUNT) throw bad(`has 1 to ${PART_COUNT} servers, not ${servers.length}`);
  if (!servers.every((rank) => Number.isInteger(rank) && rank >= 0)) throw bad(`has ranks of servers, not ${servers.join(", ")}`);
  if (new Set(servers).size !== servers.length) throw bad(`names each server once, not ${servers.join(", ")}`);
  if (!Number.isInteger(epoch) || epoch < 0) throw bad(`has a whole number as its epoch, not ${epoch}`);
  return [...servers].sort((a, b) => a - b); // Placement.P3
}
