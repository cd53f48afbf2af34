// registrar — the nodes of ps-lite at our scheduler: takes their registrations, gives them to the scheduler as those of nodes of ours, and
// tells everybody who is there. Barriers and heartbeats are registered-node.ts.
//
// Invariants:
//   G1. Ranks are ps-lite's: once all are there, by host name descending, then by port. Who asks for a rank (one of ours) has it.
//   G2. Every process that registered is known to the scheduler from then on, so that it can tell who is missing.
//   G3. A node whose connections are all gone has no link; when everybody is leaving, it has left.
//   G4. Servers hear that a barrier is over before workers do (barrier-releases.ts, X1).
//   G5. A process learns of those that are there when it is admitted from its list alone. Of a later life of a server it hears as replacements.ts
//       has it, and has no list before; of a worker's at once, so that servers know where to answer when its first request comes.
//   G6. A worker of ps-lite has no list while a server is dead: what it sent there would be lost when that has a new life, and waited for for ever.
//   G7. A node of ours that had its place from an earlier scheduler registers with all that it knows (`resume`); it is one that needs no rank, and
//       the job is complete from then on.
//   G8. A node of ours that comes late has a line from us while it waits for a place: when the job is over before, the reason leaves at once, and
//       there is no time to make one.
//   G9. At most WAITING_MAX more than the job has places wait for one.

import type { CancelTimer } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { HEARTBEAT, LEAVE, REGISTER } from "../contracts/control.ts";
import type { BarrierRequest } from "../wire/control.ts";
import type { Failure } from "../wire/failure.ts";
import { encodeJson } from "../wire/json-body.ts";
import { nameOf, type Role, SCHEDULER_ID } from "../wire/node-id.ts";
import type { RegisterReply, ResumeClaim } from "../wire/register.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { type Release, Releases } from "./barrier-releases.ts";
import { type BodyExtension, decodeBodyExtension, encodeBodyExtension } from "./body-extension.ts";
import { Conversation } from "./conversation.ts";
import type { PsliteGateway } from "./gateway.ts";
import { formatHostPort, type HostPort, keyOf, placeOf } from "./host-port.ts";
import type { IncomingConnection } from "./incoming-connection.ts";
import { RegisteredNode } from "./registered-node.ts";
import type { RemoteProcess } from "./remote-process.ts";
import { Replacements } from "./replacements.ts";
import { EMPTY, PsCommand, PsMeta, type PsNode, PsRole } from "./wire/ps-meta.ts";

/** A node that asked for a place, and perhaps has it. */
export type Registration = {
  readonly role: Role;
  readonly place: HostPort;
  readonly customerId: number;
  readonly process: RemoteProcess;
  /** What it says beyond ps-lite's words; undefined when it is none of ours. */
  readonly note: BodyExtension | undefined;
  readonly token: string;
  readonly incoming: IncomingConnection;
  conversation: Conversation | undefined;
  hasPlace: boolean;
};

const PORT_MAX = 65_535;
const HOSTNAME_CHARS_MAX = 255;
/** What can stand between "tcp://" and a port. */
const HOSTNAME = /^[^\s/[\]\p{Cc}]+$/u;
/** So many may wait for a place beyond those that there are: a restart that goes round and round, but no flood. */
const WAITING_MAX = 256;

export class Registrar {
  readonly gateway: PsliteGateway;
  /** In the order they came; those that have a place too. */
  #registrations: Registration[] = [];
  /** Who has its place, and has not been told who is there. */
  readonly #untold = new Map<Registration, RosterView>();
  readonly #replacements: Replacements;
  readonly #releases: Releases;
  #isFormed = false;
  /** The job's name, once somebody has a place. */
  #job: string | undefined;
  #isTellDue = false;
  #cancelHeartbeats: CancelTimer = () => {};
  #tokenCount = 0;

  constructor(gateway: PsliteGateway) {
    this.gateway = gateway;
    this.#replacements = new Replacements(gateway.clock);
    this.#releases = new Releases(gateway, (each) => this.#sendRelease(each));
  }

  /** A process registers. Throws BAD_REQUEST when it cannot be one, QUEUE_FULL when too many wait (G9). */
  addNode(incoming: IncomingConnection, meta: PsMeta): void {
    const node = checkedNode(meta);
    this.#checkRoom();
    const place: HostPort = { hostname: node.hostname, port: node.port };
    const role = node.role === PsRole.SERVER ? "server" : "worker";
    const twin = this.#registrations.find((other) => keyOf(other.place) === keyOf(place) && other.customerId === node.customerId);
    if (twin !== undefined) this.#forget(twin.process); // a new process at the same place
    const process = this.gateway.processAt(place);
    const token = `${keyOf(place)}/${node.customerId}/${++this.#tokenCount}`;
    const note = decodeBodyExtension(meta.body);
    if (incoming.node !== (note?.resume?.node ?? 0))
      throw new WeighbridgeError(
        "NO_ROUTE",
        `node ${incoming.node} of another job registers without the place it had, or with another one`,
      );
    const registration: Registration = {
      role,
      place,
      customerId: node.customerId,
      process,
      note,
      token,
      incoming,
      conversation: undefined,
      hasPlace: false,
    };
    this.#registrations.push(registration);
    if (this.#isFormed && note !== undefined) process.keep(); // G8
    this.gateway.log.info("a node of ps-lite registers", { role, at: keyOf(place), customer: node.customerId, ours: note !== undefined });
    if (this.#isFormed || note?.resume !== undefined) this.#register(registration, note?.rank);
    else if (this.#isComplete()) this.#registerAll();
    else this.#register(registration, note?.rank);
  }

  /** G9 */
  #checkRoom(): void {
    const { serverCount, workerCount } = this.gateway.options;
    const waiting = this.#registrations.filter(({ hasPlace }) => !hasPlace).length;
    if (waiting < serverCount + workerCount + WAITING_MAX) return;
    throw new WeighbridgeError(
      "QUEUE_FULL",
      `${waiting} processes wait for a place already, in a job of ${serverCount} servers and ${workerCount} workers`,
    );
  }

  present(process: RemoteProcess): void {
    for (const conversation of process.conversations.values())
      if (conversation.node > 0 && !conversation.isLinked) this.gateway.accept(conversation);
  }

  /** A node has called us by its name: it knows it. */
  called(conversation: Conversation): void {
    this.#replacements.called(conversation, this.registrationOf(conversation)?.note !== undefined);
  }

  /** G3 */
  gone(process: RemoteProcess): void {
    for (const conversation of process.conversations.values()) {
      if (conversation.node === 0) continue;
      if (this.gateway.isLeaving) this.leave(conversation);
      else conversation.break(undefined);
    }
  }

  /** A connection without an identity ended: a process that waits for its place has given up. */
  nobodyLeft(incoming: IncomingConnection): void {
    const waiting = this.#registrations.filter((other) => other.incoming === incoming && !other.hasPlace);
    for (const { process } of waiting) this.#forget(process);
  }

  leaving(): void {
    this.#cancelHeartbeats();
    this.#releases.hurry();
    for (const { process, conversation, hasPlace } of this.#registrations)
      if (conversation !== undefined && hasPlace && !process.isPresent) this.leave(conversation);
  }

  /** Tells the scheduler that this node has left. */
  leave(conversation: Conversation): void {
    if (!conversation.isLinked) this.gateway.accept(conversation);
    conversation.serveControl(LEAVE, {}, () => {
      const registration = this.#registrations.find((other) => other.conversation === conversation);
      if (registration !== undefined && !registration.process.isPresent) registration.process.disconnect(true);
    });
  }

  close(): void {
    this.#cancelHeartbeats();
    this.#replacements.close();
  }

  registrationOf(conversation: Conversation): Registration | undefined {
    return this.#registrations.find((other) => other.conversation === conversation);
  }

  /** A message to the process of this node. */
  send({ process }: Registration, command: number, fields: Partial<PsMeta>): void {
    const meta = Object.assign(new PsMeta(), { command, timestamp: this.gateway.nextTimestamp(), ...fields });
    if (command === PsCommand.TERMINATE) {
      meta.customerId = 0;
      meta.timestamp = EMPTY;
    }
    process.say(meta);
  }

  /** The process has passed a barrier. */
  release(release: Release): void {
    this.#releases.add(release);
  }

  /** Calls `send` now, or once the process of this node takes requests (barrier-releases.ts, X3). */
  whenReady(conversation: Conversation, send: () => void): void {
    const registration = this.registrationOf(conversation);
    if (registration === undefined) send();
    else this.#releases.whenHeard(registration.process, send);
  }

  #sendRelease({ registration, group, round }: Release): void {
    const body = registration.note === undefined ? {} : { body: encodeBodyExtension({ round }) };
    this.send(registration, PsCommand.BARRIER, { appId: 0, customerId: 0, barrierGroup: group, ...body });
  }

  self(): PsNode {
    const { hostname, port } = placeOf(this.gateway.options.schedulerAddress);
    return { role: PsRole.SCHEDULER, id: SCHEDULER_ID, hostname, port, isRecovery: false, customerId: 0 };
  }

  /** Tells the process of this registration of these nodes, and of further ones that have no life. */
  #tell(registration: Registration, entries: readonly RosterEntry[], ...others: readonly PsNode[]): void {
    const nodes = [...entries.map((entry) => this.#psNodeOf(entry)), ...others];
    const isAllOurs = this.#registrations.every(({ note }) => note !== undefined);
    const lives = entries.map(({ node, incarnation }) => ({ node, incarnation }));
    const body = registration.note === undefined ? {} : { body: encodeBodyExtension({ isAllOurs, job: this.#job, lives }) };
    this.send(registration, PsCommand.ADD_NODE, { nodes, ...body });
  }

  /** Tells the process of this registration of a node in a new life (G5). */
  tellOfNewLife(registration: Registration, entry: RosterEntry): void {
    const tell = (): void => {
      if (this.#registrations.includes(registration)) this.#tell(registration, [entry]);
    };
    if (entry.role === "worker") tell();
    else this.#replacements.whenThere(entry, tell);
  }

  /** The roster changed. True when the process of this registration has no list yet: it will have this one. */
  renewList(registration: Registration, roster: RosterView): boolean {
    if (!this.#untold.has(registration)) return false;
    this.#untold.set(registration, roster);
    this.#tellSoon();
    return true;
  }

  /** An entry of our roster as ps-lite writes it: all customers of a process have the id of its first. */
  #psNodeOf(entry: RosterEntry): PsNode {
    const place = placeOf(entry.address);
    const registration = this.#registrations.findLast(({ conversation }) => conversation?.node === entry.node); // those of earlier lives are still listed
    const id = registration?.process.primary?.node ?? entry.node;
    const role = entry.role === "server" ? PsRole.SERVER : PsRole.WORKER;
    return { role, id, ...place, isRecovery: entry.incarnation > 1, customerId: registration?.customerId ?? 0 };
  }

  #forget(process: RemoteProcess): void {
    for (const registration of this.#untold.keys()) if (registration.process === process) this.#untold.delete(registration);
    this.#registrations = this.#registrations.filter((other) => other.process !== process);
    this.gateway.forgetRemoteProcess(process);
  }

  #isComplete(): boolean {
    const { serverCount, workerCount } = this.gateway.options;
    const countOf = (role: Role): number => this.#registrations.filter((registration) => registration.role === role).length;
    return countOf("server") >= serverCount && countOf("worker") >= workerCount;
  }

  /** G1: those who registered before everybody was there do so again, with their rank. */
  #registerAll(): void {
    this.#isFormed = true;
    for (const role of ["server", "worker"] as const) {
      const ofRole = this.#registrations.filter((registration) => registration.role === role).sort(byPlace);
      const asked = new Set(ofRole.map(({ note }) => note?.rank));
      const free = ofRole.map((_, rank) => rank).filter((rank) => !asked.has(rank));
      for (const registration of ofRole) this.#register(registration, registration.note?.rank ?? free.shift());
    }
    this.#watchHeartbeats();
  }

  #register(registration: Registration, rank: number | undefined): void {
    const { gateway } = this;
    const { role, place, note, process, customerId, token } = registration;
    registration.conversation?.break(undefined);
    const address = formatHostPort(place);
    const { node = 0, incarnation = 0 } = note?.resume ?? {};
    const conversation = new Conversation(gateway, { node, incarnation, remote: address });
    conversation.control = new RegisteredNode(this, conversation);
    registration.conversation = conversation;
    process.addConversation(customerId, conversation);
    const { serverCount, workerCount } = gateway.options;
    const request = {
      role,
      rank,
      address,
      serverCount: note?.serverCount ?? serverCount,
      workerCount: note?.workerCount ?? workerCount,
      label: note?.label ?? `ps-lite at ${keyOf(place)}`,
      token,
      packageVersion: note?.packageVersion,
      resume: note?.resume && { ...note.resume, passed: lastRounds(note.resume) },
    };
    // After the end of the link that it registered on before, if there was one.
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
    const fields = { at: keyOf(registration.place), code, reason: message };
    if (registration.note === undefined) this.gateway.log.error("a node of ps-lite was refused; it will wait until it is stopped", fields);
    this.tellAbort(registration, failure);
  }

  /** Our own nodes can be told why; ps-lite's cannot. */
  tellAbort(registration: Registration, failure: Omit<Failure, "retryable"> & Partial<Failure>): void {
    if (registration.note === undefined) return;
    const { process } = registration;
    process.keep();
    this.send(registration, PsCommand.TERMINATE, { body: encodeJson({ retryable: false, ...failure }) });
  }

  #admitted(registration: Registration, conversation: Conversation, { job, node, incarnation, roster }: RegisterReply): void {
    const { process, note } = registration;
    this.#job = job;
    registration.hasPlace = true;
    conversation.node = node;
    conversation.incarnation = incarnation;
    this.gateway.addConversation(conversation);
    if (conversation.control instanceof RegisteredNode) conversation.control.knows(roster, note?.resume && lastRounds(note.resume));
    if (note?.resume !== undefined) this.#resumed(conversation);
    if (process.primary === conversation) {
      process.keep();
      this.#untold.set(registration, roster);
    } else this.gateway.log.info("a further customer of a process has its place", { node: nameOf(node), process: process.primary?.name });
    this.#tellSoon();
  }

  /** G7 */
  #resumed(conversation: Conversation): void {
    this.#replacements.called(conversation, true);
    if (this.#isFormed) return;
    this.#isFormed = true;
    this.#watchHeartbeats();
  }

  #tellSoon(): void {
    if (this.#isTellDue) return;
    this.#isTellDue = true;
    this.gateway.clock.afterInput(() => {
      this.#isTellDue = false;
      this.#tellAll();
    });
  }

  /** The list names every customer of a process by the id of its first: nobody is told before those are known. */
  #tellAll(): void {
    const isShared = ({ process }: Registration): boolean => process.conversations.size > 1;
    if (this.#registrations.some((registration) => isShared(registration) && !registration.hasPlace)) return;
    const untold = [...this.#untold].sort(([a], [b]) => Number(a.role === "server") - Number(b.role === "server"));
    for (const [registration, roster] of untold) {
      const dead = registration.note === undefined ? roster.nodes.find(isDeadServer) : undefined;
      const isResumed = registration.note?.resume !== undefined; // it knows the others
      if (registration.role === "server" || isResumed) this.#tellList(registration);
      else if (dead !== undefined)
        this.gateway.log.warn("a worker waits for a server", { at: keyOf(registration.place), server: nameOf(dead.node) }); // G6
      else this.#replacements.whenAllThere(roster.nodes.filter(isNewServer), () => this.#tellList(registration)); // G5
    }
  }

  #tellList(registration: Registration): void {
    const roster = this.#untold.get(registration);
    if (roster === undefined) return;
    this.#untold.delete(registration);
    const present = roster.nodes.filter(({ state, address }) => state !== "left" && address !== ""); // those who resume may not know all places
    const listed = present.map((entry) => ({ entry, place: placeOf(entry.address) })).sort(byPlace);
    this.#tell(
      registration,
      listed.map(({ entry }) => entry),
      this.self(),
    );
  }

  /** A node of ps-lite sends heartbeats only if it is told to: while it is connected and has never sent one, it lives. */
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

/** A node's barriers are one per group here, whichever of its customers stood there. */
function lastRounds({ passed }: ResumeClaim): BarrierRequest[] {
  const rounds = new Map<number, number>();
  for (const { group, round } of passed) rounds.set(group, Math.max(round, rounds.get(group) ?? 0));
  return [...rounds].map(([group, round]) => ({ group, customer: 0, round }));
}

/** ps-lite's order of ranks. */
function byPlace(a: { readonly place: HostPort }, b: { readonly place: HostPort }): number {
  if (a.place.hostname !== b.place.hostname) return a.place.hostname > b.place.hostname ? -1 : 1;
  return a.place.port - b.place.port;
}

function checkedNode({ nodes }: PsMeta): PsNode {
  const [node] = nodes;
  if (nodes.length !== 1 || node === undefined || node.role === PsRole.SCHEDULER)
    throw new WeighbridgeError("BAD_REQUEST", `a registration that names no server or worker at a host and port: ${nodes.length} nodes`);
  const { hostname, port } = node;
  if (hostname.length > HOSTNAME_CHARS_MAX || !HOSTNAME.test(hostname) || port <= 0 || port > PORT_MAX)
    throw new WeighbridgeError(
      "BAD_REQUEST",
      `a node cannot be reached at the host ${JSON.stringify(hostname.slice(0, HOSTNAME_CHARS_MAX))}, port ${port}, that it registers with (DMLC_NODE_HOST, PORT)`,
    );
  return node;
}
