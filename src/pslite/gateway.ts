// gateway — the connections to nodes that speak ps-lite's protocol (docs/decisions/0038): it makes and accepts them,
// and knows the process and node behind each. incoming-connections.ts reads them, conversation.ts translates messages,
// registration-service.ts and scheduler-client.ts know which nodes there are.
//
//   connect(address) ──► an outgoing connection to the process there; its conversation links with the peer's channel
//   listen(address)  ──► incoming connections; nodes that would have dialed us are linked when they connect
//
// Invariants:
//   PsliteGateway.V1. A node is reached at exactly the host and port that it sent to the scheduler: that is how
//       ps-lite's nodes recognise themselves.
//   PsliteGateway.V2. A node that cannot be reached for `deathMs` is dead in our own roster: ps-lite's scheduler does
//       not report it.
//   PsliteGateway.V3. Our peer has a link with the scheduler that assigned our rank, and with no later start of it.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Gateway, GatewayHost, PeerConnection } from "../peer/gateway.ts";
import type { Address, Listener, Transport } from "../transport/transport.ts";
import { type Role, SCHEDULER_ID } from "../wire/node-id.ts";
import { Conversation, type ConversationHost } from "./conversation.ts";
import { formatHostPort, type HostPort, hostPortOf, keyOf } from "./host-port.ts";
import { IncomingConnections } from "./incoming-connections.ts";
import { MessagePages } from "./message-batch.ts";
import { OutgoingConnection, type OutgoingOptions } from "./outgoing-connection.ts";
import { PulledLists } from "./pulled-lists.ts";
import { RegistrationService } from "./registration-service.ts";
import { RemoteProcess, type RemoteProcessHost } from "./remote-process.ts";
import { Resender } from "./resender.ts";
import { SchedulerClient } from "./scheduler-client.ts";
import { EMPTY, PsCommand, PsMeta } from "./wire/ps-meta.ts";
import { identityOf } from "./wire/zmtp.ts";

const DIAL_DEADLINE_MS = 5000;
const DEATH_MS_DEFAULT = 5000;
const LOCAL_PORT_MIN = 10_000;
const LOCAL_PORT_COUNT = 40_000;
const LOCAL_BIND_TRIES = 40;

export class PsliteGateway implements Gateway, ConversationHost, RemoteProcessHost {
  readonly joinRefusal: string =
    "speaks our own protocol, and this cluster speaks ps-lite's: start it with --van zmq (DMLC_PS_VAN_TYPE=zmq), or all nodes without";
  readonly clock: Clock;
  readonly log: Log;
  readonly options: PsliteGatewayOptions;
  readonly resender: Resender | undefined;
  /** 0 before the scheduler has assigned one. */
  selfId: number;
  readonly lists: PulledLists = new PulledLists();
  /** We are done: connections that end now are no error. */
  isLeaving = false;
  readonly #pages = new MessagePages();
  readonly #processes = new Map<string, RemoteProcess>();
  readonly #conversations = new Map<number, Conversation>();
  readonly #incoming: IncomingConnections;
  readonly #registrations: RegistrationService | undefined;
  readonly #scheduler: SchedulerClient | undefined;
  /** Which start of the scheduler its conversation is with; undefined for ps-lite's, which does not say. */
  #schedulerIncarnation: number | undefined;
  #peer: GatewayHost | undefined;
  #timestamp = 0;
  #isClosed = false;

  constructor(options: PsliteGatewayOptions) {
    this.options = options;
    this.clock = options.clock;
    this.log = options.log;
    const { role, resendTimeoutMs = 0, clock, log } = options;
    this.selfId = role === "scheduler" ? SCHEDULER_ID : 0;
    if (resendTimeoutMs > 0) this.resender = new Resender({ clock, log, timeoutMs: resendTimeoutMs, selfId: () => this.selfId });
    if (role === "scheduler") this.#registrations = new RegistrationService(this);
    else this.#scheduler = new SchedulerClient(this);
    this.#incoming = new IncomingConnections(this, this.#registrations, this.#scheduler);
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
    for (let tryCount = 1; ; tryCount++) {
      const chosen = this.options.isLocal === true && port === 0 ? LOCAL_PORT_MIN + Math.floor(freshRandom() * LOCAL_PORT_COUNT) : port;
      try {
        const listener = await transport.listen(this.physical({ hostname, port: chosen }), (link) => this.#incoming.take(link));
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
    this.#incoming.linked(conversation);
  }

  /** All nodes are leaving: a node that closes its connections from now on has left. */
  leaving(): void {
    this.isLeaving = true;
    this.#registrations?.leaving();
  }

  /** Undefined: a scheduler that is restarted at its address takes the job over. */
  get schedulerLoss(): string | undefined {
    return this.#scheduler?.loss;
  }

  // For the registration service, the scheduler client and the incoming connections.

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get processes(): Iterable<RemoteProcess> {
    return this.#processes.values();
  }

  /** A control message of ours. */
  controlMeta(command: number, fields: Partial<PsMeta>): PsMeta {
    const meta = Object.assign(new PsMeta(), { command, timestamp: this.#timestamp++, ...fields });
    if (command === PsCommand.TERMINATE) {
      meta.customerId = 0;
      meta.timestamp = EMPTY;
    }
    return meta;
  }

  /** Whether the node of this conversation would dial us if it were ours: we open its link (`accept`). */
  isDialedBy({ node }: Conversation): boolean {
    return node !== SCHEDULER_ID && this.options.role !== "worker";
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

  /** Another process, or none, is at this address now. */
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
    this.#incoming.addConversation(conversation);
  }

  /** The scheduler's list has arrived. */
  listed(): void {
    this.#incoming.listed();
  }

  forgetConversation(conversation: Conversation): void {
    if (this.#conversations.get(conversation.node) === conversation) this.#conversations.delete(conversation.node);
    this.resender?.forget(conversation);
    conversation.break(undefined);
    this.#incoming.forgetConversation(conversation);
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

  /** The address of a node at this host and port (PsliteGateway.V1). */
  physical({ hostname, port }: HostPort): Address {
    return this.options.isLocal === true ? `unix:///tmp/${port}` : formatHostPort({ hostname, port });
  }

  get deathMs(): number {
    const { heartbeatTimeoutMs = 0 } = this.options;
    return heartbeatTimeoutMs > 0 ? heartbeatTimeoutMs : DEATH_MS_DEFAULT;
  }

  // RemoteProcessHost

  newOutgoing(process: RemoteProcess, options: Pick<OutgoingOptions, "up" | "down" | "delayMs">): OutgoingConnection {
    const { transport } = this.options;
    const address = this.physical(process);
    return new OutgoingConnection({
      transport,
      clock: this.clock,
      pages: this.#pages,
      address,
      identity: identityOf(this.selfId),
      timeoutMs: DIAL_DEADLINE_MS,
      ...options,
    });
  }

  connected(process: RemoteProcess): void {
    this.#registrations?.present(process);
    this.#scheduler?.present(process);
    const conversation = this.#conversations.get(SCHEDULER_ID);
    const isReplaced =
      conversation !== undefined && conversation === process.primary && process.outgoing?.incarnation !== this.#schedulerIncarnation;
    if (isReplaced) conversation.break(undefined); // our peer dials, and finds the other one (PsliteGateway.V3)
  }

  disconnected(process: RemoteProcess, cause: Error | undefined): void {
    if (this.#isClosed) return;
    if (!this.isLeaving)
      this.log.debug("a connection is down", { to: keyOf(process), reason: cause?.message ?? "closed by the other side" });
    this.#registrations?.fell(process, cause);
    this.#scheduler?.fell(process, cause);
  }

  gone(process: RemoteProcess): void {
    if (this.#isClosed) return;
    this.#registrations?.gone(process);
    this.#scheduler?.gone(process);
  }

  // ConversationHost

  unlinked(conversation: Conversation): void {
    this.#incoming.unlinked(conversation);
  }

  closedByChannel(conversation: Conversation, isAbrupt: boolean): void {
    this.#scheduler?.closedByChannel(conversation, isAbrupt);
  }

  pauseIncoming(conversation: Conversation, isPaused: boolean): void {
    this.#incoming.pause(conversation, isPaused);
  }

  whenReady(conversation: Conversation, send: () => void): void {
    if (this.#registrations === undefined) this.#scheduler?.whenReady(send);
    else this.#registrations.whenReady(conversation, send);
  }

  /**
   * The conversation of the current scheduler, a new one for a new incarnation. Throws NO_ROUTE if that one cannot take
   * the job over (PsliteGateway.V3).
   */
  #schedulerConversation(process: RemoteProcess): Conversation {
    const known = this.#conversations.get(SCHEDULER_ID);
    const incarnation = process.outgoing?.incarnation;
    if (known !== undefined && incarnation === this.#schedulerIncarnation) return known;
    if (known !== undefined && this.selfId !== 0) {
      process.disconnect(false);
      throw new WeighbridgeError("NO_ROUTE", "the scheduler at its address was started later, and does not know this job", {
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

  async #close(listener: Listener): Promise<void> {
    this.#isClosed = true;
    this.resender?.close();
    this.#registrations?.close();
    this.#scheduler?.close();
    for (const process of this.#processes.values()) process.disconnect(false);
    this.#incoming.close();
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

export type PsliteGatewayOptions = {
  /** Makes the connections. */
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Log;
  readonly role: Role;
  readonly serverCount: number;
  readonly workerCount: number;
  /** "tcp://host:port" of the scheduler, as all nodes have it. */
  readonly schedulerAddress: Address;
  /**
   * Of a scheduler: which start of it this is, higher than every earlier one, for instance the time of day. Defaults to
   * 1.
   */
  readonly incarnation?: number;
  /** True: unix sockets at /tmp/port instead of TCP (DMLC_LOCAL, ps-lite's ipc). */
  readonly isLocal?: boolean;
  /** How long a call waits at a scheduler that may have lost it. */
  readonly startTimeoutMs?: number;
  readonly heartbeatIntervalMs?: number;
  readonly heartbeatTimeoutMs?: number;
  /** 0: off (PS_RESEND, PS_RESEND_TIMEOUT). */
  readonly resendTimeoutMs?: number;
  /** Percentage of received messages to lose on purpose (PS_DROP_MSG). */
  readonly dropPercent?: number;
  readonly seed?: number;
};
