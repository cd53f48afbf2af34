// kv-call — one frame of a kv request: some keys with their values (push), with room for them (pull), or both. Sends from the caller's
// arrays and receives into them, without a copy in between; only payloads that fit a page are copied there, and tiny answers back.
//
// Invariants:
//   K3. A pull's answer lands in the caller's array only when it has exactly the length asked for.
//   K4. A read must follow a waiting write when their key spans touch: a comparison of first and last keys, never of all.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { offsetBytesOf, totalBytesOf } from "../peer/answer.ts";
import { Call } from "../peer/call.ts";
import { type FrameBatch, INLINE_BYTES_MAX } from "../peer/frame-batch.ts";
import type { FrameHeader } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { dtypeBits, KEY_BYTES, KvFlag, LEN_BYTES } from "../wire/kv-message.ts";
import type { KvPart } from "./kv-part.ts";

/** Copies of up to this many bytes are made in a loop; above it, a view and `set` are cheaper. */
const LOOP_BYTES_MAX = 128;

export type KvSpan = {
  readonly keyFrom: number;
  readonly keyTo: number;
  /** Of the values sent and received, in values. */
  readonly valueFrom: number;
  readonly valueTo: number;
  /** Values per key; 0 when lens say. */
  readonly width: number;
  /** For a piece of one long value: its first value in the whole; -1 otherwise. */
  readonly pieceOffset: number;
  readonly isLast: boolean;
};

export class KvCall extends Call {
  readonly #part: KvPart;
  readonly #span: KvSpan;
  #receivedBytes = 0;
  #landing: Uint8Array | undefined;
  /** Frames of an answer in several that have come, by offset; only made when there are several. */
  #offsets: Set<number> | undefined;

  constructor(part: KvPart, span: KvSpan) {
    super(part.priority);
    this.#part = part;
    this.#span = span;
  }

  get functionId(): number {
    return this.#part.functionId;
  }

  get isUpdate(): boolean {
    return this.#part.sent !== undefined;
  }

  get isRead(): boolean {
    return this.#part.functionId !== FunctionId.KV_PUSH;
  }

  get isIdempotent(): boolean {
    return false;
  }

  get byteCount(): number {
    const { keyFrom, keyTo, valueFrom, valueTo } = this.#span;
    const { sent } = this.#part;
    return (keyTo - keyFrom) * KEY_BYTES + (sent === undefined ? 0 : (valueTo - valueFrom) * sent.BYTES_PER_ELEMENT);
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    const part = this.#part;
    const span = this.#span;
    const keyCount = span.keyTo - span.keyFrom;
    const lensBytes = part.lens === undefined || span.pieceOffset >= 0 ? 0 : keyCount * LEN_BYTES;
    const payloadBytes = this.byteCount + lensBytes;
    header.app = part.app;
    header.customer = part.customer;
    header.command = part.command;
    header.flags =
      dtypeBits(part.dtype) |
      (lensBytes > 0 ? KvFlag.LENS : 0) |
      (part.lens === undefined ? 0 : KvFlag.VARIABLE) |
      (part.wantsLens ? KvFlag.WANT_LENS : 0) |
      (span.isLast ? KvFlag.LAST : 0) |
      (span.pieceOffset >= 0 ? KvFlag.PIECE : 0);
    header.payloadBytes = payloadBytes;
    header.arg0 = keyCount;
    header.arg1 = span.width;
    header.arg2 = Math.max(span.pieceOffset, 0);
    header.arg3 = part.timestamp;
    if (payloadBytes <= INLINE_BYTES_MAX) this.#encodeInline(batch, batch.begin(header, payloadBytes), lensBytes);
    else this.#encodeAttached(header, batch, lensBytes);
  }

  #encodeInline(batch: FrameBatch, at: number, lensBytes: number): void {
    const { keys, sent, lens } = this.#part;
    const { keyFrom, keyTo, valueFrom, valueTo } = this.#span;
    const { page } = batch;
    const keyBytes = (keyTo - keyFrom) * KEY_BYTES;
    if (keyBytes <= LOOP_BYTES_MAX) for (let i = keyFrom, to = at >> 3; i < keyTo; i++) page.keys[to++] = keys[i] as bigint;
    else page.keys.set(keys.subarray(keyFrom, keyTo), at >> 3);
    let end = at + keyBytes;
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

  #encodeAttached(header: FrameHeader, batch: FrameBatch, lensBytes: number): void {
    const { keys, sent, lens } = this.#part;
    const { keyFrom, keyTo, valueFrom, valueTo } = this.#span;
    const keyBytes = (keyTo - keyFrom) * KEY_BYTES;
    if (keyBytes <= INLINE_BYTES_MAX) {
      const at = batch.begin(header, keyBytes);
      batch.page.keys.set(keys.subarray(keyFrom, keyTo), at >> 3);
    } else {
      batch.begin(header, 0);
      batch.attach(bytesOf(keys, keyFrom, keyTo));
    }
    if (sent !== undefined) batch.attach(bytesOf(sent, valueFrom, valueTo));
    if (lensBytes > 0) batch.attach(bytesOf(lens as Int32Array, keyFrom, keyTo));
    batch.pad(header.payloadBytes);
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    const part = this.#part;
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    if (offset + header.payloadBytes > total) return undefined; // `answered` says what is wrong with it
    if (part.wantsLens) {
      this.#landing ??= new Uint8Array(total);
      return this.#landing.length === total ? this.#landing.subarray(offset, offset + header.payloadBytes) : undefined;
    }
    if (part.received === undefined || total !== this.#expectedBytes(header) || header.payloadBytes <= LOOP_BYTES_MAX) return undefined;
    return bytesOf(part.received, 0, part.received.length)
      .subarray(this.#firstByte(header) + offset)
      .subarray(0, header.payloadBytes);
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    const part = this.#part;
    if (part.functionId === FunctionId.KV_PUSH || (header.flags & KvFlag.GATHERED) !== 0) {
      part.frameDone();
      return true;
    }
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    if (offset + header.payloadBytes > total) throw new WeighbridgeError("BAD_FRAME", "an answer reaches beyond its own end");
    if (!part.wantsLens) {
      const expected = this.#expectedBytes(header);
      if (total !== expected) throw part.lengthError(total, expected);
      if (header.payloadBytes <= LOOP_BYTES_MAX) this.#copySmall(header, bytes, at, offset);
    }
    if (total > header.payloadBytes && !this.#isNews(offset)) return false;
    this.#receivedBytes += header.payloadBytes;
    if (this.#receivedBytes < total) return false;
    if (part.wantsLens) part.landed(this.#landing ?? new Uint8Array(0), this.#span, (header.flags & KvFlag.WHOLE) !== 0);
    part.frameDone();
    return true;
  }

  failed(error: WeighbridgeError): void {
    this.#part.frameFailed(error);
  }

  /** K4 */
  override mustFollow(waiting: Call): boolean {
    if (!(waiting instanceof KvCall) || !waiting.isUpdate) return false;
    const mine = this.#part;
    const theirs = waiting.#part;
    if (mine.app !== theirs.app) return false;
    return (
      (mine.keys[this.#span.keyFrom] as bigint) <= (theirs.keys[waiting.#span.keyTo - 1] as bigint) &&
      (theirs.keys[waiting.#span.keyFrom] as bigint) <= (mine.keys[this.#span.keyTo - 1] as bigint)
    );
  }

  /** K3 */
  #expectedBytes(header: FrameHeader): number {
    const { received } = this.#part;
    assert(received !== undefined, "only reads have room for values");
    const { valueFrom, valueTo } = (header.flags & KvFlag.WHOLE) === 0 ? this.#span : this.#part;
    return (valueTo - valueFrom) * received.BYTES_PER_ELEMENT;
  }

  #firstByte(header: FrameHeader): number {
    const from = (header.flags & KvFlag.WHOLE) === 0 ? this.#span.valueFrom : this.#part.valueFrom;
    return from * (this.#part.received?.BYTES_PER_ELEMENT ?? 0);
  }

  #copySmall(header: FrameHeader, bytes: Uint8Array, at: number, offset: number): void {
    const { received } = this.#part;
    const first = this.#firstByte(header) + offset;
    if (received instanceof Float32Array) {
      const floats = this.#part.floatsOver(bytes);
      const count = header.payloadBytes >> 2;
      for (let i = 0, to = first >> 2, from = at >> 2; i < count; i++) received[to++] = floats[from++] as number;
    } else if (received !== undefined) {
      bytesOf(received, 0, received.length).set(bytes.subarray(at, at + header.payloadBytes), first);
    }
  }

  #isNews(offset: number): boolean {
    this.#offsets ??= new Set();
    if (this.#offsets.has(offset)) return false;
    this.#offsets.add(offset);
    return true;
  }
}

function bytesOf(array: ArrayBufferView & { readonly BYTES_PER_ELEMENT: number }, from: number, to: number): Uint8Array {
  const size = array.BYTES_PER_ELEMENT;
  return new Uint8Array(array.buffer, array.byteOffset + from * size, (to - from) * size);
}
