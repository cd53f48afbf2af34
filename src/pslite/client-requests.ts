// client-requests — our node's requests to a ps-lite node, and its responses. The frames of a kv request
// (spec/protocol.md, K7 to K9) become one message, as ps-lite requires; its response becomes the answer to all of them
// (spec/protocol.md, K11: GATHERED, and WHOLE for the last).
//
// Invariants:
//   ClientRequests.A1. The keys and values of a message are sent from where they are: from the caller's arrays, which
//       the request owns until it ends. Only what is in a page is copied.
//   ClientRequests.A2. Every request ends: answered, failed by the node, or failed because a connection or the link
//       with the channel ended. A request that left is never resent.
//   ClientRequests.A3. A response that matches no open request is dropped.

import { badRequest, unsupported, WeighbridgeError } from "../base/errors.ts";
import { elementArrayOf, KEY_BYTES } from "../kernel/elements.ts";
import { decodeFailure, type Failure } from "../wire/failure.ts";
import { type FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionFlag, FunctionId } from "../wire/function-id.ts";
import { dtypeOfFlags, KvAssembly, KvFlag, LEN_BYTES } from "../wire/kv-message.ts";
import { bodyParts, bodyTooLong } from "../wire/simple-frame.ts";
import type { Conversation } from "./conversation.ts";
import { byteCountOf, inOnePiece, type MessageBatch } from "./message-batch.ts";
import { type OpenRequest, ResponseReader } from "./response-reader.ts";
import type { OutgoingFrame } from "./translating-batch.ts";
import { PsType, psTypeOfDtype } from "./wire/data-type.ts";
import { PsMeta } from "./wire/ps-meta.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";

/** The frames of a request so far. */
type PartialBody = { readonly open: OpenRequest; readonly parts: Uint8Array[] };
type PartialRequest = { readonly open: OpenRequest; readonly assembly: KvAssembly };

/** Timestamps of SimpleApp requests begin here, so that their signatures differ from those of pushes and pulls. */
const SIMPLE_TIMESTAMP = 2 ** 29;
const TIMESTAMP_MASK = 2 ** 31 - 1;
const SIMPLE_MASK = SIMPLE_TIMESTAMP - 1;
const CUSTOMERS_MAX = 2 ** 16;

export class ClientRequests {
  readonly #conversation: Conversation;
  /** By application and customer, then by timestamp. SimpleApp's are below 0. */
  readonly #open = new Map<number, Map<number, OpenRequest>>();
  readonly #partial = new Map<string, PartialRequest>();
  readonly #partialBodies = new Map<string, PartialBody>();
  readonly #reader: ResponseReader;

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
    this.#reader = new ResponseReader(conversation);
  }

  /** Sends a request of ours. */
  take(frame: OutgoingFrame): void {
    const { header } = frame;
    switch (header.functionId) {
      case FunctionId.SIMPLE:
        this.#sendSimple(frame);
        break;
      case FunctionId.KV_PUSH:
      case FunctionId.KV_PULL:
      case FunctionId.KV_PUSH_PULL:
        if (header.arg0 === 0) this.#withdraw(header);
        else if (isWholeRequest(header.flags)) this.#sendFrame(frame);
        else this.#collect(frame);
        break;
      default: {
        const message = `function ${header.functionId} is not available at ${this.#conversation.name}: ps-lite's protocol has pushes, pulls and SimpleApp; parameters need our own: leave --van (DMLC_PS_VAN_TYPE) out`;
        this.#conversation.fail(header.request, unsupported(message));
      }
    }
  }

  /** Fails everything that is open, and drops requests that are incomplete: the rest of one would find no beginning. */
  fail(error: WeighbridgeError): void {
    for (const requests of this.#open.values()) for (const open of requests.values()) this.#fail(open, error);
    for (const { open } of [...this.#partial.values(), ...this.#partialBodies.values()]) this.#fail(open, error);
    this.#forgetAll();
  }

  /**
   * The link with the channel ended: what left fails; what had not left whole is assembled again over the next link
   * (ClientRequests.A2).
   */
  forget(): void {
    const error = this.#lostError();
    for (const requests of this.#open.values()) for (const open of requests.values()) this.#fail(open, error);
    const open = this.#reader.abandon();
    if (open !== undefined) this.#fail(open, error);
    this.#forgetAll();
  }

  #forgetAll(): void {
    this.#open.clear();
    this.#partial.clear();
    this.#partialBodies.clear();
  }

  /** A response broke off before any of it was delivered: its request fails, or waits if responses are resent. */
  interrupted(): void {
    const open = this.#reader.abandon();
    if (open === undefined) return;
    if (this.#conversation.host.resender !== undefined) this.#remember(open);
    else this.#fail(open, this.#lostError());
  }

  #fail({ requests }: OpenRequest, error: WeighbridgeError): void {
    for (const request of requests) this.#conversation.fail(request, error);
  }

  #lostError(): WeighbridgeError {
    return lostError(`the connection with ${this.#conversation.name} broke`);
  }

  // Requests.

  /** A body in several frames leaves with the last of them. */
  #sendSimple(frame: OutgoingFrame): void {
    const { header } = frame;
    const { flags, arg1, arg2, arg3 } = header;
    const name = `${header.app}/${header.customer}/${arg1}`;
    let body = arg3 === 0 || arg2 === 0 ? undefined : this.#partialBodies.get(name);
    if (body === undefined && arg2 > 0) {
      // Its beginning was lost with the link before.
      this.#conversation.fail(header.request, this.#lostError());
      return;
    }
    if (body === undefined) {
      const timestamp = SIMPLE_TIMESTAMP + (header.request & SIMPLE_MASK);
      body = { open: this.#openRequest(header, -1 - customerKey(header.app, header.customer), timestamp), parts: [] };
    } else body.open.requests.push(header.request);
    body.parts.push(frame.payload());
    if ((flags & FunctionFlag.PART) !== 0) this.#partialBodies.set(name, body);
    else {
      this.#partialBodies.delete(name);
      this.#sendBody(header, body);
    }
  }

  #sendBody(header: FrameHeader, { open, parts }: PartialBody): void {
    const conversation = this.#conversation;
    this.#remember(open);
    const meta = new PsMeta();
    meta.head = header.command;
    meta.body = inOnePiece(parts);
    meta.request = true;
    meta.simpleApp = true;
    meta.appId = header.app;
    meta.customerId = header.customer;
    meta.timestamp = open.timestamp;
    conversation.host.whenReady(conversation, () => {
      const requests = this.#open.get(open.customer);
      if (requests?.get(open.timestamp) !== open) return; // it failed meanwhile
      if (conversation.outgoing === undefined) {
        requests.delete(open.timestamp);
        this.#fail(open, this.#lostError());
        return;
      }
      // A long response may be in progress on the same connection.
      conversation.served.whenFree(() => conversation.sendMessage(meta));
    });
  }

  /** A request of one frame: nothing needs to be assembled. */
  #sendFrame(frame: OutgoingFrame): void {
    const { outgoing } = this.#conversation;
    const { header } = frame;
    if (outgoing === undefined) {
      this.#conversation.fail(header.request, this.#lostError());
      return;
    }
    const open = this.#openRequest(header, customerKey(header.app, header.customer), this.#timestampOf(header));
    open.keyCount = header.arg0;
    this.#remember(open);
    const keyBytes = header.arg0 * KEY_BYTES;
    const lensBytes = (header.flags & KvFlag.LENS) === 0 ? 0 : header.arg0 * LEN_BYTES;
    const valueEnd = header.payloadBytes - lensBytes;
    const meta = this.#kvMeta(header, open.timestamp, lensBytes > 0);
    const { batch } = outgoing;
    batch.meta(meta, false);
    batch.part(keyBytes, false);
    addRange(batch, frame, 0, keyBytes);
    batch.part(valueEnd - keyBytes, lensBytes === 0);
    addRange(batch, frame, keyBytes, valueEnd);
    if (lensBytes > 0) {
      batch.part(lensBytes, true);
      addRange(batch, frame, valueEnd, header.payloadBytes);
    }
    this.#conversation.endMessage(meta);
  }

  /** A frame without keys: its sender has withdrawn the request. Nothing of it was sent before its last frame. */
  #withdraw(header: FrameHeader): void {
    const error = badRequest("its sender withdrew the request: the memory that it was sent from is gone");
    const partial = this.#partial.get(requestName(header));
    this.#partial.delete(requestName(header));
    if (partial !== undefined) this.#fail(partial.open, error);
    this.#conversation.fail(header.request, error);
  }

  #collect(frame: OutgoingFrame): void {
    const { header } = frame;
    const { arg0: keyCount, arg2: offset, flags } = header;
    const name = requestName(header);
    let partial = this.#partial.get(name);
    if ((flags & KvFlag.FIRST) !== 0) {
      const open = this.#openRequest(header, customerKey(header.app, header.customer), this.#timestampOf(header));
      open.requests.length = 0;
      partial = { open, assembly: new KvAssembly() };
      this.#partial.set(name, partial);
    }
    if (partial === undefined) {
      // Its beginning was lost with the link before.
      this.#conversation.fail(header.request, this.#lostError());
      return;
    }
    const { open } = partial;
    open.requests.push(header.request);
    if (offset === 0) open.keyCount += keyCount;
    partial.assembly.add(header, (list, from, to) => keepRange(list, frame, from, to));
    if ((flags & KvFlag.LAST) === 0) return;
    this.#partial.delete(name);
    this.#sendCollected(header, partial);
  }

  #sendCollected(header: FrameHeader, { open, assembly: { keys, values, lens } }: PartialRequest): void {
    const { outgoing } = this.#conversation;
    if (outgoing === undefined) {
      this.#fail(open, this.#lostError());
      return;
    }
    this.#remember(open);
    const meta = this.#kvMeta(header, open.timestamp, lens.length > 0);
    const { batch } = outgoing;
    batch.meta(meta, false);
    addPart(batch, keys, false);
    addPart(batch, values, lens.length === 0);
    if (lens.length > 0) addPart(batch, lens, true);
    this.#conversation.endMessage(meta);
  }

  #kvMeta(header: FrameHeader, timestamp: number, hasLens: boolean): PsMeta {
    const { meta } = this.#conversation;
    meta.reset();
    meta.head = header.command;
    meta.request = true;
    meta.push = header.functionId !== FunctionId.KV_PULL;
    meta.pull = header.functionId !== FunctionId.KV_PUSH;
    meta.appId = header.app;
    meta.customerId = header.customer;
    meta.timestamp = timestamp;
    meta.priority = header.priority;
    meta.dataTypes.push(PsType.UINT64, psTypeOfDtype(dtypeOfFlags(header.flags)));
    if (hasLens) meta.dataTypes.push(PsType.INT32);
    return meta;
  }

  /** The customer's own, unless acknowledgements need one that no other customer of the application has. */
  #timestampOf({ arg3, request }: FrameHeader): number {
    return this.#conversation.host.resender === undefined ? arg3 & TIMESTAMP_MASK : request & SIMPLE_MASK;
  }

  #openRequest(header: FrameHeader, customer: number, timestamp: number): OpenRequest {
    const { functionId, flags, request } = header;
    const elementBytes = elementArrayOf(dtypeOfFlags(flags))?.BYTES_PER_ELEMENT ?? 1;
    const wantsLens = functionId === FunctionId.KV_PULL && (flags & KvFlag.WANT_LENS) !== 0;
    return { functionId, customer, timestamp, requests: [request], wantsLens, elementBytes, keyCount: 0 };
  }

  #remember(open: OpenRequest): void {
    const requests = this.#open.get(open.customer);
    if (requests === undefined) this.#open.set(open.customer, new Map([[open.timestamp, open]]));
    else requests.set(open.timestamp, open);
  }

  // Responses.

  response(meta: PsMeta, hasParts: boolean): PartSink | undefined {
    const key = customerKey(meta.appId, meta.customerId);
    const requests = this.#open.get(meta.simpleApp ? -1 - key : key);
    const open = requests?.get(meta.timestamp);
    if (requests === undefined || open === undefined) return undefined; // ClientRequests.A3
    requests.delete(meta.timestamp);
    const isFailure = meta.push && meta.pull && meta.body.length > 0 && (meta.simpleApp || !hasParts);
    if (isFailure) this.#answerFailure(open, meta.body);
    else if (meta.simpleApp) this.#answerSimple(open, meta);
    else if (open.functionId === FunctionId.KV_PUSH) for (const request of open.requests) this.#acknowledge(open.functionId, request);
    else if (hasParts) return this.#reader.begun(open, meta);
    else this.#reader.begun(open, meta).endWithout();
    return undefined;
  }

  #answerFailure(open: OpenRequest, body: Uint8Array): void {
    const { name, channel } = this.#conversation;
    let failure: Failure;
    try {
      failure = decodeFailure(body);
    } catch (thrown) {
      this.#fail(open, new WeighbridgeError("BAD_FRAME", `${name} answered with a failure that cannot be read`, { cause: thrown }));
      return;
    }
    for (const request of open.requests) channel?.failCall(request, failure);
  }

  #answerSimple(open: OpenRequest, { body, skippedBytes }: PsMeta): void {
    const { name, header, payload } = this.#conversation;
    if (skippedBytes > 0) {
      this.#fail(open, new WeighbridgeError("BAD_FRAME", `${name}: ${bodyTooLong(skippedBytes)}`));
      return;
    }
    const { functionId, requests } = open;
    for (const request of requests.slice(0, -1)) this.#acknowledge(functionId, request);
    let offset = 0;
    for (const part of bodyParts(body)) {
      header.reset(Kind.REPLY, functionId);
      header.request = requests.at(-1) as number;
      header.arg0 = body.length;
      header.arg2 = offset;
      payload.deliverCopy(header, part);
      offset += part.length;
    }
  }

  #acknowledge(functionId: number, request: number): void {
    const { header, payload } = this.#conversation;
    header.reset(Kind.REPLY, functionId);
    header.request = request;
    payload.deliver(header);
  }
}

/** For requests that left and were not answered. */
export function lostError(why: string): WeighbridgeError {
  return new WeighbridgeError("NODE_DEAD", `${why}; whether what it had not answered was applied is not known`, { retryable: true });
}

/** Whether the frame is all of a request, with its lens if it needs any. */
function isWholeRequest(flags: number): boolean {
  const isOnly = (flags & KvFlag.FIRST) !== 0 && (flags & KvFlag.LAST) !== 0;
  return isOnly && ((flags & KvFlag.PIECE) === 0 || (flags & KvFlag.VARIABLE) === 0);
}

function customerKey(app: number, customer: number): number {
  return app * CUSTOMERS_MAX + customer;
}

function requestName({ app, customer, arg3 }: FrameHeader): string {
  return `${app}/${customer}/${arg3}`;
}

/**
 * Adds `[from, to)` of the frame's payload to the message: what is in the page is copied, what is attached is sent from
 * where it is.
 */
function addRange(batch: MessageBatch, frame: OutgoingFrame, from: number, to: number): void {
  const { page, inlineBytes } = frame;
  if (from < inlineBytes) batch.copy(page, from, Math.min(to, inlineBytes));
  if (to > inlineBytes) eachAttached(frame, from, to, (part) => batch.add(part));
}

/** The same, to be kept until the message is sent. */
function keepRange(parts: Uint8Array[], frame: OutgoingFrame, from: number, to: number): void {
  const { page, inlineBytes } = frame;
  if (from < Math.min(to, inlineBytes)) parts.push(page.slice(from, Math.min(to, inlineBytes)));
  if (to > inlineBytes) eachAttached(frame, from, to, (part) => parts.push(part));
}

function eachAttached({ inlineBytes, attached }: OutgoingFrame, from: number, to: number, visit: (part: Uint8Array) => void): void {
  let partFrom = inlineBytes;
  for (const part of attached) {
    const partTo = partFrom + part.length;
    if (to > partFrom && from < partTo) visit(part.subarray(Math.max(from, partFrom) - partFrom, Math.min(to, partTo) - partFrom));
    partFrom = partTo;
  }
}

function addPart(batch: MessageBatch, parts: readonly Uint8Array[], isLast: boolean): void {
  batch.part(byteCountOf(parts), isLast);
  for (const part of parts) batch.add(part);
}
