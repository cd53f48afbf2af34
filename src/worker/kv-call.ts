// kv-call — one frame of a kv request: some keys with their values (push), with room for them (pull), or both. Sends from the caller's
// arrays and receives into them, without a copy in between; only payloads that fit a page are copied there, and tiny answers back.
//
// Invariants:
//   K1. A pull's answer lands in the caller's array only when it has exactly the length asked for.
//   K2. A read must follow a waiting write when the key spans of their parts touch: a comparison of first and last keys, never of all.
//       Of the whole parts, because a handle on the server may take a request only as a whole: its frames stay in order, and a write counts
//       as waiting until its last frame has left.
//   K3. An answer in several frames is never put together of two: when the call left again, a new one is made and the frames so far do not
//       count. (A WHOLE answer is kept by the server and always the same.)
//   K4. Room for an answer of unknown length is made as it comes, at most twice what has come: what a server announces costs nothing.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { kvPush } from "../contracts/kv.ts";
import { type Call, IN_PLACE_BYTES_MAX } from "../peer/call.ts";
import { type FrameBatch, INLINE_BYTES_MAX, type Page } from "../peer/frame-batch.ts";
import { APP_CUT, type FrameHeader, offsetBytesOf, totalBytesOf } from "../wire/frame.ts";
import { dtypeBits, KEY_BYTES, KvFlag, LEN_BYTES } from "../wire/kv-message.ts";
import type { KvPart, KvSpan } from "../wire/kv-spans.ts";
import type { KvRequest } from "./kv-request.ts";

/** Copies of up to this many bytes are made in a loop; above it, a view and `set` are cheaper. */
const LOOP_BYTES_MAX = 128;
/** Up to here the room for an answer of unknown length is made at once. */
const LANDING_BYTES_MIN = 64 * 1024 * 1024;

/** Frames of an answer in several, and for which sending of the call. */
type Arrived = { readonly sendCount: number; readonly totalBytes: number; readonly offsets: Set<number>; byteCount: number };

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
  /** Where an answer of unknown length lands, and how long it says it is. */
  #landing: Uint8Array | undefined;
  #landingTotal = 0;
  /** What has come of an answer in several frames. */
  #arrived: Arrived | undefined;

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
    header.flags = dtypeBits(dtype) | this.#sharedFlags;
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
      dtypeBits(request.dtype) |
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
      return this.#roomFor(total, offset + header.payloadBytes)?.subarray(offset, offset + header.payloadBytes);
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
    if (request.wantsLens) this.#takeVariable(header, bytes, at);
    else {
      const expected = this.#expectedBytes(header);
      if (total !== expected) throw this.#lengthError(total, expected);
      if (header.payloadBytes <= IN_PLACE_BYTES_MAX) this.#copySmall(header, bytes, at, offset);
    }
    if (total > header.payloadBytes && !this.#isLastOf(total, offset, header)) return false;
    if (request.wantsLens) this.#landed(total, (header.flags & KvFlag.WHOLE) !== 0);
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

  /** A part of an answer of unknown length: has landed, or is small and is copied there (K4). */
  #takeVariable(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const { payloadBytes } = header;
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    const isInPlace = payloadBytes <= IN_PLACE_BYTES_MAX;
    const landing = isInPlace ? this.#roomFor(total, offset + payloadBytes) : this.#landing;
    if ((landing?.length ?? 0) < offset + payloadBytes)
      throw new WeighbridgeError("BAD_FRAME", `a part of an answer begins at byte ${offset} of ${total}, far ahead of those before it`);
    if (isInPlace) landing?.set(bytes.subarray(at, at + payloadBytes), offset);
  }

  /** Where an answer of unknown length lands, with room up to `end` at least; undefined when that is too much to ask (K4). */
  #roomFor(total: number, end: number): Uint8Array | undefined {
    const landing = this.#landingTotal === total ? this.#landing : undefined;
    if (landing !== undefined && landing.length >= end) return landing;
    const arrivedBytes = this.#arrived?.totalBytes === total ? this.#arrived.byteCount : 0;
    const roomBytesMax = Math.max(2 * arrivedBytes, LANDING_BYTES_MIN);
    if (end > roomBytesMax) return undefined;
    const grown = new Uint8Array(Math.min(total, roomBytesMax));
    if (landing !== undefined) grown.set(landing);
    this.#landing = grown;
    this.#landingTotal = total;
    return grown;
  }

  #landed(total: number, isWhole: boolean): void {
    const { keyFrom, keyTo } = isWhole ? this.#part : this;
    const bytes = total === 0 ? new Uint8Array(0) : this.#landing;
    assert(bytes?.length === total, "the last part to come made room for the whole");
    this.#request.landings?.push({ keyFrom, keyTo, bytes });
  }

  #lengthError(total: number, expected: number): WeighbridgeError {
    const { keyFrom, keyTo } = this.#part;
    const keys = `${keyTo - keyFrom} keys from ${this.#request.keys[keyFrom]} on`;
    return new WeighbridgeError("VALUE_LENGTH", `${total} bytes of values came for ${keys}; ${expected} were expected`);
  }

  /** Counts a frame of an answer in several, once; true when all have come (K3). */
  #isLastOf(totalBytes: number, offset: number, { payloadBytes, flags }: FrameHeader): boolean {
    const sendCount = (flags & KvFlag.WHOLE) === 0 ? this.sendCount : 0;
    let arrived = this.#arrived;
    if (arrived === undefined || arrived.sendCount !== sendCount || arrived.totalBytes !== totalBytes) {
      arrived = { sendCount, totalBytes, offsets: new Set(), byteCount: 0 };
      this.#arrived = arrived;
    }
    if (arrived.offsets.has(offset)) return false;
    arrived.offsets.add(offset);
    arrived.byteCount += payloadBytes;
    return arrived.byteCount >= totalBytes;
  }
}

function bytesOf(array: ArrayBufferView & { readonly BYTES_PER_ELEMENT: number }, from: number, to: number): Uint8Array {
  const size = array.BYTES_PER_ELEMENT;
  return new Uint8Array(array.buffer, array.byteOffset + from * size, (to - from) * size);
}
