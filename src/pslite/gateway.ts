// gateway — the way to nodes that speak ps-lite's protocol (docs/decisions/0038): makes and takes connections, knows
// which process and node is behind each, and gives messages to the conversation with that node. Not the meaning of
// messages: conversation.ts, and for who is there registrar.ts and scheduler-client.ts.
//
//   connect(address) ──► an outgoing connection to the process there; its conversation is linked with the peer's channel
//   listen(address)  ──► incoming connections; conversations with nodes that would have dialed us are linked when they are there
//
// Invariants:
//   V1. A node is reached at the host and port that it told the scheduler, letter by letter: that is how ps-lite's
//       nodes find themselves.
//   V2. A message is for the conversation that its connection's identity names; one whose node is not known here may
//       register, and nothing else.
//   V3. At most ANONYMOUS_MAX connections are open that no node is behind.
//   V4. A node that cannot be reached for `deathMs` is dead, by our own roster: ps-lite's scheduler tells nobody.
//   V5. Our peer has a link with the scheduler that gave us our rank, and with no other start of it.
//   V6. A connection that stops inside a message, for STALL_MS, gives way to the next one of its node: the other end
//       may be gone silently.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { Random } from "../base/random.ts";
import type { Gateway, GatewayHost, PeerConnection } from "../peer/gateway.ts";
import type { Address, Link, LinkReader, Listener } from "../transport/transport.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import { Conversation, type ConversationHost } from "./conversation.ts";
import { FirstByte } from "./first-byte.ts";
import type { PsliteGatewayOptions } from "./gateway-options.ts";
import { formatHostPort, type HostPort, hostPortOf, keyOf } from "./host-port.ts";
import { IncomingConnection, type IncomingHost } from "./incoming-connection.ts";
import { MessagePages } from "./message-batch.ts";
import { OutgoingConnection, type OutgoingOptions } from "./outgoing-connection.ts";
import { Registrar } from "./registrar.ts";
import { RemoteProcess, type RemoteProcessHost } from "./remote-process.ts";
import { Resender } from "./resender.ts";
import { SchedulerClient } from "./scheduler-client.ts";
import { PsCommand, type PsMeta } from "./wire/ps-meta.ts";
import { identityOf } from "./wire/zmtp.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";

const DIAL_DEADLINE_MS = 5000;
const HANDSHAKE_MS = 5000;
const STALL_MS = 5000;
const DEATH_MS_DEFAULT = 5000;
const ANONYMOUS_MAX = 1024;
const LOCAL_PORT_MIN = 10_000;
const LOCAL_PORT_COUNT = 40_000;
const LOCAL_BIND_TRIES = 40;

export class PsliteGateway implements Gateway, ConversationHost, IncomingHost, RemoteProcessHost {
  readonly joinRefusal: string =
    "speaks our own protocol, and this cluster ps-lite's: start it with --van zmq (DMLC_PS_VAN_TYPE=zmq), or all nodes without";
  readonly clock: Clock;
  readonly log: Log;
  readonly options: PsliteGatewayOptions;
  readonly resender: Resender | undefined;
  /** 0 before the scheduler has given us one. */
  selfId: number;
  /** We are done: connections that end now are nobody's worry. */
  isLeaving = false;
  readonly #pages = new MessagePages();
  readonly #random: Random;
  readonly #processes = new Map<string, RemoteProcess>();
  readonly #conversations = new Map<number, Conversation>();
  /** IncomingConnections whose message is not complete, by conversation (I3). */
  readonly #busy = new Map<Conversation, IncomingConnection>();
  readonly #incoming = new Set<IncomingConnection>();
  /** IncomingConnections that hold up another (V6), and conversations whose incoming our own node has told to wait. */
  readonly #watched = new Set<IncomingConnection>();
  readonly #paused = new Set<Conversation>();
  readonly #registrar: Registrar | undefined;
  readonly #scheduler: SchedulerClient | undefined;
  /** Which start of the scheduler its conversation is with; undefined: one of ps-lite, which does not say. */
  #schedulerIncarnation: number | undefined;
  #peer: GatewayHost | undefined;
  #timestamp = 0;
  #isClosed = false;

  constructor(options: PsliteGatewayOptions) {
    this.options = options;
    this.clock = options.clock;
    this.log = options.log;
    this.#random = new Random(options.seed ?? 1);
    const { role, resendTimeoutMs = 0, clock, log } = options;
    this.selfId = role === "scheduler" ? SCHEDULER_ID : 0;
    if (resendTimeoutMs > 0) this.resender = new Resender({ clock, log, timeoutMs: resendTimeoutMs, selfId: () => this.selfId });
    if (role === "scheduler") this.#registrar = new Registrar(this);
    else this.#scheduler = new SchedulerClient(this);
  }

  // Gateway

  attach(host: GatewayHost): void {
    assert(this.#peer === undefined, "a gateway is one peer's");
    this.#peer = host;
  }

  get peer(): GatewayHost {
    assert(this.#peer !== undefined, "attach comes first");
    return this.#peer;
  }

  async listen(address: Address): Promise<Listener> {
    const { hostname, port } = hostPortOf(address);
    const { transport } = this.options;
    const take = (link: Link): LinkReader => this.#takeLink(link);
    for (let tryCount = 1; ; tryCount++) {
      const chosen = this.options.isLocal === true && port === 0 ? LOCAL_PORT_MIN + Math.floor(freshRandom() * LOCAL_PORT_COUNT) : port;
      try {
        const listener = await transport.listen(this.physical({ hostname, port: chosen }), take);
        const bound = this.options.isLocal === true ? chosen : hostPortOf(listener.address).port;
        return { address: formatHostPort({ hostname, port: bound }), close: () => this.#close(listener) };
      } catch (thrown) {
        if (chosen === port || tryCount >= LOCAL_BIND_TRIES) throw thrown;
      }
    }
  }

  async connect(address: Address, opened: (connection: PeerConnection) => void): Promise<void> {
    const { schedulerAddress } = this.options;
    const hostPort = hostPortOf(address);
    const isScheduler = address === schedulerAddress;
    if (!isScheduler && this.#scheduler?.conversationAt(hostPort) === undefined) throw noRoute(address);
    const process = this.processAt(hostPort);
    await process.dial();
    const conversation = isScheduler ? this.#schedulerConversation(process) : this.#scheduler?.conversationAt(hostPort);
    if (conversation === undefined) throw noRoute(address);
    conversation.open(opened);
    for (const incoming of this.#incoming) if (incoming.conversation === conversation) this.clock.soon(() => incoming.goOn());
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

  processAt(hostPort: HostPort): RemoteProcess {
    const key = keyOf(hostPort);
    let process = this.#processes.get(key);
    if (process === undefined) {
      process = new RemoteProcess(this, hostPort);
      this.#processes.set(key, process);
    }
    return process;
  }

  /** The process is another process now, or none. */
  forgetProcess(process: RemoteProcess): void {
    if (this.#processes.get(keyOf(process)) === process) this.#processes.delete(keyOf(process));
    process.disconnect(true);
    for (const conversation of process.conversations.values()) this.forgetConversation(conversation);
  }

  conversationOf(node: number): Conversation | undefined {
    return this.#conversations.get(node);
  }

  addConversation(conversation: Conversation): void {
    this.#conversations.set(conversation.node, conversation);
    for (const incoming of this.#incoming) if (incoming.node === conversation.node) this.#assign(incoming, conversation);
  }

  forgetConversation(conversation: Conversation): void {
    if (this.#conversations.get(conversation.node) === conversation) this.#conversations.delete(conversation.node);
    this.#paused.delete(conversation);
    this.resender?.forget(conversation);
    conversation.break(undefined);
  }

  /** Opens a link as if the node had dialed us. */
  accept(conversation: Conversation): void {
    if (this.#isClosed || conversation.isLinked) return;
    try {
      conversation.open();
    } catch (thrown) {
      this.log.debug("a link was not accepted", { node: conversation.name, reason: String(thrown) });
    }
  }

  /** Where a node at this place listens (V1). */
  physical({ hostname, port }: HostPort): Address {
    return this.options.isLocal === true ? `unix:///tmp/${port}` : formatHostPort({ hostname, port });
  }

  get deathMs(): number {
    const { heartbeatTimeoutMs = 0 } = this.options;
    return heartbeatTimeoutMs > 0 ? heartbeatTimeoutMs : DEATH_MS_DEFAULT;
  }

  // IncomingHost, and RemoteProcessHost

  get incarnation(): number | undefined {
    return this.options.role === "scheduler" ? (this.options.incarnation ?? 1) : undefined;
  }

  newOutgoing(process: RemoteProcess, options: Pick<OutgoingOptions, "up" | "down" | "delayMs">): OutgoingConnection {
    const { transport } = this.options;
    const address = this.physical(process);
    return new OutgoingConnection({
      transport,
      clock: this.clock,
      pages: this.#pages,
      address,
      identity: identityOf(this.selfId),
      deadlineMs: DIAL_DEADLINE_MS,
      ...options,
    });
  }

  connected(process: RemoteProcess): void {
    this.#registrar?.present(process);
    this.#scheduler?.present(process);
    const conversation = this.#conversations.get(SCHEDULER_ID);
    const isReplaced =
      conversation !== undefined && conversation === process.primary && process.outgoing?.incarnation !== this.#schedulerIncarnation;
    if (isReplaced) conversation.break(undefined); // our peer dials, and finds the other one (V5)
  }

  disconnected(process: RemoteProcess, cause: Error | undefined): void {
    if (this.#isClosed) return;
    if (!this.isLeaving)
      this.log.debug("a connection is down", { to: keyOf(process), reason: cause?.message ?? "closed by the other side" });
    if (this.#scheduler === undefined && this.resender === undefined && !this.isLeaving)
      for (const conversation of process.conversations.values()) conversation.connectionBroke(cause); // what left on it may be lost: nobody waits for its answer
    this.#scheduler?.fell(process, cause);
  }

  gone(process: RemoteProcess): void {
    if (this.#isClosed) return;
    this.#registrar?.gone(process);
    this.#scheduler?.gone(process);
  }

  // ConversationHost

  unlinked(conversation: Conversation, isAbrupt: boolean): void {
    const busy = this.#busy.get(conversation);
    if (busy !== undefined) busy.link.destroy(); // its bytes may be landing in memory that is somebody else's now
    this.#scheduler?.unlinked(conversation, isAbrupt);
  }

  pauseIncoming(conversation: Conversation, isPaused: boolean): void {
    if (isPaused) this.#paused.add(conversation);
    else this.#paused.delete(conversation);
    for (const incoming of this.#incoming) {
      if (incoming.conversation !== conversation) continue;
      if (isPaused) incoming.link.pause();
      else incoming.resume();
    }
  }

  whenReady(conversation: Conversation, send: () => void): void {
    if (this.#registrar === undefined) this.#scheduler?.whenReady(send);
    else this.#registrar.whenReady(conversation, send);
  }

  // IncomingHost

  opened(incoming: IncomingConnection): void {
    const conversation = this.#conversations.get(incoming.node);
    if (conversation === undefined) return;
    this.#assign(incoming, conversation);
    this.#registrar?.called(conversation);
    this.#scheduler?.called(conversation);
  }

  mayTake(incoming: IncomingConnection): boolean {
    const { node } = incoming;
    if (node === 0) return true;
    const { conversation } = incoming;
    if (conversation === undefined) {
      if (this.#registrar !== undefined) return true; // it may register (V2)
      if (this.selfId === 0) return false; // the scheduler's list, which tells us who that is, is on its way
      throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job`);
    }
    if (!conversation.isLinked && this.#isAccepted(conversation)) this.accept(conversation);
    if (!conversation.isLinked) return false; // until our peer has dialed it
    if (this.#paused.has(conversation)) return false; // what was read already waits, too
    const busy = this.#busy.get(conversation);
    if (busy === undefined || busy === incoming) return true;
    this.#watch(conversation, busy);
    return false; // I3
  }

  /** V6 */
  #watch(conversation: Conversation, busy: IncomingConnection): void {
    if (this.#watched.has(busy)) return;
    this.#watched.add(busy);
    const { byteCount } = busy;
    this.clock.after(STALL_MS, () => {
      this.#watched.delete(busy);
      if (this.#busy.get(conversation) !== busy || this.#isClosed) return;
      if (busy.byteCount !== byteCount || this.#paused.has(conversation)) this.#watch(conversation, busy);
      else
        busy.cutOff(
          new WeighbridgeError(
            "DEADLINE",
            `nothing came for ${STALL_MS} ms inside a message, and ${conversation.name} has another connection`,
          ),
        );
    });
  }

  longMessage(incoming: IncomingConnection): void {
    for (const other of this.#incoming)
      if (other !== incoming && other.conversation === incoming.conversation && other.isLong)
        other.cutOff(new WeighbridgeError("BAD_REQUEST", "its node sends a long message on another connection"));
  }

  message(incoming: IncomingConnection, meta: PsMeta, hasParts: boolean): PartSink | undefined {
    const { conversation } = incoming;
    if (conversation === undefined) {
      this.#takeAnonymous(incoming, meta);
      return undefined;
    }
    if (hasParts) this.#busy.set(conversation, incoming);
    if (this.#isDropped(meta) || this.resender?.isLeftOut(meta, conversation) === true) return undefined;
    if (hasParts) incoming.isAcknowledgeDue = true;
    else this.resender?.taken(meta, conversation);
    return conversation.message(meta, hasParts);
  }

  messageArrived(incoming: IncomingConnection): void {
    const { conversation } = incoming;
    if (incoming.isAcknowledgeDue && conversation !== undefined) this.resender?.taken(incoming.meta, conversation);
    incoming.isAcknowledgeDue = false;
  }

  messageEnded(incoming: IncomingConnection): void {
    const { conversation } = incoming;
    if (conversation === undefined || this.#busy.get(conversation) !== incoming) return;
    this.#busy.delete(conversation);
    this.messageArrived(incoming);
    for (const other of this.#incoming) if (other !== incoming && other.conversation === conversation) this.clock.soon(() => other.goOn());
  }

  closedIncoming(incoming: IncomingConnection, cause: Error | undefined): void {
    this.#incoming.delete(incoming);
    const { conversation, node } = incoming;
    if (cause !== undefined && !this.isLeaving && !this.#isClosed) {
      const isStrange = cause instanceof WeighbridgeError;
      this.log[isStrange ? "warn" : "debug"]("a connection ended", {
        remote: incoming.link.remote,
        node: identityOf(node),
        reason: cause.message,
      });
    }
    if (conversation !== undefined && this.#busy.get(conversation) === incoming) {
      this.#busy.delete(conversation);
      if (conversation.payload.isInside) this.#brokeInside(conversation, cause);
      else conversation.requests.interrupted();
      for (const other of this.#incoming) if (other.conversation === conversation) this.clock.soon(() => other.goOn());
    }
    if (conversation === undefined) this.#registrar?.anonymousClosed(incoming);
    else {
      this.#answersLost(conversation, cause);
      this.#scheduler?.incomingBroke(conversation);
    }
    for (const process of this.#processes.values()) if (process.incoming.has(incoming)) process.closedIncoming(incoming);
  }

  /**
   * Answers of the node may have been on their way here: who waits for one must not wait for ever. With PS_RESEND they
   * come again.
   */
  #answersLost(conversation: Conversation, cause: Error | undefined): void {
    if (this.resender !== undefined || this.isLeaving || this.#isClosed) return;
    for (const other of this.#incoming) if (other.conversation === conversation) return;
    conversation.connectionBroke(cause);
  }

  /** A message ended in the middle: the frame that was made of it cannot be finished. */
  #brokeInside(conversation: Conversation, cause: Error | undefined): void {
    conversation.break(cause ?? new WeighbridgeError("BAD_FRAME", `${conversation.name} closed its connection inside a message`));
  }

  #takeLink(link: Link): LinkReader {
    let anonymousCount = 0;
    for (const { conversation } of this.#incoming) if (conversation === undefined) anonymousCount++;
    // V3.
    if (anonymousCount >= ANONYMOUS_MAX)
      throw new WeighbridgeError("QUEUE_FULL", `${anonymousCount} connections without a node are open already`);
    if (this.options.role !== "scheduler") return this.#newIncoming(link);
    const readerFor = (isZmtp: boolean): LinkReader => (isZmtp ? this.#newIncoming(link) : this.peer.acceptLink(link));
    return new FirstByte(this.clock, HANDSHAKE_MS, () => link.destroy(), readerFor);
  }

  #newIncoming(link: Link): IncomingConnection {
    const incoming = new IncomingConnection(this, link, HANDSHAKE_MS);
    this.#incoming.add(incoming);
    return incoming;
  }

  /** V2 */
  #takeAnonymous(incoming: IncomingConnection, meta: PsMeta): void {
    const { node } = incoming;
    const isRegistration = meta.command === PsCommand.ADD_NODE && this.#registrar !== undefined;
    if (!isRegistration && node !== 0)
      throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job: if an earlier scheduler had one, stop it`);
    if (!isRegistration)
      throw new WeighbridgeError(
        "BAD_REQUEST",
        `a message of a node without an id, which may only register with the scheduler: ${meta.toString()}`,
      );
    this.#registrar?.addNode(incoming, meta);
  }

  #assign(incoming: IncomingConnection, conversation: Conversation): void {
    incoming.conversation = conversation;
    for (const process of this.#processes.values())
      if ([...process.conversations.values()].includes(conversation)) {
        process.incoming.add(incoming);
        this.#registrar?.present(process);
      }
    this.clock.soon(() => incoming.goOn());
  }

  /** Whether this node would dial us, were it one of ours. */
  #isAccepted(conversation: Conversation): boolean {
    return conversation.node !== SCHEDULER_ID && this.options.role !== "worker";
  }

  /**
   * The conversation of the scheduler that is there now, another one for another incarnation. Throws NO_ROUTE when that one
   * cannot take the job over (V5).
   */
  #schedulerConversation(process: RemoteProcess): Conversation {
    const known = this.#conversations.get(SCHEDULER_ID);
    const incarnation = process.outgoing?.incarnation;
    if (known !== undefined && incarnation === this.#schedulerIncarnation) return known;
    if (known !== undefined && this.selfId !== 0) {
      process.disconnect(false);
      throw new WeighbridgeError("NO_ROUTE", "the one that is there now was started later, and does not know this job", {
        retryable: true,
      });
    }
    if (known !== undefined) this.forgetConversation(known);
    this.#schedulerIncarnation = incarnation;
    const conversation = new Conversation(this, { node: SCHEDULER_ID, incarnation: incarnation ?? 1, remote: formatHostPort(process) });
    conversation.control = this.#scheduler;
    this.#scheduler?.useConversation(conversation);
    process.addConversation(0, conversation);
    this.addConversation(conversation);
    return conversation;
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
    for (const process of this.#processes.values()) process.disconnect(false);
    for (const incoming of [...this.#incoming]) incoming.link.close();
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
