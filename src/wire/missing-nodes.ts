// missing-nodes — which nodes a cluster that forms still waits for, by what has registered, and one that ends. Pure; the scheduler says it, and so do nodes that ask for its status.

import { idOf, nameOf, type Role, SCHEDULER_ID } from "./node-id.ts";
import type { RosterView } from "./roster.ts";

/** A node that waits for its place; without a rank it takes the lowest that nobody asked for. */
export type WaitingNode = { readonly role: Role; readonly rank: number | undefined };

const NAMES_MAX = 8;

/** `server 1, worker 0 and 3 more`; "" when all are there. */
export function missingText(counts: { readonly serverCount: number; readonly workerCount: number }, there: readonly WaitingNode[]): string {
  return namesText([...missingOf("server", counts.serverCount, there), ...missingOf("worker", counts.workerCount, there)]);
}

/** As `missingText`: the nodes of a running job that have not left, and are not at the last barrier. */
export function missingAtEnd(nodes: RosterView["nodes"], leaving: Iterable<number>): string {
  const there = new Set(leaving);
  const missing = nodes.filter(({ node, state }) => state !== "left" && !there.has(node)).sort((a, b) => a.node - b.node);
  const ofRole = (role: Role): number[] => missing.filter((node) => node.role === role).map(({ node }) => node);
  const scheduler = there.has(SCHEDULER_ID) ? [] : [SCHEDULER_ID];
  return namesText([...scheduler, ...ofRole("server"), ...ofRole("worker")].map(nameOf));
}

function namesText(missing: readonly string[]): string {
  const more = missing.length > NAMES_MAX ? ` and ${missing.length - NAMES_MAX} more` : "";
  return `${missing.slice(0, NAMES_MAX).join(", ")}${more}`;
}

function missingOf(role: Role, count: number, there: readonly WaitingNode[]): string[] {
  const ofRole = there.filter((node) => node.role === role);
  const asked = new Set(ofRole.map(({ rank }) => rank));
  const unrankedCount = ofRole.filter(({ rank }) => rank === undefined).length;
  const free = Array.from({ length: count }, (_, rank) => rank).filter((rank) => !asked.has(rank));
  return free.slice(unrankedCount).map((rank) => nameOf(idOf(role, rank)));
}
