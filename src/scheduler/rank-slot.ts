// rank-slot — one rank of a running job: its node, incarnation, and when it last sent something. roster.ts keeps it.
// The incarnation is read from the scheduler's state (scheduler-state.ts); the rest is learned again after a restart.

import { idOf, nameOf, type Role } from "../wire/node-id.ts";
import type { CopyClaim } from "../wire/register.ts";
import type { NodeState, RosterEntry } from "../wire/roster.ts";
import type { StateJournal } from "./state-journal.ts";

/** How long a closed link may stay closed before its node is dead, when heartbeats do not decide that. */
export const LINK_GRACE_MS = 5000;

/** When a node was last heard, and until when its silence since then is excused (Roster.R10). */
export type LastHeard = {
  heardAtMs: number;
  excuse?: { readonly heardAtMs: number; readonly untilMs: number };
};

export type RankSlot = LastHeard & {
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
  /** Of a server that is dead: it was stopped as planned. */
  isPlanned: boolean;
  state: NodeState;
  /** The newest incarnation that reported sums; 0: none did. */
  sumsIncarnation: number;
  /** Since when it has no link to us; undefined while it has one. */
  downSinceMs: number | undefined;
  /** When nothing listened at its address any more, while it had no link. */
  refusedAtMs?: number | undefined;
  /** False while we have it from another node's memory, and the node itself has sent nothing. */
  confirmed: boolean;
};

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
    isPlanned: false,
    state: "dead",
    sumsIncarnation: 0,
    heardAtMs: 0,
    downSinceMs: 0,
    confirmed: false,
  };
}

/** When the node is dead unless it sends something before; Infinity: not by itself. */
export function deathAtMs(slot: RankSlot, heartbeatTimeoutMs: number): number {
  const { state, downSinceMs } = slot;
  if (state !== "alive") return Infinity;
  if (heartbeatTimeoutMs > 0) return silentUntilMs(slot, heartbeatTimeoutMs);
  return downSinceMs === undefined ? Infinity : downSinceMs + LINK_GRACE_MS;
}

/** Until when a node may be silent. */
export function silentUntilMs({ heardAtMs, excuse }: LastHeard, heartbeatTimeoutMs: number): number {
  const endMs = heardAtMs + heartbeatTimeoutMs;
  return excuse?.heardAtMs === heardAtMs ? Math.max(endMs, excuse.untilMs) : endMs;
}

/** Excuses the silence of a node once, until this time. The next one is excused anew (Roster.R10). */
export function excuseSilence(heard: LastHeard, untilMs: number): void {
  const { heardAtMs, excuse } = heard;
  if (excuse?.heardAtMs !== heardAtMs) heard.excuse = { heardAtMs, untilMs };
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
  isPlanned,
}: RankSlot): RosterEntry {
  const sums = sumsIncarnation === 0 ? {} : { sumsIncarnation };
  const flags = { ...(returns ? { returns } : {}), ...(isPlanned ? { isPlanned } : {}) };
  const entry = { node, role, rank, address, incarnation, state, label, ...sums, ...flags };
  return packageVersion === "" ? entry : { ...entry, packageVersion };
}

/** What the members of the job learn of it. */
export function entryOf(slot: RankSlot): RosterEntry {
  return slot.token === "" ? publicEntryOf(slot) : { ...publicEntryOf(slot), token: slot.token };
}
