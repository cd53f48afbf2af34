// rank-slot — one rank of a running job: its node, incarnation, and when it last sent something. roster.ts keeps it.
// The incarnation is read from the scheduler's state (scheduler-state.ts); the rest is learned again after a restart.
//
// Invariants:
//   RankSlot.D1. A worker that lost its link, and is not heard for half the heartbeat timeout, is dead: the system
//       closes the links of a process that is killed. So is a server at whose address nothing listens any more.
//   RankSlot.D2. A server is dead when its last pulse says that its loop has been busy for `loopTimeoutMs`, whatever
//       time has passed since. The loop of a worker may be busy for as long as it likes.

import { idOf, nameOf, type Role } from "../wire/node-id.ts";
import type { CopyClaim } from "../wire/register.ts";
import type { NodeState, RosterEntry } from "../wire/roster.ts";
import { BusyLoop } from "./busy-loop.ts";
import type { Hearing } from "./silence-verdicts.ts";
import type { StateJournal } from "./state-journal.ts";

/** How long a closed link may stay closed before its node is dead, when heartbeats do not decide that. */
export const LINK_GRACE_MS = 5000;
/**
 * Part of the heartbeat timeout after which silence behind a closed link shows a death: a node that lives dials again
 * at once, and the pulse of one whose loop is busy is heard after two looks.
 */
const CLOSED_LINK_SILENCE = 0.5;

export type RankSlot = {
  /** When it last sent something. */
  heardAtMs: number;
  readonly node: number;
  readonly role: Role;
  readonly rank: number;
  address: string;
  label: string;
  packageVersion: string;
  /** Of the process that registered; empty if unknown. */
  token: string;
  readonly incarnation: number;
  /** Of a copy of a replicated server that has registered here. */
  copy: CopyClaim | undefined;
  /** Of a server: another process goes on with its state if this one ends. */
  returns: boolean;
  /** Of a worker that never joins the clock set. */
  hasNoClock: boolean;
  /** Of a server that is dead: it was stopped as planned. */
  isPlanned: boolean;
  state: NodeState;
  /** The newest incarnation that reported sums; 0: none did. */
  sumsIncarnation: number;
  /** Since when it has no link to us; undefined while it has one. */
  downSinceMs: number | undefined;
  /** When nothing listened at its address any more, while it had no link. */
  refusedAtMs?: number | undefined;
  /** How long its answers had been held back when it was heard last; undefined: they were not. */
  heldMs?: number | undefined;
  /** With which nodes it shared memory then. */
  sharing?: readonly number[] | undefined;
  /** False while we have it from another node's memory, and the node itself has sent nothing. */
  confirmed: boolean;
  /** Of its holder. */
  loop: BusyLoop;
  /** Its holder was declared dead and lives, and has not been told. */
  wasDead?: boolean;
};

export type DeathRules = { readonly heartbeatTimeoutMs: number; readonly loopTimeoutMs?: number | undefined };

/** A slot whose holder, if any, has sent nothing yet. */
export function emptyRankSlot(role: Role, rank: number, journal: StateJournal): RankSlot {
  const node = idOf(role, rank);
  return {
    node,
    role,
    rank,
    address: "",
    label: "",
    packageVersion: "",
    token: "",
    get incarnation() {
      return journal.state.incarnations.get(node) ?? 0;
    },
    copy: undefined,
    returns: false,
    hasNoClock: false,
    isPlanned: false,
    state: "dead",
    sumsIncarnation: 0,
    heardAtMs: 0,
    downSinceMs: 0,
    confirmed: false,
    loop: new BusyLoop(),
  };
}

/** When its silence, its closed link or its pulse says that the node is dead; Infinity: it does not. */
export function deathAtMs(slot: RankSlot, { heartbeatTimeoutMs, loopTimeoutMs = 0 }: DeathRules): number {
  const { role, state, heardAtMs, downSinceMs, loop } = slot;
  if (state !== "alive") return Infinity;
  // RankSlot.D2
  if (role !== "worker" && loopTimeoutMs > 0 && loop.busyMs(heardAtMs) >= loopTimeoutMs) return heardAtMs;
  if (heartbeatTimeoutMs === 0) return downSinceMs === undefined ? Infinity : downSinceMs + LINK_GRACE_MS;
  const silentAtMs = heardAtMs + heartbeatTimeoutMs;
  if (downSinceMs === undefined || !mayBeGone(slot)) return silentAtMs;
  return Math.min(silentAtMs, Math.max(heardAtMs, downSinceMs) + CLOSED_LINK_SILENCE * heartbeatTimeoutMs);
}

/** Whether a closed link of this node may mean that its process is gone (RankSlot.D1). */
function mayBeGone({ role, confirmed, downSinceMs = Infinity, refusedAtMs = -Infinity }: RankSlot): boolean {
  return confirmed && (role === "worker" || refusedAtMs >= downSinceMs);
}

/** For verdicts on silence: its closed link, and the address of a server, say that its process may be gone. */
export function hearingOf(slot: RankSlot, { probesServers }: { readonly probesServers: boolean }): Hearing {
  const { role, heardAtMs, downSinceMs, refusedAtMs = -Infinity } = slot;
  if (!probesServers || role !== "server" || downSinceMs === undefined) return { heardAtMs, goneSinceMs: downSinceMs };
  return { heardAtMs, goneSinceMs: refusedAtMs >= downSinceMs ? refusedAtMs : undefined };
}

/** A slot by its holder, for messages: `worker 0 ("host:17")`. */
export function holderOf({ node, label }: RankSlot): string {
  return label === "" ? nameOf(node) : `${nameOf(node)} ("${label}")`;
}

/** What everybody may see of a slot. */
export function publicEntryOf({
  node,
  role,
  rank,
  address,
  incarnation,
  state,
  label,
  packageVersion,
  sumsIncarnation,
  returns,
  hasNoClock,
  isPlanned,
}: RankSlot): RosterEntry {
  const sums = sumsIncarnation === 0 ? {} : { sumsIncarnation };
  const flags = { ...(returns ? { returns } : {}), ...(isPlanned ? { isPlanned } : {}), ...(hasNoClock ? { hasNoClock } : {}) };
  const entry = { node, role, rank, address, incarnation, state, label, ...sums, ...flags };
  return packageVersion === "" ? entry : { ...entry, packageVersion };
}

/** What the members of the job learn of it. */
export function entryOf(slot: RankSlot): RosterEntry {
  return slot.token === "" ? publicEntryOf(slot) : { ...publicEntryOf(slot), token: slot.token };
}
