// registration-lines — what the scheduler of a training job says: who has which rank, in MindSpore's words, once all are there; later who died or came
// back. Pure.

import type { RosterEntry, RosterView } from "../../wire/roster.ts";
import { RosterTeller } from "../roster-teller.ts";

const ADDRESS = /^tcp:\/\/(.*):(\d+)$/;

export class RegistrationLines {
  readonly #teller: RosterTeller;
  readonly #nodeCount: number;
  #isStarted = false;

  constructor(counts: { readonly serverCount: number; readonly workerCount: number }) {
    this.#teller = new RosterTeller(counts);
    this.#nodeCount = counts.serverCount + counts.workerCount;
  }

  /** What to say about a newer roster. */
  tell(roster: RosterView): string[] {
    const changes = this.#teller.tell(roster);
    if (this.#isStarted) return changes.filter((sentence) => !/has left$|is complete/.test(sentence)); // who leaves is done: no news
    const { nodes } = roster;
    if (nodes.length < this.#nodeCount || nodes.some(({ state }) => state !== "alive")) return [];
    this.#isStarted = true;
    const ofRole = (role: string): RosterEntry[] => nodes.filter((entry) => entry.role === role).sort((a, b) => a.rank - b.rank);
    return [...ofRole("server").map(serverLine), ...ofRole("worker").map(workerLine), "Start the scheduler node is successful!"];
  }
}

function serverLine({ label, address, rank }: RosterEntry): string {
  const [, host = address, port = "-"] = ADDRESS.exec(address) ?? [];
  return `The server node id:${label}, node ip: ${host}, node port:${port} assign rank id:${rank}`;
}

function workerLine({ label, rank }: RosterEntry): string {
  return `The worker node id:${label} assign rank id:${rank}`;
}
