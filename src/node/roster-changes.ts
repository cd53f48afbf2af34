// roster-changes — what changed between two rosters, in sentences for whoever watches a scheduler. Pure.

import { nameOf } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { registrationLines } from "./registration-lines.ts";

export class RosterChanges {
  readonly #known = new Map<number, RosterEntry>();
  readonly #countsText: string;
  #isComplete = false;

  constructor({ serverCount, workerCount }: { readonly serverCount: number; readonly workerCount: number }) {
    this.#countsText = countsText(serverCount, workerCount);
  }

  /** What to say about a newer roster. */
  tell({ nodes }: RosterView): string[] {
    const sentences: string[] = [];
    for (const entry of nodes) {
      const before = this.#known.get(entry.node);
      this.#known.set(entry.node, entry);
      const sentence = change(before, entry);
      if (sentence !== undefined) sentences.push(sentence);
    }
    if (!this.#isComplete && nodes.every(({ state }) => state === "alive")) {
      this.#isComplete = true;
      sentences.push(`the cluster is complete: ${this.#countsText}`, ...registrationLines(nodes));
    }
    return sentences;
  }
}

export function countsText(serverCount: number, workerCount: number): string {
  return `${serverCount} server${serverCount === 1 ? "" : "s"}, ${workerCount} worker${workerCount === 1 ? "" : "s"}`;
}

function change(before: RosterEntry | undefined, { node, state, incarnation, address, label }: RosterEntry): string | undefined {
  if (before !== undefined && before.state === state && before.incarnation === incarnation) return undefined;
  const name = nameOf(node);
  if (state === "dead") return `${name} is dead`;
  if (state === "left") return `${name} has left`;
  const where = `${address === "" ? "" : ` at ${address}`}${label === "" ? "" : ` (${label})`}`;
  if (before === undefined && incarnation <= 1) return `${name}${where} joined`;
  if (before?.incarnation === incarnation) return `${name}${where} is heard of again`;
  return `${name}${where} took its place, incarnation ${incarnation}`;
}
