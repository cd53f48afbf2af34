// job-verdict — whether a training job goes on, is done or has failed, judged by who is there. Servers and the scheduler of a job ask it: they stay as long
// as somebody trains, and end with the truth. Pure.
//
// Invariants:
//   V1. A job is done when no worker is at work any more and one at least has left by itself: they leave when the result is told (leave-together.ts),
//       and those that died returned what they had to do.
//   V2. A job has failed when a server is dead, whose parameters are gone, or when every worker is.

import { nameOf } from "../../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../../wire/roster.ts";

export type JobVerdict = { readonly kind: "running" } | { readonly kind: "done" } | { readonly kind: "failed"; readonly reason: string };

export function judgeJob({ nodes }: RosterView, { workerCount }: { readonly workerCount: number }): JobVerdict {
  const workers = nodes.filter(({ role }) => role === "worker");
  if (workers.length < workerCount) return { kind: "running" }; // the cluster is not complete yet
  const isAtWork = workers.some(({ state }) => state === "alive");
  if (!isAtWork && workers.some(({ state }) => state === "left")) return { kind: "done" }; // V1
  const deadServers = nodes.filter(({ role, state }) => role === "server" && state === "dead");
  if (deadServers.length > 0) return { kind: "failed", reason: `${named(deadServers)} died, and the parameters with it` }; // V2
  return isAtWork ? { kind: "running" } : { kind: "failed", reason: `no worker is left: ${named(workers)} died` };
}

function named(entries: readonly RosterEntry[]): string {
  return entries.map(({ node }) => nameOf(node)).join(", ");
}
