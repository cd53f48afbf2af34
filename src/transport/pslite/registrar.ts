// registrar — the nodes of ps-lite at our scheduler: takes their registrations, gives them to the scheduler as those of nodes of ours, and
// tells everybody who is there. Barriers and heartbeats are member-control.ts.
//
// Invariants:
//   G1. Ranks are ps-lite's: once all are there, by host name descending, then by port. Who asks for a rank (one of ours) has it.
//   G2. Every process that registered is known to the scheduler from then on, so that it can tell who is missing.
//   G3. A node whose connections are all gone has no link; when everybody is leaving, it has left.
//   G4. Servers hear that a barrier is over before workers do: a server of ps-lite that gets a request while it still stands there, and has
//       no application yet, waits for that one with all its ears shut, and ends after 5 seconds. So they hear it SERVERS_FIRST_MS before.
//   G5. A process learns of those that are there when it is admitted from its list alone. Of a later life of a server it hears as newcomers.ts
//       has it, and has no list before; of a worker's at once, so that servers know where to answer when its first request comes.
//   G6. A worker of ps-lite has no list while a server is dead: what it sent there would be lost when that has a new life, and waited for for ever.
//   G7. At most WAITING_MAX more than the job has places wait for one.

import type { CancelTimer } from "../../base/clock.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { decodeFailure } from "../../wire/failure.ts";
import { FunctionId } from "../../wire/function-id.ts";
import { nameOf, type Role, SCHEDULER_ID } from "../../wire/node-id.ts";
import { EMPTY, PsCommand, PsMeta, type PsNode, PsRole } from "../../wire/pslite/ps-meta.ts";
import { registerReplyShape } from "../../wire/register.ts";
import type { RosterEntry, RosterView } from "../../wire/roster.ts";
import { Envoy } from "./envoy.ts";
import type { Inlet } from "./inlet.ts";
import { MemberControl } from "./member-control.ts";
import type { Neighbour } from "./neighbour.ts";
import { Newcomers } from "./newcomers.ts";
import { decodeOwnNote, encodeOwnNote, type OwnNote } from "./own-note.ts";
import { formatPlace, keyOf, type Place, placeOf } from "./place.ts";
import type { PsliteVan } from "./van.ts";

/** A node that asked for a place, and perhaps has it. */
export type Registration = {
  readonly role: Role;
  readonly place: Place;
  readonly customerId: number;
  readonly neighbour: Neighbour;
  /** What it says beyond ps-lite's words; undefined when it is none of ours. */
  readonly note: OwnNote | undefined;
  readonly token: string;
  readonly inlet: Inlet;
  envoy: Envoy | undefined;
};

type Release = { readonly registration: Registration; readonly group: number };

/** From the end of a barrier to an application with its handle is no wait in a server of ps-lite; on a machine with much to do it takes time. */
export const SERVERS_FIRST_MS = 100;
const PORT_MAX = 65_535;
const HOSTNAME_CHARS_MAX = 255;
/** What can stand between "tcp://" and a port. */
const HOSTNAME = /^[^\s/[\]\p{Cc}]+$/u;
/** So many may wait for a place beyond those that there are: a restart that goes round and round, but no flood. */
const WAITING_MAX = 256;

export class Registrar {
  readonly van: PsliteVan;
  /** In the order they came; those that have a place too. */
  #registrations: Registration[] = [];
  /** Who has its place, and has not been told who is there. */
  readonly #untold = new Map<Registration, RosterView>();
  readonly #newcomers: Newcomers;
  #released: Release[] = [];
  /** Releases of workers that wait for those of servers (G4). */
  readonly #late: Release[] = [];
  #isFormed = false;
  #isTellDue = false;
  #cancelHeartbeats: CancelTimer = () => {};
  #tokenCount = 0;

  constructor(van: PsliteVan) {
    this.van = van;
    this.#newcomers = new Newcomers(van.clock);
  }

  /** A process registers. Throws BAD_REQUEST when it cannot be one, QUEUE_FULL when too many wait (G7). */
  addNode(inlet: Inlet, meta: PsMeta): void {
    const node = checkedNode(meta);
    this.#checkRoom();
    const place: Place = { hostname: node.hostname, port: node.port };
    const role = node.role === PsRole.SERVER ? "server" : "worker";
    const twin = this.#registrations.find((other) => keyOf(other.place) === keyOf(place) && other.customerId === node.customerId);
    if (twin !== undefined) this.#forget(twin.neighbour); // a new process at the same place
    const neighbour = this.van.neighbourAt(place);
    const token = `${keyOf(place)}/${node.customerId}/${++this.#tokenCount}`;
    const note = decodeOwnNote(meta.body);
    const registration: Registration = { role, place, customerId: node.customerId, neighbour, note, token, inlet, envoy: undefined };
    this.#registrations.push(registration);
    this.van.log.info("a node of ps-lite registers", { role, at: keyOf(place), customer: node.customerId, ours: note !== undefined });
    if (this.#isFormed) this.#register(registration, note?.rank);
    else if (this.#isComplete()) this.#registerAll();
    else this.#register(registration, note?.rank);
  }

  /** G7 */
  #checkRoom(): void {
    const { serverCount, workerCount } = this.van.options;
    const waiting = this.#registrations.filter(({ envoy }) => envoy === undefined || envoy.node === 0).length;
    if (waiting < serverCount + workerCount + WAITING_MAX) return;
    throw new WeighbridgeError(
      "QUEUE_FULL",
      `${waiting} processes wait for a place already, in a job of ${serverCount} servers and ${workerCount} workers`,
    );
  }

  present(neighbour: Neighbour): void {
    for (const envoy of neighbour.envoys.values()) if (envoy.node > 0 && !envoy.isLinked) this.van.accept(envoy);
  }

  /** A node has called us by its name: it knows it. */
  called(envoy: Envoy): void {
    this.#newcomers.called(envoy, this.registrationOf(envoy)?.note !== undefined);
  }

  /** G3 */
  gone(neighbour: Neighbour): void {
    for (const envoy of neighbour.envoys.values()) {
      if (envoy.node === 0) continue;
      if (this.van.isLeaving) this.leave(envoy);
      else envoy.break(undefined);
    }
  }

  /** A connection without an identity ended: a process that waits for its place has given up. */
  nobodyLeft(inlet: Inlet): void {
    const waiting = this.#registrations.filter((other) => other.inlet === inlet && other.envoy?.node === 0);
    for (const { neighbour } of waiting) this.#forget(neighbour);
  }

  leaving(): void {
    this.#cancelHeartbeats();
    this.#sendLate();
    for (const { neighbour, envoy } of this.#registrations) if (envoy !== undefined && !neighbour.isPresent) this.leave(envoy);
  }

  /** Tells the scheduler that this node has left. */
  leave(envoy: Envoy): void {
    if (!envoy.isLinked) this.van.accept(envoy);
    envoy.askJson(FunctionId.LEAVE, {}, () => {
      const registration = this.#registrations.find((other) => other.envoy === envoy);
      if (registration !== undefined && !registration.neighbour.isPresent) registration.neighbour.dropLine(true);
    });
  }

  close(): void {
    this.#cancelHeartbeats();
    this.#newcomers.close();
  }

  registrationOf(envoy: Envoy): Registration | undefined {
    return this.#registrations.find((other) => other.envoy === envoy);
  }

  /** A message to the process of this node. */
  send({ neighbour }: Registration, command: number, fields: Partial<PsMeta>): void {
    const meta = Object.assign(new PsMeta(), { command, timestamp: this.van.nextTimestamp(), ...fields });
    if (command === PsCommand.TERMINATE) {
      meta.customerId = 0;
      meta.timestamp = EMPTY;
    }
    neighbour.primary?.send(meta);
  }

  /** The process has passed a barrier. Told together with all others that did, servers first (G4). */
  release(registration: Registration, group: number): void {
    if (this.#released.length === 0) this.van.clock.afterInput(() => this.#sendReleases());
    this.#released.push({ registration, group });
  }

  #sendReleases(): void {
    const released = this.#released;
    this.#released = [];
    const [workers, servers] = [released.filter(isWorker), released.filter((each) => !isWorker(each))];
    for (const each of servers) this.#sendRelease(each);
    this.#late.push(...workers);
    if (this.van.isLeaving || servers.every(({ registration }) => registration.note !== undefined)) this.#sendLate();
    else this.van.clock.after(SERVERS_FIRST_MS, () => this.#sendLate());
  }

  /** Workers whose servers have had their time, or need none any more. */
  #sendLate(): void {
    for (const each of this.#late.splice(0)) this.#sendRelease(each);
  }

  #sendRelease({ registration, group }: Release): void {
    this.send(registration, PsCommand.BARRIER, { appId: 0, customerId: 0, barrierGroup: group });
  }

  self(): PsNode {
    const { hostname, port } = placeOf(this.van.options.schedulerAddress);
    return { role: PsRole.SCHEDULER, id: SCHEDULER_ID, hostname, port, isRecovery: false, customerId: 0 };
  }

  /** Tells the process of this registration of nodes. */
  tell(registration: Registration, nodes: readonly PsNode[]): void {
    const isAllOurs = this.#registrations.every(({ note }) => note !== undefined);
    const body = registration.note === undefined ? {} : { body: encodeOwnNote({ isAllOurs }) };
    this.send(registration, PsCommand.ADD_NODE, { nodes, ...body });
  }

  /** Tells the process of this registration of a node in a new life (G5). */
  tellOfNewLife(registration: Registration, entry: RosterEntry): void {
    const tell = (): void => {
      if (this.#registrations.includes(registration)) this.tell(registration, [this.psNodeOf(entry)]);
    };
    if (entry.role === "worker") tell();
    else this.#newcomers.whenThere(entry, tell);
  }

  /** The roster changed. True when the process of this registration has no list yet: it will have this one. */
  renewList(registration: Registration, roster: RosterView): boolean {
    if (!this.#untold.has(registration)) return false;
    this.#untold.set(registration, roster);
    this.#tellSoon();
    return true;
  }

  /** An entry of our roster as ps-lite writes it: all customers of a process have the id of its first. */
  psNodeOf(entry: RosterEntry): PsNode {
    const place = placeOf(entry.address);
    const registration = this.#registrations.findLast(({ envoy }) => envoy?.node === entry.node); // those of earlier lives are still listed
    const id = registration?.neighbour.primary?.node ?? entry.node;
    const role = entry.role === "server" ? PsRole.SERVER : PsRole.WORKER;
    return { role, id, ...place, isRecovery: entry.incarnation > 1, customerId: registration?.customerId ?? 0 };
  }

  #forget(neighbour: Neighbour): void {
    for (const registration of this.#untold.keys()) if (registration.neighbour === neighbour) this.#untold.delete(registration);
    this.#registrations = this.#registrations.filter((other) => other.neighbour !== neighbour);
    this.van.forgetNeighbour(neighbour);
  }

  #isComplete(): boolean {
    const { serverCount, workerCount } = this.van.options;
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
    const { van } = this;
    const { role, place, note, neighbour, customerId, token } = registration;
    registration.envoy?.break(undefined);
    const address = formatPlace(place);
    const envoy = new Envoy(van, { node: 0, incarnation: 0, remote: address });
    envoy.control = new MemberControl(this, envoy);
    registration.envoy = envoy;
    neighbour.addEnvoy(customerId, envoy);
    const { serverCount, workerCount } = van.options;
    const request = {
      role,
      rank,
      address,
      serverCount: note?.serverCount ?? serverCount,
      workerCount: note?.workerCount ?? workerCount,
      label: note?.label ?? `ps-lite at ${keyOf(place)}`,
      token,
    };
    // After the end of the link that it registered on before, if there was one.
    van.clock.soon(() => {
      if (registration.envoy !== envoy) return;
      van.accept(envoy);
      envoy.askJson(FunctionId.REGISTER, request, (payload, isFailure) => {
        if (isFailure) this.#refused(registration, payload);
        else this.#admitted(registration, envoy, payload);
      });
    });
  }

  #refused(registration: Registration, payload: Uint8Array): void {
    const { code, message } = decodeFailure(payload);
    if (code === "CLOSED" || code === "ABORTED") return;
    this.van.log.error("a node of ps-lite was refused; it will wait until it is stopped", {
      at: keyOf(registration.place),
      code,
      reason: message,
    });
    this.tellAbort(registration, { code, message });
  }

  /** Our own nodes can be told why; ps-lite's cannot. */
  tellAbort(registration: Registration, failure: { readonly code: string; readonly message: string }): void {
    if (registration.note === undefined) return;
    const { neighbour } = registration;
    neighbour.keep();
    this.send(registration, PsCommand.TERMINATE, { body: encodeFailure(failure) });
  }

  #admitted(registration: Registration, envoy: Envoy, payload: Uint8Array): void {
    const { node, incarnation, roster } = envoy.decode(registerReplyShape, "the answer to REGISTER", payload);
    const { neighbour } = registration;
    envoy.node = node;
    envoy.incarnation = incarnation;
    this.van.addEnvoy(envoy);
    if (envoy.control instanceof MemberControl) envoy.control.knows(roster);
    if (neighbour.primary === envoy) {
      neighbour.keep();
      this.#untold.set(registration, roster);
    } else this.van.log.info("a further customer of a process has its place", { node: nameOf(node), process: neighbour.primary?.name });
    this.#tellSoon();
  }

  #tellSoon(): void {
    if (this.#isTellDue) return;
    this.#isTellDue = true;
    this.van.clock.afterInput(() => {
      this.#isTellDue = false;
      this.#tellAll();
    });
  }

  /** The list names every customer of a process by the id of its first: nobody is told before those are known. */
  #tellAll(): void {
    const isShared = ({ neighbour }: Registration): boolean => neighbour.envoys.size > 1;
    if (this.#registrations.some((registration) => isShared(registration) && registration.envoy?.node === 0)) return;
    const untold = [...this.#untold].sort(([a], [b]) => Number(a.role === "server") - Number(b.role === "server"));
    for (const [registration, roster] of untold) {
      const dead = registration.note === undefined ? roster.nodes.find(isDeadServer) : undefined;
      if (registration.role === "server") this.#tellList(registration);
      else if (dead !== undefined)
        this.van.log.warn("a worker waits for a server", { at: keyOf(registration.place), server: nameOf(dead.node) }); // G6
      else this.#newcomers.whenAllThere(roster.nodes.filter(isNewServer), () => this.#tellList(registration)); // G5
    }
  }

  #tellList(registration: Registration): void {
    const roster = this.#untold.get(registration);
    if (roster === undefined) return;
    this.#untold.delete(registration);
    this.tell(registration, this.#listOf(roster));
  }

  #listOf({ nodes }: RosterView): PsNode[] {
    const entries = nodes.filter(({ state }) => state !== "left").map((entry) => ({ entry, place: placeOf(entry.address) }));
    return [...entries.sort(byPlace).map(({ entry }) => this.psNodeOf(entry)), this.self()];
  }

  /** A node of ps-lite sends heartbeats only if it is told to: while it is connected and has never sent one, it lives. */
  #watchHeartbeats(): void {
    const { heartbeatIntervalMs = 0 } = this.van.options;
    if (heartbeatIntervalMs === 0) return;
    this.#cancelHeartbeats = this.van.clock.after(heartbeatIntervalMs, () => {
      for (const { envoy, neighbour } of this.#registrations) {
        const control = neighbour.primary?.control;
        const beats = control instanceof MemberControl && control.beats;
        if (envoy !== undefined && envoy.node > 0 && neighbour.isPresent && !beats) envoy.askJson(FunctionId.HEARTBEAT, {}, () => {});
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

function isWorker({ registration }: Release): boolean {
  return registration.role === "worker";
}

function encodeFailure({ code, message }: { readonly code: string; readonly message: string }): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ code, message, retryable: false }));
}

/** ps-lite's order of ranks. */
function byPlace(a: { readonly place: Place }, b: { readonly place: Place }): number {
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
