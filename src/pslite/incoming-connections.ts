// incoming-connections — the connections that other nodes made to us: the conversation of each, which of them may be
// read now, and what is lost when one ends. incoming-connection.ts reads one of them; conversation.ts handles its
// messages, registration-service.ts a registration.
//
// Invariants:
//   IncomingConnections.Y1. A message belongs to the conversation that its connection's identity names; a node that is
//       not known here may register, and nothing else.
//   IncomingConnections.Y2. At most ANONYMOUS_MAX connections without a node are open.
//   IncomingConnections.Y3. A connection that stops inside a message for STALL_MS yields to the next one of its node:
//       the other end may be gone silently.
//   IncomingConnections.Y4. No bytes are read into the memory of a link that ended: the connection that was inside a
//       message then is ended, too.
//   IncomingConnections.Y5. A pause ends with the link whose channel requested it: nobody else would end it.

import { badRequest, WeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import type { Link, LinkReader } from "../transport/transport.ts";
import type { Conversation } from "./conversation.ts";
import { FirstByte } from "./first-byte.ts";
import type { PsliteGateway } from "./gateway.ts";
import { IncomingConnection, type IncomingHost } from "./incoming-connection.ts";
import type { RegistrationService } from "./registration-service.ts";
import type { SchedulerClient } from "./scheduler-client.ts";
import { PsCommand, type PsMeta } from "./wire/ps-meta.ts";
import { identityOf } from "./wire/zmtp.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";

const HANDSHAKE_MS = 5000;
const STALL_MS = 5000;
const ANONYMOUS_MAX = 1024;

export class IncomingConnections implements IncomingHost {
  readonly #gateway: PsliteGateway;
  readonly #registrations: RegistrationService | undefined;
  readonly #scheduler: SchedulerClient | undefined;
  readonly #random: Random;
  readonly #open = new Set<IncomingConnection>();
  /** Connections whose protocol is not known yet. */
  readonly #silent = new Set<Link>();
  /** Connections inside a message, by conversation (IncomingConnection.I3). */
  readonly #busy = new Map<Conversation, IncomingConnection>();
  /** Connections that hold up another (IncomingConnections.Y3). */
  readonly #watched = new Set<IncomingConnection>();
  /** Conversations whose messages our own node has paused. */
  readonly #paused = new Set<Conversation>();

  /** Our scheduler has a registration service, every other node a scheduler client. */
  constructor(gateway: PsliteGateway, registrations: RegistrationService | undefined, scheduler: SchedulerClient | undefined) {
    this.#gateway = gateway;
    this.#registrations = registrations;
    this.#scheduler = scheduler;
    this.#random = new Random(gateway.options.seed ?? 1);
  }

  get clock(): PsliteGateway["clock"] {
    return this.#gateway.clock;
  }

  get incarnation(): number | undefined {
    const { role, incarnation = 1 } = this.#gateway.options;
    return role === "scheduler" ? incarnation : undefined;
  }

  /** Another process connected. Throws QUEUE_FULL (IncomingConnections.Y2). */
  take(link: Link): LinkReader {
    let anonymousCount = this.#silent.size;
    for (const { conversation } of this.#open) if (conversation === undefined) anonymousCount++;
    if (anonymousCount >= ANONYMOUS_MAX)
      throw new WeighbridgeError("QUEUE_FULL", `${anonymousCount} connections without a node are open already`);
    if (this.#registrations === undefined) return this.#newIncoming(link);
    this.#silent.add(link);
    return new FirstByte(this.clock, HANDSHAKE_MS, {
      readerFor: (isZmtp) => {
        this.#silent.delete(link);
        return isZmtp ? this.#newIncoming(link) : this.#gateway.peer.acceptLink(link);
      },
      silent: () => link.destroy(),
      closed: () => this.#silent.delete(link),
    });
  }

  close(): void {
    for (const link of [...this.#silent]) link.destroy();
    for (const incoming of [...this.#open]) incoming.link.close();
  }

  // Conversations.

  /** A conversation with this node begins: its connections belong to it from now on. */
  addConversation(conversation: Conversation): void {
    for (const incoming of this.#open) if (incoming.node === conversation.node) this.#assign(incoming, conversation);
  }

  /** The conversation is over. */
  forgetConversation(conversation: Conversation): void {
    this.#busy.delete(conversation);
  }

  /** The scheduler's list has arrived: nodes that it does not name are refused (IncomingConnections.Y1). */
  listed(): void {
    for (const incoming of this.#open) if (incoming.conversation === undefined) this.clock.soon(() => incoming.goOn());
  }

  /** The conversation is linked with our peer: handles what waited for that. */
  linked(conversation: Conversation): void {
    for (const incoming of this.#open) if (incoming.conversation === conversation) this.clock.soon(() => incoming.goOn());
  }

  /** The link of the conversation with our peer ended (IncomingConnections.Y4, IncomingConnections.Y5). */
  unlinked(conversation: Conversation): void {
    this.#busy.get(conversation)?.link.destroy();
    if (this.#paused.has(conversation)) this.pause(conversation, false);
  }

  pause(conversation: Conversation, isPaused: boolean): void {
    if (isPaused) this.#paused.add(conversation);
    else this.#paused.delete(conversation);
    for (const incoming of this.#open) {
      if (incoming.conversation !== conversation) continue;
      if (isPaused) incoming.link.pause();
      else incoming.resume();
    }
  }

  // IncomingHost

  opened(incoming: IncomingConnection): void {
    const conversation = this.#gateway.conversationOf(incoming.node);
    if (conversation === undefined) return;
    this.#assign(incoming, conversation);
    this.#registrations?.called(conversation);
    this.#scheduler?.called(conversation);
  }

  mayTake(incoming: IncomingConnection): boolean {
    const { node } = incoming;
    if (node === 0) return true;
    const { conversation } = incoming;
    if (conversation === undefined) {
      if (this.#registrations !== undefined) return true; // it may register (IncomingConnections.Y1)
      if (this.#gateway.selfId === 0) return false; // the scheduler's list, which names that node, is on its way
      throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job`);
    }
    if (!conversation.isLinked && this.#gateway.isDialedBy(conversation)) this.#gateway.accept(conversation);
    if (!conversation.isLinked) return false; // until our peer has dialed it
    if (this.#paused.has(conversation)) return false; // what was read already waits, too
    const busy = this.#busy.get(conversation);
    if (busy === undefined || busy === incoming) return true;
    this.#watch(conversation, busy);
    return false; // IncomingConnection.I3
  }

  longMessage(incoming: IncomingConnection): void {
    for (const other of this.#open)
      if (other !== incoming && other.conversation === incoming.conversation && other.isLong)
        other.cutOff(badRequest("its node sends a long message on another connection"));
  }

  message(incoming: IncomingConnection, meta: PsMeta, hasParts: boolean): PartSink | undefined {
    const { conversation } = incoming;
    const { resender } = this.#gateway;
    if (conversation === undefined) {
      this.#takeAnonymous(incoming, meta);
      return undefined;
    }
    if (hasParts) this.#busy.set(conversation, incoming);
    if (this.#isDropped(meta) || resender?.isLeftOut(meta, conversation) === true) return undefined;
    if (hasParts) incoming.isAcknowledgeDue = true;
    else resender?.taken(meta, conversation);
    return conversation.message(meta, hasParts);
  }

  messageArrived(incoming: IncomingConnection): void {
    const { conversation } = incoming;
    if (incoming.isAcknowledgeDue && conversation !== undefined) this.#gateway.resender?.taken(incoming.meta, conversation);
    incoming.isAcknowledgeDue = false;
  }

  messageEnded(incoming: IncomingConnection): void {
    const { conversation } = incoming;
    if (conversation === undefined || this.#busy.get(conversation) !== incoming) return;
    this.#busy.delete(conversation);
    this.messageArrived(incoming);
    for (const other of this.#open) if (other !== incoming && other.conversation === conversation) this.clock.soon(() => other.goOn());
  }

  closedIncoming(incoming: IncomingConnection, cause: Error | undefined): void {
    this.#open.delete(incoming);
    const { conversation } = incoming;
    if (cause !== undefined && !this.#gateway.isLeaving && !this.#gateway.isClosed) {
      const isStrange = cause instanceof WeighbridgeError;
      this.#gateway.log[isStrange ? "warn" : "debug"]("a connection ended", {
        remote: incoming.link.remote,
        node: identityOf(incoming.node),
        reason: cause.message,
      });
    }
    if (conversation !== undefined && this.#busy.get(conversation) === incoming) this.#brokeInside(conversation, cause);
    if (conversation === undefined) this.#registrations?.anonymousClosed(incoming);
    else {
      this.#answersLost(conversation, cause);
      this.#scheduler?.incomingBroke(conversation);
    }
    for (const process of this.#gateway.processes) if (process.incoming.has(incoming)) process.closedIncoming(incoming);
  }

  /** A connection ended inside a message: a frame that was being made of it cannot be finished. */
  #brokeInside(conversation: Conversation, cause: Error | undefined): void {
    this.#busy.delete(conversation);
    if (!conversation.payload.isInside) conversation.requests.interrupted();
    else conversation.break(cause ?? new WeighbridgeError("BAD_FRAME", `${conversation.name} closed its connection inside a message`));
    this.linked(conversation);
  }

  /** Answers may be lost: their requests fail, unless the node resends answers (PS_RESEND). */
  #answersLost(conversation: Conversation, cause: Error | undefined): void {
    const { resender, isLeaving, isClosed } = this.#gateway;
    if (resender !== undefined || isLeaving || isClosed) return;
    for (const other of this.#open) if (other.conversation === conversation) return;
    conversation.connectionBroke(cause);
  }

  /** IncomingConnections.Y3 */
  #watch(conversation: Conversation, busy: IncomingConnection): void {
    if (this.#watched.has(busy)) return;
    this.#watched.add(busy);
    const { byteCount } = busy;
    this.clock.after(STALL_MS, () => {
      this.#watched.delete(busy);
      if (this.#busy.get(conversation) !== busy || this.#gateway.isClosed) return;
      if (busy.byteCount !== byteCount || this.#paused.has(conversation)) this.#watch(conversation, busy);
      else {
        const message = `nothing came for ${STALL_MS} ms inside a message, and ${conversation.name} has another connection`;
        busy.cutOff(new WeighbridgeError("DEADLINE", message));
      }
    });
  }

  #newIncoming(link: Link): IncomingConnection {
    const incoming = new IncomingConnection(this, link, HANDSHAKE_MS);
    this.#open.add(incoming);
    return incoming;
  }

  /** IncomingConnections.Y1 */
  #takeAnonymous(incoming: IncomingConnection, meta: PsMeta): void {
    const { node } = incoming;
    const isRegistration = meta.command === PsCommand.ADD_NODE && this.#registrations !== undefined;
    if (!isRegistration && node !== 0)
      throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job: if an earlier scheduler had one, stop it`);
    if (!isRegistration)
      throw badRequest(`a message of a node without an id, which may only register with the scheduler: ${meta.toString()}`);
    this.#registrations?.addNode(incoming, meta);
  }

  #assign(incoming: IncomingConnection, conversation: Conversation): void {
    incoming.conversation = conversation;
    for (const process of this.#gateway.processes)
      if ([...process.conversations.values()].includes(conversation)) {
        process.incoming.add(incoming);
        this.#registrations?.present(process);
      }
    this.clock.soon(() => incoming.goOn());
  }

  /** PS_DROP_MSG. Lists are never resent (PS_RESEND), so they are never dropped. */
  #isDropped({ command }: PsMeta): boolean {
    const { dropPercent = 0 } = this.#gateway.options;
    if (command === PsCommand.ADD_NODE) return false;
    return dropPercent > 0 && this.#gateway.selfId !== 0 && this.#random.below(100) < dropPercent;
  }
}
