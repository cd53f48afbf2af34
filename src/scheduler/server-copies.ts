// server-copies — which of the processes that register as servers of a replicated job become heads, and which standbys
// (docs/decisions/0060, 0067). Pure. Not who takes over later (chains.ts).
//
// Invariants:
//   ServerCopies.P1. The two copies of a rank are in different processes, and on different hosts where the ranks that
//       nodes ask for leave a choice.
//   ServerCopies.P2. Both copies of a rank run one version of the package with the same settings.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Role } from "../wire/node-id.ts";
import type { CopyClaim, RegisterRequest } from "../wire/register.ts";
import { type Applicant, type ClusterCounts, countOf, oneTooMany, rankClash } from "./applicant.ts";
import type { Assignment } from "./formation.ts";

/** A process that is, or may become, a copy of a server rank. */
type Copy = { readonly label: string; readonly packageVersion?: string | undefined; readonly copy?: CopyClaim | undefined };

/** Why these two cannot hold a rank together, if they cannot (ServerCopies.P1, ServerCopies.P2). */
export function unlikeCopies(one: Copy, other: Copy): WeighbridgeError | undefined {
  const both = `"${one.label}" and "${other.label}" cannot hold a server rank together`;
  if (isOneProcess(one, other)) return new WeighbridgeError("BAD_CONFIG", `${both}: they are in one process, and would die together`);
  const [ours, theirs] = [one, other].map(({ packageVersion = "" }) => packageVersion);
  if (ours !== theirs)
    return new WeighbridgeError("VERSION_MISMATCH", `${both}: one runs weighbridge ${ours || "?"}, the other ${theirs || "?"}`);
  const settings = new Set(other.copy?.settings ?? []);
  const own = (one.copy?.settings ?? []).find((setting) => !settings.has(setting));
  if (own === undefined) return undefined;
  const [name] = own.split(" ", 1);
  const differing = other.copy?.settings.find((setting) => setting.split(" ", 1)[0] === name) ?? `no ${name}`;
  return new WeighbridgeError("BAD_CONFIG", `${both}: one has ${own}, the other ${differing}; start both with the same configuration`);
}

export function isOneProcess(one: Copy, other: Copy): boolean {
  return isOneHost(one, other) && one.copy?.process === other.copy?.process;
}

export function isOneHost({ copy: one }: Copy, { copy: other }: Copy): boolean {
  return one !== undefined && other !== undefined && one.host === other.host;
}

/** What is wrong with this server or standby beside those who are there already, if anything. */
export function copyConflict(
  request: RegisterRequest,
  counts: ClusterCounts,
  others: readonly Applicant<unknown>[],
): WeighbridgeError | undefined {
  const copies = others.filter((other) => other.request.role !== "worker");
  const isOfRank = ({ request: { rank } }: Applicant<unknown>): boolean => request.rank !== undefined && rank === request.rank;
  const twins = copies.filter(isOfRank);
  const rival = twins.find((twin) => twin.request.role === "standby" && request.role === "standby") ?? twins[1];
  if (rival !== undefined) return rankClash(rival.request, request);
  for (const { request: other } of copies) {
    if (request.rank !== undefined && other.rank !== undefined && request.rank !== other.rank) continue;
    const isPair = twins.some((twin) => twin.request === other);
    // Two threads of one process without ranks get different ones.
    const unlike = !isPair && isOneProcess(request, other) ? undefined : unlikeCopies(request, other);
    if (unlike !== undefined) return unlike;
  }
  const ofRole = copies.filter((other) => request.role === "server" || other.request.role === "standby");
  return ofRole.length >= roomFor(request, counts) ? oneTooMany(request, counts, ofRole) : undefined;
}

function roomFor({ role }: RegisterRequest, counts: ClusterCounts): number {
  return countOf(counts, "standby") + (role === "server" ? counts.serverCount : 0);
}

type Pair<T> = { readonly rank: number; head: Applicant<T> | undefined; standby: Applicant<T> | undefined };

/**
 * The slot of each copy once all are there, but for `lackingMax`, and at least one for each rank; otherwise undefined.
 * BAD_CONFIG if the ranks that nodes ask for leave both
 * copies of a rank to one process.
 */
export function dealCopies<T>(
  applicants: readonly Applicant<T>[],
  counts: ClusterCounts,
  lackingMax = 0,
): Assignment<T>[] | WeighbridgeError | undefined {
  const copies = applicants.filter(({ request }) => request.role !== "worker");
  if (copies.length < countOf(counts, "server") + countOf(counts, "standby") - lackingMax) return undefined;
  const pairs = Array.from({ length: counts.serverCount }, (_, rank): Pair<T> => ({ rank, head: undefined, standby: undefined }));
  for (const applicant of copies) {
    const { rank, role } = applicant.request;
    const pair = rank === undefined ? undefined : pairs[rank];
    if (pair === undefined) continue;
    if (role === "server" && pair.head === undefined) pair.head = applicant;
    else pair.standby = applicant;
  }
  const rest: Applicant<T>[] = [];
  for (const applicant of copies) {
    const { rank, role } = applicant.request;
    if (rank !== undefined) continue;
    const pair = role === "standby" ? pairs.find(({ standby }) => standby === undefined) : undefined;
    if (pair === undefined) rest.push(applicant);
    else pair.standby = applicant;
  }
  const empty = pairs.filter(({ head, standby }) => head === undefined && standby === undefined);
  if (rest.length < empty.length) return undefined;
  for (const pair of pairs) if (!empty.includes(pair) && rest.length > empty.length) complete(pair, rest);
  for (const [index, applicant] of grouped(rest).entries()) {
    const pair = empty[index % empty.length];
    assert(pair !== undefined, "there are no more copies than slots");
    if (index < empty.length) pair.head = applicant;
    else pair.standby = applicant;
  }
  for (const pair of pairs) {
    const { head, standby } = pair;
    if (head === undefined) return undefined; // one that asks to stand by leads no rank
    if (standby === undefined) continue;
    const unlike = unlikeCopies(head.request, standby.request);
    if (unlike !== undefined) return unlike;
  }
  return pairs.flatMap((pair) => placesOf(pair));
}

/** Gives the free slot of a rank that has one copy to the process that is furthest from it. */
function complete<T>(pair: Pair<T>, rest: Applicant<T>[]): void {
  const holder = pair.head ?? pair.standby;
  if (holder === undefined || (pair.head !== undefined && pair.standby !== undefined)) return;
  const claim = holder.request.copy;
  const isElsewhere = ({ request }: Applicant<T>): boolean => request.copy?.host !== claim?.host;
  const isApart = ({ request }: Applicant<T>): boolean => !isOneProcess(request, holder.request);
  const chosen = rest.find(isElsewhere) ?? rest.find(isApart) ?? rest[0];
  if (chosen === undefined) return;
  rest.splice(rest.indexOf(chosen), 1);
  if (pair.head === undefined) pair.head = chosen;
  else pair.standby = chosen;
}

/**
 * Those of one host beside each other, and among them those of one process, large hosts first: of 2n in this order, the
 * i-th and the one n later are apart, unless more than n belong together.
 */
function grouped<T>(copies: readonly Applicant<T>[]): Applicant<T>[] {
  const byHost = groups(copies, (claim) => claim?.host ?? "");
  return byHost.flatMap((ofHost) => groups(ofHost, (claim) => claim?.process ?? "").flat());
}

function groups<T>(copies: readonly Applicant<T>[], keyOf: (claim: CopyClaim | undefined) => string): Applicant<T>[][] {
  const found = Map.groupBy(copies, ({ request }) => keyOf(request.copy));
  return [...found.values()].sort((a, b) => b.length - a.length);
}

function placesOf<T>({ rank, head, standby }: Pair<T>): Assignment<T>[] {
  const assign = (role: Role, applicant: Applicant<T> | undefined): Assignment<T>[] =>
    applicant === undefined ? [] : [{ applicant, role, rank }];
  return [...assign("server", head), ...assign("standby", standby)];
}
