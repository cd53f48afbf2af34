// rank-slots — all slots of a running job, and the version of the published roster. roster.ts has the rules of change.
//
// Invariants:
//   RankSlots.V1. The published state of a slot changes only through here: then, and only then, `publish` raises the
//       version.
//   RankSlots.V2. The version never falls, also over a restart of the scheduler: it rises above what the nodes
//       remember.
//   RankSlots.V3. The epoch of the placement never falls either: of those that nodes remember, the highest wins.
//   RankSlots.V5. A roster that nodes remember lists all servers of the job, and their standbys: those that it does not
//       list have left it.
//   RankSlots.V4. Servers and standbys see the guests, and whether parts are handed over. A change of these alone is no
//       news for others: their roster keeps the version of the last change that concerns them.

import { assert } from "../base/assert.ts";
import type { HeartbeatReply, HeartbeatRequest, StatusEntry } from "../wire/control.ts";
import { type Role, rankOf, roleOf } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";
import type { NodeState, PlacementView, RosterEntry, RosterView } from "../wire/roster.ts";
import { type ClusterCounts, countOf, workersMaxOf } from "./applicant.ts";
import { BusyLoop } from "./busy-loop.ts";
import type { Guests } from "./guests.ts";
import { emptyRankSlot, entryOf, hearingOf, publicEntryOf, type RankSlot } from "./rank-slot.ts";
import type { PendingPlacement } from "./scheduler-state.ts";
import type { Hearing } from "./silence-verdicts.ts";
import type { StateJournal } from "./state-journal.ts";

/** ps-lite's order, and what it does not know. */
const ROLES: readonly Role[] = ["worker", "server", "standby"];

/** For whom a change is news. */
export type Audience = "all" | "servers";

export class RankSlots {
  readonly #journal: StateJournal;
  readonly #guests: Guests;
  readonly #slots = new Map<number, RankSlot>();
  #version = 0;
  /** Of the last change for everybody (RankSlots.V4). */
  #commonVersion = 0;
  /** The newest version among those that nodes brought along after a restart. */
  #recalledVersion = 0;
  /** Of these, the newest that a server or standby brought: workers see no guests (Guests.G3). */
  #guestsVersion = 0;
  /** Generations of workers up to this one are over. */
  #endedGeneration = 0;
  #changed = false;
  #serverNewsChanged = false;
  #workersMax = 0;

  /** Incarnations are written to this journal, and read from there. */
  constructor(journal: StateJournal, guests: Guests) {
    this.#journal = journal;
    this.#guests = guests;
  }

  /**
   * Makes all slots, empty: as many as there are to be, and the servers of a placement that was found, with standbys.
   */
  establish(counts: ClusterCounts): void {
    this.#workersMax = workersMaxOf(counts);
    for (const role of ROLES) {
      const ranks = Array.from({ length: countOf(counts, role) }, (_, rank) => rank);
      const found = role === "worker" || ranks.length === 0 ? undefined : this.placement?.servers;
      for (const rank of found ?? ranks) this.add(role, rank);
    }
  }

  /** A slot more, empty. It is published when somebody has it. */
  add(role: Role, rank: number): RankSlot {
    const slot = emptyRankSlot(role, rank, this.#journal);
    assert(!this.#slots.has(slot.node), `${role} ${rank} is added once`);
    const isLater = (other: RankSlot): boolean =>
      other.role === role ? other.rank > rank : ROLES.indexOf(other.role) > ROLES.indexOf(role);
    const later = this.all().filter(isLater);
    for (const other of later) this.#slots.delete(other.node);
    for (const next of [slot, ...later]) this.#slots.set(next.node, next);
    return slot;
  }

  /** Nobody has this slot, and nobody will. */
  remove({ node }: RankSlot): void {
    if (this.#slots.delete(node)) this.#changed = true;
  }

  get(node: number): RankSlot | undefined {
    return this.#slots.get(node);
  }

  /** Workers by rank, then servers by rank. */
  all(): RankSlot[] {
    return [...this.#slots.values()];
  }

  /** What a node of this role sees. */
  view(reader?: Role): RosterView {
    const isServer = seesGuests(reader);
    const ended = this.#endedGeneration === 0 ? {} : { endedGeneration: this.#endedGeneration };
    const { placement } = this;
    const seesParts = isServer && placement !== undefined;
    return {
      version: isServer ? this.#version : this.#commonVersion, // RankSlots.V4
      nodes: this.all().map((slot) => this.#entryOf(slot)),
      ...(isServer && this.#guests.size > 0 ? { guests: this.#guests.entries() } : {}),
      ...(placement === undefined ? {} : { placement }),
      ...(seesParts ? this.#handOverOf(placement) : {}),
      ...ended,
    };
  }

  /** `dateMs`: the time of day. A loop that has been busy for `longMs` is told. */
  status(nowMs: number, dateMs: number, longMs: number): StatusEntry[] {
    const ago = (atMs: number): number => Math.max(0, Math.round(nowMs - atMs));
    return this.all().map((slot) => ({
      ...this.#chainOf(slot),
      ...publicEntryOf(slot),
      ...this.#promotionOf(slot, dateMs),
      heartbeatAgeMs: slot.confirmed ? ago(slot.heardAtMs) : undefined,
      linked: slot.downSinceMs === undefined,
      ...(slot.state === "alive" && slot.loop.busyMs(nowMs) >= longMs ? { loopBusyMs: Math.round(slot.loop.busyMs(nowMs)) } : {}),
      ...(slot.heldMs === undefined || slot.state !== "alive" ? {} : { heldMs: slot.heldMs }),
      ...(slot.sharing === undefined || slot.state !== "alive" ? {} : { sharing: slot.sharing }),
    }));
  }

  /** For verdicts on silence: a node that has sent nothing to this scheduler has not fallen silent. */
  hearings({ probesServers = false }: { readonly probesServers?: boolean | undefined }): Hearing[] {
    const counted = this.all().filter(({ state, confirmed }) => state === "alive" && confirmed);
    return counted.map((slot) => hearingOf(slot, { probesServers }));
  }

  /** The node of this request holds the slot from now on, in this incarnation. */
  assign(slot: RankSlot, request: RegisterRequest, incarnation: number, nowMs: number): void {
    const { address, label, token, copy, packageVersion = "", returns = false, hasNoClock = false } = request;
    const isNews = slot.incarnation !== incarnation || slot.address !== address || slot.label !== label || slot.state !== "alive";
    this.setIncarnation(slot, incarnation);
    const holder = { address, label, token, copy, packageVersion, returns, hasNoClock, isPlanned: false };
    const loop = new BusyLoop(nowMs);
    Object.assign(slot, { ...holder, state: "alive", confirmed: true, loop, wasDead: false } satisfies Partial<RankSlot>);
    slot.heardAtMs = nowMs;
    slot.heldMs = undefined;
    slot.sharing = undefined;
    slot.downSinceMs = undefined;
    if (isNews) this.#changed = true;
  }

  /** The standby holds this slot from now on. It has not spoken as that node yet. */
  takeOver(slot: RankSlot, { address, label, token, copy, packageVersion, returns }: RankSlot, nowMs: number): void {
    const holder = { address, label, token, copy, packageVersion, returns, isPlanned: false };
    const loop = new BusyLoop(nowMs);
    Object.assign(slot, { ...holder, state: "alive", confirmed: true, loop, wasDead: false } satisfies Partial<RankSlot>);
    slot.heardAtMs = nowMs;
    slot.downSinceMs = nowMs;
    slot.refusedAtMs = undefined;
    this.#changed = true;
  }

  /** Its holder was declared dead, and lives. */
  revive(slot: RankSlot): void {
    this.setState(slot, "alive");
    slot.wasDead = true;
  }

  /**
   * Says which of the silent nodes are busy, by pulses that were heard since `sinceMs`, and whether this node was
   * declared dead: that is told once. Keeps for `status` how long the node has held its answers back, and with which
   * nodes it shares memory.
   */
  answerOf(node: number, { silent, heldMs, sharing }: HeartbeatRequest, sinceMs: number): HeartbeatReply {
    const isBusy = (other: number): boolean => {
      const slot = this.#slots.get(other);
      return slot?.state === "alive" && slot.loop.isBusy && slot.heardAtMs > sinceMs;
    };
    const busy = silent === undefined ? {} : { busy: silent.filter(isBusy) };
    const own = this.#slots.get(node);
    if (own !== undefined) Object.assign(own, { heldMs, sharing } satisfies Partial<RankSlot>);
    if (own?.wasDead !== true) return busy;
    own.wasDead = false;
    return { ...busy, wasDead: true };
  }

  /** The node of this slot listens there from now on; "": no longer. */
  setAddress(slot: RankSlot, address: string): void {
    if (slot.address === address) return;
    slot.address = address;
    this.#changed = true;
  }

  /** This incarnation of the rank has held sums: its successors learn that they lack them. */
  noteSums(slot: RankSlot, incarnation: number): void {
    if (incarnation <= slot.sumsIncarnation) return;
    slot.sumsIncarnation = incarnation;
    this.#changed = true;
  }

  endGeneration(generation: number): void {
    if (generation <= this.#endedGeneration) return;
    this.#endedGeneration = generation;
    this.#changed = true;
  }

  get placement(): PlacementView | undefined {
    return this.#journal.state.placement;
  }

  /** Takes the placement if it is newer (RankSlots.V3); `pending`: its parts are not handed over yet. */
  setPlacement(placement: PlacementView | undefined, pending?: PendingPlacement): void {
    if (placement === undefined || placement.epoch <= (this.placement?.epoch ?? 0)) return;
    this.#journal.write({ kind: "placement", placement, ...(pending === undefined ? {} : { pending }) });
    this.#changed = true;
  }

  /** Undefined: all parts are with their owners. */
  get pending(): PendingPlacement | undefined {
    return this.#journal.state.pending;
  }

  /** Parts of placements up to this epoch are with their owners, for good. */
  setHandedOver(epoch: number): void {
    if (this.pending === undefined || epoch < (this.placement?.epoch ?? 0)) return;
    this.#journal.write({ kind: "handedOver", epoch });
    this.#serverNewsChanged = true;
  }

  #handOverOf({ epoch }: PlacementView): Pick<RosterView, "handedOver" | "previous"> {
    const { pending } = this;
    if (pending === undefined) return { handedOver: epoch };
    const { previous } = pending;
    return { handedOver: previous?.epoch ?? epoch - 1, ...(previous === undefined ? {} : { previous }) };
  }

  /** What a node remembers of the placement: only servers know whether its parts are handed over. */
  #recallPlacement({ placement, handedOver, previous }: RosterView): void {
    if (placement === undefined) return;
    const before = this.placement;
    const isOver = handedOver !== undefined && handedOver >= placement.epoch;
    const isLater = before !== undefined && before.epoch < placement.epoch;
    this.setPlacement(placement, isOver ? undefined : { previous: previous ?? (isLater ? before : undefined) });
    if (isOver) this.setHandedOver(placement.epoch);
    const { pending, placement: now } = this;
    if (now === undefined || pending === undefined || pending.previous !== undefined || handedOver === undefined) return;
    const known = placement.epoch < now.epoch ? placement : previous;
    if (known !== undefined) this.#journal.write({ kind: "placement", placement: now, pending: { previous: known } });
  }

  /** `isPlanned`: a server that is dead then was stopped. */
  setState(slot: RankSlot, state: NodeState, { isPlanned = false }: { readonly isPlanned?: boolean } = {}): void {
    if (slot.state === state) return;
    slot.state = state;
    slot.isPlanned = isPlanned;
    this.#changed = true;
  }

  /**
   * Adopts what a node of this role remembers of the others, where it is newer than what we know. Returns the nodes
   * whose incarnation, as we knew it, is over.
   */
  recall(roster: RosterView, role: Role, nowMs: number): number[] {
    const { version, nodes, guests = [], endedGeneration = 0 } = roster;
    const ended: number[] = [];
    this.#recallPlacement(roster);
    this.endGeneration(endedGeneration);
    const isNewer = version > this.#recalledVersion;
    if (seesGuests(role) && version > this.#guestsVersion) {
      this.#guestsVersion = version;
      this.#guests.recall(guests, nowMs); // Guests.G3
    }
    if (isNewer) this.#recallServers(nodes);
    for (const { node, incarnation, sumsIncarnation = 0, ...entry } of nodes) {
      const isAdded = roleOf(node) === "worker" && rankOf(node) < this.#workersMax;
      const slot = this.#slots.get(node) ?? (isAdded ? this.add("worker", rankOf(node)) : undefined);
      if (slot !== undefined) this.noteSums(slot, sumsIncarnation);
      if (slot === undefined || incarnation < slot.incarnation) continue;
      if (incarnation === slot.incarnation && (slot.confirmed || !isNewer)) continue;
      if (slot.confirmed) ended.push(node);
      this.setIncarnation(slot, incarnation);
      const { address, label, state, token = "", packageVersion = "", returns = false, hasNoClock = false } = entry;
      const isPlanned = state === "dead" && entry.isPlanned === true; // of others the chain says it
      Object.assign(slot, {
        address,
        label,
        packageVersion,
        returns,
        hasNoClock,
        isPlanned,
        state,
        token,
        confirmed: false,
      } satisfies Partial<RankSlot>);
      slot.heardAtMs = nowMs;
      slot.downSinceMs = nowMs;
      this.#changed = true;
    }
    this.#recalledVersion = Math.max(this.#recalledVersion, version);
    if (this.#version <= version) {
      this.#version = version; // RankSlots.V2: `publish` raises it above
      this.#changed = true;
    }
    return ended;
  }

  /** RankSlots.V5 */
  #recallServers(nodes: RosterView["nodes"]): void {
    const listed = new Set(nodes.filter(({ role }) => role !== "worker").map(({ node }) => node));
    for (const node of listed) if (!this.#slots.has(node)) this.add(roleOf(node), rankOf(node));
    for (const slot of this.all()) if (slot.role !== "worker" && !slot.confirmed && !listed.has(slot.node)) this.remove(slot);
  }

  /** What the state says of a slot has changed: it is published. */
  changed(): void {
    this.#changed = true;
  }

  #entryOf(slot: RankSlot): RosterEntry {
    const { scaling, workers } = this.#journal.state;
    const isAsked = workers?.leaving.some(({ rank, incarnation }) => rank === slot.rank && incarnation === slot.incarnation) === true;
    const isRetired = slot.role === "worker" ? isAsked : scaling.retired.includes(slot.rank);
    return { ...entryOf(slot), ...this.#chainOf(slot), ...(isRetired ? { isRetired } : {}) };
  }

  /** What the chain of its rank says of a server or a standby. */
  #chainOf({ role, rank, state, incarnation }: RankSlot): Pick<RosterEntry, "isFilling" | "continues" | "isPlanned"> {
    const chain = this.#journal.state.chains.get(rank);
    if (chain === undefined || role === "worker") return {};
    if (role === "standby") return state === "alive" && chain.standby !== incarnation ? { isFilling: true } : {};
    if (chain.since >= incarnation) return {};
    return { continues: chain.since, ...(chain.isPlanned === true && state === "alive" ? { isPlanned: true } : {}) };
  }

  /** How long ago the standby of a server's rank took over last. */
  #promotionOf({ role, rank }: RankSlot, dateMs: number): Pick<StatusEntry, "promotedAgoMs"> {
    const atMs = role === "server" ? this.#journal.state.chains.get(rank)?.promotedAtMs : undefined;
    return atMs === undefined ? {} : { promotedAgoMs: Math.max(0, Math.round(dateMs - atMs)) };
  }

  setIncarnation({ node, incarnation: before }: RankSlot, incarnation: number): void {
    if (before !== incarnation) this.#journal.write({ kind: "incarnation", node, incarnation });
  }

  /** Guests have come or gone. */
  guestsChanged(): void {
    this.#serverNewsChanged = true;
  }

  /** For whom there are changes to publish, which have a new version then (RankSlots.V1). */
  publish(): Audience | undefined {
    const to = this.#changed ? "all" : this.#serverNewsChanged ? "servers" : undefined;
    if (to === undefined) return undefined;
    this.#version++;
    if (this.#changed) this.#commonVersion = this.#version;
    this.#changed = false;
    this.#serverNewsChanged = false;
    return to;
  }
}

/** RankSlots.V4 */
function seesGuests(reader: Role | undefined): boolean {
  return reader === "server" || reader === "standby";
}
