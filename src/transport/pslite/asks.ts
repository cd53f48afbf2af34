// asks — what our node asks of a ps-lite node, and its responses. The frames of a kv request (spec/protocol.md, K7 to K9) become one
// message, as ps-lite wants it; its response is given back as the answer to all of them (K11: GATHERED, and WHOLE for the last).
//
// Invariants:
//   A1. The keys and values of a message are sent from where they lie: in the caller's arrays, which are the request's until it ends.
//       Only what lies in a page is copied.
//   A2. Every request ends: answered, failed by the node, or failed because the line broke. One that left is never sent again: when the
//       channel repeats it on a new link, it fails.
//   A3. A response that fits nothing that is open is left out.

import { WeighbridgeError } from "../../base/errors.ts";
import { BLOCK_BYTES, type FrameHeader, Kind, PAYLOAD_BYTES_MAX } from "../../wire/frame.ts";
import { FunctionId } from "../../wire/function-id.ts";
import { dtypeConstructor, dtypeOfFlags, KEY_BYTES, KvFlag, LEN_BYTES } from "../../wire/kv-message.ts";
import { PsType, psTypeOfDtype } from "../../wire/pslite/data-type.ts";
import { PsMeta } from "../../wire/pslite/ps-meta.ts";
import type { PartFate, PartSink } from "../../wire/pslite/zmtp-reader.ts";
import type { Envoy } from "./envoy.ts";
import { COPY_BYTES_MAX, type MessageBatch } from "./message-batch.ts";
import type { WrittenFrame } from "./written-frames.ts";

/** A request that left, or is being gathered. */
type Ask = {
  readonly functionId: number;
  readonly place: number;
  readonly timestamp: number;
  /** The numbers of its frames. */
  readonly requests: number[];
  readonly wantsLens: boolean;
  readonly elementBytes: number;
  keyCount: number;
};

type Gathering = { readonly ask: Ask; readonly keys: Uint8Array[]; readonly values: Uint8Array[]; readonly lens: Uint8Array[] };

/** Timestamps of SimpleApp requests begin here, so that their signatures differ from those of pushes and pulls. */
const SIMPLE_TIMESTAMP = 2 ** 29;
const TIMESTAMP_MASK = 2 ** 31 - 1;
const SIMPLE_MASK = SIMPLE_TIMESTAMP - 1;
const CUSTOMERS_MAX = 2 ** 16;
const LOST_MAX = 2 ** 20;

export class Asks {
  readonly #envoy: Envoy;
  /** By application and customer, then by timestamp. SimpleApp's have places below 0. */
  readonly #open = new Map<number, Map<number, Ask>>();
  readonly #gathering = new Map<string, Gathering>();
  /** Numbers of requests that left and were not answered when the link ended (A2). */
  readonly #lost = new Set<number>();
  readonly #intake: ResponseIntake;

  constructor(envoy: Envoy) {
    this.#envoy = envoy;
    this.#intake = new ResponseIntake(envoy);
  }

  /** A request of ours. */
  take(frame: WrittenFrame, isNew: boolean): void {
    const { header } = frame;
    if (!isNew && this.#lost.delete(header.request)) {
      this.#envoy.failRequest(header, this.#lostError());
      return;
    }
    switch (header.functionId) {
      case FunctionId.SIMPLE:
        this.#sendSimple(frame);
        break;
      case FunctionId.KV_PUSH:
      case FunctionId.KV_PULL:
      case FunctionId.KV_PUSH_PULL:
        if (isWholeRequest(header.flags)) this.#sendFrame(frame);
        else this.#gather(frame);
        break;
      default: {
        const message = `function ${header.functionId} cannot be asked of ${this.#envoy.name}: ps-lite's protocol has pushes, pulls and SimpleApp; parameters need our own: leave --van (DMLC_PS_VAN_TYPE) out`;
        this.#envoy.failRequest(header, new WeighbridgeError("UNSUPPORTED", message));
      }
    }
  }

  /** Everything that is open fails. */
  fail(error: WeighbridgeError): void {
    for (const asks of this.#open.values())
      for (const { functionId, requests } of asks.values())
        for (const request of requests) this.#envoy.failRequest({ functionId, request }, error);
    this.#open.clear();
    this.#gathering.clear();
  }

  /** The link is gone, and whoever asked may ask again over the next one (A2). */
  forget(): void {
    for (const asks of this.#open.values()) for (const { requests } of asks.values()) for (const request of requests) this.#lose(request);
    for (const request of this.#intake.abandon()) this.#lose(request);
    this.#open.clear();
    this.#gathering.clear();
  }

  #lose(request: number): void {
    if (this.#lost.size >= LOST_MAX) this.#lost.clear();
    this.#lost.add(request);
  }

  #lostError(): WeighbridgeError {
    const message = `the connection with ${this.#envoy.name} broke; whether what it had not answered was applied is not known`;
    return new WeighbridgeError("NODE_DEAD", message, { retryable: true });
  }

  // Requests.

  #sendSimple(frame: WrittenFrame): void {
    const { header } = frame;
    const timestamp = SIMPLE_TIMESTAMP + (header.request & SIMPLE_MASK);
    this.#remember(this.#askOf(header, -1 - placeOf(header.app, header.customer), timestamp));
    const meta = new PsMeta();
    meta.head = header.command;
    meta.body = frame.payload();
    meta.request = true;
    meta.simpleApp = true;
    meta.appId = header.app;
    meta.customerId = header.customer;
    meta.timestamp = timestamp;
    this.#envoy.serves.whenFree(() => this.#envoy.send(meta)); // a long response may be under way on the same line
  }

  /** A request of one frame: nothing needs to be put together. */
  #sendFrame(frame: WrittenFrame): void {
    const { line } = this.#envoy;
    const { header } = frame;
    if (line === undefined) return;
    const ask = this.#askOf(header, placeOf(header.app, header.customer), this.#timestampOf(header));
    ask.keyCount = header.arg0;
    this.#remember(ask);
    const keyBytes = header.arg0 * KEY_BYTES;
    const lensBytes = (header.flags & KvFlag.LENS) === 0 ? 0 : header.arg0 * LEN_BYTES;
    const valueEnd = header.payloadBytes - lensBytes;
    const meta = this.#kvMeta(header, ask.timestamp, lensBytes > 0);
    const { batch } = line;
    batch.meta(meta, false);
    batch.part(keyBytes, false);
    addRange(batch, frame, 0, keyBytes);
    batch.part(valueEnd - keyBytes, lensBytes === 0);
    addRange(batch, frame, keyBytes, valueEnd);
    if (lensBytes > 0) {
      batch.part(lensBytes, true);
      addRange(batch, frame, valueEnd, header.payloadBytes);
    }
    this.#envoy.endMessage(meta);
  }

  #gather(frame: WrittenFrame): void {
    const { header } = frame;
    const { arg0: keyCount, arg1: width, arg2: offset, flags } = header;
    const name = `${header.app}/${header.customer}/${header.arg3}`;
    let gathering = this.#gathering.get(name);
    if ((flags & KvFlag.FIRST) !== 0) {
      const ask = this.#askOf(header, placeOf(header.app, header.customer), this.#timestampOf(header));
      ask.requests.length = 0;
      gathering = { ask, keys: [], values: [], lens: [] };
      this.#gathering.set(name, gathering);
    }
    if (gathering === undefined) {
      this.#envoy.failRequest(header, this.#lostError()); // its beginning was lost with the link before
      return;
    }
    const { ask } = gathering;
    ask.requests.push(header.request);
    const keyBytes = keyCount * KEY_BYTES;
    const lensBytes = (flags & KvFlag.LENS) === 0 ? 0 : keyCount * LEN_BYTES;
    const valueEnd = header.payloadBytes - lensBytes;
    if (offset === 0) {
      ask.keyCount += keyCount;
      keepRange(gathering.keys, frame, 0, keyBytes);
      if (lensBytes > 0) keepRange(gathering.lens, frame, valueEnd, header.payloadBytes);
      else if ((flags & KvFlag.VARIABLE) !== 0) gathering.lens.push(new Uint8Array(Int32Array.of(width).buffer));
    }
    keepRange(gathering.values, frame, keyBytes, valueEnd);
    if ((flags & KvFlag.LAST) === 0) return;
    this.#gathering.delete(name);
    this.#sendGathered(header, gathering);
  }

  #sendGathered(header: FrameHeader, { ask, keys, values, lens }: Gathering): void {
    const { line } = this.#envoy;
    if (line === undefined) return;
    this.#remember(ask);
    const meta = this.#kvMeta(header, ask.timestamp, lens.length > 0);
    const { batch } = line;
    batch.meta(meta, false);
    addPart(batch, keys, false);
    addPart(batch, values, lens.length === 0);
    if (lens.length > 0) addPart(batch, lens, true);
    this.#envoy.endMessage(meta);
  }

  #kvMeta(header: FrameHeader, timestamp: number, hasLens: boolean): PsMeta {
    const { meta } = this.#envoy;
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
    return this.#envoy.host.resender === undefined ? arg3 & TIMESTAMP_MASK : request & SIMPLE_MASK;
  }

  #askOf(header: FrameHeader, place: number, timestamp: number): Ask {
    const { functionId, flags, request } = header;
    const elementBytes = dtypeConstructor(dtypeOfFlags(flags))?.BYTES_PER_ELEMENT ?? 1;
    return {
      functionId,
      place,
      timestamp,
      requests: [request],
      wantsLens: functionId === FunctionId.KV_PULL && (flags & KvFlag.WANT_LENS) !== 0,
      elementBytes,
      keyCount: 0,
    };
  }

  #remember(ask: Ask): void {
    const asks = this.#open.get(ask.place);
    if (asks === undefined) this.#open.set(ask.place, new Map([[ask.timestamp, ask]]));
    else asks.set(ask.timestamp, ask);
  }

  // Responses.

  response(meta: PsMeta, hasParts: boolean): PartSink | undefined {
    const place = meta.simpleApp ? -1 - placeOf(meta.appId, meta.customerId) : placeOf(meta.appId, meta.customerId);
    const asks = this.#open.get(place);
    const ask = asks?.get(meta.timestamp);
    if (asks === undefined || ask === undefined) return undefined; // A3
    asks.delete(meta.timestamp);
    const isFailure = meta.push && meta.pull && meta.body.length > 0 && (meta.simpleApp || !hasParts);
    if (isFailure) {
      for (const request of ask.requests) this.#envoy.failWith(ask.functionId, request, meta.body);
      return undefined;
    }
    if (meta.simpleApp) {
      this.#answerSimple(ask, meta.body);
      return undefined;
    }
    if (ask.functionId === FunctionId.KV_PUSH) {
      for (const request of ask.requests) this.#acknowledge(ask.functionId, request, 0);
      return undefined;
    }
    if (hasParts) return this.#intake.begun(ask, meta);
    this.#intake.begun(ask, meta).endWithout();
    return undefined;
  }

  #answerSimple({ functionId, requests }: Ask, body: Uint8Array): void {
    const { header, feed } = this.#envoy;
    header.reset(Kind.REPLY, functionId);
    header.request = requests[0] as number;
    header.arg0 = body.length;
    feed?.put(header, body);
  }

  #acknowledge(functionId: number, request: number, flags: number): void {
    const { header, feed } = this.#envoy;
    header.reset(Kind.REPLY, functionId);
    header.request = request;
    header.flags = flags;
    feed?.begin(header);
  }
}

/** Takes the parts of a response with values, and answers the frames of the request with them. */
class ResponseIntake implements PartSink {
  readonly #envoy: Envoy;
  #ask: Ask | undefined;
  #isKey64 = true;
  #isLensExpected = false;
  #partIndex = 0;
  #isLastPart = true;
  #valueBytes = 0;
  /** Where in the values the stream is. */
  #offset = 0;
  #frameLeft = 0;

  constructor(envoy: Envoy) {
    this.#envoy = envoy;
  }

  begun(ask: Ask, meta: PsMeta): this {
    this.#ask = ask;
    this.#isKey64 = meta.dataTypes[0] === PsType.UINT64;
    this.#isLensExpected = false;
    this.#valueBytes = 0;
    this.#offset = 0;
    return this;
  }

  /** What was being answered when the link ended. */
  abandon(): readonly number[] {
    const requests = this.#ask?.requests ?? [];
    this.#ask = undefined;
    return requests;
  }

  begin(index: number, byteCount: number, isLast: boolean): PartFate {
    const ask = this.#ask;
    this.#partIndex = index;
    this.#isLastPart = isLast;
    if (ask === undefined) return "skip";
    if (index === 1) return this.#checkKeys(ask, byteCount) && isLast ? this.#endAndSkip() : "skip";
    if (index === 2) {
      this.#valueBytes = byteCount;
      this.#isLensExpected = ask.wantsLens;
      this.#beginAnswer(ask);
      if (byteCount <= COPY_BYTES_MAX) return "whole";
      this.#nextFrame(ask);
      return "stream";
    }
    return index === 3 && this.#isLensExpected ? "whole" : "skip";
  }

  whole(bytes: Uint8Array, at: number, byteCount: number): void {
    const ask = this.#ask;
    if (ask === undefined) return;
    if (this.#partIndex === 2) {
      if (byteCount > 0 || this.#total(ask) === 0) this.#stage(ask, bytes, at, byteCount);
      this.#offset = byteCount;
      if (this.#isLastPart) this.#endValues(ask);
      else if (!this.#isLensExpected) this.#ask = undefined;
      return;
    }
    if (byteCount === ask.keyCount * LEN_BYTES) this.#stageLens(ask, bytes.subarray(at, at + byteCount));
    else this.#fail(`${byteCount} bytes of lens for ${ask.keyCount} keys`);
    this.#ask = undefined;
  }

  view(): Uint8Array {
    return this.#envoy.feed?.view() ?? new Uint8Array(COPY_BYTES_MAX); // without a link what comes is dropped
  }

  streamed(byteCount: number): void {
    const ask = this.#ask;
    const { feed } = this.#envoy;
    if (ask === undefined || feed === undefined) return;
    this.#offset += byteCount;
    this.#frameLeft = feed.streamed(byteCount);
    if (this.#frameLeft > 0) return;
    if (this.#offset < this.#valueBytes) this.#nextFrame(ask);
    else if (this.#isLastPart) this.#endValues(ask);
    else if (!this.#isLensExpected) this.#ask = undefined;
  }

  /** The response has no parts at all. */
  endWithout(): void {
    const ask = this.#ask;
    if (ask === undefined) return;
    this.#beginAnswer(ask);
    this.#stage(ask, new Uint8Array(0), 0, 0);
    this.#ask = undefined;
  }

  #endAndSkip(): PartFate {
    this.endWithout();
    return "skip";
  }

  #checkKeys(ask: Ask, byteCount: number): boolean {
    if (this.#isKey64 && byteCount === ask.keyCount * KEY_BYTES) return true;
    const { name } = this.#envoy;
    if (this.#isKey64) this.#fail(`${name} answered with ${byteCount / KEY_BYTES} keys, but was asked for ${ask.keyCount}`);
    else this.#fail(`${name} has keys of 32 bits (USE_KEY32); Weighbridge has 64: build it without`);
    this.#ask = undefined;
    return false;
  }

  #fail(what: string): void {
    const ask = this.#ask;
    if (ask === undefined) return;
    const error = new WeighbridgeError("BAD_REQUEST", what);
    for (const request of ask.requests) this.#envoy.failRequest({ functionId: ask.functionId, request }, error);
  }

  #total(ask: Ask): number {
    return this.#valueBytes + (ask.wantsLens ? ask.keyCount * LEN_BYTES : 0);
  }

  /** All frames but the last are only told that they were taken (K11). */
  #beginAnswer({ functionId, requests }: Ask): void {
    const { header, feed } = this.#envoy;
    for (let i = 0; i < requests.length - 1; i++) {
      header.reset(Kind.REPLY, functionId);
      header.request = requests[i] as number;
      header.flags = KvFlag.GATHERED;
      feed?.begin(header);
    }
  }

  #answerHeader(ask: Ask, payloadBytes: number, offset: number): FrameHeader {
    const { header } = this.#envoy;
    const total = this.#total(ask);
    header.reset(Kind.REPLY, ask.functionId);
    header.request = ask.requests[ask.requests.length - 1] as number;
    header.flags = KvFlag.WHOLE;
    header.payloadBytes = payloadBytes;
    header.arg0 = total >>> 0;
    header.arg1 = Math.floor(total / 2 ** 32);
    header.arg2 = offset >>> 0;
    header.arg3 = Math.floor(offset / 2 ** 32);
    return header;
  }

  #stage(ask: Ask, bytes: Uint8Array, at: number, byteCount: number): void {
    const { feed } = this.#envoy;
    if (feed === undefined) return;
    const to = feed.begin(this.#answerHeader(ask, byteCount, 0));
    const { stageBytes } = feed;
    if (byteCount <= 32) for (let i = 0; i < byteCount; i++) stageBytes[to + i] = bytes[at + i] as number;
    else stageBytes.set(bytes.subarray(at, at + byteCount), to);
  }

  #nextFrame(ask: Ask): void {
    const byteCount = Math.min(PAYLOAD_BYTES_MAX, this.#valueBytes - this.#offset);
    this.#frameLeft = byteCount;
    this.#envoy.feed?.open(this.#answerHeader(ask, byteCount, this.#offset), NOTHING);
  }

  /** The values were the last part: whoever wants lengths gets even ones. */
  #endValues(ask: Ask): void {
    if (this.#isLensExpected) {
      const width = this.#valueBytes / ask.elementBytes / ask.keyCount;
      if (Number.isInteger(width)) this.#stageLens(ask, bytesOf(new Int32Array(ask.keyCount).fill(width)));
      else this.#fail(`${this.#valueBytes} bytes of values without lens for ${ask.keyCount} keys`);
    }
    this.#ask = undefined;
  }

  #stageLens(ask: Ask, lens: Uint8Array): void {
    for (let from = 0; from < lens.length; from += BLOCK_BYTES) {
      const part = lens.subarray(from, from + BLOCK_BYTES);
      this.#envoy.feed?.put(this.#answerHeader(ask, part.length, this.#valueBytes + from), part);
    }
  }
}

const NOTHING = new Uint8Array(0);

/** Whether the frame is all of a request, and has its lens if it needs some. */
function isWholeRequest(flags: number): boolean {
  const isOnly = (flags & KvFlag.FIRST) !== 0 && (flags & KvFlag.LAST) !== 0;
  return isOnly && ((flags & KvFlag.PIECE) === 0 || (flags & KvFlag.VARIABLE) === 0);
}

function placeOf(app: number, customer: number): number {
  return app * CUSTOMERS_MAX + customer;
}

function bytesOf(array: Int32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** Adds `[from, to)` of the frame's payload to the message (A1). */
function addRange(batch: MessageBatch, frame: WrittenFrame, from: number, to: number): void {
  const { page, at, inlineBytes } = frame;
  if (from < inlineBytes) batch.copy(page, at + from, at + Math.min(to, inlineBytes));
  let partFrom = inlineBytes;
  for (const part of frame.attached) {
    const partTo = partFrom + part.length;
    if (to > partFrom && from < partTo)
      addBytes(batch, part.subarray(Math.max(from, partFrom) - partFrom, Math.min(to, partTo) - partFrom));
    partFrom = partTo;
  }
}

/** The same, to be kept until the message is sent. */
function keepRange(parts: Uint8Array[], frame: WrittenFrame, from: number, to: number): void {
  const { page, at, inlineBytes } = frame;
  if (from < Math.min(to, inlineBytes)) parts.push(page.slice(at + from, at + Math.min(to, inlineBytes)));
  let partFrom = inlineBytes;
  for (const part of frame.attached) {
    const partTo = partFrom + part.length;
    if (to > partFrom && from < partTo) parts.push(part.subarray(Math.max(from, partFrom) - partFrom, Math.min(to, partTo) - partFrom));
    partFrom = partTo;
  }
}

function addPart(batch: MessageBatch, parts: readonly Uint8Array[], isLast: boolean): void {
  batch.part(
    parts.reduce((sum, { length }) => sum + length, 0),
    isLast,
  );
  for (const part of parts) addBytes(batch, part);
}

function addBytes(batch: MessageBatch, bytes: Uint8Array): void {
  if (bytes.length <= COPY_BYTES_MAX) batch.copy(bytes, 0, bytes.length);
  else batch.attach(bytes);
}
