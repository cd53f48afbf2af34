// request-reader — reads the parts of a push, pull or pushPull of a ps-lite node and turns them into requests to our
// node. Values are read straight to where our node wants them, with two exceptions: with lens, which follow the values,
// values are kept until those arrive, and with PS_RESEND until the message is complete: one that broke off and is
// resent must not have been applied in part.

import { assert } from "../base/assert.ts";
import { joinBytes } from "../base/bytes.ts";
import { badRequest, unsupported, type WeighbridgeError } from "../base/errors.ts";
import { KEY_BYTES } from "../kernel/elements.ts";
import { APP_CUT, type FrameHeader, PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { dtypeBits, KvFlag, keysPerFrame, LEN_BYTES, problemWithLens } from "../wire/kv-message.ts";
import { type KvSpan, UniformCut, variableSpans } from "../wire/kv-spans.ts";
import { BODY_BYTES_MAX, bodyTooLong } from "../wire/simple-frame.ts";
import type { Conversation } from "./conversation.ts";
import { COPY_BYTES_MAX } from "./message-batch.ts";
import type { KnownList, PulledLists } from "./pulled-lists.ts";
import type { ServedRequest } from "./served-request.ts";
import { dtypeOfPsType, PsType } from "./wire/data-type.ts";
import { PART_BYTES_MAX, type PsMeta } from "./wire/ps-meta.ts";
import type { PartFate, PartSink } from "./wire/zmtp-reader.ts";

/** How many keys of a pull fit a frame. */
export const PULL_KEYS_MAX: number = PAYLOAD_BYTES_MAX / KEY_BYTES;

/** Applications and customers are 16 bits in our frames. */
const ID_MAX = 0xffff;

export class RequestReader implements PartSink {
  readonly #conversation: Conversation;
  readonly #lists: PulledLists;
  #served: ServedRequest | undefined;
  #hasLens = false;
  #partIndex = 0;
  #isLastPart = true;
  /** The keys, until the frames are made. */
  #keys: Uint8Array = new Uint8Array(KEY_BYTES);
  #scratch: Uint8Array = new Uint8Array(KEY_BYTES);
  #keyCount = 0;
  /** Of a pull: its list, if it was pulled before. */
  #known: KnownList | undefined;
  /** With lens: the values. */
  #values: Uint8Array = new Uint8Array(0);
  /** Of a push with equally many values for each key: how many, its frames unless it is small, and the next of them. */
  #width = 0;
  #cut: UniformCut | undefined;
  #next = 0;
  #frameIndex = 0;

  constructor(conversation: Conversation, lists: PulledLists) {
    this.#conversation = conversation;
    this.#lists = lists;
  }

  begun(served: ServedRequest, hasLens: boolean): this {
    this.#served = served;
    this.#hasLens = hasLens;
    this.#keyCount = 0;
    this.#cut = undefined;
    this.#next = 0;
    this.#frameIndex = 0;
    return this;
  }

  begin(index: number, byteCount: number, isLast: boolean): PartFate {
    const served = this.#served;
    this.#partIndex = index;
    this.#isLastPart = isLast;
    if (served === undefined || index > 3) return "skip";
    if (index !== 2 && byteCount > PART_BYTES_MAX) return this.#refuse(`${byteCount} bytes of ${index === 1 ? "keys" : "lens"}`);
    if (index === 1) return byteCount === 0 || byteCount % KEY_BYTES !== 0 || isLast ? this.#refuse(`keys of ${byteCount} bytes`) : "whole";
    if (index === 3) return "whole";
    if (!served.push) return byteCount === 0 ? "whole" : this.#refuse("a pull with values");
    const isKept = this.#hasLens || this.#conversation.host.resender !== undefined;
    if (isKept && byteCount > PART_BYTES_MAX) return this.#refuse(`${byteCount} bytes of values, which have to be kept until all is here`);
    if (this.#hasLens) return isLast ? this.#refuse("lens are announced, but missing") : "whole";
    const width = byteCount / served.elementBytes / this.#keyCount;
    if (width === 0 || !Number.isInteger(width)) return this.#refuse(`${byteCount} bytes of values for ${this.#keyCount} keys`);
    return this.#planPush(served, width, byteCount);
  }

  whole(bytes: Uint8Array, at: number, byteCount: number): void {
    const served = this.#served;
    if (served === undefined) return;
    if (this.#partIndex === 1) this.#takeKeys(served, bytes, at, byteCount);
    else if (this.#partIndex === 2 && !served.push) this.#pull(served);
    else if (this.#partIndex === 2 && this.#hasLens) this.#values = ownBytes(bytes, at, byteCount);
    else if (this.#partIndex === 2 && this.#isSmall(byteCount)) this.#pushSmall(served, bytes, at, byteCount);
    else if (this.#partIndex === 2) this.#pushKept(served, bytes, at);
    else if (this.#hasLens && served.push) this.#pushVariable(served, bytes.slice(at, at + byteCount));
    if (this.#isLastPart) this.#served = undefined;
  }

  view(aheadBytes: number): Uint8Array {
    return this.#conversation.payload.view(this.#hasNext ? 0 : aheadBytes);
  }

  streamed(byteCount: number): void {
    const served = this.#served;
    if (!this.#conversation.payload.received(byteCount) || served === undefined) return;
    if (this.#hasNext) this.#nextFrame(served);
    else if (this.#isLastPart) this.#served = undefined;
  }

  #refuse(what: string): PartFate {
    this.#served?.refuse(badRequest(what));
    this.#served = undefined;
    return "skip";
  }

  #takeKeys(served: ServedRequest, bytes: Uint8Array, at: number, byteCount: number): void {
    this.#keyCount = byteCount / KEY_BYTES;
    served.keyCount = this.#keyCount;
    if (this.#scratch.length < byteCount) this.#scratch = new Uint8Array(byteCount);
    this.#keys = this.#scratch;
    if (byteCount === KEY_BYTES) for (let i = 0; i < KEY_BYTES; i++) this.#keys[i] = bytes[at + i] as number;
    else this.#keys.set(bytes.subarray(at, at + byteCount));
    if (!served.pull) return;
    const keys = this.#keys.subarray(0, byteCount);
    this.#known = this.#lists.find(keys, served);
    // Arrays of this size are expensive: collecting them stops the node and takes a core from others.
    served.keys = this.#known?.keys ?? keys.slice();
  }

  #requestHeader(served: ServedRequest, flags: number, isLast: boolean): FrameHeader {
    const isFirst = this.#frameIndex++ === 0;
    const header = this.#conversation.requestHeader(served.functionId, served.push, served);
    if (isFirst) served.first = header.request;
    header.app = served.app;
    header.customer = served.customer;
    header.command = served.head;
    header.arg3 = served.timestamp >>> 0;
    header.flags = APP_CUT | dtypeBits(served.dtype) | flags | (isFirst ? KvFlag.FIRST : 0) | (isLast ? KvFlag.LAST : 0);
    return header;
  }

  /** The header of the frame that carries this span. */
  #spanHeader(served: ServedRequest, { keyFrom, keyTo, width, pieceOffset }: KvSpan, flags: number, isLast: boolean): FrameHeader {
    const isPiece = pieceOffset >= 0;
    const header = this.#requestHeader(served, flags | (isPiece ? KvFlag.PIECE : 0), isLast);
    header.arg0 = keyTo - keyFrom;
    header.arg1 = width;
    header.arg2 = isPiece ? pieceOffset : 0;
    return header;
  }

  #pull(served: ServedRequest): void {
    const known = this.#known;
    if (known === undefined || (known.width === 1 && this.#keyCount > keysPerFrame(served.elementBytes))) this.pullUnknown(served);
    else this.#pullKnown(served, known);
  }

  /**
   * With WANT_LENS, because the lengths are unknown. A key that nobody pushed reads as one zero, as in ps-lite's
   * handle.
   */
  pullUnknown(served: ServedRequest): void {
    const { keyCount } = served;
    this.#frameIndex = 0;
    served.open(Math.ceil(keyCount / PULL_KEYS_MAX));
    for (let from = 0; from < keyCount; from += PULL_KEYS_MAX) {
      const to = Math.min(keyCount, from + PULL_KEYS_MAX);
      const header = this.#requestHeader(served, KvFlag.WANT_LENS, to === keyCount);
      header.arg0 = to - from;
      header.arg1 = 1;
      this.#conversation.payload.deliverCopy(header, served.keys.subarray(from * KEY_BYTES, to * KEY_BYTES));
    }
  }

  /** As a worker of ours would pull: the lengths of the values are known. */
  #pullKnown(served: ServedRequest, { width, lens }: KnownList): void {
    const { keyCount, keys, elementBytes } = served;
    const cut = new UniformCut(width, elementBytes, { keyFrom: 0, keyTo: keyCount, valueFrom: 0 });
    served.open(cut.frameCount);
    served.guess(lens, keyCount * width * elementBytes);
    for (let i = 0; i < cut.frameCount; i++) {
      const span = cut.span(i);
      const header = this.#spanHeader(served, span, 0, i === cut.frameCount - 1);
      this.#conversation.payload.deliverCopy(header, keysOf(keys, span));
    }
  }

  // Pushes with equally many values for each key: their frames are known before the values arrive.

  #planPush(served: ServedRequest, width: number, byteCount: number): PartFate {
    this.#width = width;
    if (this.#isSmall(byteCount)) {
      served.open(1);
      return "whole";
    }
    this.#cut = new UniformCut(width, served.elementBytes, { keyFrom: 0, keyTo: this.#keyCount, valueFrom: 0 });
    served.open(this.#cut.frameCount);
    if (this.#conversation.host.resender !== undefined) return "whole";
    this.#nextFrame(served);
    return "stream";
  }

  #isSmall(byteCount: number): boolean {
    return byteCount <= COPY_BYTES_MAX && this.#keyCount * KEY_BYTES <= COPY_BYTES_MAX;
  }

  #pushSmall(served: ServedRequest, bytes: Uint8Array, at: number, byteCount: number): void {
    const header = this.#requestHeader(served, 0, true);
    header.arg0 = this.#keyCount;
    header.arg1 = this.#width;
    this.#conversation.payload.deliverCopy(header, this.#keys, bytes, at, byteCount, this.#keyCount * KEY_BYTES);
  }

  /** All values have arrived: delivers the frames with copies of them. */
  #pushKept(served: ServedRequest, bytes: Uint8Array, at: number): void {
    const { elementBytes } = served;
    while (this.#hasNext) {
      const span = this.#nextSpan();
      const header = this.#spanHeader(served, span, 0, !this.#hasNext);
      const byteCount = (span.valueTo - span.valueFrom) * elementBytes;
      this.#conversation.payload.deliverCopy(header, keysOf(this.#keys, span), bytes, at + span.valueFrom * elementBytes, byteCount);
    }
  }

  get #hasNext(): boolean {
    return this.#cut !== undefined && this.#next < this.#cut.frameCount;
  }

  #nextSpan(): KvSpan {
    assert(this.#cut !== undefined, "the push is cut");
    return this.#cut.span(this.#next++);
  }

  /** Opens the next frame. */
  #nextFrame(served: ServedRequest): void {
    const span = this.#nextSpan();
    const header = this.#spanHeader(served, span, 0, !this.#hasNext);
    const keys = keysOf(this.#keys, span);
    header.payloadBytes = keys.length + (span.valueTo - span.valueFrom) * served.elementBytes;
    this.#conversation.payload.begin(header, keys);
  }

  // Pushes with lens.

  #pushVariable(served: ServedRequest, lensBytes: Uint8Array): void {
    const lens = new Int32Array(lensBytes.buffer, 0, lensBytes.length >> 2);
    const valueCount = this.#values.length / served.elementBytes;
    const isWhole = lensBytes.length === this.#keyCount * LEN_BYTES;
    if (!isWhole || problemWithLens(lens, this.#keyCount, valueCount) !== undefined) {
      this.#refuse(`${lens.length} lens that do not fit ${this.#keyCount} keys and ${valueCount} values`);
      return;
    }
    served.lens = lensBytes;
    const spans = variableSpans(lens, served.elementBytes, { keyFrom: 0, keyTo: lens.length, valueFrom: 0 });
    served.open(spans.length);
    for (const [i, span] of spans.entries()) {
      const { keyFrom, keyTo, valueFrom, valueTo, pieceOffset } = span;
      const isPiece = pieceOffset >= 0;
      const header = this.#spanHeader(served, span, KvFlag.VARIABLE | (isPiece ? 0 : KvFlag.LENS), i === spans.length - 1);
      const keys = keysOf(this.#keys, span);
      const values = this.#values.subarray(valueFrom * served.elementBytes, valueTo * served.elementBytes);
      const own = isPiece ? [] : [lensBytes.subarray(keyFrom * LEN_BYTES, keyTo * LEN_BYTES)];
      this.#conversation.payload.deliverCopy(header, joinBytes([keys, values, ...own]));
    }
    this.#values = new Uint8Array(0);
  }
}

function keysOf(keys: Uint8Array, { keyFrom, keyTo }: KvSpan): Uint8Array {
  return keys.subarray(keyFrom * KEY_BYTES, keyTo * KEY_BYTES);
}

/** Memory that was allocated for this part alone is kept without a copy. */
function ownBytes(bytes: Uint8Array, at: number, byteCount: number): Uint8Array {
  return at === 0 && bytes.length === byteCount && byteCount > COPY_BYTES_MAX ? bytes : bytes.slice(at, at + byteCount);
}

/** What is wrong with a request, before its parts are read. */
export function problemWith(meta: PsMeta, hasParts: boolean): WeighbridgeError | undefined {
  const { appId, customerId, dataTypes, simpleApp } = meta;
  if (appId < 0 || appId > ID_MAX || customerId < 0 || customerId > ID_MAX)
    return badRequest(`application ${appId} and customer ${customerId}: ids are 0 to ${ID_MAX} here`);
  if (simpleApp)
    return meta.skippedBytes > 0 || meta.body.length > BODY_BYTES_MAX
      ? badRequest(bodyTooLong(meta.skippedBytes || meta.body.length))
      : undefined;
  if (!hasParts) return badRequest("a request without keys");
  if (dataTypes[0] === PsType.UINT32) return unsupported("this node has keys of 32 bits (USE_KEY32); Weighbridge has 64: build it without");
  if (dataTypes[0] !== PsType.UINT64) return badRequest(`keys of type ${dataTypes[0]}`);
  if (dtypeOfPsType(dataTypes[1] ?? -1) < 0) return badRequest(`values of type ${dataTypes[1]}`);
  return meta.push || meta.pull ? undefined : badRequest("neither a push nor a pull");
}
