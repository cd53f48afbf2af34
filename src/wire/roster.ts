// roster — the nodes of the job as the scheduler publishes them, and who is missing while a job forms or ends. Every
// change has a higher version; a node ignores a roster that is older than its own.

import type { PlacementDescription } from "../keys/placement-description.ts";
import { packageVersionShape, tokenShape } from "./hello.ts";
import { type Check, count, flag, list, object, oneOf, optional, shortText } from "./json-body.ts";
import { idOf, nameOf, type Role, roleShape, SCHEDULER_ID } from "./node-id.ts";

/** Bounds of names that everybody keeps: a roster of a thousand nodes fits a frame. */
export const addressShape: Check<string> = shortText(512);
export const labelShape: Check<string> = shortText(256);

export type NodeState = "alive" | "dead" | "left";

export type RosterEntry = {
  readonly node: number;
  readonly role: Role;
  readonly rank: number;
  readonly address: string;
  readonly incarnation: number;
  readonly state: NodeState;
  readonly label: string;
  /** Left out: unknown. */
  readonly packageVersion?: string | undefined;
  /** What the node shows in its hellos; only members of the job get it. Left out: none, or unknown to the scheduler. */
  readonly token?: string | undefined;
  /** Of a server: the newest incarnation of this rank that reported sums of its own. Left out: none did. */
  readonly sumsIncarnation?: number | undefined;
  /** Of a server that took over as a standby: since which incarnation its state goes on. Left out: since its own. */
  readonly continues?: number | undefined;
  /** Of a server: if its process ends, another one goes on with its state. Calls wait for that one. */
  readonly returns?: boolean | undefined;
  /** Of a standby that came later, and does not have everything that its head has. Left out: it has. */
  readonly isFilling?: boolean | undefined;
  /** Of a server that has no parts any more, or a worker that was asked: it is to leave. */
  readonly isRetired?: boolean | undefined;
  /** Of a worker that never joins the clock set: no server waits for it. */
  readonly hasNoClock?: boolean | undefined;
  /** Of a server that is dead, or goes on from another process: that process was stopped, and did not die. */
  readonly isPlanned?: boolean | undefined;
};

export const rosterEntryShape: Check<RosterEntry> = object({
  node: count,
  role: roleShape,
  rank: count,
  address: addressShape,
  incarnation: count,
  state: oneOf("alive", "dead", "left"),
  label: labelShape,
  packageVersion: optional(packageVersionShape),
  token: optional(tokenShape),
  sumsIncarnation: optional(count),
  continues: optional(count),
  ...{ returns: optional(flag), isFilling: optional(flag), isRetired: optional(flag), isPlanned: optional(flag) },
  hasNoClock: optional(flag),
});

/** Which server owns which part. */
export type PlacementView = PlacementDescription;

export const placementShape: Check<PlacementView> = object({
  epoch: count,
  policy: oneOf("ring", "range"),
  servers: list(count),
  moved: optional(list(count)),
  move: optional(object({ from: list(count), to: list(count), below: count })),
});

/** A client that is not counted, and what it shows in its hellos. */
export type GuestEntry = { readonly node: number; readonly token: string };

const guestsShape: Check<readonly GuestEntry[]> = list(object({ node: count, token: tokenShape }));

export type RosterView = {
  readonly version: number;
  readonly nodes: readonly RosterEntry[];
  /** The guests that are there, for servers and standbys alone. */
  readonly guests?: readonly GuestEntry[] | undefined;
  /** Left out by a job without servers, and by a restarted scheduler that has not learned it yet. */
  readonly placement?: PlacementView | undefined;
  /**
   * For servers and standbys alone: parts of the placements up to this epoch are with their owners, for good
   * (PlacementChanges.C6).
   */
  readonly handedOver?: number | undefined;
  /** For servers and standbys alone: the placement that comes back if parts of `placement` cannot be handed over. */
  readonly previous?: PlacementView | undefined;
  /** Generations of workers up to this one are over (collective-frame.ts); left out: none is. */
  readonly endedGeneration?: number | undefined;
};

export const rosterShape: Check<RosterView> = object({
  version: count,
  nodes: list(rosterEntryShape),
  guests: optional(guestsShape),
  placement: optional(placementShape),
  handedOver: optional(count),
  previous: optional(placementShape),
  endedGeneration: optional(count),
});

/** The ranks of all servers, ascending, dead ones and those that have left included. */
export function serverRanks({ nodes }: Pick<RosterView, "nodes">): number[] {
  return nodes
    .filter(({ role }) => role === "server")
    .map(({ rank }) => rank)
    .sort((a, b) => a - b);
}

/** Whether calls to this node are answered, now or when it has come back. */
export function isAwaited({ state, returns }: Pick<RosterEntry, "state" | "returns">): boolean {
  return state === "alive" || (state === "dead" && returns === true);
}

/** The nodes that were declared dead and that nobody has replaced. */
export function deadNodes({ nodes }: RosterView): number[] {
  return nodes.filter(({ state }) => state === "dead").map(({ node }) => node);
}

/** A node that waits for its rank; without a rank it takes the lowest that nobody requested. */
export type WaitingNode = { readonly role: Role; readonly rank: number | undefined };

const NAMES_MAX = 8;

/** `server 1, worker 0 and 3 more`; "" when all are there. */
export function missingText(
  counts: { readonly serverCount: number; readonly workerCount: number; readonly replicas?: number | undefined },
  there: readonly WaitingNode[],
): string {
  const { serverCount, workerCount, replicas = 1 } = counts;
  const [workers, servers] = [there.filter(({ role }) => role === "worker"), there.filter(({ role }) => role !== "worker")];
  const standbys = replicas === 1 ? [] : missingOf("standby", serverCount, servers);
  const copies = [...missingOf("server", serverCount, servers), ...standbys].slice(unrankedCount(servers));
  return namesText([...copies, ...missingOf("worker", workerCount, workers).slice(unrankedCount(workers))]);
}

/** As `missingText`: the nodes of a running job that have not left, and are not at the last barrier. */
export function missingAtEnd(nodes: RosterView["nodes"], leaving: Iterable<number>): string {
  const there = new Set(leaving);
  const missing = nodes.filter(({ node, state }) => state !== "left" && !there.has(node)).sort((a, b) => a.node - b.node);
  const ofRole = (role: Role): number[] => missing.filter((node) => node.role === role).map(({ node }) => node);
  const scheduler = there.has(SCHEDULER_ID) ? [] : [SCHEDULER_ID];
  return namesText([...scheduler, ...ofRole("server"), ...ofRole("standby"), ...ofRole("worker")].map(nameOf));
}

function namesText(missing: readonly string[]): string {
  const more = missing.length > NAMES_MAX ? ` and ${missing.length - NAMES_MAX} more` : "";
  return `${missing.slice(0, NAMES_MAX).join(", ")}${more}`;
}

/** The ranks that too few of these nodes ask for: a standby is the second copy of a server. */
function missingOf(role: Role, count: number, there: readonly WaitingNode[]): string[] {
  const isMissing = (rank: number): boolean => there.filter((node) => node.rank === rank).length < (role === "standby" ? 2 : 1);
  return [...Array(count).keys()].filter(isMissing).map((rank) => nameOf(idOf(role, rank)));
}

function unrankedCount(there: readonly WaitingNode[]): number {
  return there.filter(({ rank }) => rank === undefined).length;
}
