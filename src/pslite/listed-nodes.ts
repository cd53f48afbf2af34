// listed-nodes — the nodes that a scheduler of ps-lite's protocol has listed, each with its incarnation and its
// conversation, as our roster. scheduler-client.ts decides which of them are dead.
//
// Invariants:
//   ListedNodes.L1. A node that is listed again has a new incarnation, and a new conversation: a list shows only that
//       it is a later one.
//   ListedNodes.L2. There is no conversation for nodes of our own role: they never talk to us.

import { type Role, rankOf } from "../wire/node-id.ts";
import type { NodeState, RosterView } from "../wire/roster.ts";
import { Conversation } from "./conversation.ts";
import type { PsliteGateway } from "./gateway.ts";
import { formatHostPort, type HostPort, keyOf } from "./host-port.ts";
import { EMPTY, type PsNode, PsRole, roleOf } from "./wire/ps-meta.ts";

export type ListedNode = {
  readonly node: number;
  readonly role: Role;
  readonly hostPort: HostPort;
  readonly incarnation: number;
  readonly isRecovery: boolean;
  readonly conversation: Conversation | undefined;
  state: NodeState;
};

export class ListedNodes {
  readonly #gateway: PsliteGateway;
  readonly #listed = new Map<number, ListedNode>();
  #version = 0;

  constructor(gateway: PsliteGateway) {
    this.#gateway = gateway;
  }

  get(node: number): ListedNode | undefined {
    return this.#listed.get(node);
  }

  /** The conversation of the node at this address. */
  conversationAt(hostPort: HostPort): Conversation | undefined {
    for (const listed of this.#listed.values()) if (keyOf(listed.hostPort) === keyOf(hostPort)) return listed.conversation;
    return undefined;
  }

  /** Updates the nodes; `isFirst`: the list that names us. Returns those that are new or have a new incarnation. */
  update(nodes: readonly PsNode[], isFirst: boolean): ListedNode[] {
    const changed: ListedNode[] = [];
    for (const node of nodes) {
      if (node.role === PsRole.SCHEDULER || node.id === EMPTY) continue;
      const known = this.#listed.get(node.id);
      const isNew = known === undefined || (node.isRecovery && !isFirst);
      if (isNew) changed.push(this.#adopt(node, known)); // otherwise a second customer of a process, or nothing new
    }
    return changed;
  }

  /** All listed nodes, in a version of its own each time. */
  roster(): RosterView {
    const listed = [...this.#listed.values()].sort((a, b) => (a.role === b.role ? a.node - b.node : a.role === "worker" ? -1 : 1));
    const nodes = listed.map(({ node, role, hostPort, incarnation, state }) => {
      const address = formatHostPort(hostPort);
      return { node, role, rank: rankOf(node), address, incarnation, state, label: address };
    });
    return { version: ++this.#version, nodes };
  }

  /** ListedNodes.L1 */
  #adopt(node: PsNode, known: ListedNode | undefined): ListedNode {
    const role = roleOf(node);
    const hostPort: HostPort = { hostname: node.hostname, port: node.port };
    const incarnation = (known?.incarnation ?? 0) + 1;
    if (known?.conversation !== undefined) {
      const old = this.#gateway.processAt(known.hostPort);
      this.#gateway.forgetConversation(known.conversation);
      if (keyOf(known.hostPort) !== keyOf(hostPort)) this.#gateway.forgetProcess(old);
    }
    let conversation: Conversation | undefined;
    if (role !== this.#gateway.options.role) {
      // ListedNodes.L2
      conversation = new Conversation(this.#gateway, { node: node.id, incarnation, remote: formatHostPort(hostPort) });
      this.#gateway.processAt(hostPort).addConversation(node.customerId, conversation);
      this.#gateway.addConversation(conversation);
    }
    const listed: ListedNode = { node: node.id, role, hostPort, incarnation, isRecovery: node.isRecovery, conversation, state: "alive" };
    this.#listed.set(node.id, listed);
    return listed;
  }
}
