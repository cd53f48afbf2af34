// awaited-servers — which processes of the servers that a change of the job wants are not there yet (scaling.ts). Pure.
//
// Invariants:
//   AwaitedServers.A1. Where ranks are held by two processes, a rank that comes is there when its standby has
//       everything that its head has: no part moves to a server that its standby could not take over (0080). Of a rank
//       that is in the placement already the head is enough: its parts are as safe as they were.

import { idOf, nameOf, type Role } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";

/** By rank. */
export type AwaitedServers = {
  /** Those that nobody serves. */
  readonly servers: readonly number[];
  /** Those that nobody stands by for. */
  readonly standbys: readonly number[];
  /** Those whose standby is there, and does not have everything yet. */
  readonly filling: readonly number[];
};

/** Of the servers that are `wanted`; `placed` are in the placement. */
export function awaitedServers(
  view: RosterView,
  { wanted, placed, replicas }: { readonly wanted: readonly number[]; readonly placed: readonly number[]; readonly replicas: number },
): AwaitedServers {
  const added = replicas === 1 ? [] : wanted.filter((rank) => !placed.includes(rank));
  const standbyOf = (rank: number): RosterEntry | undefined => liveEntry(view, "standby", rank);
  return {
    servers: wanted.filter((rank) => !isServed(view, rank)),
    standbys: added.filter((rank) => standbyOf(rank) === undefined),
    filling: added.filter((rank) => standbyOf(rank)?.isFilling === true),
  };
}

export function isServed(view: RosterView, rank: number): boolean {
  return liveEntry(view, "server", rank) !== undefined;
}

function liveEntry({ nodes }: RosterView, role: Role, rank: number): RosterEntry | undefined {
  return nodes.find((entry) => entry.role === role && entry.rank === rank && entry.state === "alive");
}

/** "server 2, standby 2 to come, standby 3 to be filled"; "" when all are there. */
export function awaitedText({ servers, standbys, filling }: AwaitedServers): string {
  const coming = [...servers.map((rank) => idOf("server", rank)), ...standbys.map((rank) => idOf("standby", rank))].map(nameOf);
  const filled = filling.map((rank) => nameOf(idOf("standby", rank)));
  return [
    ...(coming.length === 0 ? [] : [`${coming.join(", ")} to come`]),
    ...(filled.length === 0 ? [] : [`${filled.join(", ")} to be filled`]),
  ].join(", ");
}
