// added-servers — servers that come to a running job, beyond those that it has: who gets a rank that a change of the
// servers wants (scaling.ts), who waits as a spare, and when a slot ends with its server. Pure.
//
// Invariants:
//   AddedServers.A1. A rank is given as long as the change under way wants it and nobody has it.
//   AddedServers.A2. A server for which there is no rank waits as a spare, for as long as the job runs, and hears of it
//       once. Spares keep no job from ending: they are told that it is over.
//   AddedServers.A3. A retired server keeps its slot until it has left or is dead; then the slot is gone.

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
  slotFor({ request }: Applicant<T>): RankSlot | undefined {
    if (!canBeAdded(request)) return undefined;
    const wished = wishedServers(this.#journal.state.scaling) ?? [];
    const free = wished.filter((rank) => this.#slots.get(idOf("server", rank)) === undefined);
    const rank = request.rank === undefined ? free[0] : free.find((one) => one === request.rank);
    return rank === undefined ? undefined : this.#slots.add("server", rank);
  }

  /** Whether it waits for a rank that nobody has yet (AddedServers.A2). */
  isSpare({ request }: Applicant<T>): boolean {
    return canBeAdded(request) && (request.rank === undefined || this.#slots.get(idOf("server", request.rank)) === undefined);
  }

  /** Tells a spare, once. */
  notice(applicant: Applicant<T>): Decision<T>[] {
    if (!this.isSpare(applicant) || this.#told.has(applicant)) return [];
    this.#told.add(applicant);
    const serverCount = this.#slots.all().filter(({ role }) => role === "server").length;
    return [{ kind: "spare", caller: applicant.caller, serverCount }];
  }

  isRetired({ role, rank }: RankSlot): boolean {
    return role === "server" && this.#journal.state.scaling.retired.includes(rank);
  }

  /** AddedServers.A3 */
  dropRetired(): void {
    for (const slot of this.#slots.all()) if (this.isRetired(slot) && slot.state !== "alive") this.#slots.remove(slot);
  }
}

function canBeAdded({ role, copy }: RegisterRequest): boolean {
  return role === "server" && copy === undefined;
}

export function notNeeded({ label }: RegisterRequest): WeighbridgeError {
  return new WeighbridgeError("CLOSED", `the job is over: "${label}" was a spare, and was not needed`);
}
