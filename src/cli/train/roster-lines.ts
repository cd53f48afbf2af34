// roster-lines — what the scheduler of a training job says: who has which rank, once all are there; later who died or came back. Pure.

import { registrationLines } from "../../node/registration-lines.ts";
import { RosterChanges } from "../../node/roster-changes.ts";
import type { RosterView } from "../../wire/roster.ts";

export class RosterLines {
  readonly #teller: RosterChanges;
  readonly #nodeCount: number;
  #isStarted = false;

  constructor(counts: { readonly serverCount: number; readonly workerCount: number }) {
    this.#teller = new RosterChanges(counts);
    this.#nodeCount = counts.serverCount + counts.workerCount;
  }

  /** What to say about a newer roster. */
  tell(roster: RosterView): string[] {
    const changes = this.#teller.tell(roster);
    if (this.#isStarted) return changes.filter((sentence) => !sentence.endsWith("has left")); // who leaves is done: no news
    const { nodes } = roster;
    if (nodes.length < this.#nodeCount || nodes.some(({ state }) => state !== "alive")) return [];
    this.#isStarted = true;
    return registrationLines(nodes);
  }
}
