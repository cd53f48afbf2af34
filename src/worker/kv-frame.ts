// kv-frame — what a frame of a kv request holds, and where its answer goes (spec/protocol.md, the kv functions). It is
// sent from the caller's arrays and received into them, without a copy in between; only payloads that fit a page are
// copied there, and tiny answers back. Not when a request ends: kv-request.ts.
//
// Invariants (KvRequest.K2, AnswerLanding.L2 and AnswerLanding.L3 hold as well):
//   KvFrame.K1. A pull's answer lands in the caller's array only when it has exactly the length asked for.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { kvPush } from "../contracts/kv.ts";
import { FLOAT_BYTES, KEY_BYTES } from "../kernel/elements.ts";
import { AnswerLanding, answerLengthError } from "../peer/answer-landing.ts";
import { IN_PLACE_BYTES_MAX } from "../peer/call.ts";
import { type FrameBatch, INLINE_BYTES_MAX, type Page } from "../peer/frame-batch.ts";
import { type FrameHeader, offsetBytesOf, totalBytesOf } from "../wire/frame.ts";
import { KvFlag, LEN_BYTES, type Values } from "../wire/kv-message.ts";
import type { KvPart, KvSpan } from "../wire/kv-spans.ts";
import type { KvRequest } from "./kv-request.ts";

/** So many are copied in a loop; above it, a view and `set` are cheaper. */
const LOOP_FLOATS_MAX = 32;
const LOOP_KEYS_MAX = 16;

/** Some keys of a request with their values (push), with room for them (pull), or both: all of it, or a span. */
export type KvFrame = KvSpan & {
  readonly kvRequest: KvRequest;
  /** Of which the span is a run; the frame itself when it is all of it. */
  readonly part: KvPart;
  /** Of its header: the request's, and whether it is the first and the last frame of its part. */
  readonly flags: number;
  /** How often it left. */
  readonly sendCount: number;
  /** Of an answer in several frames, or of unknown length. */
  landing: AnswerLanding | undefined;
};

/** Of keys and values, not of lens. */
export function byteCountOf({ kvRequest: { sent }, keyFrom, keyTo, valueFrom, valueTo }: KvFrame): number {
  return (keyTo - keyFrom) * KEY_BYTES + (sent === undefined ? 0 : (valueTo - valueFrom) * sent.BYTES_PER_ELEMENT);
}

export function encodeKv(frame: KvFrame, header: FrameHeader, batch: FrameBatch): void {
  const { flags, pieceOffset } = frame;
  const keyCount = frame.keyTo - frame.keyFrom;
  const lensBytes = (flags & KvFlag.LENS) === 0 ? 0 : keyCount * LEN_BYTES;
  const payloadBytes = byteCountOf(frame) + lensBytes;
  label(header, frame.kvRequest);
  header.flags = flags;
  header.payloadBytes = payloadBytes;
  header.arg0 = keyCount;
  header.arg1 = frame.width;
  header.arg2 = Math.max(pieceOffset, 0);
  if (payloadBytes <= INLINE_BYTES_MAX) encodeInline(frame, batch, batch.begin(header, payloadBytes), lensBytes);
  else encodeAttached(frame, header, batch, lensBytes);
}

/** A frame without keys: the server refuses it, and the rest of its request. */
export function encodeWithdrawnKv(frame: KvFrame, header: FrameHeader, batch: FrameBatch): void {
  header.clearRest();
  label(header, frame.kvRequest);
  header.flags = frame.flags & ~(KvFlag.LENS | KvFlag.VARIABLE | KvFlag.WANT_LENS | KvFlag.PIECE);
  batch.begin(header, 0);
}

/** Whose request it is. */
function label(header: FrameHeader, { owner, command, timestamp }: KvRequest): void {
  header.app = owner.app;
  header.customer = owner.customer;
  header.command = command;
  header.arg3 = timestamp;
}

function encodeInline(frame: KvFrame, { page }: FrameBatch, at: number, lensBytes: number): void {
  const { keys, sent } = frame.kvRequest;
  const { keyFrom, keyTo } = frame;
  copyKeys(page, at, keys, keyFrom, keyTo);
  if (sent === undefined) return;
  const { valueFrom, valueTo } = frame;
  const valuesAt = at + (keyTo - keyFrom) * KEY_BYTES;
  if (sent instanceof Float32Array && lensBytes === 0 && valueTo - valueFrom <= LOOP_FLOATS_MAX) {
    const { floats } = page;
    for (let i = valueFrom, to = valuesAt >> 2; i < valueTo; i++) floats[to++] = sent[i] as number;
  } else setValues(frame, page.bytes, valuesAt, lensBytes);
}

function setValues(
  { kvRequest: { sent, lens }, keyFrom, keyTo, valueFrom, valueTo }: KvFrame,
  target: Uint8Array,
  at: number,
  lensBytes: number,
): void {
  const values = bytesOf(sent as Values, valueFrom, valueTo);
  target.set(values, at);
  if (lensBytes > 0) target.set(bytesOf(lens as Int32Array, keyFrom, keyTo), at + values.length);
}

function copyKeys(page: Page, at: number, keys: BigUint64Array, keyFrom: number, keyTo: number): void {
  const target = page.keys;
  if (keyTo - keyFrom > LOOP_KEYS_MAX) target.set(keys.subarray(keyFrom, keyTo), at >> 3);
  else for (let i = keyFrom, to = at >> 3; i < keyTo; i++) target[to++] = keys[i] as bigint;
}

function encodeAttached(frame: KvFrame, header: FrameHeader, batch: FrameBatch, lensBytes: number): void {
  const { keys, sent, lens } = frame.kvRequest;
  const { keyFrom, keyTo, valueFrom, valueTo } = frame;
  const keyBytes = (keyTo - keyFrom) * KEY_BYTES;
  if (keyBytes <= INLINE_BYTES_MAX) {
    const at = batch.begin(header, keyBytes);
    copyKeys(batch.page, at, keys, keyFrom, keyTo);
  } else {
    batch.begin(header, 0);
    batch.attach(bytesOf(keys, keyFrom, keyTo));
  }
  if (sent !== undefined) batch.attach(bytesOf(sent, valueFrom, valueTo));
  if (lensBytes > 0) batch.attach(bytesOf(lens as Int32Array, keyFrom, keyTo));
  batch.pad(header.payloadBytes);
}

/** Where the payload of an answer belongs; see FrameSink. */
export function kvDestination(frame: KvFrame, header: FrameHeader): Uint8Array | undefined {
  const { received, isIntact, special } = frame.kvRequest;
  const total = totalBytesOf(header);
  const offset = offsetBytesOf(header);
  const end = offset + header.payloadBytes;
  if (end > total || !isIntact) return undefined; // `landAnswer` says what is wrong with it
  if (special?.fill !== undefined) return landingOf(frame).destination(header);
  if (received === undefined || total !== expectedBytes(frame, header) || header.payloadBytes <= IN_PLACE_BYTES_MAX) return undefined;
  return new Uint8Array(received.buffer, received.byteOffset + firstByte(frame, header) + offset, header.payloadBytes);
}

/** Takes an answer. Returns true when it was the last one; throws when it makes no sense. */
export function takeAnswer(frame: KvFrame, header: FrameHeader, bytes: Uint8Array, at: number): boolean {
  const { functionId, received } = frame.kvRequest;
  if ((header.flags & KvFlag.GATHERED) !== 0) {
    frame.part.isGathered = true;
    return true;
  }
  if (functionId === kvPush.id) return true;
  if (!(received instanceof Float32Array && isShort(frame, header))) return takeLong(frame, header, bytes, at);
  const floats = frame.kvRequest.owner.window.over(bytes);
  for (let to = frame.valueFrom, from = at >> 2; to < frame.valueTo; ) received[to++] = floats[from++] as number;
  return true;
}

/** Whether a few floats are all of the answer, and as many as were expected: `takeLong` would find nothing else. */
function isShort({ valueFrom, valueTo }: KvFrame, { payloadBytes, flags, arg0, arg1, arg2, arg3 }: FrameHeader): boolean {
  const byteCount = (valueTo - valueFrom) * FLOAT_BYTES;
  return payloadBytes === byteCount && arg0 === byteCount && (flags | arg1 | arg2 | arg3) === 0 && byteCount <= IN_PLACE_BYTES_MAX;
}

function takeLong(frame: KvFrame, header: FrameHeader, bytes: Uint8Array, at: number): boolean {
  if (frame.kvRequest.special?.fill !== undefined) return takeVariable(frame, header, bytes, at);
  const total = totalBytesOf(header);
  if (offsetBytesOf(header) + header.payloadBytes > total) throw new WeighbridgeError("BAD_FRAME", "an answer reaches beyond its own end");
  if (header.payloadBytes === 0 && total > 0) throw new WeighbridgeError("BAD_FRAME", "a part of an answer is empty");
  if (total !== expectedBytes(frame, header)) throw lengthError(frame, header);
  if (header.payloadBytes <= IN_PLACE_BYTES_MAX) copySmall(frame, header, bytes, at);
  return total === header.payloadBytes || landingOf(frame).isLast(header, sendingOf(frame, header));
}

function takeVariable(frame: KvFrame, header: FrameHeader, bytes: Uint8Array, at: number): boolean {
  const whole = landingOf(frame).take(header, bytes, at, sendingOf(frame, header));
  if (whole === undefined) return false;
  const { keyFrom, keyTo } = answeredOf(frame, header);
  frame.kvRequest.landings ??= [];
  frame.kvRequest.landings.push({ keyFrom, keyTo, bytes: whole });
  return true;
}

/** To which sending of the call this is the answer; 0 for all of them: a WHOLE answer is kept by the server. */
function sendingOf({ sendCount }: KvFrame, { flags }: FrameHeader): number {
  return (flags & KvFlag.WHOLE) === 0 ? sendCount : 0;
}

/** What the answer is about: the frame, or the part that the server put together. */
function answeredOf(frame: KvFrame, { flags }: FrameHeader): KvPart {
  return (flags & KvFlag.WHOLE) === 0 ? frame : frame.part;
}

/** KvFrame.K1 */
function expectedBytes(frame: KvFrame, header: FrameHeader): number {
  const { received } = frame.kvRequest;
  assert(received !== undefined, "only reads have room for values");
  const { valueFrom, valueTo } = answeredOf(frame, header);
  return (valueTo - valueFrom) * received.BYTES_PER_ELEMENT;
}

function firstByte(frame: KvFrame, header: FrameHeader): number {
  return answeredOf(frame, header).valueFrom * frame.kvRequest.elementBytes;
}

function copySmall(frame: KvFrame, header: FrameHeader, bytes: Uint8Array, at: number): void {
  const { received } = frame.kvRequest;
  const first = firstByte(frame, header) + offsetBytesOf(header);
  if (received !== undefined) bytesOf(received, 0, received.length).set(bytes.subarray(at, at + header.payloadBytes), first);
}

function landingOf(frame: KvFrame): AnswerLanding {
  frame.landing ??= new AnswerLanding(undefined, false);
  return frame.landing;
}

function lengthError(frame: KvFrame, header: FrameHeader): WeighbridgeError {
  const { keyFrom, keyTo } = frame.part;
  const { keys, elementBytes } = frame.kvRequest;
  const what = ` for ${keyTo - keyFrom} keys from ${keys[keyFrom]} on`;
  return answerLengthError(totalBytesOf(header), expectedBytes(frame, header), elementBytes, what);
}

function bytesOf(array: ArrayBufferView & { readonly BYTES_PER_ELEMENT: number }, from: number, to: number): Uint8Array {
  const size = array.BYTES_PER_ELEMENT;
  return new Uint8Array(array.buffer, array.byteOffset + from * size, (to - from) * size);
}
