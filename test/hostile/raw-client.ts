// raw-client — one link without a Peer behind it: sends any bytes, keeps what comes back. For tests that play a hostile
// or a foreign client.

import type { Address, Link, Transport } from "../../src/transport/transport.ts";
import { type Failure, failureShape } from "../../src/wire/failure.ts";
import { FrameHeader, Kind } from "../../src/wire/frame.ts";
import { FrameReader, READ_BUFFER_BYTES } from "../../src/wire/frame-reader.ts";
import { type Hello, helloShape, type MemberKind } from "../../src/wire/hello.ts";
import { decodeJson } from "../../src/wire/json-body.ts";
import { roleOf } from "../../src/wire/node-id.ts";
import { frameBytes, type HeaderFields, jsonFrameBytes, type RawFrame } from "./raw-frame.ts";

const CONNECT_DEADLINE_MS = 5000;

/** One buffer for all clients: what arrives is copied out at once, and tests run in one thread. */
const READ_BUFFERS: Uint8Array[] = [];

export class RawClient {
  readonly frames: RawFrame[] = [];
  isClosed = false;
  closeCause: Error | undefined;
  readonly #link: Link;
  #wake: (() => void) | undefined;
  /** The request number that the next `request` gets. */
  nextRequest = 1;
  /** Longer payloads are dropped as they come. */
  keptBytesMax: number = Infinity;

  private constructor(link: Link) {
    this.#link = link;
  }

  static async connect(transport: Transport, address: Address): Promise<RawClient> {
    let client: RawClient | undefined;
    await transport.connect(
      address,
      (link) => {
        const own = new RawClient(link);
        client = own;
        const buffer = READ_BUFFERS.pop() ?? new Uint8Array(READ_BUFFER_BYTES);
        const reader = new FrameReader(
          {
            destination: () => undefined,
            frame: (header, bytes, at) => own.#take(header, bytes, at),
          },
          buffer,
        );
        return {
          view: () => reader.view(),
          received: (byteCount) => reader.received(byteCount),
          closed: (cause) => {
            READ_BUFFERS.push(buffer);
            own.isClosed = true;
            own.closeCause = cause;
            own.#wake?.();
          },
        };
      },
      { timeoutMs: CONNECT_DEADLINE_MS },
    );
    if (client === undefined) throw new Error("connect opened no link");
    return client;
  }

  /** Says hello as this node and waits for the answer. */
  static async greet(transport: Transport, address: Address, hello: Partial<Hello> = {}): Promise<RawClient> {
    const client = await RawClient.connect(transport, address);
    client.hello(hello);
    const { expects } = await client.helloBack();
    client.nextRequest = expects;
    return client;
  }

  hello(hello: Partial<Hello> = {}): void {
    this.send(jsonFrameBytes(Kind.HELLO, {}, { job: "", kind: kindOf(hello.node), node: 0, incarnation: 0, expects: 1, ...hello }));
  }

  /** The other side's hello; throws what came in its place. */
  async helloBack(): Promise<Hello> {
    const first = await this.next();
    if (first?.header.kind !== Kind.HELLO) throw new Error(`no hello but ${first === undefined ? "the end" : describe(first)}`);
    return decodeJson(helloShape, "a hello", first.payload);
  }

  send(bytes: Uint8Array): void {
    this.#link.write([bytes], () => {});
  }

  /** Sends a request with the next number; `fields` may set another one. */
  request(fields: HeaderFields, payload?: Uint8Array): number {
    const request = this.nextRequest++;
    this.send(frameBytes(Kind.REQUEST, { request, settled: request, ...fields }, payload));
    return request;
  }

  /** Asks and waits for the answer with its number; undefined when the link closed instead. */
  async ask(fields: HeaderFields, payload?: Uint8Array): Promise<RawFrame | undefined> {
    const request = this.request(fields, payload);
    return await this.answerTo(fields.request ?? request);
  }

  async answerTo(request: number): Promise<RawFrame | undefined> {
    for (let frame = await this.next(); frame !== undefined; frame = await this.next()) {
      const { kind } = frame.header;
      if ((kind === Kind.REPLY || kind === Kind.FAILURE) && frame.header.request === request) return frame;
    }
    return undefined;
  }

  /** The next frame; undefined once the link is closed and all was taken. */
  async next(): Promise<RawFrame | undefined> {
    while (this.frames.length === 0 && !this.isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.frames.shift();
  }

  async closed(): Promise<void> {
    while (!this.isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  pause(): void {
    this.#link.pause();
  }

  resume(): void {
    this.#link.resume();
  }

  close(): void {
    this.#link.close();
  }

  destroy(): void {
    this.#link.destroy();
  }

  #take(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const payload = header.payloadBytes > this.keptBytesMax ? new Uint8Array(0) : bytes.slice(at, at + header.payloadBytes);
    this.frames.push({ header: Object.assign(new FrameHeader(), header), payload });
    this.#wake?.();
  }
}

export function failureOf(frame: RawFrame | undefined): Failure {
  if (frame?.header.kind !== Kind.FAILURE) throw new Error(`no failure but ${frame === undefined ? "the end" : describe(frame)}`);
  return decodeJson(failureShape, "a failure", frame.payload);
}

export function describe({ header, payload }: RawFrame): string {
  return header.kind === Kind.FAILURE ? `${header.toString()} ${new TextDecoder().decode(payload)}` : String(header);
}

/** What a node of this number says that it is. */
export function kindOf(node = 0): MemberKind {
  return node === 0 ? "worker" : roleOf(node);
}
