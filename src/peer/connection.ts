// connection — one link from its first byte to its last: the handshake, after which the frame reader hands frames to
// the channel itself, and the end.
//
//   opened ── hello sent ──┐
//                          ├── other hello read, accepted ──► open ──► closed
//   accepted ── waits ─────┘            └── refused: failure sent ───► closed
//
// Between processes of one host the acceptor's hello may offer memory (MemoryUpgrade). The dialer then answers with a
// second hello before anything else, and what the acceptor writes waits for it.
//
// Invariants:
//   Connection.H1. Before the handshake is done only a hello, or a failure instead, is accepted; after a refusal,
//       nothing.
//   Connection.H2. A dialer that sends no hello within `helloTimeoutMs` is cut off.
//   Connection.H3. Before the handshake a link costs HANDSHAKE_BYTES, whatever it claims; the large buffer comes with
//       the hello.
//   Connection.H4. A channel gets frames only from its present link: the code that takes a link from its channel closes
//       it, and a closed link drops what it has read.
//   Connection.H5. While the channel pauses the link, frames that were read already wait too.
//   Connection.H7. Nothing lies between the frame that ends the use of the socket and the first in shared memory.
//   Connection.H6. A peer of another protocol version gets a failure, and both sides name both versions.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { asError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Link, MemoryUpgrade } from "../transport/transport.ts";
import { decodeFailure, fromFailure, toFailure } from "../wire/failure.ts";
import { FrameHeader, HEADER_BYTES, Kind, PROTOCOL_VERSION } from "../wire/frame.ts";
import { FrameReader, type FrameSink, malformed } from "../wire/frame-reader.ts";
import { type Hello, helloShape, OPENING_BYTES, psliteHint, quoteOpening, READS_RUNS, readOpening, strangeOpening } from "../wire/hello.ts";
import { decodeJson, jsonFrame } from "../wire/json-body.ts";
import type { Channel } from "./channel.ts";
import type { PeerMetrics } from "./channel-host.ts";
import { PausableLink } from "./pausable-link.ts";

const HELLO_BYTES_MAX = 4096;
const HANDSHAKE_BYTES = 2 * (HEADER_BYTES + HELLO_BYTES_MAX);

/** Memory that links read into. On a server it lies in the arena. */
export type ReadBuffers = {
  take(): Uint8Array;
  give(buffer: Uint8Array): void;
};

export type ConnectionHost = {
  readonly clock: Clock;
  readonly metrics: PeerMetrics;
  readonly readBuffers: ReadBuffers;
  readonly helloTimeoutMs: number;
  /** Of the package, for messages. */
  readonly packageVersion: string;
  /** The other side said who it is. Returns the channel and our own hello if it is still owed; throws to refuse. */
  helloCame(connection: Connection, hello: Hello): { readonly channel: Channel; readonly reply: Hello | undefined };
  /** The other side refused us. */
  refused(connection: Connection, error: WeighbridgeError): void;
  ended(connection: Connection, cause: Error | undefined): void;
};

export class Connection implements FrameSink {
  readonly link: Link;
  /** What the link reads into. */
  readonly reader: FrameReader;
  readonly #host: ConnectionHost;
  readonly #cancelTimer: CancelTimer;
  /** For whole frames, from `readBuffers`; undefined before the hello. */
  #buffer: Uint8Array | undefined;
  /** For the hello. What was read first is at its beginning. */
  readonly #handshake = new Uint8Array(HANDSHAKE_BYTES);
  #bytesRead = 0;
  /** We said hello first. */
  #isDialer = false;
  readonly #upgrade: MemoryUpgrade | undefined;
  /** What we said. */
  #ownHello: Hello | undefined;
  /** The other side owes us an answer to our offer of memory. */
  #isOffering = false;
  #channel: Channel | undefined;
  #problem: WeighbridgeError | undefined;
  #isClosed = false;

  constructor(host: ConnectionHost, link: Link) {
    this.#host = host;
    this.reader = new FrameReader(this, this.#handshake);
    this.reader.counts = host.metrics;
    this.reader.closed = (cause) => this.#closed(cause);
    this.#upgrade = link.upgrade;
    this.link = new PausableLink(link, this.reader, () => host.clock.soon(() => this.#goOn()));
    this.#cancelTimer = host.clock.after(host.helloTimeoutMs, () => {
      this.#problem = new WeighbridgeError("DEADLINE", `${link.remote} did not say who it is within ${host.helloTimeoutMs} ms`);
      host.metrics.badHellos++;
      link.destroy();
    });
  }

  get channel(): Channel | undefined {
    return this.#channel;
  }

  sendHello(hello: Hello): void {
    this.#isDialer = true;
    this.#ownHello = hello;
    const host = this.#upgrade?.host;
    this.#sendJson(Kind.HELLO, host === undefined ? hello : { ...hello, sharedMemory: { host } });
  }

  /** Our hello as the acceptor, with an offer of memory to a dialer of our host. */
  #reply(reply: Hello, { sharedMemory }: Hello): void {
    const upgrade = this.#upgrade;
    const offer = upgrade !== undefined && sharedMemory?.host === upgrade.host ? upgrade.offer() : undefined;
    this.#sendJson(Kind.HELLO, offer === undefined ? reply : { ...reply, sharedMemory: { offer } });
    if (upgrade === undefined || offer === undefined) return;
    upgrade.hold();
    this.#isOffering = true;
    this.reader.sink = this;
  }

  /** As the dialer: answers an offer, and goes on in memory if it can. */
  #answerOffer({ sharedMemory }: Hello): void {
    const upgrade = this.#upgrade;
    if (upgrade === undefined || sharedMemory?.offer === undefined) return;
    this.#checkSwitch();
    const proof = upgrade.take(sharedMemory.offer);
    this.#sendJson(Kind.HELLO, { ...this.#ownHello, sharedMemory: { proof } });
    if (proof !== undefined) upgrade.begin();
  }

  /** As the acceptor: the dialer's second hello says whether it goes on in memory. */
  #takeAnswer(channel: Channel, body: Uint8Array): void {
    const { sharedMemory } = decodeJson(helloShape, "a hello", body);
    const proof = sharedMemory?.proof;
    if (proof !== undefined) this.#checkSwitch();
    this.#isOffering = false;
    this.reader.sink = channel;
    this.#upgrade?.settle(proof);
  }

  /** Connection.H7 */
  #checkSwitch(): void {
    if (this.reader.isInsideFrame) throw this.#badHello("more behind a hello that ends the use of its socket");
  }

  // FrameSink, until the hello; then the channel is.

  /** Whether what came before the hello may be read as a frame. Throws for what a stranger that dialed us sent. */
  beginInput(byteCount: number): boolean {
    if (this.#problem !== undefined) return false; // Connection.H1
    const before = this.#bytesRead;
    this.#bytesRead += byteCount;
    if (before >= OPENING_BYTES || this.#bytesRead < OPENING_BYTES) return true;
    const first = this.#handshake.subarray(0, this.#bytesRead);
    const { isOurs, version } = readOpening(first);
    if (isOurs) return true;
    if (version !== undefined) this.#refuseVersion(version);
    else if (this.#isDialer) this.#refuseForeigner(first);
    else throw malformed(strangeOpening(new DataView(first.buffer).getUint32(0, true)));
    return false;
  }

  /** Connection.H6 */
  #refuseVersion(version: number): void {
    const { metrics, packageVersion } = this.#host;
    const ours = `${PROTOCOL_VERSION}${packageVersion === "" ? "" : ` (weighbridge ${packageVersion})`}`;
    const message = `${this.link.remote} speaks version ${version} of the protocol, and this node version ${ours}`;
    const fix = "install the same version of weighbridge on all machines";
    this.#problem = new WeighbridgeError("VERSION_MISMATCH", `${message}; ${fix}`, { retryable: this.#isDialer });
    metrics.badHellos++;
    if (!this.#isDialer) this.#sendJson(Kind.FAILURE, toFailure(this.#problem));
    this.link.close();
  }

  #refuseForeigner(first: Uint8Array): void {
    const hint = psliteHint(new DataView(first.buffer).getUint32(0, true));
    this.#problem = new WeighbridgeError("FOREIGN_PROTOCOL", `it answers ${quoteOpening(first)}${hint}`, { retryable: true });
    this.#host.metrics.badHellos++;
    this.link.destroy();
  }

  /** Handles what waited while the link was paused. */
  #goOn(): void {
    if (this.#isClosed) return;
    try {
      this.reader.goOn();
    } catch (thrown) {
      this.#problem ??= asError(thrown, "BAD_FRAME");
      this.link.destroy();
    }
  }

  #closed(cause: Error | undefined): void {
    this.#isClosed = true;
    this.#cancelTimer();
    const { metrics } = this.#host;
    const reason = this.#problem ?? cause ?? this.#truncation();
    if (reason !== undefined) metrics.linksBroken++;
    if (reason instanceof WeighbridgeError && reason.code === "BAD_FRAME") metrics.badFrames++;
    this.#channel?.detach(this.link);
    if (this.#buffer !== undefined) this.#host.readBuffers.give(this.#buffer);
    this.#host.ended(this, reason);
  }

  /** What is wrong with an end by the other side, if it came too early. */
  #truncation(): WeighbridgeError | undefined {
    const isTheirs = this.#channel === undefined || this.#channel.link === this.link;
    if (!isTheirs || !this.reader.isInsideFrame || this.reader.isHeld) return undefined;
    return new WeighbridgeError("BAD_FRAME", `the stream of ${this.link.remote} ended inside a frame`);
  }

  destination({ payloadBytes }: FrameHeader): undefined {
    if (payloadBytes > HELLO_BYTES_MAX && this.#problem === undefined) throw this.#badHello(`a hello of ${payloadBytes} bytes`);
  }

  frame(header: FrameHeader, bytes: Uint8Array, at: number): void {
    if (this.#problem !== undefined) return;
    const channel = this.#isOffering ? this.#channel : undefined;
    if (channel === undefined) this.#takeHello(header, bytes.subarray(at, at + header.payloadBytes));
    else if (header.kind === Kind.HELLO) this.#takeAnswer(channel, bytes.subarray(at, at + header.payloadBytes));
    else channel.frame(header, bytes, at); // it refuses our hello; anything else is no answer
  }

  #takeHello(header: FrameHeader, body: Uint8Array): void {
    if (header.kind === Kind.FAILURE) {
      this.#problem = this.#refusal(body);
      this.#host.refused(this, this.#problem);
      this.link.destroy();
      return;
    }
    // Connection.H1
    if (header.kind !== Kind.HELLO) throw this.#badHello(`a frame of kind ${header.kind} before its hello`);
    try {
      const hello = decodeJson(helloShape, "a hello", body);
      const { channel, reply } = this.#host.helloCame(this, hello);
      this.#cancelTimer();
      this.#channel = channel;
      this.#buffer = this.#host.readBuffers.take();
      this.reader.moveTo(this.#buffer); // Connection.H3
      this.reader.sink = channel;
      if (reply === undefined) this.#answerOffer(hello);
      else this.#reply(reply, hello);
      channel.attach(this.link, hello.capabilities?.includes(READS_RUNS) === true);
    } catch (thrown) {
      this.#host.metrics.badHellos++;
      this.#problem = asError(thrown, "BAD_FRAME");
      this.#sendJson(Kind.FAILURE, toFailure(this.#problem));
      this.link.close();
    }
  }

  #refusal(body: Uint8Array): WeighbridgeError {
    try {
      return fromFailure(decodeFailure(body), this.link.remote);
    } catch (thrown) {
      throw this.#badHello(`a failure that cannot be read: ${reasonOf(thrown)}`);
    }
  }

  #badHello(what: string): WeighbridgeError {
    this.#host.metrics.badHellos++;
    return new WeighbridgeError("BAD_FRAME", `${this.link.remote} sent ${what}`);
  }

  #sendJson(kind: typeof Kind.HELLO | typeof Kind.FAILURE, value: unknown): void {
    this.link.write([jsonFrame(new FrameHeader().reset(kind, 0), value)], () => {});
  }
}
