// control — the small control messages: barrier, rendezvous, abort, status, and the empty body.

import { packageVersionShape } from "./hello.ts";
import { type Check, count, flag, list, object, oneOf, optional, shortText, text } from "./json-body.ts";
import { roleShape } from "./node-id.ts";
import { addressShape, labelShape, type PlacementView, placementShape, type RosterEntry, rosterEntryShape } from "./roster.ts";

/** BARRIER: the sender stands at the barrier of this group and customer; answered when every member does. */
export type BarrierRequest = {
  readonly group: number;
  readonly customer: number;
  /** The number of this barrier, from 1; 0 from a node that came later and cannot know it. */
  readonly round: number;
  /** True: the entry stays when a member dies, which may be restarted. Otherwise it fails with NODE_DEAD. */
  readonly outlivesDeaths?: boolean | undefined;
};
const entryFields = { group: count, customer: count, round: count, outlivesDeaths: optional(flag) };
export const barrierRequestShape: Check<BarrierRequest> = object(entryFields);

/** The round that is over for everybody. */
export type BarrierReply = { readonly round: number };
export const barrierReplyShape: Check<BarrierReply> = object({ round: count });

/** ABORT: the job cannot go on; every node ends with this reason. */
export type AbortRequest = { readonly code: string; readonly message: string };
export const abortRequestShape: Check<AbortRequest> = object({ code: text, message: text });

/**
 * LEAVE: the sender is done; `failure` says why a node that has its rank cannot begin after all. `returns`: another
 * process goes on with the state of this server, which has stopped in order to be started again. `unlessNeeded`: the
 * sender stays if it alone has the state of its rank. `unclosed`: the process of this worker ends with this exit code,
 * and it had not closed its session; with `returns` another process is started with its rank.
 */
export type LeaveRequest = Optional<{ failure: AbortRequest; returns: boolean; unlessNeeded: boolean; unclosed: number }>;
const leaveFlags = { returns: optional(flag), unlessNeeded: optional(flag), unclosed: optional(count) };
export const leaveRequestShape: Check<LeaveRequest> = object({ failure: optional(abortRequestShape), ...leaveFlags });

/** `isNeeded`: the sender stays, as the head of its rank. */
export type LeaveReply = { readonly isNeeded?: boolean | undefined };
export const leaveReplyShape: Check<LeaveReply> = object({ isNeeded: optional(flag) });

export type StatusEntry = RosterEntry & {
  /** Time since the node last sent something to the scheduler; undefined before the first time. */
  readonly heartbeatAgeMs: number | undefined;
  /** Whether the node is connected to the scheduler now. */
  readonly linked: boolean;
  /** Of a standby that took over, or was handed over to: how long ago. */
  readonly promotedAgoMs?: number | undefined;
  /** How long a server has held its answers back, as its last heartbeat said (HeartbeatRequest). */
  readonly heldMs?: number | undefined;
  /** The nodes with which it shares memory, as its last heartbeat said. */
  readonly sharing?: readonly number[] | undefined;
  /** For how long its loop has been busy, if that is longer than the heartbeat timeout. */
  readonly loopBusyMs?: number | undefined;
};
const ages = { heartbeatAgeMs: optional(count), promotedAgoMs: optional(count), loopBusyMs: optional(count), heldMs: optional(count) };
const heartbeatShape = object({ ...ages, linked: flag, sharing: optional(list(count)) });
const statusEntryShape: Check<StatusEntry> = (value, path) => ({ ...rosterEntryShape(value, path), ...heartbeatShape(value, path) });

/** A node that registered and has no rank yet: while the cluster forms, or because every rank is held. */
export type WaitingEntry = Pick<RosterEntry, "role" | "address" | "label" | "packageVersion"> & { readonly rank: number | undefined };
const waitingEntryShape: Check<WaitingEntry> = object({
  role: roleShape,
  rank: optional(count),
  address: addressShape,
  label: labelShape,
  packageVersion: optional(packageVersionShape),
});

/** A guest that is there. One of kind "tool" is a command that runs, which has no number. */
export type GuestStatus = {
  readonly node?: number | undefined;
  readonly kind?: "tool" | undefined;
  readonly command?: string | undefined;
  /** Where it runs, as it says itself: host and process. */
  readonly label: string;
  /** How long ago it came; left out: before this scheduler was started. */
  readonly hereMs?: number | undefined;
  readonly heartbeatAgeMs: number;
  readonly linked: boolean;
};
const guestAges = { hereMs: optional(count), heartbeatAgeMs: count };
const guestNames = { node: optional(count), kind: optional(oneOf("tool")), command: optional(text), label: labelShape };
const guestStatusShape: Check<GuestStatus> = object({ ...guestNames, ...guestAges, linked: flag });

export type Phase = "forming" | "running" | "failed";

export type StatusReply = {
  readonly job: string;
  readonly phase: Phase;
  readonly serverCount: number;
  readonly workerCount: number;
  /** By how many processes each server rank is held; left out: by one. */
  readonly replicas?: number | undefined;
  /** Of the placement; left out while there is none. */
  readonly epoch?: number | undefined;
  readonly uptimeMs: number;
  /** Which start of a scheduler answers: each has a higher one. */
  readonly term?: number | undefined;
  /** Schedulers that take over when this one ends, by address. */
  readonly standbys?: readonly string[] | undefined;
  /** Of the package that the scheduler runs. */
  readonly packageVersion?: string | undefined;
  readonly nodes: readonly StatusEntry[];
  readonly waiting: readonly WaitingEntry[];
  /** Nodes that are done and stand at the last barrier, by id. */
  readonly leaving?: readonly number[] | undefined;
  /** So many nodes are silent for so long that the scheduler suspects itself, and takes none for dead now. */
  readonly silence?: { readonly of: "all" | "most"; readonly forMs: number } | undefined;
  /** Whether the job continues when no worker is left; left out: no. */
  readonly serves?: boolean | undefined;
  /** Left out: none is there. */
  readonly guests?: readonly GuestStatus[] | undefined;
};
export const statusReplyShape: Check<StatusReply> = object({
  job: text,
  phase: oneOf("forming", "running", "failed"),
  serverCount: count,
  workerCount: count,
  replicas: optional(count),
  epoch: optional(count),
  uptimeMs: count,
  term: optional(count),
  standbys: optional(list(addressShape)),
  packageVersion: optional(packageVersionShape),
  nodes: list(statusEntryShape),
  waiting: list(waitingEntryShape),
  leaving: optional(list(count)),
  silence: optional(object({ of: oneOf("all", "most"), forMs: count })),
  serves: optional(flag),
  guests: optional(list(guestStatusShape)),
});

/** The placement as the scheduler knows it; left out: it knows none. */
export type PlacementReply = { readonly placement?: PlacementView | undefined };
export const placementReplyShape: Check<PlacementReply> = object({ placement: optional(placementShape) });

/**
 * PREPARE: the placement of this epoch comes within `holdMs` after this message arrived; 0: it does not come.
 * `servers`: the ranks of the servers that it names; left out: the same as before. A server is told the placement, and
 * the `roster` that it must have heard of. `awaits`: it was published, and a server answers when it has all parts that
 * come to it ("arrival"), or when it serves by the placement ("service").
 */
export type PrepareRequest = { readonly epoch: number; readonly holdMs: number } & Optional<ServerPreparation>;
type ServerPreparation = { servers: readonly number[]; placement: PlacementView; roster: number; awaits: "arrival" | "service" };
type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined };
const comingShape = { servers: optional(list(count)), placement: optional(placementShape), roster: optional(count) };
const preparation = { ...comingShape, awaits: optional(oneOf("arrival", "service")) };
export const prepareRequestShape: Check<PrepareRequest> = object({ epoch: count, holdMs: count, ...preparation });

/** Of a server: rank, bytes, rank, bytes … that leave it by the placement, and the bytes for which it has room. */
export type PrepareReply = { readonly leaving?: readonly number[] | undefined; readonly roomBytes?: number | undefined };
export const prepareReplyShape: Check<PrepareReply> = object({ leaving: optional(list(count)), roomBytes: optional(count) });

/**
 * HEARTBEAT. `holdsSums`: a server has values of the kv face or data of pushData (RosterEntry.sumsIncarnation).
 * `standbyLost`: the incarnation of a standby that does not take the log of its head, which sends this;
 * `standbyFilled`: of one that came later, and has everything now. `heldMs`: how long a server has held its answers
 * back, because neither a standby nor a disk takes its log; left out: it does not, or not for long. `silent`: nodes of
 * which the sender has heard nothing for a while, although calls wait there. `sharing`: the nodes with which it has a
 * link over shared memory. `loopBusyMs`, of a pulse alone: for how long the loop of its node has not turned.
 */
export type HeartbeatRequest = {
  readonly holdsSums?: boolean | undefined;
  readonly standbyLost?: number | undefined;
  readonly standbyFilled?: number | undefined;
  readonly heldMs?: number | undefined;
  readonly silent?: readonly number[] | undefined;
  readonly sharing?: readonly number[] | undefined;
  readonly loopBusyMs?: number | undefined;
};
const standbyNews = { standbyLost: optional(count), standbyFilled: optional(count), heldMs: optional(count) };
const silences = { silent: optional(list(count)), sharing: optional(list(count)), loopBusyMs: optional(count) };
export const heartbeatRequestShape: Check<HeartbeatRequest> = object({ holdsSums: optional(flag), ...standbyNews, ...silences });

/**
 * `busy`: those of the silent nodes whose process runs while their loop is busy. `wasDead`: the sender was declared
 * dead since it was heard last, and is alive again.
 */
export type HeartbeatReply = { readonly busy?: readonly number[] | undefined; readonly wasDead?: boolean | undefined };
export const heartbeatReplyShape: Check<HeartbeatReply> = object({ busy: optional(list(count)), wasDead: optional(flag) });

/** A body without fields: STATUS, PLACEMENT, and replies that only acknowledge. */
export type Empty = Readonly<Record<never, never>>;
export const emptyShape: Check<Empty> = object({});

export const RENDEZVOUS_NAME_LENGTH_MAX = 256;
export const RENDEZVOUS_VALUE_LENGTH_MAX = 1024;

/** A generation of a name, 0, 1, 2 …: no two are the same rendezvous. */
export type RendezvousName = { readonly name: string; readonly generation: number };
const nameFields = { name: shortText(RENDEZVOUS_NAME_LENGTH_MAX), generation: count };

/** What a worker came with. */
export type RendezvousValue = { readonly rank: number; readonly value: string };
const valueShape: Check<RendezvousValue> = object({ rank: count, value: shortText(RENDEZVOUS_VALUE_LENGTH_MAX) });

export type RendezvousRequest = RendezvousName & { readonly value: string; readonly waitMs: number };
export const rendezvousRequestShape: Check<RendezvousRequest> = object({
  ...nameFields,
  value: shortText(RENDEZVOUS_VALUE_LENGTH_MAX),
  waitMs: count,
});

/** `values`, by rank, when it is held; otherwise `missing`, the ranks of the live workers that have not come. */
export type RendezvousReply = {
  readonly values?: readonly RendezvousValue[] | undefined;
  readonly missing?: readonly number[] | undefined;
};
export const rendezvousReplyShape: Check<RendezvousReply> = object({ values: optional(list(valueShape)), missing: optional(list(count)) });

/** What a worker reports to a restarted scheduler: a generation that it has left, and with which values. */
export type RendezvousHeld = RendezvousName & { readonly values: readonly RendezvousValue[] };
export const rendezvousHeldShape: Check<RendezvousHeld> = object({ ...nameFields, values: list(valueShape) });
