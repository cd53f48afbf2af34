// group-members — which nodes a group of ps-lite stands for: workers, servers, the scheduler, or several of them.

import { inGroup, type Role, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";

/**
 * The nodes of a group that have not left, dead ones included, in ps-lite's order: workers, servers, the scheduler.
 * Standbys wait with the servers.
 */
export function groupMembers({ nodes }: RosterView, group: number): number[] {
  const idsOf = (wanted: Role): number[] =>
    nodes
      .filter(({ role, state }) => role === wanted && state !== "left" && inGroup(role, group))
      .map(({ node }) => node)
      .sort((a, b) => a - b);
  return [...idsOf("worker"), ...idsOf("server"), ...idsOf("standby"), ...(inGroup("scheduler", group) ? [SCHEDULER_ID] : [])];
}
