// registration-service — the nodes of ps-lite at our scheduler: passes their registrations to the scheduler like those
// of our nodes, and sends the lists of nodes. registered-node.ts handles barriers and heartbeats.
//
// Invariants:
//   RegistrationService.G1. Ranks are ps-lite's: once all nodes have registered, by host name descending, then by port.
//       A node of ours that requests a rank gets it.
//   RegistrationService.G2. The scheduler knows every process from its registration on, so that it can report which are
//       missing.
//   RegistrationService.G3. A node whose connections are all gone has no link; while all nodes are leaving, it has
//       left.
//   RegistrationService.G4. Servers are released from a barrier before workers (BarrierReleases.X1).
//   RegistrationService.G5. A process learns of the live nodes from its list. It learns of a later incarnation of a
//       server when RestartedNodes allows it, and gets no list before; of a worker's at once, so that servers know
//       where to answer.
//   RegistrationService.G6. A worker of ps-lite gets no list while a server is dead: its requests would be lost, and it
//       would hang.
//   RegistrationService.G7. We connect to a late node of ours while it waits for a rank: if the job ends before, the
//       reason leaves at once.
//   RegistrationService.G8. At most WAITING_MAX more processes than the job has ranks wait for one.
//   RegistrationService.G9. A process whose node has a new incarnation is forgotten: it costs nothing, and is not
//       dialed any more.

import type { CancelTimer } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { HEARTBEAT, LEAVE, REGISTER } from "../contracts/control.ts";
import type { Failure } from "../wire/failure.ts";
import { encodeJson } from "../wire/json-body.ts";
import { nameOf, type Role, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RegisterReply } from "../wire/register.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { BarrierReleases, type Release } from "./barrier-releases.ts";
import { decodeBodyExtension, encodeBodyExtension } from "./body-extension.ts";
import { Conversation } from "./conversation.ts";
import type { PsliteGateway } from "./gateway.ts";
import { formatHostPort, type HostPort, hostPortOf, keyOf } from "./host-port.ts";
import type { IncomingConnection } from "./incoming-connection.ts";
import { RegisteredNode } from "./registered-node.ts";
import { byHostPort, checkedNode, type Registration } from "./registration.ts";
import type { RemoteProcess } from "./remote-process.ts";
import { RestartedNodes } from "./restarted-nodes.ts";
import { PsCommand, type PsMeta, type PsNode, PsRole, psRoleOf, roleOf } from "./wire/ps-meta.ts";

/** How many may wait for a rank beyond those that exist: enough for a restart loop, not for a flood. */
const WAITING_MAX = 256;

export class RegistrationService {
  readonly gateway: PsliteGateway;
  /** In order of arrival; those that have a rank too. */
  #registrations: Registration[] = [];
  /** Those that have a rank and no list yet. */
  readonly #unlisted = new Map<Registration, RosterView>();
  readonly #restarted: RestartedNodes;
  readonly #releases: BarrierReleases;
  #isFormed = false;
  #isSendDue = false;
  #cancelHeartbeats: CancelTimer = () => {};
  #tokenCount = 0;

  constructor(gateway: PsliteGateway) {
    this.gateway = gateway;
    this.#restarted = new RestartedNodes(gateway.clock);
    this.#releases = new BarrierReleases(gateway, (each) => this.#sendRelease(each));
  }

  /** A process registers. Throws BAD_REQUEST if it is no node, QUEUE_FULL if too many wait (RegistrationService.G8). */
  addNode(incoming: IncomingConnection, meta: PsMeta): void {
    const node = checkedNode(meta);
    this.#checkWaiting();
    const hostPort: HostPort = { hostname: node.hostname, port: node.port };
    const role = roleOf(node);
    const twin = this.#registrations.find((other) => keyOf(other.hostPort) === keyOf(hostPort) && other.customerId === node.customerId);
    if (twin !== undefined) this.#forget(twin.process); // a new process at the same address
    const process = this.gateway.processAt(hostPort);
    const token = `${keyOf(hostPort)}/${node.customerId}/${++this.#tokenCount}`;
    const extension = decodeBodyExtension(meta.body);
    if (incoming.node !== 0) throw new WeighbridgeError("NO_ROUTE", `node ${incoming.node} of another job registers here`);
    const registration: Registration = {
      role,
      hostPort,
      customerId: node.customerId,
      process,
      extension,
      token,
      incoming,
      conversation: undefined,
      isAdmitted: false,
    };
    this.#registrations.push(registration);
    if (this.#isFormed && extension !== undefined) process.keep(); // RegistrationService.G7
    this.gateway.log.info("a node of ps-lite registers", {
      role,
      at: keyOf(hostPort),
      customer: node.customerId,
      ours: extension !== undefined,
    });
    if (!this.#isFormed && this.#isComplete()) this.#registerAll();
    else this.#register(registration, extension?.rank);
  }

  /** RegistrationService.G8 */
  #checkWaiting(): void {
    const { serverCount, workerCount } = this.gateway.options;
    const waiting = this.#registrations.filter(({ isAdmitted }) => !isAdmitted).length;
    if (waiting < serverCount + workerCount + WAITING_MAX) return;
    throw new WeighbridgeError(
      "QUEUE_FULL",
      `${waiting} processes wait for a rank already, in a job of ${serverCount} servers and ${workerCount} workers`,
    );
  }

  present(process: RemoteProcess): void {
    for (const conversation of process.conversations.values())
      if (conversation.node > 0 && !conversation.isLinked) this.gateway.accept(conversation);
  }

  /** A node has connected with its identity: it knows its id. */
  called(conversation: Conversation): void {
    this.#restarted.called(conversation, this.registrationOf(conversation)?.extension !== undefined);
  }

  /** An outgoing connection that was up broke: what left on it may be lost, so its calls fail. */
  fell(process: RemoteProcess, cause: Error | undefined): void {
    const { resender, isLeaving } = this.gateway;
    if (resender === undefined && !isLeaving)
      for (const conversation of process.conversations.values()) conversation.connectionBroke(cause);
  }

  /** RegistrationService.G3 */
  gone(process: RemoteProcess): void {
    for (const conversation of process.conversations.values()) {
      if (conversation.node === 0 || this.registrationOf(conversation) === undefined) continue;
      if (this.gateway.isLeaving) this.leave(conversation);
      else conversation.break(undefined);
    }
  }

  /** A connection without an identity ended: a process that waits for its rank has given up. */
  anonymousClosed(incoming: IncomingConnection): void {
    const waiting = this.#registrations.filter((other) => other.incoming === incoming && !other.isAdmitted);
    for (const { process } of waiting) this.#forget(process);
  }

  leaving(): void {
    this.#cancelHeartbeats();
    this.#releases.hurry();
    for (const { process, conversation, isAdmitted } of this.#registrations)
      if (conversation !== undefined && isAdmitted && !process.isPresent) this.leave(conversation);
  }

  /** Reports to the scheduler that this node has left. */
  leave(conversation: Conversation): void {
    if (!conversation.isLinked) this.gateway.accept(conversation);
    conversation.serveControl(LEAVE, {}, () => {
      const registration = this.#registrations.find((other) => other.conversation === conversation);
      if (registration !== undefined && !registration.process.isPresent) registration.process.disconnect(true);
    });
  }

  close(): void {
    this.#cancelHeartbeats();
    this.#restarted.close();
  }

  registrationOf(conversation: Conversation): Registration | undefined {
    return this.#registrations.find((other) => other.conversation === conversation);
  }

  /** Sends a message to the process of this node. */
  send({ process }: Registration, command: number, fields: Partial<PsMeta>): void {
    process.send(this.gateway.controlMeta(command, fields));
  }

  /** Releases a process that has passed a barrier. */
  release(release: Release): void {
    this.#releases.add(release);
  }

  /** Calls `send` now, or once the process of this node accepts requests (BarrierReleases.X3). */
  whenReady(conversation: Conversation, send: () => void): void {
    const registration = this.registrationOf(conversation);
    if (registration === undefined) send();
    else this.#releases.whenReleased(registration.process, send);
  }

  #sendRelease({ registration, group, round }: Release): void {
    const body = registration.extension === undefined ? {} : { body: encodeBodyExtension({ round }) };
    this.send(registration, PsCommand.BARRIER, { appId: 0, customerId: 0, barrierGroup: group, ...body });
  }

  self(): PsNode {
    const { hostname, port } = hostPortOf(this.gateway.options.schedulerAddress);
    return { role: PsRole.SCHEDULER, id: SCHEDULER_ID, hostname, port, isRecovery: false, customerId: 0 };
  }

  #sendNodes(registration: Registration, nodes: readonly PsNode[]): void {
    const body = registration.extension === undefined ? {} : { body: encodeBodyExtension() };
    this.send(registration, PsCommand.ADD_NODE, { nodes, ...body });
  }

  /** Sends the process of this registration a node in a new incarnation (RegistrationService.G5). */
  sendReplacement(registration: Registration, entry: RosterEntry): void {
    const send = (): void => {
      if (this.#registrations.includes(registration)) this.#sendNodes(registration, [this.#psNodeOf(entry)]);
    };
    if (entry.role === "worker") send();
    else this.#restarted.whenReady(entry, send);
  }

  /** The roster changed. True if the process of this registration has no list yet: it will get this one. */
  renewList(registration: Registration, roster: RosterView): boolean {
    if (!this.#unlisted.has(registration)) return false;
    this.#unlisted.set(registration, roster);
    this.#sendListsSoon();
    return true;
  }

  /** An entry of our roster as ps-lite writes it: all customers of a process have the id of its first. */
  #psNodeOf(entry: RosterEntry): PsNode {
    const hostPort = hostPortOf(entry.address);
    const registration = this.#registrations.find(({ conversation }) => conversation?.node === entry.node);
    const id = registration?.process.primary?.node ?? entry.node;
    return { role: psRoleOf(entry.role), id, ...hostPort, isRecovery: entry.incarnation > 1, customerId: registration?.customerId ?? 0 };
  }

  #forget(process: RemoteProcess): void {
    for (const registration of this.#unlisted.keys()) if (registration.process === process) this.#unlisted.delete(registration);
    this.#registrations = this.#registrations.filter((other) => other.process !== process);
    this.gateway.forgetProcess(process);
  }

  #isComplete(): boolean {
    const { serverCount, workerCount } = this.gateway.options;
    const countOf = (role: Role): number => this.#registrations.filter((registration) => registration.role === role).length;
    return countOf("server") >= serverCount && countOf("worker") >= workerCount;
  }

  /** RegistrationService.G1: those that registered before all were there register again, with their rank. */
  #registerAll(): void {
    this.#isFormed = true;
    for (const role of ["server", "worker"] as const) {
      const ofRole = this.#registrations.filter((registration) => registration.role === role).sort(byHostPort);
      const requested = new Set(ofRole.map(({ extension }) => extension?.rank));
      const free = ofRole.map((_, rank) => rank).filter((rank) => !requested.has(rank));
      for (const registration of ofRole) this.#register(registration, registration.extension?.rank ?? free.shift());
    }
    this.#watchHeartbeats();
  }

  #register(registration: Registration, rank: number | undefined): void {
    const { gateway } = this;
    const { role, hostPort, extension, process, customerId, token } = registration;
    registration.conversation?.break(undefined);
    const address = formatHostPort(hostPort);
    const conversation = new Conversation(gateway, { node: 0, incarnation: 0, remote: address });
    conversation.control = new RegisteredNode(this, conversation);
    registration.conversation = conversation;
    process.addConversation(customerId, conversation);
    const { serverCount, workerCount } = gateway.options;
    const request = {
      role,
      rank,
      address,
      serverCount: extension?.serverCount ?? serverCount,
      workerCount: extension?.workerCount ?? workerCount,
      label: extension?.label ?? `ps-lite at ${keyOf(hostPort)}`,
      token,
      packageVersion: extension?.packageVersion,
      hasNoClock: role === "worker" && extension === undefined ? true : extension?.hasNoClock, // ps-lite has no clocks
      resume: undefined,
    };
    // After the end of the link of its earlier registration, if there was one.
    gateway.clock.soon(() => {
      if (registration.conversation !== conversation) return;
      gateway.accept(conversation);
      conversation.serveControl(
        REGISTER,
        request,
        (reply) => this.#admitted(registration, conversation, reply),
        (failure) => this.#refused(registration, failure),
      );
    });
  }

  #refused(registration: Registration, failure: Failure): void {
    const { code, message } = failure;
    if (code === "CLOSED" || code === "ABORTED") return;
    const fields = { at: keyOf(registration.hostPort), code, reason: message };
    if (registration.extension === undefined)
      this.gateway.log.error("a node of ps-lite was refused; it will wait until it is stopped", fields);
    this.sendAbort(registration, failure);
  }

  /** Our own nodes can be notified; ps-lite's cannot. */
  sendAbort(registration: Registration, failure: Omit<Failure, "retryable"> & Partial<Failure>): void {
    if (registration.extension === undefined) return;
    const { process } = registration;
    process.keep();
    this.send(registration, PsCommand.TERMINATE, { body: encodeJson({ retryable: false, ...failure }) });
  }

  #admitted(registration: Registration, conversation: Conversation, { node, incarnation, roster }: RegisterReply): void {
    const { process } = registration;
    const replaced = this.#registrations.find((other) => other.process !== process && other.conversation?.node === node);
    if (replaced !== undefined) this.#forget(replaced.process); // RegistrationService.G9
    registration.isAdmitted = true;
    conversation.node = node;
    conversation.incarnation = incarnation;
    this.gateway.addConversation(conversation);
    if (conversation.control instanceof RegisteredNode) conversation.control.knows(roster);
    if (process.primary === conversation) {
      process.keep();
      this.#unlisted.set(registration, roster);
    } else this.gateway.log.info("a further customer of a process has its rank", { node: nameOf(node), process: process.primary?.name });
    this.#sendListsSoon();
  }

  #sendListsSoon(): void {
    if (this.#isSendDue) return;
    this.#isSendDue = true;
    this.gateway.clock.afterInput(() => {
      this.#isSendDue = false;
      this.#sendLists();
    });
  }

  /** The list names every customer of a process by the id of its first: none is sent before those are known. */
  #sendLists(): void {
    const isShared = ({ process }: Registration): boolean => process.conversations.size > 1;
    if (this.#registrations.some((registration) => isShared(registration) && !registration.isAdmitted)) return;
    const waiting = [...this.#unlisted].sort(([a], [b]) => Number(a.role === "server") - Number(b.role === "server"));
    for (const [registration, roster] of waiting) {
      const dead = registration.extension === undefined ? roster.nodes.find(isDeadServer) : undefined;
      // RegistrationService.G5 and RegistrationService.G6
      if (registration.role === "server") this.#sendList(registration);
      else if (dead !== undefined)
        this.gateway.log.warn("a worker waits for a server", { at: keyOf(registration.hostPort), server: nameOf(dead.node) });
      else this.#restarted.whenAllReady(roster.nodes.filter(isNewServer), () => this.#sendList(registration));
    }
  }

  #sendList(registration: Registration): void {
    const roster = this.#unlisted.get(registration);
    if (roster === undefined) return;
    this.#unlisted.delete(registration);
    const present = roster.nodes.filter(({ state }) => state !== "left");
    const listed = present.map((entry) => ({ entry, hostPort: hostPortOf(entry.address) })).sort(byHostPort);
    this.#sendNodes(registration, [...listed.map(({ entry }) => this.#psNodeOf(entry)), this.self()]);
  }

  /**
   * A node of ps-lite sends heartbeats only if it is configured to: while it is connected and has never sent one, it
   * counts as alive.
   */
  #watchHeartbeats(): void {
    const { heartbeatIntervalMs = 0 } = this.gateway.options;
    if (heartbeatIntervalMs === 0) return;
    this.#cancelHeartbeats = this.gateway.clock.after(heartbeatIntervalMs, () => {
      for (const { conversation, process } of this.#registrations) {
        const control = process.primary?.control;
        const beats = control instanceof RegisteredNode && control.beats;
        if (conversation !== undefined && conversation.node > 0 && process.isPresent && !beats) conversation.serveControl(HEARTBEAT, {});
      }
      this.#watchHeartbeats();
    });
  }
}

function isDeadServer({ role, state }: RosterEntry): boolean {
  return role === "server" && state === "dead";
}

function isNewServer({ role, incarnation, state }: RosterEntry): boolean {
  return role === "server" && incarnation > 1 && state === "alive";
}
