// conversation — the exchange of messages between this node and one node of ps-lite, behind that node's channel: our
// calls and answers leave as ps-lite messages, and its messages reach the channel as requests and answers.
// client-requests.ts translates our requests, served-requests.ts the node's, and a Control the control messages.
//
//      channel ── translating batch ──► conversation ──► outgoing connection
//      channel ◄── header, payload  ─── conversation ◄── incoming connections
//
// Invariants:
//   Conversation.E1. A conversation outlives its links with the channel: stamps of the node's updates keep rising.
//   Conversation.E2. A request of ours that left is never resent: ps-lite's nodes would apply it twice. It fails when
//       the connection breaks.
//   Conversation.E3. One incoming connection at a time is inside a message for a conversation.
//   Conversation.E4. The channel is never called from inside its own call: results of a call or an answer are delivered
//       after the current call stack.

import { joinBytes } from "../base/bytes.ts";
import type { Clock } from "../base/clock.ts";
import { unsupported, type WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { JsonContract } from "../contracts/contract.ts";
import type { Channel } from "../peer/channel.ts";
import type { GatewayHost, PeerConnection } from "../peer/gateway.ts";
import type { Link } from "../transport/transport.ts";
import { type Failure, toFailure } from "../wire/failure.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { nameOf } from "../wire/node-id.ts";
import { ClientRequests, lostError } from "./client-requests.ts";
import type { OutgoingConnection } from "./outgoing-connection.ts";
import { deliver, PayloadReader } from "./payload-reader.ts";
import type { PulledLists } from "./pulled-lists.ts";
import type { Resender } from "./resender.ts";
import { ServedRequests } from "./served-requests.ts";
import { type OutgoingFrame, TranslatingBatch } from "./translating-batch.ts";
import { PsMeta } from "./wire/ps-meta.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";

/** What the conversations of a gateway share. */
export type ConversationHost = {
  readonly clock: Clock;
  readonly log: Log;
  readonly peer: GatewayHost;
  /** Undefined: nothing is acknowledged or resent (PS_RESEND is off). */
  readonly resender: Resender | undefined;
  /** Our own node id; 0 before we have one. */
  readonly selfId: number;
  readonly lists: PulledLists;
  /** The link of this conversation ended, from either side. */
  unlinked(conversation: Conversation): void;
  /** The channel closed, or broke, its link with this conversation. */
  closedByChannel(conversation: Conversation, isAbrupt: boolean): void;
  pauseIncoming(conversation: Conversation, isPaused: boolean): void;
  /** Calls `send` now, or once that node accepts our requests. */
  whenReady(conversation: Conversation, send: () => void): void;
};

/** Translates the control messages with one node: the scheduler, or a node that is registered with ours. */
export type Control = {
  /** A control request of ours to that node. */
  request(frame: OutgoingFrame): void;
  /** A control message of that node. */
  message(meta: PsMeta): void;
};

/** Waits for the answer to a request of the node. Returns true after its last frame. */
export type Awaiting = { answer(frame: OutgoingFrame): boolean };

export class Conversation {
  readonly host: ConversationHost;
  /** The other node; 0 while it has no id. */
  node: number;
  incarnation: number;
  /** Its address, for people. */
  readonly remote: string;
  outgoing: OutgoingConnection | undefined;
  control: Control | undefined;
  readonly requests: ClientRequests;
  readonly served: ServedRequests;
  readonly payload: PayloadReader = new PayloadReader();
  /** For messages of ours. Reused. */
  readonly meta: PsMeta = new PsMeta();
  /** For what the channel gets. Reused. */
  readonly header: FrameHeader = new FrameHeader();
  #link: ConversationLink | undefined;
  #nextRequest = 1;
  #stamp = 0;
  readonly #awaiting = new Map<number, Awaiting>();
  #oldest = 1;

  constructor(host: ConversationHost, options: { readonly node: number; readonly incarnation: number; readonly remote: string }) {
    this.host = host;
    this.node = options.node;
    this.incarnation = options.incarnation;
    this.remote = options.remote;
    this.requests = new ClientRequests(this);
    this.served = new ServedRequests(this);
  }

  get name(): string {
    return nameOf(this.node);
  }

  get isLinked(): boolean {
    return this.#link !== undefined;
  }

  /** Undefined while the channel has no link with this conversation. */
  get channel(): Channel | undefined {
    return this.#link?.channel;
  }

  // The link with the channel.

  /** Links the channel of this node with the conversation, after `opened`. Throws if our node refuses the other one. */
  open(opened: (connection: PeerConnection) => void = () => {}): void {
    const link = new ConversationLink(this);
    opened(link);
    const channel = this.host.peer.adopt(link, this.node, this.incarnation);
    link.channel = channel;
    this.#link = link;
    this.#nextRequest = channel.expects;
    this.#oldest = this.#nextRequest;
    this.payload.open(channel, this.host.peer.readBuffers);
    channel.attach(link, false, new TranslatingBatch(this, this.host.peer.pages));
  }

  /** Ends the link as if a connection had broken. */
  break(cause: Error | undefined): void {
    const link = this.#link;
    if (link === undefined) return;
    this.host.clock.soon(() => link.ended(cause)); // before the next link, which `unlinked` may create
    this.#forgetLink();
  }

  /** For the link: the channel closed it. */
  closed(link: ConversationLink, isAbrupt: boolean): void {
    if (this.#link !== link) return;
    const isInside = this.payload.isInside;
    this.host.clock.soon(() => link.ended(undefined));
    this.#forgetLink();
    this.host.closedByChannel(this, isAbrupt || isInside);
  }

  /** For the link: the channel pauses or resumes what it reads from it. */
  pause(link: ConversationLink, isPaused: boolean): void {
    if (this.#link === link) this.host.pauseIncoming(this, isPaused);
  }

  #forgetLink(): void {
    this.requests.forget();
    this.served.unlinked();
    this.payload.close();
    this.#link = undefined;
    this.#awaiting.clear();
    this.host.unlinked(this);
  }

  /** For the link: writes what the batch made of frames. */
  write(link: ConversationLink, chunks: readonly Uint8Array[], flushed: () => void): void {
    const { clock, resender } = this.host;
    if (this.#link !== link || this.outgoing === undefined) clock.soon(flushed);
    else if (resender === undefined) this.outgoing.write(chunks, flushed);
    else this.outgoing.write(chunks, () => resender.whenRoom(this, flushed));
  }

  // What leaves.

  /** The channel sends a request or an answer. */
  send(frame: OutgoingFrame): void {
    const { header } = frame;
    if (header.kind === Kind.REQUEST) this.#sendRequest(frame);
    else {
      const awaiting = this.#awaiting.get(header.request);
      if (awaiting?.answer(frame) === true) this.#awaiting.delete(header.request);
    }
  }

  #sendRequest(frame: OutgoingFrame): void {
    const { header } = frame;
    if (header.functionId >= FunctionId.SIMPLE) this.requests.take(frame);
    else if (this.control === undefined) this.fail(header.request, unsupported(`${this.name} has no control messages for this node`));
    else this.control.request(frame);
  }

  /** The message in the batch of the outgoing connection is complete. */
  endMessage(meta: PsMeta): void {
    this.host.resender?.sent(meta, this);
  }

  /** Sends a message of one part, after the current call stack. */
  sendMessage(meta: PsMeta): void {
    if (this.outgoing === undefined) return;
    this.outgoing.batch.meta(meta, true);
    this.endMessage(meta);
    if (this.host.resender === undefined) this.outgoing.flushSoon();
    else this.outgoing.flush(); // these are copies: no caller's memory waits for them
  }

  // What comes.

  /** A message of the node arrived. Returns a sink for its further parts, undefined to skip them. */
  message(meta: PsMeta, hasParts: boolean): PartSink | undefined {
    if (meta.command !== 0) {
      this.control?.message(meta);
      return undefined;
    }
    if (this.#link === undefined) return undefined;
    return meta.request ? this.served.take(meta, hasParts) : this.requests.response(meta, hasParts);
  }

  /** Fills the header of a request of the node; the caller passes it to the channel with its payload. */
  requestHeader(functionId: number, isUpdate: boolean, awaiting: Awaiting): FrameHeader {
    const { header } = this;
    const request = this.#nextRequest++;
    this.#awaiting.set(request, awaiting);
    while (this.#oldest < request && !this.#awaiting.has(this.#oldest)) this.#oldest++;
    header.reset(Kind.REQUEST, functionId);
    header.request = request;
    header.settled = this.#oldest;
    if (isUpdate) header.stamp = ++this.#stamp;
    return header;
  }

  /** Calls a control function of our own node on behalf of the other one. */
  serveControl<Q, R>(
    fn: JsonContract<Q, R>,
    request: Q,
    answered: (reply: R) => void = () => {},
    failed: (failure: Failure) => void = () => {},
  ): void {
    const { channel } = this;
    if (channel === undefined) return;
    const isOpen = (): boolean => this.channel === channel;
    const serve = async (): Promise<void> => {
      if (!isOpen()) return;
      try {
        const reply = await this.host.peer.serveControl(channel, fn, request);
        if (isOpen()) answered(reply);
      } catch (thrown) {
        if (isOpen()) failed(toFailure(thrown));
      }
    };
    this.host.clock.soon(() => void serve());
  }

  /** Answers a request of ours (Conversation.E4). */
  answer<R>(fn: JsonContract<unknown, R>, request: number, body: R): void {
    this.#soon((channel) => {
      const payload = joinBytes(fn.response.encode({ body }).chunks);
      const { header } = this;
      header.reset(Kind.REPLY, fn.id);
      header.request = request;
      header.payloadBytes = payload.length;
      header.arg0 = payload.length;
      deliver(channel, header, payload);
    });
  }

  /** Fails a request of ours (Conversation.E4). */
  fail(request: number, error: WeighbridgeError): void {
    const failure = toFailure(error);
    this.#soon((channel) => channel.failCall(request, failure));
  }

  /**
   * Calls `run` after the current call stack, if the channel's link is still the same: request numbers start again with
   * the next.
   */
  #soon(run: (channel: Channel) => void): void {
    const { channel } = this;
    if (channel === undefined) return;
    const number = channel.conversation;
    this.host.clock.soon(() => {
      if (channel.conversation === number) run(channel);
    });
  }

  /** A connection is gone: requests that left on it fail (Conversation.E2). */
  connectionBroke(cause: Error | undefined): void {
    const why = cause === undefined ? "closed its connection" : `cannot be reached (${cause.message})`;
    this.requests.fail(lostError(`${this.name} ${why}`));
  }
}

/** The link as the channel sees it, and the connection as the peer does; a new one each time they are linked. */
class ConversationLink implements Link, PeerConnection {
  readonly remote: string;
  readonly link: Link = this;
  channel: Channel | undefined;
  readonly #conversation: Conversation;

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
    this.remote = conversation.remote;
  }

  /** Nothing is sent or received over this link any more. */
  ended(cause: Error | undefined): void {
    const { peer } = this.#conversation.host;
    if (cause !== undefined) peer.metrics.linksBroken++;
    this.channel?.detach(this);
    peer.ended(this, cause);
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    this.#conversation.write(this, chunks, flushed);
  }

  pause(): void {
    this.#conversation.pause(this, true);
  }

  resume(): void {
    this.#conversation.pause(this, false);
  }

  close(): void {
    this.#conversation.closed(this, false);
  }

  destroy(): void {
    this.#conversation.closed(this, true);
  }
}
