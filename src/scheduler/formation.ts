// formation — gathers the nodes of a job until all are there, and gives them their ranks. Pure.
//
// Invariants:
//   Formation.F1. No node gets a slot before all have registered (but see Formation.F5); then all get theirs at once.
//   Formation.F2. A node that requests a rank gets it, however late it came; the others get the free ones, lowest
//       first, in the order they came.
//   Formation.F3. A contradiction between nodes ends the start: the cluster was set up wrongly, and waiting does not
//       help.
//   Formation.F4. Of workers the start waits for as many as it has to; those that came beyond, as long as they are
//       allowed, begin with the others. Their ranks leave no gap: one that requests a higher rank waits for the others.
//   Formation.F5. A rank of a replicated server needs one copy to begin. The start waits for all copies, but not for
//       one that has registered and died (LostCopies.L1), and for none beyond its deadline.

import { assert } from "../base/assert.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import { idOf, type Role } from "../wire/node-id.ts";
import { type Applicant, type ClusterCounts, contradiction, countMaxOf, countOf, oneTooMany, rankClash } from "./applicant.ts";
import { copyConflict, dealCopies } from "./server-copies.ts";

const ROLES: readonly Role[] = ["server", "worker"];

export type Assignment<T> = { readonly applicant: Applicant<T>; readonly role: Role; readonly rank: number };

/** What is wrong with this one beside those who are there already, if anything (Formation.F3). */
export function conflict<T>(
  { request }: Applicant<T>,
  counts: ClusterCounts,
  others: readonly Applicant<T>[],
): WeighbridgeError | undefined {
  const contradicted = contradiction(request, counts, others);
  if (contradicted !== undefined) return contradicted;
  if ((counts.replicas ?? 1) > 1 && request.role !== "worker") return copyConflict(request, counts, others);
  const peers = others.filter((other) => other.request.role === request.role);
  const twin = request.rank === undefined ? undefined : peers.find((other) => other.request.rank === request.rank);
  if (twin !== undefined) return rankClash(twin.request, request);
  return peers.length >= countMaxOf(counts, request.role) ? oneTooMany(request, counts, peers) : undefined;
}

/**
 * The rank of each once all are there (Formation.F1), except for missing copies (Formation.F5); otherwise undefined, or
 * why there is none.
 */
export function assignRanks<T>(
  applicants: readonly Applicant<T>[],
  counts: ClusterCounts,
  copiesLacking = 0,
): Assignment<T>[] | WeighbridgeError | undefined {
  const assignments: Assignment<T>[] = [];
  for (const role of ROLES) {
    if (role === "server" && (counts.replicas ?? 1) > 1) {
      const copies = dealCopies(applicants, counts, copiesLacking);
      if (!Array.isArray(copies)) return copies;
      assignments.push(...copies);
      continue;
    }
    const ofRole = applicants.filter(({ request }) => request.role === role);
    const { length: count } = ofRole;
    const isWhole = ofRole.every(({ request }) => (request.rank ?? 0) < count);
    if (count < countOf(counts, role) || !isWhole) return undefined; // Formation.F4
    const asked = new Set(ofRole.map(({ request }) => request.rank));
    const free = Array.from({ length: count }, (_, rank) => rank).filter((rank) => !asked.has(rank));
    for (const applicant of ofRole) {
      const rank = applicant.request.rank ?? free.shift(); // Formation.F2
      assert(rank !== undefined, "conflict() lets in only as many as there are ranks");
      assignments.push({ applicant, role, rank });
    }
  }
  return assignments;
}

/** The standbys that nobody becomes. */
export function lackingStandbys(assignments: readonly Assignment<unknown>[], counts: ClusterCounts): number[] {
  const there = new Set(assignments.flatMap(({ role, rank }) => (role === "standby" ? rank : [])));
  const ranks = Array.from({ length: countOf(counts, "standby") }, (_, rank) => rank);
  return ranks.filter((rank) => !there.has(rank)).map((rank) => idOf("standby", rank));
}
