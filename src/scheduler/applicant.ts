// applicant — a node that registered and has no slot yet, and the errors that it may get instead. Each error names the
// node, its claim, that of the others, and the fix.

import { badRequest, type ErrorCode, WeighbridgeError } from "../base/errors.ts";
import type { AbortRequest } from "../wire/control.ts";
import type { Role } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";
import { missingText } from "../wire/roster.ts";
import { holderOf, type RankSlot } from "./rank-slot.ts";

/** `caller` is whatever the caller needs to answer it. */
export type Applicant<T> = { readonly request: RegisterRequest; readonly caller: T; readonly arrivedAtMs: number };

export type ClusterCounts = {
  readonly serverCount: number;
  /** How many the start waits for. */
  readonly workerCount: number;
  /** How many there may be at most. Left out: as many as begin, and whoever comes to the running job. */
  readonly workerCountMax?: number | undefined;
  /** Nodes may come and leave while the job runs (added-servers.ts, Roster.R9). Defaults to false. */
  readonly mayScale?: boolean | undefined;
  /** By how many processes each server rank is held: 1, or 2 for a head and a standby. Defaults to 1. */
  readonly replicas?: number | undefined;
};

export function countOf({ serverCount, workerCount, replicas = 1 }: ClusterCounts, role: Role): number {
  if (role === "standby") return serverCount * (replicas - 1);
  return role === "server" ? serverCount : role === "worker" ? workerCount : 1;
}

/** More than any job has: what a running job may have where nobody has said a number. */
export const WORKERS_MAX = 65_535;

/** How many workers a running job may have. */
export function workersMaxOf({
  workerCount,
  workerCountMax,
  mayScale = false,
}: Pick<ClusterCounts, "workerCount" | "workerCountMax" | "mayScale">): number {
  return workerCountMax ?? (mayScale ? WORKERS_MAX : workerCount);
}

/** How many nodes of a role a job may begin with. */
export function countMaxOf(counts: ClusterCounts, role: Role): number {
  return role === "worker" ? (counts.workerCountMax ?? counts.workerCount) : countOf(counts, role);
}

const COUNTS_FIX = "start all nodes with the same DMLC_NUM_SERVER/DMLC_NUM_WORKER (--servers/--workers)";
const REPLICAS_FIX = "start the scheduler and all servers with the same --replicas";
const MORE_FIX: Partial<Record<Role, string>> = { worker: ", or a range of workers, as --workers 2..8" };
const RANK_FIX = "give each node of a role its own rank (--rank, SERVER_ID/WORKER_ID), or none";

function plural(count: number, role: Role): string {
  if (role === "standby") return `${count} ${count === 1 ? "standby" : "standbys"}`;
  return `${count} ${role}${count === 1 ? "" : "s"}`;
}

function countsText({ serverCount, workerCount }: ClusterCounts): string {
  return `${plural(serverCount, "server")} and ${plural(workerCount, "worker")}`;
}

function nameOfApplicant({ role, rank, label }: RegisterRequest): string {
  return `${role}${rank === undefined ? "" : ` ${rank}`} ("${label}")`;
}

function labels(applicants: readonly Applicant<unknown>[]): string {
  return applicants.map(({ request }) => `"${request.label}"`).join(", ");
}

/** A request that makes no sense, whatever the others say. */
export function malformed(request: RegisterRequest): WeighbridgeError | undefined {
  if (request.role === "scheduler") return badRequest(`"${request.label}" registered as a second scheduler`);
  if (request.token === "") return badRequest(`${nameOfApplicant(request)} registered without a token`);
  if ((request.role === "server" || request.role === "standby") && request.address === "")
    return badRequest(`${nameOfApplicant(request)} names no address to listen at`);
  return undefined;
}

/** It cannot take its slot, for the reason it reports. */
export function cannotStart(request: RegisterRequest, failure: AbortRequest): WeighbridgeError {
  return cannotTakePart(nameOfApplicant(request), failure);
}

export function cannotTakePart(name: string, { code, message }: AbortRequest): WeighbridgeError {
  return new WeighbridgeError(code as ErrorCode, `${name} cannot take part: ${message}`);
}

/** The state of the job and of the node, on which it depends which counts are compared. */
export type Standing = {
  /** Nodes may have come and left since the start: nobody's number of servers counts, nor the counts of a newcomer. */
  readonly isRunning?: boolean;
  /** The node has a rank: it knows what the job began with. */
  readonly isResuming?: boolean;
};

/** The counts or the rank contradict the scheduler's. `others` registered before. */
export function contradiction(
  request: RegisterRequest,
  counts: ClusterCounts,
  others: readonly Applicant<unknown>[],
  { isRunning = false, isResuming = false }: Standing = {},
): WeighbridgeError | undefined {
  const name = nameOfApplicant(request);
  const isAdded = isRunning && request.role !== "worker";
  const isOtherServers = request.serverCount !== counts.serverCount && !isRunning;
  const isOtherWorkers = request.workerCount !== counts.workerCount && !isAdded && (!isRunning || isResuming);
  if (isOtherServers || isOtherWorkers) {
    const agreeing = others.length === 0 ? "" : ` and ${labels(others)}`;
    const theirs = `the scheduler${agreeing} for ${countsText(counts)}`;
    return new WeighbridgeError("COUNT_MISMATCH", `${name} was started for ${countsText(request)}, but ${theirs}; ${COUNTS_FIX}`);
  }
  const { replicas = 1 } = counts;
  const own = request.copy?.replicas ?? 1;
  if (request.role !== "worker" && own !== replicas) {
    const message = `${name} was started with replicas ${own}, but the scheduler with replicas ${replicas}; ${REPLICAS_FIX}`;
    return new WeighbridgeError("COUNT_MISMATCH", message);
  }
  const isLater = request.role === "worker" && (isRunning || isResuming);
  const count = isLater ? workersMaxOf(counts) : countMaxOf(counts, request.role);
  if (request.rank !== undefined && request.rank >= count && !isAdded)
    return new WeighbridgeError(
      "BAD_CONFIG",
      `${name} requests rank ${request.rank}, but the highest rank of ${count} is ${count - 1}; ${RANK_FIX}`,
    );
  return undefined;
}

export function rankClash(first: RegisterRequest, second: RegisterRequest): WeighbridgeError {
  const both = `"${first.label}" and "${second.label}" both ask to be ${first.role} ${first.rank}`;
  return new WeighbridgeError("RANK_TAKEN", `${both}; ${RANK_FIX}`);
}

export function oneTooMany(request: RegisterRequest, counts: ClusterCounts, others: readonly Applicant<unknown>[]): WeighbridgeError {
  const { role } = request;
  const copies = role === "server" && (counts.replicas ?? 1) > 1 ? ` in ${counts.replicas} copies` : "";
  const count = `${plural(countMaxOf(counts, role), role)}${copies}`;
  const there = others.length === 0 ? "" : `, and ${labels(others)} registered already`;
  const message = `${nameOfApplicant(request)} is one too many: the cluster has ${count}${there}; start no more than that, or ${COUNTS_FIX}${MORE_FIX[role] ?? ""}`;
  return new WeighbridgeError("COUNT_MISMATCH", message);
}

/** The cluster is not complete in time. */
export function incomplete(counts: ClusterCounts, there: readonly Applicant<unknown>[], startTimeoutMs: number): WeighbridgeError {
  const { replicas = 1 } = counts;
  const parts = (["server", "worker"] as const).map((role) => {
    const present = there.filter(({ request }) => (request.role === "standby" ? "server" : request.role) === role);
    const names = present.length === 0 ? "" : ` (${labels(present)})`;
    const copies = role === "server" && replicas > 1 ? ` in ${replicas} copies` : "";
    return `${present.length} of ${plural(countOf(counts, role), role)}${copies}${names}`;
  });
  const missing = missingText(
    counts,
    there.map(({ request }) => request),
  );
  const fix = "start what is missing with this scheduler's address, or raise startTimeoutMs";
  const registered = `${parts.join(" and ")} registered, missing: ${missing}`;
  return new WeighbridgeError("DEADLINE", `the cluster was not complete after ${startTimeoutMs} ms: ${registered}; ${fix}`);
}

export function rankHeld(request: RegisterRequest, holder: RankSlot): WeighbridgeError {
  const message = `${nameOfApplicant(request)} requests the rank of ${holderOf(holder)}, which is alive; stop that one first, or ${RANK_FIX}`;
  return new WeighbridgeError("RANK_TAKEN", message);
}

export function nothingFree(request: RegisterRequest, holders: readonly RankSlot[], waitedMs: number): WeighbridgeError {
  const held = `all ${request.role} ranks are held, by ${holders.map(holderOf).join(", ")}`;
  const isGap = holders.length === 0;
  const why = isGap ? "ranks follow each other, and lower ones are not held" : held;
  const fix = isGap
    ? "start the nodes of the lower ranks, or ask for no rank"
    : `stop one of them, or start the whole cluster with more ${request.role}s`;
  return new WeighbridgeError("DEADLINE", `no rank for ${nameOfApplicant(request)} after ${waitedMs} ms: ${why}; ${fix}`);
}

export function jobOver(request: RegisterRequest): WeighbridgeError {
  const message = `no rank for ${nameOfApplicant(request)}: the job is over, everybody has left`;
  return new WeighbridgeError("NO_ROUTE", `${message}; start fewer ${request.role}s, or the whole cluster with more`);
}
