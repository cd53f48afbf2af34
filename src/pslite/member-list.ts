// member-list — the nodes that a scheduler of ps-lite's protocol has listed, each with its life and its envoy, as our roster. Who of them is dead, and
// what is done about it, is scheduler-control.ts's.
//
// Invariants:
//   L1. A node that is listed again has a new life, and a new envoy. A scheduler of ours says which life; ps-lite's says only that it is a later one.
//   L2. There is no envoy for nodes of our own role: they never talk with us.

import { type Role, rankOf } from "../wire/node-id.ts";
import type { NodeState, RosterView } from "../wire/roster.ts";
import { Envoy } from "./envoy.ts";
import type { NodeLife } from "./own-note.ts";
import { formatPlace, type Place } from "./place.ts";
import type { PsliteVan } from "./van.ts";
import { EMPTY, type PsNode, PsRole } from "./wire/ps-meta.ts";

export type Member = {
  readonly node: number;
  readonly role: Role;
  readonly place: Place;
  readonly incarnation: number;
  readonly isRecovery: boolean;
  readonly envoy: Envoy | undefined;
  state: NodeState;
};

export class MemberList {
  readonly #van: PsliteVan;
  readonly #members = new Map<number, Member>();
  #version = 0;

  constructor(van: PsliteVan) {
    this.#van = van;
  }

  get(node: number): Member | undefined {
    return this.#members.get(node);
  }

  /** The envoy of the node at this place. */
  envoyAt({ hostname, port }: Place): Envoy | undefined {
    for (const { place, envoy } of this.#members.values()) if (place.hostname === hostname && place.port === port) return envoy;
    return undefined;
  }

  /** Takes a list over; `isFirst`: the one that names us. Returns who is new, or has a new life. */
  take(nodes: readonly PsNode[], isFirst: boolean, lives: readonly NodeLife[] = []): Member[] {
    const changed: Member[] = [];
    for (const node of nodes) {
      if (node.role === PsRole.SCHEDULER || node.id === EMPTY) continue;
      const known = this.#members.get(node.id);
      const life = lives.find((other) => other.node === node.id)?.incarnation;
      const isNew = known === undefined || (life === undefined ? node.isRecovery && !isFirst : life > known.incarnation);
      if (isNew) changed.push(this.#adopt(node, known, life)); // otherwise a second customer of a process, or nothing new
    }
    return changed;
  }

  /** Everybody listed, in a version of its own each time. */
  roster(): RosterView {
    const members = [...this.#members.values()].sort((a, b) => (a.role === b.role ? a.node - b.node : a.role === "worker" ? -1 : 1));
    const nodes = members.map(({ node, role, place, incarnation, state }) => {
      const address = formatPlace(place);
      return { node, role, rank: rankOf(node), address, incarnation, state, label: address };
    });
    return { version: ++this.#version, nodes };
  }

  /** L1 */
  #adopt(node: PsNode, known: Member | undefined, life: number | undefined): Member {
    const role = node.role === PsRole.SERVER ? "server" : "worker";
    const place: Place = { hostname: node.hostname, port: node.port };
    const incarnation = life ?? (known?.incarnation ?? 0) + 1;
    if (known?.envoy !== undefined) {
      const old = this.#van.neighbourAt(known.place);
      this.#van.forgetEnvoy(known.envoy);
      if (known.place.hostname !== place.hostname || known.place.port !== place.port) this.#van.forgetNeighbour(old);
    }
    let envoy: Envoy | undefined;
    if (role !== this.#van.options.role) {
      // L2
      envoy = new Envoy(this.#van, { node: node.id, incarnation, remote: formatPlace(place) });
      this.#van.neighbourAt(place).addEnvoy(node.customerId, envoy);
      this.#van.addEnvoy(envoy);
    }
    const member: Member = { node: node.id, role, place, incarnation, isRecovery: node.isRecovery, envoy, state: "alive" };
    this.#members.set(node.id, member);
    return member;
  }
}
