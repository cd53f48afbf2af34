// roster-copy — a node's copy of the scheduler's roster: the newest one, and the listeners for newer ones.
//
// Invariants:
//   RosterCopy.C1. The version only rises, whatever the order in which rosters arrive.
//   RosterCopy.C2. The epoch of the placement only rises, and so does that up to which parts are handed over: a
//       restarted scheduler may know an older one, or none.

import type { PlacementView, RosterEntry, RosterView } from "../wire/roster.ts";

export type RosterListener = (roster: RosterView) => void;
export type PlacementListener = (placement: PlacementView) => void;

export class RosterCopy {
  readonly #listeners = new Set<RosterListener>();
  readonly #placementListeners = new Set<PlacementListener>();
  #view: RosterView = { version: 0, nodes: [] };

  get view(): RosterView {
    return this.#view;
  }

  /** Adopts a roster if it is newer, and calls the listeners. */
  adopt(roster: RosterView): void {
    if (roster.version <= this.#view.version) return; // RosterCopy.C1
    const known = this.#view.placement;
    const isNewer = (roster.placement?.epoch ?? 0) > (known?.epoch ?? 0); // RosterCopy.C2
    const handedOver = Math.max(roster.handedOver ?? 0, this.#view.handedOver ?? 0);
    this.#view = isNewer || known === undefined ? roster : { ...roster, placement: known };
    if (handedOver > (roster.handedOver ?? 0)) this.#view = { ...this.#view, handedOver };
    for (const listener of [...this.#listeners]) listener(this.#view);
    if (isNewer) this.#tellPlacement();
  }

  /** Adopts a placement that came without a roster, if it is newer. */
  adoptPlacement(placement: PlacementView): void {
    if (placement.epoch <= (this.#view.placement?.epoch ?? 0)) return; // RosterCopy.C2
    this.#view = { ...this.#view, placement };
    this.#tellPlacement();
  }

  /** Calls `listener` with every newer placement. Returns the function that stops it. */
  listenPlacement(listener: PlacementListener): () => void {
    this.#placementListeners.add(listener);
    return () => this.#placementListeners.delete(listener);
  }

  #tellPlacement(): void {
    const { placement } = this.#view;
    if (placement !== undefined) for (const listener of [...this.#placementListeners]) listener(placement);
  }

  /** Returns the function that stops it. */
  listen(listener: RosterListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  entry(node: number): RosterEntry | undefined {
    return this.#view.nodes.find((entry) => entry.node === node);
  }
}
