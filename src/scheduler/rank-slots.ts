// rank-slots — all places of a running job, and the version of what others are told of them. The rules for changing them are roster.ts's.
//
// Invariants:
//   V1. What others can see of a place changes only through here, and is noticed: `publish` raises the version then, and only then.
//   V2. The version never falls, not even over a restart of the scheduler: it rises above whatever the nodes remember.
//   V3. The epoch of the placement never falls either: of those that nodes remember, the highest wins.

import type { StatusEntry } from "../wire/control.ts";
import type { Role } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";
import type { NodeState, PlacementView, RosterView } from "../wire/roster.ts";
import { type ClusterCounts, countOf } from "./applicant.ts";
import { emptyRankSlot, entryOf, type Place, publicEntryOf } from "./rank-slot.ts";
import type { StateJournal } from "./scheduler-state.ts";

/** ps-lite's order. */
const ROLES: readonly Role[] = ["worker", "server"];

export class RankSlots {
  readonly #journal: StateJournal;
  readonly #places = new Map<number, Place>();
  #version = 0;
  /** The newest version among those that nodes brought along after a restart. */
  #recalledVersion = 0;
  /** Generations of workers up to this one are over. */
  #endedGeneration = 0;
  #changed = false;

  /** Incarnations are written to this journal, and read from there. */
  constructor(journal: StateJournal) {
    this.#journal = journal;
  }

  /** Makes all places, empty. */
  establish(counts: ClusterCounts): void {
    for (const role of ROLES) {
      for (let rank = 0; rank < countOf(counts, role); rank++) {
        const place = emptyRankSlot(role, rank, this.#journal);
        this.#places.set(place.node, place);
      }
    }
  }

  get(node: number): Place | undefined {
    return this.#places.get(node);
  }

  /** Workers by rank, then servers by rank. */
  all(): Place[] {
    return [...this.#places.values()];
  }

  view(): RosterView {
    const ended = this.#endedGeneration === 0 ? {} : { endedGeneration: this.#endedGeneration };
    const { placement } = this;
    return { version: this.#version, nodes: this.all().map(entryOf), ...(placement === undefined ? {} : { placement }), ...ended };
  }

  status(nowMs: number): StatusEntry[] {
    return this.all().map((place) => ({
      ...publicEntryOf(place),
      heartbeatAgeMs: place.confirmed ? Math.max(0, Math.round(nowMs - place.heardAtMs)) : undefined,
      linked: place.downSinceMs === undefined,
    }));
  }

  /** The node of this request holds the place from now on, in this incarnation. */
  seat(place: Place, { address, label, token, packageVersion = "" }: RegisterRequest, incarnation: number, nowMs: number): void {
    const isNews = place.incarnation !== incarnation || place.address !== address || place.label !== label || place.state !== "alive";
    this.#setIncarnation(place, incarnation);
    Object.assign(place, { address, label, token, packageVersion, state: "alive", confirmed: true } satisfies Partial<Place>);
    place.heardAtMs = nowMs;
    place.downSinceMs = undefined;
    if (isNews) this.#changed = true;
  }

  /** The node of this place listens there from now on; "": no longer. */
  setAddress(place: Place, address: string): void {
    if (place.address === address) return;
    place.address = address;
    this.#changed = true;
  }

  /** This incarnation of the rank has held sums: its successors learn that they lack them. */
  noteSums(place: Place, incarnation: number): void {
    if (incarnation <= place.sumsIncarnation) return;
    place.sumsIncarnation = incarnation;
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

  /** Takes the placement if it is newer (V3). */
  setPlacement(placement: PlacementView | undefined): void {
    if (placement === undefined || placement.epoch <= (this.placement?.epoch ?? 0)) return;
    this.#journal.write({ kind: "placement", placement });
    this.#changed = true;
  }

  setState(place: Place, state: NodeState): void {
    if (place.state === state) return;
    place.state = state;
    this.#changed = true;
  }

  /**
   * Takes over what a node remembers of the others, where it is newer than what we know. Returns the nodes whose incarnation, as we knew it, turns
   * out to be over.
   */
  recall({ version, nodes, placement, endedGeneration = 0 }: RosterView, nowMs: number): number[] {
    const ended: number[] = [];
    this.setPlacement(placement);
    this.endGeneration(endedGeneration);
    const isNewer = version > this.#recalledVersion;
    for (const { node, address, label, incarnation, state, token = "", packageVersion = "", sumsIncarnation = 0 } of nodes) {
      const place = this.#places.get(node);
      if (place !== undefined) this.noteSums(place, sumsIncarnation);
      if (place === undefined || incarnation < place.incarnation) continue;
      if (incarnation === place.incarnation && (place.confirmed || !isNewer)) continue;
      if (place.confirmed) ended.push(node);
      this.#setIncarnation(place, incarnation);
      Object.assign(place, { address, label, packageVersion, state, token, confirmed: false } satisfies Partial<Place>);
      place.heardAtMs = nowMs;
      place.downSinceMs = nowMs;
      this.#changed = true;
    }
    this.#recalledVersion = Math.max(this.#recalledVersion, version);
    if (this.#version <= version) {
      this.#version = version; // V2: `publish` raises it above
      this.#changed = true;
    }
    return ended;
  }

  #setIncarnation({ node, incarnation: before }: Place, incarnation: number): void {
    if (before !== incarnation) this.#journal.write({ kind: "incarnation", node, incarnation });
  }

  /** Whether there is news to tell; it has a new version then (V1). */
  publish(): boolean {
    if (!this.#changed) return false;
    this.#changed = false;
    this.#version++;
    return true;
  }
}
