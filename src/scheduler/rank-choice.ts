// rank-choice — which slot a node gets that comes after the cluster is complete. Pure.
//
//   its role's slot is …              requested by rank                     any will do
//   dead, or its holder has left       given                                 given, dead ones first
//   without a link                     given: its process surely died        given after SUSPECT_GRACE_MS without one,
//                                                                            but not while closed links say nothing
//   linked, heartbeats on              RANK_TAKEN once its holder was heard  waits
//   linked, heartbeats off             RANK_TAKEN at once                    waits
//   gone, of one that returns          given                                 given after startTimeoutMs (RankChoice.S4)
//
// Invariants:
//   RankChoice.S1. No rank is assigned while a node may still resume its slot after a restart of the scheduler.
//   RankChoice.S2. A node that waits is answered within `startTimeoutMs`: a slot, or an error that names the holders. A
//       spare server waits on (AddedServers.A2).
//   RankChoice.S3. The ranks of workers grow by the next one, and only while all others are held, by workers that were
//       heard since: they stay few, and who replaces one that was lost gets its rank.
//   RankChoice.S4. The slot of a server that comes back with its state (0070, 0071) is kept for the process that has it
//       for as long as calls wait for that: a spare, which has nothing, would end what was left for it. So would the
//       second copy of a replicated server, which asks for the same rank.

import type { WeighbridgeError } from "../base/errors.ts";
import type { RegisterRequest } from "../wire/register.ts";
import { type Applicant, type ClusterCounts, nothingFree, rankHeld, workersMaxOf } from "./applicant.ts";
import type { RankSlot } from "./rank-slot.ts";
import { isOneHost, isOneProcess, unlikeCopies } from "./server-copies.ts";

/** A node whose link broke dials again well within this time, unless its process is gone. */
export const SUSPECT_GRACE_MS = 1000;

/** Where the job may scale, spare servers wait on (RankChoice.S2). */
export type RankChoiceRules = ClusterCounts & {
  readonly heartbeatIntervalMs: number;
  readonly startTimeoutMs: number;
  /** A closed link says nothing now (SilenceVerdicts.S4). */
  readonly isPaused?: boolean;
};

/** Exactly one of them: a slot, the rank of a new one, an error, or when to look again if nothing happens before. */
export type RankChoice =
  | { readonly found: "slot"; readonly slot: RankSlot }
  | { readonly found: "added"; readonly rank: number }
  | { readonly found: "refusal"; readonly error: WeighbridgeError }
  | { readonly found: "nothing"; readonly lookAgainAtMs: number };

/**
 * The same for a copy of a replicated server: a rank without any copy, as its server; otherwise one without a standby,
 * on another host than its head if there is one. What a head that lives has is never put at stake for a newcomer.
 */
export function chooseCopy(applicant: Applicant<unknown>, slots: readonly RankSlot[], rules: RankChoiceRules, nowMs: number): RankChoice {
  const { request, arrivedAtMs } = applicant;
  const matching = slots.filter(({ role, rank }) => role !== "worker" && rank === (request.rank ?? rank));
  const isVacant = ({ state }: RankSlot): boolean => state !== "alive";
  const isSpare = rules.mayScale === true && (request.rank === undefined || matching.length === 0);
  const timeoutMs = isSpare ? Infinity : arrivedAtMs + rules.startTimeoutMs;
  const isSettled = !slots.some(({ state, confirmed }) => state === "alive" && !confirmed); // RankChoice.S1
  let lookAgainAtMs = timeoutMs;
  if (isSettled && request.role === "server") {
    const servers = matching.filter((slot) => slot.role === "server" && isVacant(slot));
    const server = servers.find((slot) => nowMs >= keptUntilMs(slot, rules));
    if (server !== undefined) return { found: "slot", slot: server };
    lookAgainAtMs = Math.min(lookAgainAtMs, ...servers.map((slot) => keptUntilMs(slot, rules)));
  }
  // Not before its head has spoken as that: one that took over is reached at this slot until it has heard of it.
  const hasHead = ({ rank: of }: RankSlot): boolean =>
    slots.some(({ role, rank, state, downSinceMs }) => role === "server" && rank === of && state === "alive" && downSinceMs === undefined);
  const standbys = isSettled ? matching.filter((slot) => slot.role === "standby" && isVacant(slot) && hasHead(slot)) : [];
  const headOf = ({ rank: of }: RankSlot): RankSlot | undefined =>
    slots.find(({ role, rank, state }) => role === "server" && rank === of && state === "alive");
  const conflictAt = (standby: RankSlot): WeighbridgeError | undefined => {
    const head = headOf(standby);
    return head === undefined ? undefined : unlikeCopies(request, head);
  };
  const fitting = standbys.filter((standby) => conflictAt(standby) === undefined);
  const slot = fitting.find((standby) => !isBesideHead(request, standby, slots)) ?? fitting[0];
  if (slot !== undefined) return { found: "slot", slot };
  // A spare in the process of a head is a spare for others.
  const unlike = standbys.find((standby) => !isSpare || !isOneProcess(request, headOf(standby) ?? standby));
  const error = unlike && conflictAt(unlike);
  if (error !== undefined) return { found: "refusal", error };
  // RankChoice.S2
  if (nowMs >= timeoutMs) return { found: "refusal", error: nothingFree(request, matching, rules.startTimeoutMs) };
  return { found: "nothing", lookAgainAtMs };
}

/** Whether this is the slot of a standby whose head is on the host of the applicant (ServerCopies.P1). */
export function isBesideHead(request: RegisterRequest, { role, rank }: RankSlot, slots: readonly RankSlot[]): boolean {
  const head = slots.find((slot) => slot.role === "server" && slot.rank === rank);
  return role === "standby" && head !== undefined && isOneHost(request, head);
}

/**
 * Of a worker: waits for servers that have sent nothing to this scheduler; undefined when all have come (Roster.R8).
 */
export function waitForServers(
  { request, arrivedAtMs }: Applicant<unknown>,
  slots: readonly RankSlot[],
  { startTimeoutMs }: RankChoiceRules,
  nowMs: number,
): RankChoice | undefined {
  const missing = slots.filter(({ role, confirmed }) => role === "server" && !confirmed);
  if (request.role !== "worker" || missing.length === 0) return undefined;
  const lookAgainAtMs = arrivedAtMs + startTimeoutMs;
  if (nowMs < lookAgainAtMs) return { found: "nothing", lookAgainAtMs };
  return { found: "refusal", error: nothingFree(request, missing, startTimeoutMs) }; // RankChoice.S2
}

export function chooseRank(applicant: Applicant<unknown>, slots: readonly RankSlot[], rules: RankChoiceRules, nowMs: number): RankChoice {
  const { request, arrivedAtMs } = applicant;
  const ofRole = slots.filter(({ role, rank }) => role === request.role && rank === (request.rank ?? rank));
  const isSpare = rules.mayScale === true && request.role === "server" && (request.rank === undefined || ofRole.length === 0);
  const timeoutMs = isSpare ? Infinity : arrivedAtMs + rules.startTimeoutMs;
  const isSettled = !slots.some(({ state, confirmed }) => state === "alive" && !confirmed); // RankChoice.S1
  let lookAgainAtMs = timeoutMs;
  if (isSettled) {
    const isKept = (slot: RankSlot): boolean => request.rank === undefined && nowMs < keptUntilMs(slot, rules);
    for (const slot of ofRole.filter(isKept)) lookAgainAtMs = Math.min(lookAgainAtMs, keptUntilMs(slot, rules));
    const open = ofRole.filter((slot) => !isKept(slot));
    const vacant = open.find(({ state }) => state === "dead") ?? open.find(({ state }) => state === "left");
    if (vacant !== undefined) return { found: "slot", slot: vacant };
    const graceMs = request.rank === undefined ? SUSPECT_GRACE_MS : 0;
    for (const slot of open) {
      // Roster.R10
      if (slot.downSinceMs === undefined || (rules.isPaused === true && request.rank === undefined)) continue;
      if (nowMs >= slot.downSinceMs + graceMs) return { found: "slot", slot };
      lookAgainAtMs = Math.min(lookAgainAtMs, slot.downSinceMs + graceMs);
    }
    const added = addedRank(applicant, slots, rules);
    if (added < workersMaxOf(rules)) return { found: "added", rank: added };
    const [holder] = ofRole;
    if (request.rank !== undefined && holder !== undefined && (rules.heartbeatIntervalMs === 0 || holder.heardAtMs > arrivedAtMs))
      return { found: "refusal", error: rankHeld(request, holder) };
  }
  // RankChoice.S2
  if (nowMs >= timeoutMs) return { found: "refusal", error: nothingFree(request, ofRole, rules.startTimeoutMs) };
  return { found: "nothing", lookAgainAtMs };
}

/** RankChoice.S4 */
function keptUntilMs({ returns, state, downSinceMs, heardAtMs }: RankSlot, { startTimeoutMs }: RankChoiceRules): number {
  const isGone = state === "dead" || (state === "alive" && downSinceMs !== undefined);
  return returns && isGone ? heardAtMs + startTimeoutMs : -Infinity;
}

/**
 * The rank that the job would grow by for this node; Infinity if by none, or another will be free soon (RankChoice.S3).
 */
function addedRank(
  { request: { role, rank }, arrivedAtMs }: Applicant<unknown>,
  slots: readonly RankSlot[],
  { heartbeatIntervalMs }: RankChoiceRules,
): number {
  const workers = slots.filter((slot) => slot.role === "worker");
  const isHeard = ({ heardAtMs }: RankSlot): boolean => heartbeatIntervalMs === 0 || heardAtMs > arrivedAtMs;
  const isFull = workers.every((slot) => slot.state === "alive" && slot.downSinceMs === undefined && isHeard(slot));
  let next = 0;
  while (workers.some((worker) => worker.rank === next)) next++;
  return role === "worker" && isFull && (rank ?? next) === next ? next : Infinity;
}
