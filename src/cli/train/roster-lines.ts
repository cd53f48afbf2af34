// roster-lines — what the scheduler of a training job says: who has which rank, once all are there; later who died or came back. Pure.

import { RosterChanges, registrationLines } from "../../node/run-scheduler.ts";
import type { RosterView } from "../../wire/roster.ts";

export class RosterLines {
  readonly #changes: RosterChanges;
  readonly #nodeCount: number;
  #isStarted = false;

  constructor(counts: { readonly serverCount: number; readonly workerCount: number }) {
    this.#changes = new RosterChanges(counts);
    this.#nodeCount = counts.serverCount + counts.workerCount;
  }

  /** What to say about a newer roster. */
  tell(roster: RosterView): string[] {
    const changes = this.#changes.since(roster);
    if (this.#isStarted) return changes.filter((sentence) => !sentence.endsWith("has left")); // who leaves is done: no news
    const { nodes } = roster;
    if (nodes.length < this.#nodeCount || nodes.some(({ state }) => state !== "alive")) return [];
    this.#isStarted = true;
    return registrationLines(nodes);
  }
}
