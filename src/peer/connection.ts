// connection — one link from its first byte to its last: the handshake, then frames for the channel it belongs to.
//
//   opened ── hello sent ──┐
//                          ├── other hello read, accepted ──► open ──► closed
//   accepted ── waits ─────┘            └── refused: failure sent ───► closed
//
// Invariants:
//   H1. Nothing but a hello, or a failure in its place, is taken before the handshake is done.
//   H2. Whoever says nothing for `helloTimeoutMs` is cut off.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Link, LinkReader } from "../transport/transport.ts";
import { failureShape, fromFailure, toFailure } from "../wire/failure.ts";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, paddedBytes } from "../wire/frame.ts";
import { FrameReader, type FrameSink } from "../wire/frame-reader.ts";
import { type Hello, helloShape } from "../wire/hello.ts";
import { decodeJson, encodeJson } from "../wire/json-body.ts";
import type { Channel } from "./channel.ts";
import type { PeerMetrics } from "./metrics.ts";

const HELLO_BYTES_MAX = 4096;

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
  /** The other side said who it is. Returns the channel and our own hello if it is still owed; throws to refuse. */
  greeted(connection: Connection, hello: Hello): { readonly channel: Channel; readonly reply: Hello | undefined };
  /** The other side refused us. */
  refused(connection: Connection, error: WeighbridgeError): void;
  ended(connection: Connection, cause: Error | undefined): void;
};

export class Connection implements LinkReader, FrameSink {
  readonly link: Link;
  readonly #host: ConnectionHost;
  readonly #reader: FrameReader;
  readonly #buffer: Uint8Array;
  readonly #cancelTimer: CancelTimer;
  #channel: Channel | undefined;
  #hello: Hello | undefined;
  #problem: WeighbridgeError | undefined;

  constructor(host: ConnectionHost, link: Link) {
    this.link = link;
    this.#host = host;
    this.#buffer = host.readBuffers.take();
    this.#reader = new FrameReader(this, this.#buffer);
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
    this.#sendJson(Kind.HELLO, hello);
  }

  // LinkReader

  view(): Uint8Array {
    return this.#reader.view();
  }

  received(byteCount: number): void {
    this.#reader.received(byteCount);
  }

  closed(cause: Error | undefined): void {
    this.#cancelTimer();
    const { metrics } = this.#host;
    const reason = this.#problem ?? cause;
    if (reason !== undefined) metrics.linksBroken++;
    if (reason instanceof WeighbridgeError && reason.code === "BAD_FRAME") metrics.badFrames++;
    this.#channel?.detach(this.link);
    this.#host.readBuffers.give(this.#buffer);
    this.#host.ended(this, reason);
  }

  // FrameSink

  destination(header: FrameHeader): Uint8Array | undefined {
    return this.#hello === undefined ? undefined : this.#channel?.destination(header);
  }

  frame(header: FrameHeader, bytes: Uint8Array, at: number): void {
    this.#host.metrics.framesReceived++;
    if (this.#hello !== undefined) this.#channel?.frame(header, bytes, at);
    else this.#greet(header, bytes.subarray(at, at + header.payloadBytes));
  }

  #greet(header: FrameHeader, body: Uint8Array): void {
    if (body.length > HELLO_BYTES_MAX) throw this.#badHello(`a hello of ${body.length} bytes`);
    if (header.kind === Kind.FAILURE) {
      this.#problem = fromFailure(decodeJson(failureShape, "a failure", body), this.link.remote);
      this.#host.refused(this, this.#problem);
      this.link.destroy();
      return;
    }
    if (header.kind !== Kind.HELLO) throw this.#badHello(`a frame of kind ${header.kind} before its hello`); // H1
    try {
      const hello = decodeJson(helloShape, "a hello", body);
      const { channel, reply } = this.#host.greeted(this, hello);
      this.#cancelTimer();
      this.#hello = hello;
      this.#channel = channel;
      if (reply !== undefined) this.sendHello(reply);
      channel.attach(this.link);
    } catch (thrown) {
      this.#host.metrics.badHellos++;
      this.#problem = thrown instanceof WeighbridgeError ? thrown : new WeighbridgeError("BAD_FRAME", String(thrown), { cause: thrown });
      this.#sendJson(Kind.FAILURE, toFailure(this.#problem));
      this.link.close();
    }
  }

  #badHello(what: string): WeighbridgeError {
    this.#host.metrics.badHellos++;
    return new WeighbridgeError("BAD_FRAME", `${this.link.remote} sent ${what}`);
  }

  #sendJson(kind: typeof Kind.HELLO | typeof Kind.FAILURE, value: unknown): void {
    const body = encodeJson(value);
    const frame = new Uint8Array(HEADER_BYTES + paddedBytes(body.length));
    const header = new FrameHeader().reset(kind, 0);
    header.payloadBytes = body.length;
    encodeHeader(header, new Uint32Array(frame.buffer), 0);
    frame.set(body, HEADER_BYTES);
    this.link.write([frame], () => {});
  }
}
