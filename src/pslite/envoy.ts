// envoy — stands on this node for one node that speaks ps-lite's protocol. Towards our peer it is that node, at the other end of a link, and
// speaks frames (spec/protocol.md); towards the node it sends and takes ps-lite's messages. What a message means is translated by asks.ts
// (what we ask of the node), serves.ts (what it asks of us) and a Control (who is there).
//
//      peer ── link (frames) ── envoy ──► line: messages out
//                                     ◄── inlets: messages in
//
// Invariants:
//   E1. An envoy outlives its links: numbers of requests go on, so that no conversation has to begin anew.
//   E2. A request of ours that left is never sent again: ps-lite's nodes would do it twice. When the line breaks it fails.
//   E3. One inlet at a time is inside a message for an envoy.

import type { Clock } from "../base/clock.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Link, LinkReader } from "../transport/transport.ts";
import { toFailure } from "../wire/failure.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { helloShape } from "../wire/hello.ts";
import { type Check, decodeJson, encodeJson } from "../wire/json-body.ts";
import { nameOf } from "../wire/node-id.ts";
import { Asks } from "./asks.ts";
import { FrameFeed } from "./frame-feed.ts";
import type { Line } from "./line.ts";
import type { Resender } from "./resender.ts";
import { Serves } from "./serves.ts";
import { PsMeta } from "./wire/ps-meta.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";
import { type WrittenFrame, WrittenFrames } from "./written-frames.ts";

/** What the envoys of a van share. */
export type EnvoyHost = {
  readonly clock: Clock;
  readonly log: Log;
  /** Undefined: nothing is acknowledged or sent again (PS_RESEND is off). */
  readonly resender: Resender | undefined;
  /** Our own node id; 0 before we have one. */
  readonly selfId: number;
  /** The peer closed, or broke, the link of this envoy; `cause` when something was wrong. */
  unlinked(envoy: Envoy, isAbrupt: boolean, cause: Error | undefined): void;
  pauseInlets(envoy: Envoy, isPaused: boolean): void;
  /** Calls `send` now, or once that node takes requests of ours. */
  whenReady(envoy: Envoy, send: () => void): void;
};

/** Translates the control messages with one node: those of the scheduler, or of a node that is registered with ours. */
export type Control = {
  /** A control request of ours to that node. */
  request(frame: WrittenFrame): void;
  /** A control message of that node. */
  message(meta: PsMeta): void;
};

/** Waits for the answer to a request that the envoy made. Returns true after the last frame of it. */
export type Awaiting = { answer(frame: WrittenFrame): boolean };

export class Envoy {
  readonly host: EnvoyHost;
  /** The node it stands for; 0 while that has no id. */
  node: number;
  incarnation: number;
  /** Where it is reached, for people. */
  readonly remote: string;
  line: Line | undefined;
  control: Control | undefined;
  readonly asks: Asks;
  readonly serves: Serves;
  /** For the messages that are made here. Reused. */
  readonly meta: PsMeta = new PsMeta();
  /** For the frames that are made here. Reused. */
  readonly header: FrameHeader = new FrameHeader();
  readonly #frames = new WrittenFrames();
  #link: EnvoyLink | undefined;
  #feed: FrameFeed | undefined;
  #isGreeted = false;
  #nextRequest = 1;
  #expected = 1;
  #stamp = 0;
  readonly #awaiting = new Map<number, Awaiting>();
  #oldest = 1;
  #isFlushDue = false;

  constructor(host: EnvoyHost, options: { readonly node: number; readonly incarnation: number; readonly remote: string }) {
    this.host = host;
    this.node = options.node;
    this.incarnation = options.incarnation;
    this.remote = options.remote;
    this.asks = new Asks(this);
    this.serves = new Serves(this);
  }

  get name(): string {
    return nameOf(this.node);
  }

  get isLinked(): boolean {
    return this.#link !== undefined;
  }

  /** True while a message goes straight into the memory of whoever waits for it. */
  get isStreaming(): boolean {
    return this.#feed?.isOpen === true;
  }

  get feed(): FrameFeed | undefined {
    return this.#feed;
  }

  // The link with our peer.

  /** Opens a link that our peer dialed (`isDialed`), or one as if the node had dialed it: then it says hello. */
  open(readerFor: (link: Link) => LinkReader, isDialed: boolean): Link {
    const link = new EnvoyLink(this, isDialed);
    this.#link = link;
    this.#isGreeted = false;
    const reader = readerFor(link);
    link.reader = reader;
    this.#feed = new FrameFeed(reader, (thrown) => this.break(thrown instanceof Error ? thrown : new Error(String(thrown))));
    if (!isDialed) this.#sendHello();
    for (const { chunks, flushed } of link.early.splice(0)) this.written(link, chunks, flushed);
    this.flushSoon();
    return link;
  }

  /** Ends the link as if the connection had broken. */
  break(cause: Error | undefined): void {
    const link = this.#link;
    if (link === undefined) return;
    this.#forgetLink();
    this.host.clock.soon(() => link.reader?.closed(cause));
  }

  #forgetLink(): void {
    this.#feed?.finish();
    this.#feed = undefined;
    this.#link = undefined;
    this.serves.unlinked();
    this.#awaiting.clear();
    this.#oldest = this.#nextRequest;
  }

  /** For the link: our peer closed it. */
  closed(link: EnvoyLink, isAbrupt: boolean): void {
    if (this.#link !== link) return;
    const { isStreaming } = this;
    this.#forgetLink();
    this.asks.forget();
    this.host.unlinked(this, isAbrupt || isStreaming, undefined);
    this.host.clock.soon(() => link.reader?.closed(undefined));
  }

  /** For the link: our peer wrote these frames. */
  written(link: EnvoyLink, chunks: readonly Uint8Array[], flushed: () => void): void {
    const { clock } = this.host;
    if (this.#link !== link) {
      clock.soon(flushed);
      return;
    }
    if (this.#feed === undefined) {
      link.early.push({ chunks, flushed });
      return;
    }
    try {
      this.#frames.read(chunks, (frame) => this.#take(frame));
    } catch (thrown) {
      this.host.log.error("a message could not be translated", { node: this.name, reason: reasonOf(thrown) });
      clock.soon(flushed);
      this.break(thrown instanceof Error ? thrown : new Error(String(thrown)));
      return;
    }
    const { resender } = this.host;
    if (this.line === undefined) clock.soon(flushed);
    else if (resender === undefined) this.line.flush(flushed);
    else this.line.flush(() => resender.whenRoom(this, flushed));
  }

  #take(frame: WrittenFrame): void {
    const { header } = frame;
    switch (header.kind) {
      case Kind.HELLO: {
        decodeJson(helloShape, "a hello", frame.payload());
        if (!this.#isGreeted && this.#link?.isDialed === true) this.#sendHello();
        this.#isGreeted = true;
        break;
      }
      case Kind.REQUEST:
        this.#takeRequest(frame);
        break;
      case Kind.REPLY:
      case Kind.FAILURE:
        this.#takeAnswer(frame);
        break;
    }
  }

  #takeRequest(frame: WrittenFrame): void {
    const { header } = frame;
    const isNew = header.request >= this.#expected;
    if (isNew) this.#expected = header.request + 1;
    if (header.functionId >= FunctionId.SIMPLE) this.asks.take(frame, isNew);
    else if (this.control === undefined) this.failRequest(header, unsupported(`${this.name} has no control messages for this node`));
    else this.control.request(frame);
  }

  #takeAnswer(frame: WrittenFrame): void {
    const { request } = frame.header;
    const awaiting = this.#awaiting.get(request);
    if (awaiting?.answer(frame) === true) this.#awaiting.delete(request);
  }

  #sendHello(): void {
    const { node, incarnation } = this;
    const { header } = this;
    header.reset(Kind.HELLO, 0);
    this.#feed?.put(header, encodeJson({ job: "", node, incarnation, expects: this.#expected }));
    this.flushSoon();
  }

  // Frames for our peer.

  /** Fills the header of a request that the node makes; the caller stages the frame. */
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

  /** Asks our peer something in JSON; `answered` gets the payload and whether it is a failure. */
  askJson(functionId: number, body: unknown, answered: (payload: Uint8Array, isFailure: boolean) => void): void {
    if (this.#feed === undefined) return;
    const awaiting: Awaiting = {
      answer: (frame) => {
        answered(frame.payload(), frame.header.kind === Kind.FAILURE);
        return true;
      },
    };
    this.#feed.put(this.requestHeader(functionId, false, awaiting), encodeJson(body));
    this.flushSoon();
  }

  /** Answers a request of ours in JSON. */
  answerJson(functionId: number, request: number, body: unknown): void {
    const { header } = this;
    header.reset(Kind.REPLY, functionId);
    header.request = request;
    const payload = encodeJson(body);
    header.arg0 = payload.length;
    this.#feed?.put(header, payload);
    this.flushSoon();
  }

  /** Fails a request of ours. */
  failRequest({ functionId, request }: { readonly functionId: number; readonly request: number }, error: WeighbridgeError): void {
    this.failWith(functionId, request, encodeJson(toFailure(error)));
  }

  failWith(functionId: number, request: number, failure: Uint8Array): void {
    const { header } = this;
    header.reset(Kind.FAILURE, functionId);
    header.request = request;
    this.#feed?.put(header, failure);
    this.flushSoon();
  }

  /** Hands over what is staged after the current call stack. */
  flushSoon(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    this.host.clock.soon(() => {
      this.#isFlushDue = false;
      this.#feed?.flush();
    });
  }

  // Messages.

  /** The message that was put into the line's batch is complete. */
  endMessage(meta: PsMeta): void {
    this.host.resender?.sent(meta, this);
  }

  /** Sends a message of one part, at once. */
  send(meta: PsMeta): void {
    if (this.line === undefined) return;
    this.line.batch.meta(meta, true);
    this.endMessage(meta);
    this.line.flush(() => {});
  }

  /** A message of the node came. Returns what takes its further parts, undefined to leave them out. */
  message(meta: PsMeta, hasParts: boolean): PartSink | undefined {
    if (meta.command !== 0) {
      this.control?.message(meta);
      return undefined;
    }
    if (this.#feed === undefined) return undefined;
    return meta.request ? this.serves.take(meta, hasParts) : this.asks.response(meta, hasParts);
  }

  /** The line is gone: what was asked over it fails (E2). */
  lineBroke(cause: Error | undefined): void {
    const why = cause === undefined ? "closed its connection" : `cannot be reached (${cause.message})`;
    const message = `${this.name} ${why}; whether what it had not answered was applied is not known`;
    this.asks.fail(new WeighbridgeError("NODE_DEAD", message, { retryable: true }));
    this.#feed?.flush();
  }

  decode<T>(check: Check<T>, name: string, payload: Uint8Array): T {
    return decodeJson(check, name, payload);
  }
}

export function unsupported(what: string): WeighbridgeError {
  return new WeighbridgeError("UNSUPPORTED", what);
}

type EarlyWrite = { readonly chunks: readonly Uint8Array[]; readonly flushed: () => void };

/** The link as our peer sees it. */
class EnvoyLink implements Link {
  readonly remote: string;
  readonly isTrusted = true;
  readonly isDialed: boolean;
  reader: LinkReader | undefined;
  /** Written before the reader was there. */
  readonly early: EarlyWrite[] = [];
  readonly #envoy: Envoy;

  constructor(envoy: Envoy, isDialed: boolean) {
    this.#envoy = envoy;
    this.remote = envoy.remote;
    this.isDialed = isDialed;
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    this.#envoy.written(this, chunks, flushed);
  }

  pause(): void {
    this.#envoy.host.pauseInlets(this.#envoy, true);
  }

  resume(): void {
    this.#envoy.host.pauseInlets(this.#envoy, false);
  }

  close(): void {
    this.#envoy.closed(this, false);
  }

  destroy(): void {
    this.#envoy.closed(this, true);
  }
}
