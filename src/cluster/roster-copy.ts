// roster-copy — a node's copy of the scheduler's roster: the newest it heard of, and who wants to know of newer ones.
//
// Invariants:
//   C1. The version only rises, whatever the order in which rosters arrive.

import { deadNodes, groupMembers, type RosterEntry, type RosterView } from "../wire/roster.ts";

export type RosterListener = (roster: RosterView) => void;

export class RosterCopy {
  readonly #listeners = new Set<RosterListener>();
  #view: RosterView = { version: 0, nodes: [] };

  get view(): RosterView {
    return this.#view;
  }

  /** Takes a roster if it is newer, and tells everybody who listens. */
  adopt(roster: RosterView): void {
    if (roster.version <= this.#view.version) return; // C1
    this.#view = roster;
    for (const listener of [...this.#listeners]) listener(roster);
  }

  /** Returns what ends the listening. */
  listen(listener: RosterListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  entry(node: number): RosterEntry | undefined {
    return this.#view.nodes.find((entry) => entry.node === node);
  }

  members(group: number): number[] {
    return groupMembers(this.#view, group);
  }

  deadNodes(): number[] {
    return deadNodes(this.#view);
  }
}
