// chains — by which processes a server rank is held: its head, which serves, and its standby, which repeats what the
// head does (docs/decisions/0060). Decides who takes over when one of them is gone. Pure, over the scheduler's state.
//
//   both there ── the head is gone ──► the standby is the head, in the rank's next incarnation; its own slot is free
//        └────── the standby is gone ──► the head is alone; the slot is free
//   alone ── a process takes the slot ──► filling: it counts for nothing ── its head says that it has everything ──►
//   both
//
// Invariants (together: one head for each rank and incarnation, Availability.I3 of docs/decisions/0079):
//   Chains.I3. A standby takes over only while the state says that it has everything its head acknowledged. A standby
//       that was given up never takes over: the record of it comes before the head hears that it is alone.
//   Chains.C1. A head is not taken for dead while its standby lives and cannot be reached: one of them comes back, or
//       the standby is given up first. A standby is given up when its head says so, or when it is silent for too long.
//   Chains.I4. A standby that came later counts from the record on that its head asked for; by then the head lets
//       nobody hear of anything that this standby does not have (Fill.F4).
//   Chains.C2. A takeover that is written down is carried out: a restarted scheduler tells the standby that it took
//       over.
//   Chains.I6. The incarnation of a rank rises with every takeover: the head before is FENCED from then on.
//   Chains.C3. Nobody takes over a rank that is retired (AddedServers.A3): it has no parts, and both copies leave.
//   Chains.C4. Of two copies that ask to leave, one stays, whichever is heard first: a head is let go in the moment in
//       which its standby takes over, a standby in the moment in which it is given up. A head that has no standby by
//       then, and a standby that has taken over, are needed. Both answers are durable before they are told. A copy that
//       cannot be reached is gone for the one that asks.
//   Chains.C5. Once the job ends nobody takes over: both processes of each rank are leaving, or are being ended.

import type { WeighbridgeError } from "../base/errors.ts";
import { idOf } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";
import { deathAtMs, type RankSlot } from "./rank-slot.ts";
import type { RankSlots } from "./rank-slots.ts";
import { fenced, stillThere } from "./resume-claims.ts";
import type { RosterRules } from "./roster-decision.ts";
import type { StateJournal } from "./state-journal.ts";

/** Of a rank. */
export type Chain = {
  /** Since which incarnation of the rank its state goes on. */
  readonly since: number;
  /** The incarnation of the standby that has the state; 0: none has. */
  readonly standby: number;
  /** The incarnation of the standby that took over last, and may not have heard of it. */
  readonly promoted?: number | undefined;
  /** When a standby took over last, as the time of day. */
  readonly promotedAtMs?: number | undefined;
  /** Whether the head before had been stopped then, and handed over. */
  readonly isPlanned?: true | undefined;
};

export type ChainRecord = { readonly kind: "chain"; readonly rank: number } & Chain;

/**
 * A closed link shows a death after this long, where somebody can take over: a false alarm costs a copy, no data. If
 * nothing listens at its address any more, it does so at once (server-probe.ts).
 */
const LINK_GRACE_MS = 50;

export type ChainsOptions = {
  readonly journal: StateJournal;
  readonly slots: RankSlots;
  readonly rules: Pick<RosterRules, "heartbeatTimeoutMs" | "loopTimeoutMs" | "dateMs">;
};

/** What became of a rank whose head or standby is gone. */
export type ChainOutcome = "dead" | "promoted" | "alone";

export class Chains {
  readonly #journal: StateJournal;
  readonly #slots: RankSlots;
  readonly #rules: ChainsOptions["rules"];
  #isEnding = false;

  constructor({ journal, slots, rules }: ChainsOptions) {
    this.#journal = journal;
    this.#slots = slots;
    this.#rules = rules;
  }

  /** The job ends (Chains.C5). */
  ending(): void {
    this.#isEnding = true;
  }

  /**
   * The job begins: heads and standbys are empty, so that each standby has what its head has. A standby that has not
   * come is not waited for.
   */
  formed(): void {
    for (const slot of this.#slots.all()) {
      if (slot.role !== "standby") continue;
      const isThere = slot.state === "alive";
      this.#journal.write({ kind: "chain", rank: slot.rank, since: 1, standby: isThere ? slot.incarnation : 0 });
      if (!isThere) this.#slots.setState(slot, "left");
    }
  }

  /** A process that has nothing of the state holds this slot now. */
  assigned({ role, rank, incarnation }: RankSlot): void {
    const chain = this.#of(rank);
    if (role === "server" && chain !== undefined) this.#journal.write({ kind: "chain", rank, since: incarnation, standby: 0 });
    if (role === "standby") this.#giveUp(rank);
  }

  /** The same of a rank that the job did not have. */
  added({ rank, incarnation }: RankSlot): void {
    if (this.#of(rank) === undefined) this.#journal.write({ kind: "chain", rank, since: incarnation, standby: 0 });
  }

  /** The head says that its standby, in this incarnation, has everything. Whether that is news (Chains.I4). */
  filled({ role, rank, incarnation }: RankSlot, standbyIncarnation: number): boolean {
    const standby = role === "server" ? this.#slots.get(idOf("standby", rank)) : undefined;
    if (standby?.state !== "alive" || standby.incarnation !== standbyIncarnation) return false;
    const chain = this.#of(rank) ?? { since: incarnation, standby: 0 };
    if (chain.standby === standbyIncarnation) return false;
    this.#write(rank, { ...chain, standby: standbyIncarnation });
    return true;
  }

  /**
   * Why a process that has the state of this incarnation from a disk cannot go on with it: somebody began the rank anew
   * since, or its holder is connected (docs/decisions/0071). What a server left that keeps no log of its own is the
   * state of that incarnation alone (PlannedStop.P2).
   */
  comebackRefusal(slot: RankSlot, request: RegisterRequest, stored: number): WeighbridgeError | undefined {
    const { node, rank, incarnation, state, confirmed, downSinceMs } = slot;
    const since = request.returns === true ? (this.#of(rank)?.since ?? incarnation) : incarnation;
    const isNewest = stored <= incarnation && stored >= since;
    if (!isNewest) return fenced(node, stored, slot);
    return state === "alive" && confirmed && downSinceMs === undefined ? stillThere(request, slot) : undefined;
  }

  /** A server comes back with the state of this incarnation, in the next one: the rank goes on by itself. */
  cameBack({ rank }: RankSlot, stored: number): void {
    const chain = this.#of(rank);
    if (chain === undefined) this.#journal.write({ kind: "chain", rank, since: stored, standby: 0 });
    else if (chain.promotedAtMs !== undefined) this.#write(rank, { ...chain, promotedAtMs: undefined, isPlanned: undefined });
  }

  /** When the holder of this slot is dead, as far as its own silence, link or pulse says (silence-verdicts.ts). */
  deathAtMs(slot: RankSlot): number {
    const atMs = deathAtMs(slot, this.#rules);
    const standby = slot.role === "server" && slot.state === "alive" ? this.#standbyOf(slot.rank) : undefined;
    if (standby === undefined) return atMs;
    if (!isReachable(standby)) return Infinity; // Chains.C1
    if (slot.downSinceMs === undefined || !slot.confirmed) return atMs;
    const { downSinceMs, refusedAtMs = -Infinity } = slot;
    return Math.min(atMs, refusedAtMs >= downSinceMs ? refusedAtMs : downSinceMs + LINK_GRACE_MS);
  }

  /**
   * The holder of this slot is gone; `isPlanned`: it was stopped. Writes down what follows from it, and changes the
   * slots.
   */
  gone(slot: RankSlot, nowMs: number, { isPlanned }: { readonly isPlanned: boolean }): ChainOutcome {
    const { role, rank } = slot;
    if (role === "standby") {
      this.#giveUp(rank);
      this.#slots.setState(slot, "left"); // its slot is free, and nobody waits for it
      return "alone";
    }
    const standby = role === "server" ? this.#standbyOf(rank) : undefined;
    if (standby === undefined || !isReachable(standby)) {
      this.#slots.setState(slot, "dead", { isPlanned });
      return "dead";
    }
    // In this order: a scheduler that finds the first record alone gives the rank to the standby once more.
    this.#slots.setIncarnation(slot, slot.incarnation + 1); // Chains.I6
    this.#slots.takeOver(slot, standby, nowMs);
    const promotedAtMs = this.#rules.dateMs?.() ?? nowMs;
    this.#giveUp(rank, { promoted: standby.incarnation, promotedAtMs, isPlanned: isPlanned || undefined });
    this.#slots.setState(standby, "left");
    return "promoted";
  }

  /**
   * Nodes have told a restarted scheduler what they know. One of them may know a standby that took over, and not that
   * it did (Chains.C2).
   */
  recalled(nowMs: number): void {
    for (const [rank, { promoted }] of this.#journal.state.chains) {
      const [server, standby] = [this.#slots.get(idOf("server", rank)), this.#slots.get(idOf("standby", rank))];
      if (server === undefined || standby === undefined || promoted === undefined || standby.incarnation !== promoted) continue;
      if (server.confirmed || server.state !== "dead" || standby.state !== "alive") continue;
      this.#slots.takeOver(server, standby, nowMs);
      server.confirmed = false;
      this.#slots.setState(standby, "left");
    }
  }

  /** Whether a standby that resumes in this incarnation has taken over: it learns that from the roster. */
  isPromoted({ role, rank, state }: RankSlot, incarnation: number): boolean {
    return role === "standby" && state === "left" && this.#of(rank)?.promoted === incarnation;
  }

  /** The holder of this slot has left for good, and nobody takes over. */
  left(slot: RankSlot): void {
    if (slot.role === "standby") this.#giveUp(slot.rank);
    this.#slots.setState(slot, "left");
  }

  /** Whether this standby was given up. One that has taken over counts as what it is now. */
  isOut({ role, rank, state, token }: RankSlot): boolean {
    return role === "standby" && state === "left" && this.#slots.get(idOf("server", rank))?.token !== token;
  }

  /** Whether somebody takes over when the holder of this slot leaves. */
  hasSuccessor({ role, rank }: RankSlot): boolean {
    const standby = role === "server" ? this.#standbyOf(rank) : undefined;
    return standby !== undefined && isReachable(standby);
  }

  /** The copy of this rank beside this one, which asks to leave, if it counts and cannot be reached now (Chains.C4). */
  lostTwin(slot: RankSlot): RankSlot | undefined {
    const standby = this.#standbyOf(slot.rank);
    if (slot.role === "server") return standby === undefined || isReachable(standby) ? undefined : standby;
    const head = this.#slots.get(idOf("server", slot.rank));
    if (standby !== slot || !isReachable(slot) || head === undefined) return undefined;
    return head.state === "alive" && head.confirmed && head.downSinceMs !== undefined ? head : undefined;
  }

  /** Whether the holder of this slot, which asks to leave, alone has the state of its rank (Chains.C4). */
  isNeeded(slot: RankSlot): boolean {
    const { role, rank, state } = slot;
    if (role === "worker" || this.#isRetired(rank)) return false;
    return role === "server" ? !this.hasSuccessor(slot) : state === "left" && !this.isOut(slot);
  }

  #giveUp(rank: number, promotion: Pick<Chain, "promoted" | "promotedAtMs" | "isPlanned"> = {}): void {
    const chain = this.#of(rank);
    if (chain === undefined || chain.standby === 0) return;
    this.#write(rank, { ...chain, standby: 0, ...promotion });
  }

  /**
   * The state of the rank goes on. Who took over before is told as long as nobody stands by: then it has heard of it.
   */
  #write(rank: number, { since, standby, promoted, promotedAtMs, isPlanned }: Chain): void {
    const last = promoted === undefined || standby !== 0 ? {} : { promoted };
    const how = { ...(promotedAtMs === undefined ? {} : { promotedAtMs }), ...(isPlanned === undefined ? {} : { isPlanned }) };
    this.#journal.write({ kind: "chain", rank, since, standby, ...last, ...how });
  }

  /** The standby that may take over this rank (Chains.I3, Chains.C3, Chains.C5). */
  #standbyOf(rank: number): RankSlot | undefined {
    if (this.#isEnding || this.#isRetired(rank)) return undefined;
    const standby = this.#slots.get(idOf("standby", rank));
    return standby?.state === "alive" && this.#of(rank)?.standby === standby.incarnation ? standby : undefined;
  }

  #isRetired(rank: number): boolean {
    return this.#journal.state.scaling.retired.includes(rank);
  }

  #of(rank: number): Chain | undefined {
    return this.#journal.state.chains.get(rank);
  }
}

/** Whether it would hear now that it takes over. */
function isReachable({ confirmed, downSinceMs }: RankSlot): boolean {
  return confirmed && downSinceMs === undefined;
}
