// van — ps-lite's own protocol as a Transport: our node above it speaks frames with its peers as ever, and at the other end of every link
// stands an envoy that says it in ps-lite's words (docs/decisions/0010). Connections are another transport's.
//
//   connect(address) ──► a line to the node there, and a link with its envoy
//   listen(address)  ──► inlets; links with the envoys of nodes that would have dialed us
//
// Invariants:
//   V1. A node is reached at the host and port that it told the scheduler, letter by letter: that is how ps-lite's nodes find themselves.
//   V2. A message is for the envoy that its connection's identity names; one whose node is not known here may register, and nothing else.
//   V3. At most NOBODIES_MAX connections are open that no node stands behind.
//   V4. A node that cannot be reached for `deathMs` is dead, by our own roster: ps-lite's scheduler tells nobody.
//   V5. Our peer has a link with the scheduler that gave us our place, or with a later life of it that can take the job over, and with no other.
//   V6. A connection that stops inside a message, for STALL_MS, gives way to the next one of its node: the other end may be gone without a word.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { Random } from "../base/random.ts";
import type { Address, ConnectOptions, Link, LinkReader, Listener, Transport } from "../transport/transport.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import { Envoy, type EnvoyHost } from "./envoy.ts";
import { FirstByte } from "./first-byte.ts";
import { Inlet, type InletHost } from "./inlet.ts";
import { Line, type LineOptions } from "./line.ts";
import { MessagePages } from "./message-batch.ts";
import { Neighbour, type NeighbourHost } from "./neighbour.ts";
import { formatPlace, keyOf, type Place, placeOf } from "./place.ts";
import { Registrar } from "./registrar.ts";
import { Resender } from "./resender.ts";
import { SchedulerControl } from "./scheduler-control.ts";
import type { PsliteVanOptions } from "./van-options.ts";
import { VisitorLink } from "./visitor-link.ts";
import { PsCommand, type PsMeta } from "./wire/ps-meta.ts";
import { identityOf } from "./wire/zmtp.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";

const DIAL_DEADLINE_MS = 5000;
const HANDSHAKE_MS = 5000;
const STALL_MS = 5000;
const DEATH_MS_DEFAULT = 5000;
const NOBODIES_MAX = 1024;
const LOCAL_PORT_MIN = 10_000;
const LOCAL_PORT_COUNT = 40_000;
const LOCAL_BIND_TRIES = 40;

export class PsliteVan implements Transport, EnvoyHost, InletHost, NeighbourHost {
  readonly clock: Clock;
  readonly log: Log;
  readonly options: PsliteVanOptions;
  readonly resender: Resender | undefined;
  /** 0 before the scheduler has given us one. */
  selfId: number;
  /** Whether the scheduler, one of ours, said that everybody else is, too. */
  isAllOurs = false;
  /** We are done: connections that end now are nobody's worry. */
  isLeaving = false;
  readonly #pages = new MessagePages();
  readonly #random: Random;
  readonly #neighbours = new Map<string, Neighbour>();
  readonly #envoys = new Map<number, Envoy>();
  /** Inlets whose message is not complete, by envoy (I3). */
  readonly #busy = new Map<Envoy, Inlet>();
  readonly #inlets = new Set<Inlet>();
  /** Inlets that hold up another (V6), and envoys whose inlets our own node has told to wait. */
  readonly #watched = new Set<Inlet>();
  readonly #paused = new Set<Envoy>();
  readonly #registrar: Registrar | undefined;
  readonly #scheduler: SchedulerControl | undefined;
  /** Which start of the scheduler its envoy stands for; undefined: one of ps-lite, which does not say. */
  #schedulerLife: number | undefined;
  #accept: ((link: Link) => LinkReader) | undefined;
  #timestamp = 0;
  #isClosed = false;

  constructor(options: PsliteVanOptions) {
    this.options = options;
    this.clock = options.clock;
    this.log = options.log;
    this.#random = new Random(options.seed ?? 1);
    const { role, resendTimeoutMs = 0, clock, log } = options;
    this.selfId = role === "scheduler" ? SCHEDULER_ID : 0;
    if (resendTimeoutMs > 0) this.resender = new Resender({ clock, log, timeoutMs: resendTimeoutMs, selfId: () => this.selfId });
    if (role === "scheduler") this.#registrar = new Registrar(this);
    else this.#scheduler = new SchedulerControl(this);
  }

  // Transport

  async listen(address: Address, accept: (link: Link) => LinkReader): Promise<Listener> {
    assert(this.#accept === undefined, "a node of ps-lite listens once");
    this.#accept = accept;
    const { hostname, port } = placeOf(address);
    const { transport } = this.options;
    const take = (link: Link): LinkReader => this.#takeLink(link);
    for (let tryCount = 1; ; tryCount++) {
      const chosen = this.options.isLocal === true && port === 0 ? LOCAL_PORT_MIN + Math.floor(freshRandom() * LOCAL_PORT_COUNT) : port;
      try {
        const listener = await transport.listen(this.physical({ hostname, port: chosen }), take);
        const bound = this.options.isLocal === true ? chosen : placeOf(listener.address).port;
        return { address: formatPlace({ hostname, port: bound }), close: () => this.#close(listener) };
      } catch (thrown) {
        if (chosen === port || tryCount >= LOCAL_BIND_TRIES) throw thrown;
      }
    }
  }

  async connect(address: Address, open: (link: Link) => LinkReader, _options: ConnectOptions): Promise<Link> {
    const { schedulerAddress } = this.options;
    const place = placeOf(address);
    const isScheduler = address === schedulerAddress;
    if (!isScheduler && this.#scheduler?.envoyAt(place) === undefined) throw noRoute(address);
    const neighbour = this.neighbourAt(place);
    await neighbour.dial();
    const envoy = isScheduler ? this.#schedulerEnvoy(neighbour) : this.#scheduler?.envoyAt(place);
    if (envoy === undefined) throw noRoute(address);
    const link = envoy.open(open, true);
    for (const inlet of this.#inlets) if (inlet.envoy === envoy) this.clock.soon(() => inlet.goOn());
    return link;
  }

  /** Everybody is saying goodbye: a node that closes its connections from now on has left. */
  leaving(): void {
    this.isLeaving = true;
    this.#registrar?.leaving();
  }

  /** Undefined: a scheduler that is started again at its address takes the job over. */
  get schedulerLoss(): string | undefined {
    return this.#scheduler?.loss;
  }

  // For the registrar and the control of the scheduler.

  nextTimestamp(): number {
    return this.#timestamp++;
  }

  neighbourAt(place: Place): Neighbour {
    const key = keyOf(place);
    let neighbour = this.#neighbours.get(key);
    if (neighbour === undefined) {
      neighbour = new Neighbour(this, place);
      this.#neighbours.set(key, neighbour);
    }
    return neighbour;
  }

  /** The neighbour is another process now, or none. */
  forgetNeighbour(neighbour: Neighbour): void {
    if (this.#neighbours.get(keyOf(neighbour)) === neighbour) this.#neighbours.delete(keyOf(neighbour));
    neighbour.dropLine(true);
    for (const envoy of neighbour.envoys.values()) this.forgetEnvoy(envoy);
  }

  envoyOf(node: number): Envoy | undefined {
    return this.#envoys.get(node);
  }

  addEnvoy(envoy: Envoy): void {
    this.#envoys.set(envoy.node, envoy);
    for (const inlet of this.#inlets) if (inlet.node === envoy.node) this.#assign(inlet, envoy);
  }

  forgetEnvoy(envoy: Envoy): void {
    if (this.#envoys.get(envoy.node) === envoy) this.#envoys.delete(envoy.node);
    this.#paused.delete(envoy);
    this.resender?.forget(envoy);
    envoy.break(undefined);
  }

  /** Opens a link as if the node had dialed us. */
  accept(envoy: Envoy): void {
    if (this.#accept === undefined || this.#isClosed || envoy.isLinked) return;
    try {
      envoy.open(this.#accept, false);
    } catch (thrown) {
      this.log.debug("a link was not accepted", { node: envoy.name, reason: String(thrown) });
    }
  }

  /** Where a node at this place listens (V1). */
  physical({ hostname, port }: Place): Address {
    return this.options.isLocal === true ? `unix:///tmp/${port}` : formatPlace({ hostname, port });
  }

  get deathMs(): number {
    const { heartbeatTimeoutMs = 0 } = this.options;
    return heartbeatTimeoutMs > 0 ? heartbeatTimeoutMs : DEATH_MS_DEFAULT;
  }

  // InletHost, and NeighbourHost

  get life(): number | undefined {
    return this.options.role === "scheduler" ? (this.options.incarnation ?? 1) : undefined;
  }

  newLine(neighbour: Neighbour, options: Pick<LineOptions, "up" | "down" | "delayMs">): Line {
    const { transport } = this.options;
    const address = this.physical(neighbour);
    return new Line({
      transport,
      clock: this.clock,
      pages: this.#pages,
      address,
      identity: identityOf(this.selfId),
      deadlineMs: DIAL_DEADLINE_MS,
      ...options,
    });
  }

  lineUp(neighbour: Neighbour): void {
    this.#registrar?.present(neighbour);
    this.#scheduler?.present(neighbour);
    const envoy = this.#envoys.get(SCHEDULER_ID);
    const isReplaced = envoy !== undefined && envoy === neighbour.primary && neighbour.line?.life !== this.#schedulerLife;
    if (isReplaced) envoy.break(undefined); // our peer dials, and finds the other one (V5)
  }

  lineFell(neighbour: Neighbour, cause: Error | undefined): void {
    if (this.#isClosed) return;
    if (!this.isLeaving) this.log.debug("a line is down", { to: keyOf(neighbour), reason: cause?.message ?? "closed by the other side" });
    if (this.#scheduler === undefined && this.resender === undefined && !this.isLeaving)
      for (const envoy of neighbour.envoys.values()) envoy.lineBroke(cause); // what left on it may be lost: nobody waits for its answer
    this.#scheduler?.fell(neighbour, cause);
  }

  gone(neighbour: Neighbour): void {
    if (this.#isClosed) return;
    this.#registrar?.gone(neighbour);
    this.#scheduler?.gone(neighbour);
  }

  // EnvoyHost

  unlinked(envoy: Envoy, isAbrupt: boolean): void {
    const busy = this.#busy.get(envoy);
    if (busy !== undefined) busy.link.destroy(); // its bytes may be landing in memory that is somebody else's now
    this.#scheduler?.unlinked(envoy, isAbrupt);
  }

  pauseInlets(envoy: Envoy, isPaused: boolean): void {
    if (isPaused) this.#paused.add(envoy);
    else this.#paused.delete(envoy);
    for (const inlet of this.#inlets) {
      if (inlet.envoy !== envoy) continue;
      if (isPaused) inlet.link.pause();
      else inlet.link.resume();
    }
  }

  whenReady(envoy: Envoy, send: () => void): void {
    if (this.#registrar === undefined) this.#scheduler?.whenReady(send);
    else this.#registrar.whenReady(envoy, send);
  }

  // InletHost

  inletOpen(inlet: Inlet): void {
    const envoy = this.#envoys.get(inlet.node);
    if (envoy === undefined) return;
    this.#assign(inlet, envoy);
    this.#registrar?.called(envoy);
    this.#scheduler?.called(envoy);
  }

  mayTake(inlet: Inlet): boolean {
    const { node } = inlet;
    if (node === 0) return true;
    const { envoy } = inlet;
    if (envoy === undefined) {
      if (this.#registrar !== undefined) return true; // it may register (V2)
      if (this.selfId === 0) return false; // the scheduler's list, which tells us who that is, is on its way
      throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job`);
    }
    if (!envoy.isLinked && this.#isAccepted(envoy)) this.accept(envoy);
    if (!envoy.isLinked) return false; // until our peer has dialed it
    const busy = this.#busy.get(envoy);
    if (busy === undefined || busy === inlet) return true;
    this.#watch(envoy, busy);
    return false; // I3
  }

  /** V6 */
  #watch(envoy: Envoy, busy: Inlet): void {
    if (this.#watched.has(busy)) return;
    this.#watched.add(busy);
    const { byteCount } = busy;
    this.clock.after(STALL_MS, () => {
      this.#watched.delete(busy);
      if (this.#busy.get(envoy) !== busy || this.#isClosed) return;
      if (busy.byteCount !== byteCount || this.#paused.has(envoy)) this.#watch(envoy, busy);
      else
        busy.cutOff(
          new WeighbridgeError("DEADLINE", `nothing came for ${STALL_MS} ms inside a message, and ${envoy.name} has another connection`),
        );
    });
  }

  longMessage(inlet: Inlet): void {
    for (const other of this.#inlets)
      if (other !== inlet && other.envoy === inlet.envoy && other.isLong)
        other.cutOff(new WeighbridgeError("BAD_REQUEST", "its node sends a long message on another connection"));
  }

  message(inlet: Inlet, meta: PsMeta, hasParts: boolean): PartSink | undefined {
    const { envoy } = inlet;
    if (envoy === undefined) {
      this.#takeNobody(inlet, meta);
      return undefined;
    }
    if (hasParts) this.#busy.set(envoy, inlet);
    if (this.#isDropped(meta) || this.resender?.isLeftOut(meta, envoy) === true) return undefined;
    if (hasParts) inlet.isAcknowledgeDue = true;
    else this.resender?.taken(meta, envoy);
    return envoy.message(meta, hasParts);
  }

  messageEnded(inlet: Inlet): void {
    const { envoy } = inlet;
    if (envoy === undefined || this.#busy.get(envoy) !== inlet) return;
    this.#busy.delete(envoy);
    if (inlet.isAcknowledgeDue) this.resender?.taken(inlet.meta, envoy);
    inlet.isAcknowledgeDue = false;
    for (const other of this.#inlets) if (other !== inlet && other.envoy === envoy) this.clock.soon(() => other.goOn());
  }

  inletClosed(inlet: Inlet, cause: Error | undefined): void {
    this.#inlets.delete(inlet);
    const { envoy, node } = inlet;
    if (cause !== undefined && !this.isLeaving && !this.#isClosed) {
      const isStrange = cause instanceof WeighbridgeError;
      this.log[isStrange ? "warn" : "debug"]("a connection ended", {
        remote: inlet.link.remote,
        node: identityOf(node),
        reason: cause.message,
      });
    }
    if (envoy !== undefined && this.#busy.get(envoy) === inlet) {
      this.#busy.delete(envoy);
      if (envoy.isStreaming) this.#brokeInside(envoy, cause);
      else envoy.asks.interrupted();
      for (const other of this.#inlets) if (other.envoy === envoy) this.clock.soon(() => other.goOn());
    }
    if (envoy === undefined) this.#registrar?.nobodyLeft(inlet);
    else {
      this.#answersLost(envoy, cause);
      this.#scheduler?.fellSilent(envoy);
    }
    for (const neighbour of this.#neighbours.values()) if (neighbour.inlets.has(inlet)) neighbour.inletClosed(inlet);
  }

  /** Answers of the node may have been on their way here: who waits for one must not wait for ever. With PS_RESEND they come again. */
  #answersLost(envoy: Envoy, cause: Error | undefined): void {
    if (this.resender !== undefined || this.isLeaving || this.#isClosed) return;
    for (const other of this.#inlets) if (other.envoy === envoy) return;
    envoy.lineBroke(cause);
  }

  /** A message ended in the middle: the frame that was made of it cannot be finished. */
  #brokeInside(envoy: Envoy, cause: Error | undefined): void {
    envoy.asks.forget();
    envoy.break(cause ?? new WeighbridgeError("BAD_FRAME", `${envoy.name} closed its connection inside a message`));
  }

  #takeLink(link: Link): LinkReader {
    let nobodies = 0;
    for (const { envoy } of this.#inlets) if (envoy === undefined) nobodies++;
    if (nobodies >= NOBODIES_MAX) throw new WeighbridgeError("QUEUE_FULL", `${nobodies} connections without a node are open already`); // V3
    if (this.options.role !== "scheduler") return this.#newInlet(link);
    const accept = this.#accept;
    const readerFor = (isZmtp: boolean): LinkReader =>
      isZmtp || accept === undefined ? this.#newInlet(link) : accept(new VisitorLink(link));
    return new FirstByte(this.clock, HANDSHAKE_MS, () => link.destroy(), readerFor);
  }

  #newInlet(link: Link): Inlet {
    const inlet = new Inlet(this, link, HANDSHAKE_MS);
    this.#inlets.add(inlet);
    return inlet;
  }

  /** V2 */
  #takeNobody(inlet: Inlet, meta: PsMeta): void {
    const { node } = inlet;
    const isRegistration = meta.command === PsCommand.ADD_NODE && this.#registrar !== undefined;
    if (!isRegistration && node !== 0)
      throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job: if an earlier scheduler had one, stop it`);
    if (!isRegistration)
      throw new WeighbridgeError(
        "BAD_REQUEST",
        `a message of a node without an id, which may only register with the scheduler: ${meta.toString()}`,
      );
    this.#registrar?.addNode(inlet, meta);
  }

  #assign(inlet: Inlet, envoy: Envoy): void {
    inlet.envoy = envoy;
    for (const neighbour of this.#neighbours.values())
      if ([...neighbour.envoys.values()].includes(envoy)) {
        neighbour.inlets.add(inlet);
        this.#registrar?.present(neighbour);
      }
    this.clock.soon(() => inlet.goOn());
  }

  /** Whether this node would dial us, were it one of ours. */
  #isAccepted(envoy: Envoy): boolean {
    return envoy.node !== SCHEDULER_ID && this.options.role !== "worker";
  }

  /** The envoy of the scheduler that is there now, another one for another life. Throws NO_ROUTE when that one cannot take the job over (V5). */
  #schedulerEnvoy(neighbour: Neighbour): Envoy {
    const known = this.#envoys.get(SCHEDULER_ID);
    const life = neighbour.line?.life;
    if (known !== undefined && life === this.#schedulerLife) return known;
    const canFollow = this.selfId === 0 || (life !== undefined && this.#scheduler?.loss === undefined);
    if (known !== undefined && !canFollow) {
      neighbour.dropLine(false);
      throw new WeighbridgeError("NO_ROUTE", "the one that is there now was started later, and does not know this job", {
        retryable: true,
      });
    }
    if (known !== undefined) this.forgetEnvoy(known);
    this.#schedulerLife = life;
    const envoy = new Envoy(this, { node: SCHEDULER_ID, incarnation: life ?? 1, remote: formatPlace(neighbour) });
    envoy.control = this.#scheduler;
    this.#scheduler?.standsAt(envoy);
    neighbour.addEnvoy(0, envoy);
    this.addEnvoy(envoy);
    return envoy;
  }

  /** Lists are never sent again (PS_RESEND), so they are never dropped. */
  #isDropped({ command }: PsMeta): boolean {
    const { dropPercent = 0 } = this.options;
    if (command === PsCommand.ADD_NODE) return false;
    return dropPercent > 0 && this.selfId !== 0 && this.#random.below(100) < dropPercent;
  }

  async #close(listener: Listener): Promise<void> {
    this.#isClosed = true;
    this.resender?.close();
    this.#registrar?.close();
    this.#scheduler?.close();
    for (const neighbour of this.#neighbours.values()) neighbour.dropLine(false);
    for (const inlet of [...this.#inlets]) inlet.link.close();
    await listener.close();
  }
}

function noRoute(address: Address): WeighbridgeError {
  return new WeighbridgeError("NO_ROUTE", `no node of this job is at ${address}`, { retryable: true });
}

/** Two nodes that start at the same moment must not choose the same port. */
function freshRandom(): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0] as number) / 2 ** 32;
}
