// kv-request — one push, pull or pushPull of a user, over all servers that own some of its keys (KvRequest), and the calls of about a block each that carry what one
// server is asked for (KvCall; spec/protocol.md, the kv functions). A request ends once, when every call ended: well, or with the first error. Not which server
// that is: the router decides it. Calls send from the caller's arrays and receive into them, without a copy in between; only payloads that fit a page are copied
// there, and tiny answers back.
//
// Invariants (K3 and K4 are in kv-landing.ts):
//   K1. A pull's answer lands in the caller's array only when it has exactly the length asked for.
//   K2. A read must follow a waiting write when the key spans of their parts touch: a comparison of first and last keys, never of all.
//       Of the whole parts, because a handle on the server may take a request only as a whole: its frames stay in order, and a write counts
//       as waiting until its last frame has left.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { kvPush } from "../contracts/kv.ts";
import type { Slicer } from "../keys/key-list.ts";
import { type Call, IN_PLACE_BYTES_MAX } from "../peer/call.ts";
import { type FrameBatch, INLINE_BYTES_MAX, type Page } from "../peer/frame-batch.ts";
import type { TrackedRequest } from "../peer/request-tracker.ts";
import { APP_CUT, BLOCK_BYTES, type FrameHeader, offsetBytesOf, totalBytesOf } from "../wire/frame.ts";
import { DTYPE_SHIFT, KEY_BYTES, KvFlag, keysPerFrame, LARGE_VALUE_BYTES, LEN_BYTES, type Values } from "../wire/kv-message.ts";
import { addPieces, type KvPart, type KvSpan, variableSpans } from "../wire/kv-spans.ts";
import type { KvArrays, KvCallback, KvFunctionId, KvOwner, KvRequestOptions } from "./kv-arrays.ts";
import { KvLanding, type Landing } from "./kv-landing.ts";

/** Copies of up to this many bytes are made in a loop; above it, a view and `set` are cheaper. */
const LOOP_BYTES_MAX = 128;

export class KvRequest implements KvArrays, TrackedRequest {
  readonly owner: KvOwner;
  readonly functionId: KvFunctionId;
  readonly keys: BigUint64Array;
  readonly sent: Values | undefined;
  readonly received: Values | undefined;
  readonly lens: Int32Array | undefined;
  readonly dtype: number;
  readonly width: number;
  readonly elementBytes: number;
  readonly command: number;
  readonly priority: number;
  readonly callback: KvCallback | undefined;
  readonly fill: ((landings: readonly Landing[]) => void) | undefined;
  readonly landings: Landing[] | undefined;
  readonly slicer: Slicer | undefined;
  /** Its number at the router. */
  order = 0;
  /** Its number within its customer, given when it is tracked. */
  timestamp = 0;
  isSettled = false;
  error: WeighbridgeError | undefined;
  waiting: PromiseWithResolvers<void> | undefined;
  /** How long the arrays were when the request was made: one that is transferred away, or shrinks, has another length from then on. */
  readonly #keyCount: number;
  /** Of those that are sent, and of those that are received: where both are, they are as many. */
  readonly #valueCount: number;
  #openFrames = 0;
  #refusedFrames = 0;
  #failure: WeighbridgeError | undefined;

  constructor(owner: KvOwner, functionId: KvFunctionId, arrays: KvArrays, options: KvRequestOptions) {
    this.owner = owner;
    this.functionId = functionId;
    this.keys = arrays.keys;
    this.sent = arrays.sent;
    this.received = arrays.received;
    this.lens = arrays.lens;
    this.dtype = arrays.dtype;
    this.width = arrays.width;
    this.elementBytes = arrays.elementBytes;
    this.command = options.command;
    this.priority = options.priority;
    this.callback = options.callback;
    this.fill = options.fill;
    this.landings = options.fill === undefined ? undefined : [];
    this.slicer = options.slicer;
    this.#keyCount = arrays.keys.length;
    this.#valueCount = (arrays.sent ?? arrays.received)?.length ?? 0;
  }

  /** Whether all its arrays are still there. */
  get isIntact(): boolean {
    const { keys, sent, received, lens } = this;
    return (
      keys.length >= this.#keyCount &&
      (sent === undefined || sent.length >= this.#valueCount) &&
      (received === undefined || received.length >= this.#valueCount) &&
      (lens === undefined || lens.length >= this.#keyCount)
    );
  }

  /** True when the lengths of the answer are not known, and are asked for. */
  get wantsLens(): boolean {
    return this.fill !== undefined;
  }

  /** Values of the keys from `keyFrom` up to `keyTo`. */
  valueCount(keyFrom: number, keyTo: number): number {
    const { lens, width } = this;
    if (lens === undefined) return (keyTo - keyFrom) * width;
    let count = 0;
    for (let i = keyFrom; i < keyTo; i++) count += lens[i] as number;
    return count;
  }

  /** Whether the application chooses the servers itself. */
  get isAppCut(): boolean {
    return this.slicer !== undefined;
  }

  /** How many frames there are to end. Set before the first one is sent. */
  open(frameCount: number): void {
    this.#openFrames = frameCount;
  }

  /** A call was refused, and what it carried will be sent otherwise. */
  frameRefused(): void {
    this.#refusedFrames++;
  }

  /** Whether all that is open was refused. */
  get isRefused(): boolean {
    return this.#refusedFrames > 0 && this.#refusedFrames === this.#openFrames;
  }

  /** So many refused calls are replaced by others. */
  replaceRefused(refusedCount: number, frameCount: number): void {
    this.#openFrames += frameCount - refusedCount;
    this.#refusedFrames -= refusedCount;
  }

  frameDone(): void {
    const { owner } = this;
    if (--this.#openFrames > 0) {
      if (this.#refusedFrames === this.#openFrames) owner.router?.kvAllRefused(this);
    } else if (owner.router === undefined) owner.ended(this, this.#failure);
    else owner.router.kvEnded(this, this.#failure);
  }

  frameFailed(error: WeighbridgeError): void {
    this.#failure ??= error;
    this.frameDone();
  }
}

/** One frame of a request: some keys with their values (push), with room for them (pull), or both. */
export class KvCall implements Call, KvSpan {
  readonly priority: number;
  readonly epoch: number;
  request = 0;
  stamp = 0;
  sentAtMs = 0;
  sendCount = 0;
  isGathered: boolean = false;
  readonly keyFrom: number;
  readonly keyTo: number;
  readonly valueFrom: number;
  readonly valueTo: number;
  readonly width: number;
  readonly pieceOffset: number;
  readonly isLast: boolean;
  readonly #request: KvRequest;
  /** Of which the span is a run; the call itself when it is all of it. */
  readonly #part: KvPart;
  /** Of an answer in several frames, or of unknown length. */
  #landing: KvLanding | undefined;

  /** Without a `part` the span is the whole part. */
  constructor(request: KvRequest, span: KvSpan, epoch: number, part?: KvPart) {
    this.priority = request.priority;
    this.epoch = epoch;
    this.keyFrom = span.keyFrom;
    this.keyTo = span.keyTo;
    this.valueFrom = span.valueFrom;
    this.valueTo = span.valueTo;
    this.width = span.width;
    this.pieceOffset = span.pieceOffset;
    this.isLast = span.isLast;
    this.#request = request;
    this.#part = part ?? this;
  }

  get isCall(): true {
    return true;
  }

  get functionId(): number {
    return this.#request.functionId;
  }

  get isUpdate(): boolean {
    return this.#request.sent !== undefined;
  }

  get isRead(): boolean {
    return this.#request.functionId !== kvPush.id;
  }

  get isIdempotent(): boolean {
    return false;
  }

  get byteCount(): number {
    const { keyFrom, keyTo, valueFrom, valueTo } = this;
    const { sent } = this.#request;
    return (keyTo - keyFrom) * KEY_BYTES + (sent === undefined ? 0 : (valueTo - valueFrom) * sent.BYTES_PER_ELEMENT);
  }

  get isIntact(): boolean {
    return this.#request.isIntact;
  }

  /** A frame without keys: the server refuses it, and the rest of its request. */
  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    const { owner, command, dtype, timestamp } = this.#request;
    header.app = owner.app;
    header.customer = owner.customer;
    header.command = command;
    header.flags = (dtype << DTYPE_SHIFT) | this.#sharedFlags;
    header.payloadBytes = 0;
    header.arg3 = timestamp;
    batch.begin(header, 0);
  }

  /** Whether it is the first and the last frame of its part, and whose choice the server is. */
  get #sharedFlags(): number {
    const isFirst = this.keyFrom === this.#part.keyFrom && this.pieceOffset <= 0;
    return (isFirst ? KvFlag.FIRST : 0) | (this.isLast ? KvFlag.LAST : 0) | (this.#request.isAppCut ? APP_CUT : 0);
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    const request = this.#request;
    const { owner, lens } = request;
    const keyCount = this.keyTo - this.keyFrom;
    const lensBytes = lens === undefined || this.pieceOffset >= 0 ? 0 : keyCount * LEN_BYTES;
    const payloadBytes = this.byteCount + lensBytes;
    header.app = owner.app;
    header.customer = owner.customer;
    header.command = request.command;
    header.flags =
      (request.dtype << DTYPE_SHIFT) |
      (lensBytes > 0 ? KvFlag.LENS : 0) |
      (lens === undefined ? 0 : KvFlag.VARIABLE) |
      (request.wantsLens ? KvFlag.WANT_LENS : 0) |
      this.#sharedFlags |
      (this.pieceOffset >= 0 ? KvFlag.PIECE : 0);
    header.payloadBytes = payloadBytes;
    header.arg0 = keyCount;
    header.arg1 = this.width;
    header.arg2 = Math.max(this.pieceOffset, 0);
    header.arg3 = request.timestamp;
    if (payloadBytes <= INLINE_BYTES_MAX) this.#encodeInline(batch, batch.begin(header, payloadBytes), lensBytes);
    else this.#encodeAttached(header, batch, lensBytes);
  }

  #encodeInline(batch: FrameBatch, at: number, lensBytes: number): void {
    const { sent, lens } = this.#request;
    const { keyFrom, keyTo, valueFrom, valueTo } = this;
    const { page } = batch;
    this.#copyKeys(page, at);
    let end = at + (keyTo - keyFrom) * KEY_BYTES;
    if (sent !== undefined) {
      const valueBytes = (valueTo - valueFrom) * sent.BYTES_PER_ELEMENT;
      if (sent instanceof Float32Array && valueBytes <= LOOP_BYTES_MAX) {
        for (let i = valueFrom, to = end >> 2; i < valueTo; i++) page.floats[to++] = sent[i] as number;
      } else {
        page.bytes.set(bytesOf(sent, valueFrom, valueTo), end);
      }
      end += valueBytes;
    }
    if (lensBytes > 0) page.bytes.set(bytesOf(lens as Int32Array, keyFrom, keyTo), end);
  }

  #copyKeys(page: Page, at: number): void {
    const { keys } = this.#request;
    const { keyFrom, keyTo } = this;
    if ((keyTo - keyFrom) * KEY_BYTES > LOOP_BYTES_MAX) page.keys.set(keys.subarray(keyFrom, keyTo), at >> 3);
    else for (let i = keyFrom, to = at >> 3; i < keyTo; i++) page.keys[to++] = keys[i] as bigint;
  }

  #encodeAttached(header: FrameHeader, batch: FrameBatch, lensBytes: number): void {
    const { keys, sent, lens } = this.#request;
    const { keyFrom, keyTo, valueFrom, valueTo } = this;
    const keyBytes = (keyTo - keyFrom) * KEY_BYTES;
    if (keyBytes <= INLINE_BYTES_MAX) {
      const at = batch.begin(header, keyBytes);
      this.#copyKeys(batch.page, at);
    } else {
      batch.begin(header, 0);
      batch.attach(bytesOf(keys, keyFrom, keyTo));
    }
    if (sent !== undefined) batch.attach(bytesOf(sent, valueFrom, valueTo));
    if (lensBytes > 0) batch.attach(bytesOf(lens as Int32Array, keyFrom, keyTo));
    batch.pad(header.payloadBytes);
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    const { received } = this.#request;
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    if (offset + header.payloadBytes > total || !this.isIntact) return undefined; // `answered` says what is wrong with it
    if (this.#request.wantsLens) {
      return this.#landed.roomFor(total, offset + header.payloadBytes)?.subarray(offset, offset + header.payloadBytes);
    }
    if (received === undefined || total !== this.#expectedBytes(header) || header.payloadBytes <= IN_PLACE_BYTES_MAX) return undefined;
    return new Uint8Array(received.buffer, received.byteOffset + this.#firstByte(header) + offset, header.payloadBytes);
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    const request = this.#request;
    if (request.functionId === kvPush.id || (header.flags & KvFlag.GATHERED) !== 0) {
      if ((header.flags & KvFlag.GATHERED) !== 0) this.#part.isGathered = true;
      request.frameDone();
      return true;
    }
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    if (offset + header.payloadBytes > total) throw new WeighbridgeError("BAD_FRAME", "an answer reaches beyond its own end");
    if (header.payloadBytes === 0 && total > 0) throw new WeighbridgeError("BAD_FRAME", "a part of an answer is empty");
    if (request.wantsLens) this.#landed.take(header, bytes, at);
    else {
      const expected = this.#expectedBytes(header);
      if (total !== expected) throw this.#lengthError(total, expected);
      if (header.payloadBytes <= IN_PLACE_BYTES_MAX) this.#copySmall(header, bytes, at, offset);
    }
    if (total > header.payloadBytes && !this.#landed.isLast(header, this.sendCount)) return false;
    if (request.wantsLens) {
      const { keyFrom, keyTo } = (header.flags & KvFlag.WHOLE) === 0 ? this : this.#part;
      request.landings?.push({ keyFrom, keyTo, bytes: this.#landed.whole(total) });
    }
    request.frameDone();
    return true;
  }

  failed(error: WeighbridgeError): void {
    if (this.#request.owner.router?.kvRefused(this, error) !== true) this.#request.frameFailed(error);
  }

  get kvRequest(): KvRequest {
    return this.#request;
  }

  get part(): KvPart {
    return this.#part;
  }

  /** K2 */
  mustFollow(waiting: Call): boolean {
    if (!(waiting instanceof KvCall) || !waiting.isUpdate) return false;
    if (this.#request.owner.app !== waiting.#request.owner.app) return false;
    const mine = this.#request;
    const theirs = waiting.#request;
    return (
      (mine.keys[this.#part.keyFrom] as bigint) <= (theirs.keys[waiting.#part.keyTo - 1] as bigint) &&
      (theirs.keys[waiting.#part.keyFrom] as bigint) <= (mine.keys[this.#part.keyTo - 1] as bigint)
    );
  }

  /** K1 */
  #expectedBytes(header: FrameHeader): number {
    const { received } = this.#request;
    assert(received !== undefined, "only reads have room for values");
    const { valueFrom, valueTo } = (header.flags & KvFlag.WHOLE) === 0 ? this : this.#part;
    return (valueTo - valueFrom) * received.BYTES_PER_ELEMENT;
  }

  #firstByte(header: FrameHeader): number {
    const from = (header.flags & KvFlag.WHOLE) === 0 ? this.valueFrom : this.#part.valueFrom;
    return from * this.#request.elementBytes;
  }

  #copySmall(header: FrameHeader, bytes: Uint8Array, at: number, offset: number): void {
    const { received } = this.#request;
    const first = this.#firstByte(header) + offset;
    if (received instanceof Float32Array) {
      const floats = this.#request.owner.window.over(bytes);
      const count = header.payloadBytes >> 2;
      for (let i = 0, to = first >> 2, from = at >> 2; i < count; i++) received[to++] = floats[from++] as number;
    } else if (received !== undefined) {
      bytesOf(received, 0, received.length).set(bytes.subarray(at, at + header.payloadBytes), first);
    }
  }

  get #landed(): KvLanding {
    this.#landing ??= new KvLanding();
    return this.#landing;
  }

  #lengthError(total: number, expected: number): WeighbridgeError {
    const { keyFrom, keyTo } = this.#part;
    const keys = `${keyTo - keyFrom} keys from ${this.#request.keys[keyFrom]} on`;
    return new WeighbridgeError("VALUE_LENGTH", `${total} bytes of values came for ${keys}; ${expected} were expected`);
  }
}

/** The one call of a request that is small and goes to one server; undefined when it takes more than one. Most requests are such. */
export function wholeCall(request: KvRequest, epoch: number): KvCall | undefined {
  const { keys, lens, width, elementBytes } = request;
  const keyCount = keys.length;
  const byteCount = keyCount * (KEY_BYTES + LEN_BYTES + width * elementBytes);
  if (lens !== undefined || byteCount > BLOCK_BYTES || width * elementBytes >= LARGE_VALUE_BYTES) return undefined;
  const span: KvSpan = { keyFrom: 0, keyTo: keyCount, valueFrom: 0, valueTo: keyCount * width, width, pieceOffset: -1, isLast: true };
  return new KvCall(request, span, epoch);
}

/** The calls of this part, in order; the last one is marked. */
export function cutPart(request: KvRequest, part: KvPart, epoch: number): KvCall[] {
  const { lens } = request;
  const spans = lens === undefined ? cutUniform(request, part) : variableSpans(lens, request.elementBytes, part);
  const last = spans.at(-1);
  if (last !== undefined) last.isLast = true;
  return spans.map((span) => new KvCall(request, span, epoch, part));
}

function cutUniform(request: KvRequest, { keyFrom, keyTo, valueFrom }: KvPart): KvSpan[] {
  const { width, elementBytes } = request;
  const spans: KvSpan[] = [];
  if (width * elementBytes >= LARGE_VALUE_BYTES) {
    for (let key = keyFrom; key < keyTo; key++)
      addPieces(spans, { key, valueFrom: valueFrom + (key - keyFrom) * width, width, elementBytes });
    return spans;
  }
  const isOneFrame = (keyTo - keyFrom) * (KEY_BYTES + LEN_BYTES + width * elementBytes) <= BLOCK_BYTES;
  const frameKeys = isOneFrame ? keyTo - keyFrom : keysPerFrame(width * elementBytes);
  for (let from = keyFrom; from < keyTo; from += frameKeys) {
    const to = Math.min(keyTo, from + frameKeys);
    const first = valueFrom + (from - keyFrom) * width;
    spans.push({ keyFrom: from, keyTo: to, valueFrom: first, valueTo: first + (to - from) * width, width, pieceOffset: -1, isLast: false });
  }
  return spans;
}

function bytesOf(array: ArrayBufferView & { readonly BYTES_PER_ELEMENT: number }, from: number, to: number): Uint8Array {
  const size = array.BYTES_PER_ELEMENT;
  return new Uint8Array(array.buffer, array.byteOffset + from * size, (to - from) * size);
}
