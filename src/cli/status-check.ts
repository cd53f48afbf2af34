// status-check — whether a cluster is as it should be, by what its scheduler says: all nodes are there and none is dead. Pure.

import type { StatusReply } from "../wire/control.ts";
import { nameOf } from "../wire/node-id.ts";

/**
 * What is wrong, each as a sentence; nothing for a cluster that is well. Workers that have left are done, not missing; a server is missing as long as there
 * are workers.
 */
export function statusProblems({ phase, nodes, waiting, serverCount, workerCount }: StatusReply): string[] {
  if (phase === "failed") return ["the job has failed"];
  if (phase === "forming") return [`the cluster is not complete: ${waiting.length} of ${serverCount + workerCount} nodes are there`];
  const hasWorkers = nodes.some(({ role, state }) => role === "worker" && state === "alive");
  return nodes.flatMap(({ node, role, state, linked }) => {
    if (state === "dead") return [`${nameOf(node)} is dead`];
    if (state === "left" && role === "server" && hasWorkers) return [`${nameOf(node)} has left, and there are still workers`];
    return state === "alive" && !linked ? [`${nameOf(node)} has no link to the scheduler`] : [];
  });
}
