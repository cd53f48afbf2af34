// placement — who owns which part of the key space: part → chain of servers, the first of which serves it, the others hold its copies. A
// value, never changed: a new placement has a higher epoch. How parts are dealt out is the policy's: range-placement, ring-placement.
//
// Why 4,096 parts, fixed: the unit that is owned, moved and saved has to be fine enough to balance (with 100 servers, whole parts are within
// 2.5 % of even) and to move one by one without a pause, and coarse enough that a table of all owners (8 KiB as u16) stays in the first-level
// cache while keys are partitioned, and that a clock for each part costs nothing. A fixed number never splits, so a part's name means the
// same in every checkpoint and on every number of servers.
//
// Invariants:
//   P1. A part is the top PART_BITS bits of mix(key), whatever the servers are.
//   P2. A chain names different servers; it is as long as asked for, or as there are servers.
//   P3. The same servers, epoch and policy give the same placement on every node, in whichever order the servers were listed.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { mixHigh } from "./mix.ts";

export const PART_BITS = 12;
export const PART_COUNT: number = 2 ** PART_BITS;

export type PlacementOptions = {
  /** The ranks of the servers that take part: at least one, each once, at most PART_COUNT. */
  readonly servers: readonly number[];
  readonly epoch: number;
  /** Servers in a chain: 1, the default, keeps no copies. */
  readonly chainLength?: number | undefined;
};

/** Given the ranks of all servers, ascending: what writes the chain of a part, as indexes of that list. */
export type PlacementPolicy = (servers: readonly number[]) => (part: number, chain: Uint16Array) => void;

export class Placement {
  readonly epoch: number;
  /** Ranks, ascending. Elsewhere in this class a server is its index in this list. */
  readonly servers: readonly number[];
  readonly chainLength: number;
  /** For each part the index of its owner in `servers`: what the partition kernel wants. */
  readonly owners: Uint16Array;
  /** For each part `chainLength` indexes of servers, owner first. */
  readonly #chains: Uint16Array;

  /** For the policies. Throws BAD_ARGUMENT before the policy is asked. */
  constructor(options: PlacementOptions, policy: PlacementPolicy) {
    this.epoch = options.epoch;
    this.servers = checkedServers(options);
    this.chainLength = Math.min(options.chainLength ?? 1, this.servers.length);
    this.#chains = new Uint16Array(PART_COUNT * this.chainLength);
    this.owners = new Uint16Array(PART_COUNT);
    const dealChain = policy(this.servers);
    for (let part = 0; part < PART_COUNT; part++) {
      const chain = this.#chains.subarray(part * this.chainLength, (part + 1) * this.chainLength);
      dealChain(part, chain);
      assert(this.chainLength === 1 || new Set(chain).size === chain.length, `P2: part ${part} names a server twice`);
      this.owners[part] = chain[0]!;
    }
  }

  /** The rank of the server that serves a part. */
  ownerOf(part: number): number {
    return this.servers[this.owners[part]!]!;
  }

  /** The ranks of a part's chain, owner first. */
  chainOf(part: number): readonly number[] {
    const indexes = this.#chains.subarray(part * this.chainLength, (part + 1) * this.chainLength);
    return Array.from(indexes, (index) => this.servers[index]!);
  }

  /** All parts that a server owns, ascending. */
  partsOf(rank: number): readonly number[] {
    const index = this.servers.indexOf(rank);
    const parts: number[] = [];
    for (let part = 0; part < PART_COUNT; part++) if (this.owners[part] === index) parts.push(part);
    return parts;
  }
}

/** The part of a u64 key given as its u32 halves (P1). */
export function partOf(low: number, high: number): number {
  return mixHigh(low, high) >>> (32 - PART_BITS);
}

/** The parts whose owner differs between two placements: those that have to move. */
export function movedParts(before: Placement, after: Placement): readonly number[] {
  const parts: number[] = [];
  for (let part = 0; part < PART_COUNT; part++) if (before.ownerOf(part) !== after.ownerOf(part)) parts.push(part);
  return parts;
}

function checkedServers({ servers, epoch, chainLength = 1 }: PlacementOptions): readonly number[] {
  const bad = (what: string): WeighbridgeError => new WeighbridgeError("BAD_ARGUMENT", `a placement ${what}`);
  if (servers.length < 1 || servers.length > PART_COUNT) throw bad(`has 1 to ${PART_COUNT} servers, not ${servers.length}`);
  if (!servers.every((rank) => Number.isInteger(rank) && rank >= 0)) throw bad(`has ranks of servers, not ${servers.join(", ")}`);
  if (new Set(servers).size !== servers.length) throw bad(`names each server once, not ${servers.join(", ")}`);
  if (!Number.isInteger(epoch) || epoch < 0) throw bad(`has a whole number as its epoch, not ${epoch}`);
  if (!Number.isInteger(chainLength) || chainLength < 1) throw bad(`has chains of at least 1 server, not ${chainLength}`);
  return [...servers].sort((a, b) => a - b); // P3
}
