// member-list — the nodes that a scheduler of ps-lite's protocol has listed, each with its life and its conversation, as our roster. Who of them is dead, and
// what is done about it, is scheduler-client.ts's.
//
// Invariants:
//   L1. A node that is listed again has a new life, and a new conversation. A scheduler of ours says which life; ps-lite's says only that it is a later one.
//   L2. There is no conversation for nodes of our own role: they never talk with us.

import { type Role, rankOf } from "../wire/node-id.ts";
import type { NodeState, RosterView } from "../wire/roster.ts";
import type { NodeLife } from "./body-extension.ts";
import { Conversation } from "./conversation.ts";
import type { PsliteGateway } from "./gateway.ts";
import { formatHostPort, type HostPort } from "./host-port.ts";
import { EMPTY, type PsNode, PsRole } from "./wire/ps-meta.ts";

export type Member = {
  readonly node: number;
  readonly role: Role;
  readonly place: HostPort;
  readonly incarnation: number;
  readonly isRecovery: boolean;
  readonly conversation: Conversation | undefined;
  state: NodeState;
};

export class MemberList {
  readonly #gateway: PsliteGateway;
  readonly #members = new Map<number, Member>();
  #version = 0;

  constructor(gateway: PsliteGateway) {
    this.#gateway = gateway;
  }

  get(node: number): Member | undefined {
    return this.#members.get(node);
  }

  /** The conversation of the node at this place. */
  conversationAt({ hostname, port }: HostPort): Conversation | undefined {
    for (const { place, conversation } of this.#members.values())
      if (place.hostname === hostname && place.port === port) return conversation;
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
      const address = formatHostPort(place);
      return { node, role, rank: rankOf(node), address, incarnation, state, label: address };
    });
    return { version: ++this.#version, nodes };
  }

  /** L1 */
  #adopt(node: PsNode, known: Member | undefined, life: number | undefined): Member {
    const role = node.role === PsRole.SERVER ? "server" : "worker";
    const place: HostPort = { hostname: node.hostname, port: node.port };
    const incarnation = life ?? (known?.incarnation ?? 0) + 1;
    if (known?.conversation !== undefined) {
      const old = this.#gateway.processAt(known.place);
      this.#gateway.forgetConversation(known.conversation);
      if (known.place.hostname !== place.hostname || known.place.port !== place.port) this.#gateway.forgetRemoteProcess(old);
    }
    let conversation: Conversation | undefined;
    if (role !== this.#gateway.options.role) {
      // L2
      conversation = new Conversation(this.#gateway, { node: node.id, incarnation, remote: formatHostPort(place) });
      this.#gateway.processAt(place).addConversation(node.customerId, conversation);
      this.#gateway.addConversation(conversation);
    }
    const member: Member = { node: node.id, role, place, incarnation, isRecovery: node.isRecovery, conversation, state: "alive" };
    this.#members.set(node.id, member);
    return member;
  }
}
