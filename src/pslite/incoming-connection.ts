// incoming-connection — one connection that another node made to us (its DEALER, our ROUTER): we receive messages on
// it, and send nothing but the handshake.
//
//   accepted ── greetings, READY both ways ──► open: messages ──► closed
//
// Invariants:
//   IncomingConnection.I1. A peer that does not send READY within `handshakeMs` is cut off.
//   IncomingConnection.I2. Bytes that are neither ZMTP nor a message of ps-lite end the connection, never the process.
//   IncomingConnection.I3. Messages for a conversation arrive one after the other: while another connection of the same
//       node is inside one, this one is held. A connection that has stopped inside a message and holds up another is
//       cut off (IncomingConnections.Y3).
//   IncomingConnection.I4. A message whose body is longer than BODY_BYTES_MAX is read without it, so that its sender
//       gets an error instead of waiting for an answer.
//   IncomingConnection.I5. A long body costs memory on one connection of a node at a time, the newest, and on none of a
//       process that is no node.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { asError, WeighbridgeError } from "../base/errors.ts";
import type { Link, LinkReader } from "../transport/transport.ts";
import { PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { wasAllInput } from "../wire/frame-reader.ts";
import { BODY_BYTES_MAX } from "../wire/simple-frame.ts";
import type { Conversation } from "./conversation.ts";
import { LongMeta } from "./long-meta.ts";
import { decodeMeta, PsMeta } from "./wire/ps-meta.ts";
import { isRawMeta, RAW_META_REFUSAL } from "./wire/raw-meta.ts";
import { badZmtp, decodeReady, encodeGreeting, encodePong, encodeReady, nodeOfIdentity } from "./wire/zmtp.ts";
import { type PartFate, type PartSink, ZmtpReader, type ZmtpSink } from "./wire/zmtp-reader.ts";

/** A body of SimpleApp, and the rest of a meta with room to spare. */
const META_BYTES_MAX = BODY_BYTES_MAX + 64 * 1024;
/** From a process that is no node of the job, and from a node on several connections at once. */
const SHORT_META_BYTES_MAX = PAYLOAD_BYTES_MAX + 64 * 1024;
const PARTS_MAX = 16;

export type IncomingHost = {
  readonly clock: Clock;
  /** Which start of our scheduler this is, as others learn it; undefined on other nodes. */
  readonly incarnation: number | undefined;
  /** The peer is a node of ps-lite, with this id (0: it has none yet). */
  opened(incoming: IncomingConnection): void;
  /** Whether the next message of this connection may be read now; otherwise it is held until `goOn`. */
  mayTake(incoming: IncomingConnection): boolean;
  /** A message with a long body begins. */
  longMessage(incoming: IncomingConnection): void;
  /** A message. Returns the sink of its further parts; undefined skips them. */
  message(incoming: IncomingConnection, meta: PsMeta, hasParts: boolean): PartSink | undefined;
  /** All of the message that `message` was called for has arrived. */
  messageArrived(incoming: IncomingConnection): void;
  /** It is handled. */
  messageEnded(incoming: IncomingConnection): void;
  closedIncoming(incoming: IncomingConnection, cause: Error | undefined): void;
};

export class IncomingConnection implements LinkReader {
  readonly link: Link;
  /** The sender; 0 until it is known, and for nodes without an id. */
  node = 0;
  isOpen = false;
  /** Inside the first part of a message with a long body. */
  isLong = false;
  /** Set by the host: the conversation of its messages. */
  conversation: Conversation | undefined;
  /** Set by the host: the current message is to be acknowledged when it is complete. */
  isAcknowledgeDue = false;
  /** Bytes received so far. */
  byteCount = 0;
  /** Of the current message, or the last one. */
  readonly meta: PsMeta = new PsMeta();
  readonly #host: IncomingHost;
  readonly #reader: ZmtpReader;
  readonly #cancelTimer: CancelTimer;
  #parts: PartSink | undefined;
  #isLast = true;
  #partLeft = 0;
  #viewBytes = 0;
  /** Inside a message that has further parts. */
  #isInside = false;
  /** Of the current message, while its first part arrives. */
  #longMeta: LongMeta | undefined;
  /** Whether the message has a long part, and whether we stay awake, if the link can: while such messages arrive. */
  #isStreamed = false;
  #isWakeful = false;
  #problem: WeighbridgeError | undefined;
  #isClosed = false;

  constructor(host: IncomingHost, link: Link, handshakeMs: number) {
    this.link = link;
    this.#host = host;
    this.#reader = new ZmtpReader(this.#sink());
    this.#cancelTimer = host.clock.after(handshakeMs, () =>
      this.cutOff(new WeighbridgeError("DEADLINE", `${link.remote} did not say who it is within ${handshakeMs} ms`)),
    );
    link.write([encodeGreeting("")], () => {});
  }

  /** Ends the connection, for this reason. */
  cutOff(problem: WeighbridgeError): void {
    this.#problem = problem;
    this.link.destroy();
  }

  /** Reads on, and handles what waited. */
  resume(): void {
    if (this.#reader.isHeld) this.#host.clock.soon(() => this.goOn());
    else this.link.resume();
  }

  /** Handles what waited. What arrived on a connection that has ended since is dropped: its end was reported. */
  goOn(): void {
    if (!this.#reader.isHeld || this.#isClosed) return;
    const channel = this.conversation?.channel;
    try {
      channel?.beginInput();
      this.#reader.goOn();
      if (!this.#reader.isHeld) this.link.resume();
    } catch (thrown) {
      this.cutOff(asError(thrown, "BAD_FRAME"));
    } finally {
      channel?.endInput(false);
    }
  }

  // LinkReader

  view(): Uint8Array {
    const view = this.#reader.view();
    this.#viewBytes = view.length;
    return view;
  }

  received(byteCount: number): void {
    this.byteCount += byteCount;
    const channel = this.conversation?.channel;
    channel?.beginInput();
    try {
      this.#reader.received(byteCount);
    } finally {
      channel?.endInput(wasAllInput(byteCount, this.#viewBytes));
    }
    if (this.#reader.isHeld) this.link.pause();
  }

  closed(cause: Error | undefined): void {
    this.#isClosed = true;
    this.#cancelTimer();
    this.#host.closedIncoming(this, this.#problem ?? cause);
  }

  #sink(): ZmtpSink {
    return {
      greeted: () => this.link.write([encodeReady("ROUTER", "", this.#host.incarnation)], () => {}),
      command: (name, body) => this.#command(name, body),
      mayBegin: () => this.#mayBegin(),
      begin: (index, byteCount, isLast) => this.#begin(index, byteCount, isLast),
      whole: (bytes, at, byteCount) => this.#whole(bytes, at, byteCount),
      view: (aheadBytes) => this.#partView(aheadBytes),
      streamed: (byteCount) => this.#streamed(byteCount),
    };
  }

  #command(name: string, body: Uint8Array): void {
    if (name === "PING") this.link.write([encodePong(body)], () => {});
    if (name === "ERROR") throw badZmtp(`the peer gave up: ${new TextDecoder().decode(body.subarray(1))}`);
    if (name !== "READY" || this.isOpen) return;
    const { socketType, identity } = decodeReady(body);
    if (socketType !== "DEALER") throw badZmtp(`the peer's socket is a ${socketType}, not a DEALER: this is no node of ps-lite`);
    this.node = nodeOfIdentity(identity);
    this.isOpen = true;
    this.#cancelTimer();
    this.#host.opened(this);
  }

  #mayBegin(): boolean {
    if (!this.isOpen) throw badZmtp("a message before READY");
    return this.#host.mayTake(this);
  }

  #begin(index: number, byteCount: number, isLast: boolean): PartFate {
    this.#isLast = isLast;
    this.#partLeft = byteCount;
    if (index === 0) {
      return this.#beginMeta(byteCount);
    }
    if (index >= PARTS_MAX) throw badZmtp(`a message of more than ${PARTS_MAX} parts`);
    const fate = this.#parts?.begin(index, byteCount, isLast) ?? "skip";
    if (fate === "stream") this.#isStreamed = true;
    if (fate === "skip" && isLast) this.#ended();
    return fate;
  }

  #beginMeta(byteCount: number): PartFate {
    this.isLong = byteCount > SHORT_META_BYTES_MAX;
    if (!this.isLong) return "whole";
    if (this.conversation === undefined) throw badZmtp(`a message that begins with ${byteCount} bytes`);
    this.#host.longMessage(this); // IncomingConnection.I5
    if (byteCount <= META_BYTES_MAX) return "whole";
    this.#longMeta = new LongMeta(byteCount); // IncomingConnection.I4
    return "stream";
  }

  #whole(bytes: Uint8Array, at: number, byteCount: number): void {
    if (this.#isInside) {
      if (this.#isLast) this.#host.messageArrived(this);
      this.#parts?.whole(bytes, at, byteCount);
      if (this.#isLast) this.#ended();
      return;
    }
    this.#readMeta(bytes, at, byteCount);
    this.#takeMeta();
  }

  #takeMeta(): void {
    this.isLong = false;
    this.#isInside = !this.#isLast;
    this.#parts = this.#host.message(this, this.meta, this.#isInside);
  }

  #readMeta(bytes: Uint8Array, at: number, byteCount: number): void {
    try {
      decodeMeta(bytes, at, at + byteCount, this.meta);
    } catch (thrown) {
      if (isRawMeta(bytes, at, byteCount)) throw new WeighbridgeError("UNSUPPORTED", RAW_META_REFUSAL, { cause: thrown });
      throw thrown;
    }
  }

  #partView(aheadBytes: number): Uint8Array {
    if (this.#longMeta !== undefined) return this.#longMeta.view();
    return this.#parts?.view(aheadBytes) ?? new Uint8Array(1024);
  }

  #streamed(byteCount: number): void {
    const longMeta = this.#longMeta;
    if (longMeta !== undefined) {
      if (!longMeta.streamed(byteCount)) return;
      this.#longMeta = undefined;
      longMeta.readInto(this.meta);
      this.#takeMeta();
      return;
    }
    this.#partLeft -= byteCount;
    this.#parts?.streamed(byteCount);
    if (this.#partLeft === 0 && this.#isLast) this.#ended();
  }

  #ended(): void {
    this.#isInside = false;
    this.#parts = undefined;
    if (this.#isWakeful !== this.#isStreamed) {
      this.#isWakeful = this.#isStreamed;
      this.link.setWakeful?.(this.#isWakeful);
    }
    this.#isStreamed = false;
    this.#host.messageEnded(this);
  }
}
