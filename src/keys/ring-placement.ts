// ring-placement — a consistent-hash ring with bounded shares: each server has many points on a ring of 2^32, and a
// part belongs to the first server at or after its own point whose share has room. When one of n servers joins or
// leaves, about 1/n of the parts move (0.94 to 1.07 times that for 1 to 16 servers), hardly any between two servers
// that stay. Without the bound the fullest of 5 servers would have 1.15 times the mean.
//
// Invariants:
//   RingPlacement.R1. The points of a server depend on its rank alone, that of a part on its number alone.
//   RingPlacement.R2. No server owns more than SHARE_MAX times the mean, or the mean and one part if that is more.

import { mixHigh } from "./mix.ts";
import { PART_COUNT, Placement, type PlacementOptions } from "./placement.ts";

/** Points of a server on the ring. */
const VIRTUAL_NODES = 1024;
const SHARE_MAX = 1.05;

/** More than there are servers. */
const SERVERS = 2 ** 16;

/** Keeps the points of servers and of parts apart: the high half of the mixed number. */
const PART_POINTS = 0xffff_ffff;

type Ring = { readonly points: Uint32Array; readonly servers: Uint16Array };

/** Throws BAD_ARGUMENT. */
export function ringPlacement(options: PlacementOptions): Placement {
  return new Placement(options, (ranks) => {
    const ring = ringOf(ranks);
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

function ringOf(ranks: readonly number[]): Ring {
  // point × SERVERS + server, which floats hold exactly: numbers alone sort fast.
  const nodes = new Float64Array(ranks.length * VIRTUAL_NODES);
  ranks.forEach((rank, server) => {
    // RingPlacement.R1
    for (let i = 0; i < VIRTUAL_NODES; i++) nodes[server * VIRTUAL_NODES + i] = mixHigh(i, rank) * SERVERS + server;
  });
  nodes.sort(); // servers are in the order of their ranks: ties fall the same way everywhere
  const points = new Uint32Array(nodes.length);
  const servers = new Uint16Array(nodes.length);
  for (let at = 0; at < nodes.length; at++) {
    points[at] = Math.floor(nodes[at]! / SERVERS);
    servers[at] = nodes[at]! % SERVERS;
  }
  return { points, servers };
}

/** The first server at or after the point that has room. There is one: all shares together hold all parts. */
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
