// registration-lines — what a scheduler says when all nodes are there: who has which rank, in MindSpore's words. Pure.

import type { RosterEntry } from "../wire/roster.ts";

const ADDRESS = /^tcp:\/\/(.*):(\d+)$/;

/** Of all nodes of a job: servers, then workers, by rank. */
export function registrationLines(nodes: readonly RosterEntry[]): string[] {
  const ofRole = (role: string): RosterEntry[] => nodes.filter((entry) => entry.role === role).sort((a, b) => a.rank - b.rank);
  return [...ofRole("server").map(serverLine), ...ofRole("worker").map(workerLine), "Start the scheduler node is successful!"];
}

function serverLine({ label, address, rank }: RosterEntry): string {
  const [, host = address, port = "-"] = ADDRESS.exec(address) ?? [];
  return `The server node id:${label},node ip: ${host},node port:${port} assign rank id:${rank}`;
}

function workerLine({ label, rank }: RosterEntry): string {
  return `The worker node id:${label} assign rank id:${rank}`;
}
