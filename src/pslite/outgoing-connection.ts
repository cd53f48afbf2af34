// outgoing-connection — our connection to one ps-lite node (our DEALER): we send messages on it, and receive nothing
// but the handshake. What is sent before the handshake is done waits for it.
//
//   pending ── delayMs ──► dialing ── connected, greeted, READY both ways ──► up ──► down
//
// Invariants:
//   OutgoingConnection.L1. `down` is called once: when the connection broke, or could not be made. An outgoing
//       connection never comes back; its owner makes another one.
//   OutgoingConnection.L2. `flushed` is called once for each `flush`: when its messages have left, or never will.
//   OutgoingConnection.L3. A peer that accepts the connection and does not send READY within `timeoutMs` counts as
//       absent: the system of a stopped process still accepts connections.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { unsupported, WeighbridgeError } from "../base/errors.ts";
import type { Address, Link, LinkReader, Transport } from "../transport/transport.ts";
import { MessageBatch, type MessagePages } from "./message-batch.ts";
import { badZmtp, decodeReady, encodeGreeting, encodeReady } from "./wire/zmtp.ts";
import { ZmtpReader, type ZmtpSink } from "./wire/zmtp-reader.ts";

export type OutgoingOptions = {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly pages: MessagePages;
  /** Where the node listens. */
  readonly address: Address;
  /** Our identity; "" before we have an id. */
  readonly identity: string;
  /** For the connection, and once more for the handshake. */
  readonly timeoutMs: number;
  /** How long it waits before it dials; what is sent meanwhile waits, too. */
  readonly delayMs: number;
  readonly up: (outgoing: OutgoingConnection) => void;
  readonly down: (outgoing: OutgoingConnection, cause: Error | undefined) => void;
};

type Waiting = { readonly chunks: readonly Uint8Array[]; readonly flushed: () => void };

export class OutgoingConnection implements LinkReader {
  /** What leaves with the next `flush`. */
  readonly batch: MessageBatch;
  readonly #options: OutgoingOptions;
  readonly #reader: ZmtpReader;
  #link: Link | undefined;
  #isUp = false;
  #wasUp = false;
  #isDown = false;
  #isClosing = false;
  #isFlushDue = false;
  #isPending = true;
  #cancelDial: CancelTimer = () => {};
  #cancelHandshake: CancelTimer = () => {};
  #waiting: Waiting[] = [];
  #problem: WeighbridgeError | undefined;
  #incarnation: number | undefined;

  constructor(options: OutgoingOptions) {
    this.#options = options;
    this.batch = new MessageBatch(options.pages);
    this.#reader = new ZmtpReader(this.#sink());
    if (options.delayMs === 0) this.#dial();
    else this.#cancelDial = options.clock.after(options.delayMs, () => this.#dial());
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** It has been up. */
  get wasUp(): boolean {
    return this.#wasUp;
  }

  /** Which start of our scheduler is at the other end, once it was up; undefined for any other node. */
  get incarnation(): number | undefined {
    return this.#incarnation;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** It has not begun to dial. */
  get isPending(): boolean {
    return this.#isPending;
  }

  /** Sends what the batch holds after the current call stack, unless somebody takes it before. */
  flushSoon(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    this.#options.clock.soon(() => {
      this.#isFlushDue = false;
      this.flush();
    });
  }

  flush(): void {
    const taken = this.batch.take();
    this.write(taken.chunks, () => taken.release());
  }

  /** Sends these bytes, which were taken out of the batch. */
  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    if (chunks.length === 0 || this.#isDown) this.#options.clock.soon(flushed);
    else if (this.#isUp) this.#link?.write(chunks, flushed);
    else this.#waiting.push({ chunks, flushed });
  }

  /** Sends bytes that do not change, after what the batch holds. */
  writeAgain(chunks: readonly Uint8Array[]): void {
    this.flush();
    this.write(chunks, () => {});
  }

  /** Ends the connection after everything has left; while it is being made, once that is done. */
  close(): void {
    this.flush();
    this.#isClosing = true;
    if (this.#isUp || this.#waiting.length === 0) this.#link?.close();
    if (this.#link === undefined && this.#waiting.length === 0) this.#fell(undefined);
  }

  /** Ends the connection now. */
  destroy(): void {
    this.#isClosing = true;
    this.#link?.destroy();
    if (this.#link === undefined) this.#fell(undefined);
  }

  // LinkReader

  view(): Uint8Array {
    return this.#reader.view();
  }

  received(byteCount: number): void {
    this.#reader.received(byteCount);
  }

  closed(cause: Error | undefined): void {
    this.#fell(this.#problem ?? cause);
  }

  #dial(): void {
    this.#isPending = false;
    const { transport, address, timeoutMs, identity } = this.#options;
    const open = (link: Link): LinkReader => {
      if (this.#isDown) throw new WeighbridgeError("CLOSED", "the connection was closed before it was open");
      this.#link = link;
      link.write([encodeGreeting(identity)], () => {});
      // OutgoingConnection.L3
      this.#cancelHandshake = this.#options.clock.after(timeoutMs, () => this.#stayedSilent(link));
      return this;
    };
    transport.connect(address, open, { timeoutMs }).catch((error: Error) => this.#fell(error));
  }

  #stayedSilent(link: Link): void {
    const message = `${link.remote} took the connection, but did not greet within ${this.#options.timeoutMs} ms: is it a node of ps-lite, and does it run?`;
    this.#problem = new WeighbridgeError("DEADLINE", message, { retryable: true });
    link.destroy();
  }

  #sink(): ZmtpSink {
    return {
      greeted: () => this.#link?.write([encodeReady("DEALER", this.#options.identity)], () => {}),
      command: (name, body) => this.#command(name, body),
      mayBegin: () => true,
      begin: () => this.#refuse(),
      whole: () => this.#refuse(),
      view: () => this.#refuse(),
      streamed: () => this.#refuse(),
    };
  }

  #command(name: string, body: Uint8Array): void {
    if (name === "ERROR") throw badZmtp(`the peer refused the connection: ${new TextDecoder().decode(body.subarray(1))}`);
    if (name !== "READY" || this.#isUp) return;
    const { socketType, incarnation } = decodeReady(body);
    if (socketType !== "ROUTER") throw badZmtp(`the peer's socket is a ${socketType}, not a ROUTER: this is no node of ps-lite`);
    this.#incarnation = incarnation;
    this.#cancelHandshake();
    this.#isUp = true;
    this.#wasUp = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { chunks, flushed } of waiting) this.write(chunks, flushed);
    if (this.#isClosing) this.#link?.close();
    else this.#options.up(this);
  }

  /** Only bytedance's fork answers on the connection of the request. */
  #refuse(): never {
    const message = "a message came back on our own connection: nodes of dmlc/ps-lite never do that, those of bytedance's fork (BytePS) do";
    this.#problem = unsupported(`${message}, and are not supported`);
    throw this.#problem;
  }

  #fell(cause: Error | undefined): void {
    if (this.#isDown) return;
    this.#isDown = true;
    this.#isUp = false;
    this.#cancelDial();
    this.#cancelHandshake();
    const waiting = this.#waiting;
    this.#waiting = [];
    this.batch.take().release();
    for (const { flushed } of waiting) this.#options.clock.soon(flushed);
    this.#options.down(this, cause);
  }
}
