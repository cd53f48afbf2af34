// ring-placement — a consistent-hash ring: each server stands at many places of a circle of 2^32 points, and a part belongs to the first
// server at or after its own point. A server that joins takes its parts from all others, one that leaves gives them to all others: about
// 1/n of the parts move and none between two servers that stay.
//
// R1. Where a server stands depends on its rank alone, where a part stands on its number alone: so only the parts of a server that comes or
//     goes change their owner.

import { WeighbridgeError } from "../base/errors.ts";
import { mixHigh } from "./mix.ts";
import { Placement, type PlacementOptions } from "./placement.ts";

/** With 256 places a server's share is within about 6 % of even (one standard deviation, 1/√256). */
const VIRTUAL_NODES_DEFAULT = 256;
const VIRTUAL_NODES_MAX = 65_536;

/** What keeps the points of servers and of parts apart: the high half of what is mixed. */
const PART_POINTS = 0xffff_ffff;

export type RingPlacementOptions = PlacementOptions & {
  /** How many places of the ring each server takes. All nodes of a job must agree on it. */
  readonly virtualNodes?: number | undefined;
};

type Ring = { readonly points: Uint32Array; readonly servers: Uint16Array };

/** Throws BAD_ARGUMENT. A chain goes on with the next different servers along the ring. */
export function ringPlacement(options: RingPlacementOptions): Placement {
  const { virtualNodes = VIRTUAL_NODES_DEFAULT } = options;
  if (!(Number.isInteger(virtualNodes) && virtualNodes >= 1 && virtualNodes <= VIRTUAL_NODES_MAX)) {
    throw new WeighbridgeError("BAD_ARGUMENT", `a server has 1 to ${VIRTUAL_NODES_MAX} virtual nodes, not ${virtualNodes}`);
  }
  return new Placement(options, (servers) => {
    const ring = ringOf(servers, virtualNodes);
    return (part, chain) => dealChain(ring, mixHigh(part, PART_POINTS), chain);
  });
}

function ringOf(ranks: readonly number[], virtualNodes: number): Ring {
  const places = ranks.flatMap((rank, server) => Array.from({ length: virtualNodes }, (_, i) => ({ point: mixHigh(i, rank), server }))); // R1
  places.sort((a, b) => a.point - b.point || a.server - b.server); // servers are in the order of their ranks: ties fall the same way everywhere
  return { points: Uint32Array.from(places, ({ point }) => point), servers: Uint16Array.from(places, ({ server }) => server) };
}

function dealChain({ points, servers }: Ring, point: number, chain: Uint16Array): void {
  let length = 0;
  for (let at = firstAtOrAfter(points, point); length < chain.length; at++) {
    const server = servers[at % servers.length]!;
    if (!chain.subarray(0, length).includes(server)) chain[length++] = server;
  }
}

/** The length of `points` when all lie before. */
function firstAtOrAfter(points: Uint32Array, point: number): number {
  let from = 0;
  let to = points.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (points[middle]! < point) from = middle + 1;
    else to = middle;
  }
  return from;
}
