// ring-placement — a consistent-hash ring with bounded shares: each server has many points on a circle of 2^32, and a part
// belongs to the first server at or after its own point that has room in its share. When a server joins or leaves, about
// 1/n of the parts move (0.94 to 1.07 times that for 1 to 16 servers), hardly any between two servers that stay. Without
// the bound the fullest of 5 servers would have 1.15 times the mean.
//
// Invariants:
//   RingPlacement.R1. Where a server stands depends on its rank alone, where a part stands on its number alone.
//   RingPlacement.R2. No server owns more than SHARE_MAX times the mean, or one part more than the mean where that is more.

import { WeighbridgeError } from "../base/errors.ts";
import { mixHigh } from "./mix.ts";
import { PART_COUNT, Placement, type PlacementOptions } from "./placement.ts";

const VIRTUAL_NODES_DEFAULT = 1024;
const VIRTUAL_NODES_MAX = 65_536;
const SHARE_MAX = 1.05;

/** More than there are servers. */
const PLACE = 2 ** 16;

/** What keeps the points of servers and of parts apart: the high half of what is mixed. */
const PART_POINTS = 0xffff_ffff;

export type RingPlacementOptions = PlacementOptions & {
  /** How many places of the ring each server takes. All nodes of a job must agree on it. */
  readonly virtualNodes?: number | undefined;
};

type Ring = { readonly points: Uint32Array; readonly servers: Uint16Array };

/** Throws BAD_ARGUMENT. */
export function ringPlacement(options: RingPlacementOptions): Placement {
  const { virtualNodes = VIRTUAL_NODES_DEFAULT } = options;
  if (!(Number.isInteger(virtualNodes) && virtualNodes >= 1 && virtualNodes <= VIRTUAL_NODES_MAX)) {
    throw new WeighbridgeError("BAD_ARGUMENT", `a server has 1 to ${VIRTUAL_NODES_MAX} virtual nodes, not ${virtualNodes}`);
  }
  return new Placement(options, (ranks) => {
    const ring = ringOf(ranks, virtualNodes);
    const mean = PART_COUNT / ranks.length;
    const shareMax = Math.max(Math.ceil(mean), Math.floor(mean * SHARE_MAX)); // RingPlacement.R2
    const shares = new Uint16Array(ranks.length);
    return (part) => {
      const owner = ownerAt(ring, mixHigh(part, PART_POINTS), (server) => shares[server]! < shareMax);
      shares[owner]!++;
      return owner;
    };
  });
}

function ringOf(ranks: readonly number[], virtualNodes: number): Ring {
  const places = new Float64Array(ranks.length * virtualNodes); // point × PLACE + server, which floats hold exactly: numbers alone sort fast
  ranks.forEach((rank, server) => {
    for (let i = 0; i < virtualNodes; i++) places[server * virtualNodes + i] = mixHigh(i, rank) * PLACE + server; // RingPlacement.R1
  });
  places.sort(); // servers are in the order of their ranks: ties fall the same way everywhere
  const points = new Uint32Array(places.length);
  const servers = new Uint16Array(places.length);
  for (let at = 0; at < places.length; at++) {
    points[at] = Math.floor(places[at]! / PLACE);
    servers[at] = places[at]! % PLACE;
  }
  return { points, servers };
}

/** The first server at or after the point that has room; there is one, since the bounds add up to all parts at least. */
function ownerAt({ points, servers }: Ring, point: number, hasRoom: (server: number) => boolean): number {
  let at = firstAtOrAfter(points, point);
  while (!hasRoom(servers[at % servers.length]!)) at++;
  return servers[at % servers.length]!;
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
