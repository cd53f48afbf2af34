// added-servers — servers that come to a running job, beyond those that it has: who gets a rank that a change of the
// servers wants (scaling.ts), who waits as a spare, and when a slot ends with its server. Pure.
//
// Invariants:
//   AddedServers.A1. A rank is given as long as the change under way wants it and nobody has it, to a server for which
//       there is no other: one of a dead server, or of one that has lost its link and may be dead, comes first. Where a
//       rank is held by two processes, the first one leads it, and the slot of its standby is free from then on
//       (rank-choice.ts).
//       A rank that somebody got from the scheduler before this one, of which no other node knows, is kept for it as
//       long as others are waited for (Roster.R3).
//   AddedServers.A2. A server for which there is no rank waits as a spare, for as long as the job runs, and hears of it
//       once. Spares keep no job from ending: they are told that it is over.
//   AddedServers.A3. A retired server and its standby keep their slots until both have left or are dead; then the slots
//       are gone. So a head hears that its standby has left, and lets go what waits for it (ReplicaLog.L1).

import { WeighbridgeError } from "../base/errors.ts";
import { idOf } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";
import type { Applicant } from "./applicant.ts";
import type { RankSlot } from "./rank-slot.ts";
import type { RankSlots } from "./rank-slots.ts";
import type { Decision } from "./roster-decision.ts";
import { wishedServers } from "./scaling-wish.ts";
import type { StateJournal } from "./state-journal.ts";

export class AddedServers<T> {
  readonly #journal: Pick<StateJournal, "state">;
  readonly #slots: RankSlots;
  /** Those that have heard that they are spares. */
  readonly #told = new WeakSet<Applicant<T>>();

  constructor(journal: Pick<StateJournal, "state">, slots: RankSlots) {
    this.#journal = journal;
    this.#slots = slots;
  }

  /** A slot more for this one, if there is to be one (AddedServers.A1). */
  slotFor({ request }: Applicant<T>, { mayResume }: { readonly mayResume: boolean }): RankSlot | undefined {
    if (request.role !== "server") return undefined;
    const { scaling, incarnations } = this.#journal.state;
    const wished = wishedServers(scaling) ?? [];
    const isFree = (node: number): boolean => this.#slots.get(node) === undefined && !(mayResume && incarnations.has(node));
    const free = wished.filter((rank) => isFree(idOf("server", rank)));
    const rank = request.rank === undefined ? free[0] : free.find((one) => one === request.rank);
    if (rank === undefined) return undefined;
    if (request.copy !== undefined) this.#slots.setState(this.#slots.add("standby", rank), "left");
    return this.#slots.add("server", rank);
  }

  /** Whether it waits for a rank that nobody has yet (AddedServers.A2). */
  isSpare({ request }: Applicant<T>): boolean {
    return request.role !== "worker" && (request.rank === undefined || this.#slots.get(idOf("server", request.rank)) === undefined);
  }

  /** Tells a spare, once. */
  notice(applicant: Applicant<T>): Decision<T>[] {
    if (!this.isSpare(applicant) || this.#told.has(applicant)) return [];
    this.#told.add(applicant);
    const serverCount = this.#slots.all().filter(({ role }) => role === "server").length;
    return [{ kind: "spare", caller: applicant.caller, serverCount }];
  }

  isRetired({ role, rank }: RankSlot): boolean {
    return role !== "worker" && this.#journal.state.scaling.retired.includes(rank);
  }

  /** AddedServers.A3 */
  dropRetired(): void {
    const retired = this.#slots.all().filter((slot) => this.isRetired(slot));
    const held = new Set(retired.filter(({ state }) => state === "alive").map(({ rank }) => rank));
    for (const slot of retired) if (!held.has(slot.rank)) this.#slots.remove(slot);
  }
}

export function notNeeded({ label }: RegisterRequest): WeighbridgeError {
  return new WeighbridgeError("CLOSED", `the job is over: "${label}" was a spare, and was not needed`);
}
