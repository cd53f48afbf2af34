// function-call — a call of a typed function of any node: its request as frames, and its answer. Most calls and
// answers are one frame. A larger request is cut here alone, and request-assembly.ts puts it together before the
// handler runs. An answer in several frames, or of unknown length, comes together in answer-landing.ts.
//
//   frame      FUNCTION, command: hash of the name │ arg0 hash of the signature │ arg1 number of the call
//              arg2 first byte of this frame │ arg3 bytes of the whole request
//   numbered   its number; app, customer and command of the receiver's application │ in several frames: arg1 to arg3
//   flags      PART: more frames of this call follow; without a payload: the call is withdrawn
//
// Invariants:
//   FunctionCall.G1. A read leaves behind every waiting update of the same scope (a parameter), whatever their
//       priorities.

import { badArgument, showValue, type WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { BLOCK_BYTES, type EncodedFields, type FrameHeader, offsetBytesOf, PAYLOAD_BYTES_MAX, totalBytesOf } from "../wire/frame.ts";
import { FunctionFlag, FunctionId } from "../wire/function-id.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { AnswerLanding, answerLengthError } from "./answer-landing.ts";
import { Call, type CallFate, IN_PLACE_BYTES_MAX } from "./call.ts";
import { type FrameBatch, INLINE_BYTES_MAX } from "./frame-batch.ts";

/** Which application of the receiver a call is for; for functions with numbers of their own. */
export type CallAddress = { readonly app: number; readonly customer: number; readonly command: number };

export type FunctionCallOptions<Q extends Fields, R extends Fields> = {
  readonly fn: Contract<Q, R>;
  /** The arrays in it are sent from where they lie: they stay unchanged until the call ended. */
  readonly request: FieldValues<Q>;
  /** Tells the calls of one sender apart while they are put together. */
  readonly number: number;
  readonly priority: number;
  /** Reads follow updates of the same scope; 0 belongs to none. */
  readonly scope: number;
  /** Of the placement by which the request was cut; left out: it was cut by none. */
  readonly epoch?: number | undefined;
  readonly address?: CallAddress | undefined;
  /** Where the response lands, for a function whose response is one array. */
  readonly into?: Uint8Array | undefined;
  /** Left out where nobody looks at the response: one that lands in `into`, or is empty, is not read then. */
  readonly answered?: ((response: FieldValues<R>) => void) | undefined;
  /** The call succeeded, right after `answered`; gets the length of the response. */
  readonly ended?: (byteCount: number) => void;
  /** `fate`: of an update that had left, at least in part, when its server was declared dead. */
  readonly failed: (error: WeighbridgeError, fate?: CallFate) => void;
};

/**
 * The calls that carry one request, in order; the last one ends it. Throws BAD_ARGUMENT if the request does not fit its
 * schema, or the response cannot land in `into`.
 */
export function functionCalls<Q extends Fields, R extends Fields>(options: FunctionCallOptions<Q, R>): Call[] {
  const { fn, into } = options;
  if (typeof fn?.request?.encode !== "function") throw badArgument(`a function is what psFunction() makes, not ${showValue(fn)}`);
  if (into !== undefined && !fn.response.isOneArray) {
    throw badArgument(`the response of ${fn.name} is not one array, and cannot land in the caller's`);
  }
  const call = new FunctionCall(options as unknown as AnyOptions, fn.request.encode(options.request));
  const { byteCount } = call.encoded;
  if (byteCount <= PAYLOAD_BYTES_MAX) return [call];
  const parts: Call[] = [];
  for (let from = 0; from < byteCount; from += BLOCK_BYTES) parts.push(new PartCall(call, from, Math.min(byteCount, from + BLOCK_BYTES)));
  return parts;
}

/** In how many frames a request of so many bytes leaves. */
export function frameCountOf(byteCount: number): number {
  return byteCount <= PAYLOAD_BYTES_MAX ? 1 : Math.ceil(byteCount / BLOCK_BYTES);
}

const NO_BYTES = new Uint8Array(0);

type AnyOptions = FunctionCallOptions<Fields, Fields>;

/** A call of one frame; of several, what they share. Not derived from Call: a derived class is slow to construct. */
class FunctionCall implements Call, CallFate {
  readonly priority: number;
  readonly epoch: number;
  request = 0;
  stamp = 0;
  sentAtMs = 0;
  sendCount = 0;
  readonly options: AnyOptions;
  readonly encoded: EncodedFields;
  /** As it was when the call was made: who made it may make another one of the same options. */
  readonly #number: number;
  readonly #into: Uint8Array | undefined;
  readonly #intoBytes: number;
  /** Made for an answer that does not come in one frame, of the length that was expected. */
  #landing: AnswerLanding | undefined;
  #hasEnded = false;
  /** Of the last of several frames, with which the request is complete; one that has not left is not applied. */
  lastFate: CallFate | undefined;

  constructor(options: AnyOptions, encoded: EncodedFields) {
    this.priority = options.priority;
    this.epoch = options.epoch ?? 0;
    this.options = options;
    this.encoded = encoded;
    this.#number = options.number;
    this.#into = options.into;
    this.#intoBytes = options.into === undefined ? 0 : options.into.length;
  }

  get isCall(): true {
    return true;
  }

  get functionId(): number {
    return this.options.fn.id;
  }

  get isUpdate(): boolean {
    return this.options.fn.isUpdate;
  }

  get isRead(): boolean {
    const { scope, fn } = this.options;
    return scope !== 0 && !(fn.isUpdate && fn.response.isEmpty);
  }

  get isIdempotent(): boolean {
    return !this.options.fn.isUpdate;
  }

  get byteCount(): number {
    return this.encoded.byteCount;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    const { chunks, byteCount } = this.encoded;
    this.label(header, 0, byteCount, 0);
    writeFrame(header, batch, chunks, byteCount);
  }

  /** Whether all arrays of request and response are still there: a transferred or shrunk one has another length. */
  get isIntact(): boolean {
    const { chunks, byteCount } = this.encoded;
    let left = byteCount;
    for (let i = 0; i < chunks.length; i++) left -= (chunks[i] as Uint8Array).length;
    return left === 0 && (this.#into === undefined || this.#into.length === this.#intoBytes);
  }

  /** A part without bytes: the server gives up what it has of the call. */
  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    this.label(header, FunctionFlag.PART, 0, 0);
    batch.begin(header, 0);
  }

  /** The header of a frame whose payload begins at byte `from` of the request. */
  label(header: FrameHeader, flags: number, payloadBytes: number, from: number): void {
    const { fn, address } = this.options;
    const { byteCount } = this.encoded;
    header.clearRest();
    header.flags = flags;
    header.payloadBytes = payloadBytes;
    if (fn.id === FunctionId.FUNCTION) {
      header.command = fn.nameHash;
      header.arg0 = fn.signatureHash;
    } else {
      if (address !== undefined) {
        header.app = address.app;
        header.customer = address.customer;
        header.command = address.command;
      }
      if (byteCount <= PAYLOAD_BYTES_MAX) return;
    }
    header.arg1 = this.#number;
    header.arg2 = from;
    header.arg3 = byteCount;
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    const { payloadBytes } = header;
    if (payloadBytes <= IN_PLACE_BYTES_MAX) return undefined;
    return this.#landsWhole(header, payloadBytes) ? this.#into : this.#landingOf().destination(header);
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    return this.answeredTo(header, bytes, at, this.sendCount);
  }

  /** The frame that was answered has left so many times. */
  answeredTo(header: FrameHeader, bytes: Uint8Array, at: number, sendCount: number): boolean {
    const { payloadBytes } = header;
    const into = this.#into;
    if (payloadBytes === 0 && into === undefined && this.options.fn.response.isEmpty && totalBytesOf(header) === 0) {
      this.#end(NO_BYTES);
      return true;
    }
    if (into !== undefined && this.#landsWhole(header, payloadBytes)) {
      if (payloadBytes <= IN_PLACE_BYTES_MAX) for (let i = 0; i < payloadBytes; i++) into[i] = bytes[at + i] as number;
      this.#end(into);
      return true;
    }
    const { elementBytes } = this.options.fn.response;
    if (into !== undefined && elementBytes > 1 && totalBytesOf(header) !== into.length)
      throw answerLengthError(totalBytesOf(header), into.length, elementBytes); // AnswerLanding.L1, in values
    const whole = this.#landingOf().take(header, bytes, at, sendCount);
    if (whole !== undefined) this.#end(whole);
    return whole !== undefined;
  }

  /** Whether this frame has the whole answer, which fills the caller's array. */
  #landsWhole(header: FrameHeader, payloadBytes: number): boolean {
    const into = this.#into;
    if (into === undefined || payloadBytes !== into.length) return false;
    return totalBytesOf(header) === payloadBytes && offsetBytesOf(header) === 0;
  }

  #landingOf(): AnswerLanding {
    const isKept = this.options.fn.keepsAnswers || this.encoded.byteCount > PAYLOAD_BYTES_MAX; // FunctionHost.H4
    this.#landing ??= new AnswerLanding(this.#into, isKept);
    return this.#landing;
  }

  /** Throws BAD_REQUEST for an answer that does not fit its schema. */
  #end(bytes: Uint8Array): void {
    const { options } = this;
    const { response } = options.fn;
    const isRead = options.answered !== undefined || (this.#into === undefined && !(response.isEmpty && bytes.length === 0));
    const values = isRead ? response.decode(bytes, 0, bytes.length) : undefined;
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (values !== undefined) options.answered?.(values);
    options.ended?.(bytes.length);
  }

  failed(error: WeighbridgeError, fate?: CallFate): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.options.failed(error, fate);
  }

  /** Of a call of several frames. */
  get outcome(): CallFate["outcome"] {
    return this.lastFate?.outcome ?? "dropped";
  }

  /** FunctionCall.G1 */
  mustFollow(waiting: Call): boolean {
    return waiting.isUpdate && this.options.scope !== 0 && scopeOf(waiting) === this.options.scope;
  }
}

/** One of several frames of a call. */
class PartCall extends Call {
  readonly whole: FunctionCall;
  readonly #from: number;
  readonly #to: number;

  constructor(whole: FunctionCall, from: number, to: number) {
    super(whole.priority, whole.epoch);
    this.whole = whole;
    this.#from = from;
    this.#to = to;
  }

  get functionId(): number {
    return this.whole.functionId;
  }

  get isUpdate(): boolean {
    return this.whole.isUpdate;
  }

  get isRead(): boolean {
    return this.whole.isRead;
  }

  /** A restarted receiver does not have the frames before it. */
  get isIdempotent(): boolean {
    return false;
  }

  get byteCount(): number {
    return this.#to - this.#from;
  }

  get #isLast(): boolean {
    return this.#to === this.whole.byteCount;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    this.whole.label(header, this.#isLast ? 0 : FunctionFlag.PART, this.byteCount, this.#from);
    writeFrame(header, batch, cutChunks(this.whole.encoded.chunks, this.#from, this.#to), this.byteCount);
  }

  get isIntact(): boolean {
    return this.whole.isIntact;
  }

  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    this.whole.label(header, FunctionFlag.PART, 0, this.#from);
    batch.begin(header, 0);
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    return this.#isLast ? this.whole.destination(header) : undefined;
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    return this.#isLast ? this.whole.answeredTo(header, bytes, at, this.sendCount) : true;
  }

  /** The first frame that fails ends the call: the server refuses the others too. */
  failed(error: WeighbridgeError, fate?: CallFate): void {
    if (this.#isLast) this.whole.lastFate = fate;
    this.whole.failed(error, fate === undefined ? undefined : this.whole);
  }

  mustFollow(waiting: Call): boolean {
    return this.whole.mustFollow(waiting);
  }
}

/** 0 for what belongs to no parameter. */
function scopeOf(call: Call): number {
  if (call instanceof FunctionCall) return call.options.scope;
  return call instanceof PartCall ? call.whole.options.scope : 0;
}

/** Copies small payloads, and small chunks before a large one, into the batch; attaches the others. */
export function writeFrame(header: FrameHeader, batch: FrameBatch, chunks: readonly Uint8Array[], byteCount: number): void {
  const inlineCount = byteCount <= INLINE_BYTES_MAX ? chunks.length : leadingSmall(chunks);
  let inlineBytes = 0;
  for (let i = 0; i < inlineCount; i++) inlineBytes += (chunks[i] as Uint8Array).length;
  let at = batch.begin(header, inlineBytes);
  for (let i = 0; i < inlineCount; i++) {
    const chunk = chunks[i] as Uint8Array;
    batch.page.bytes.set(chunk, at);
    at += chunk.length;
  }
  if (inlineCount === chunks.length) return;
  for (let i = inlineCount; i < chunks.length; i++) batch.attach(chunks[i] as Uint8Array);
  batch.pad(header.payloadBytes);
}

/** How many leading chunks to copy: small together, and a multiple of 8 bytes, so that no padding comes between. */
function leadingSmall(chunks: readonly Uint8Array[]): number {
  let count = 0;
  let byteCount = 0;
  for (let i = 0; i < chunks.length; i++) {
    byteCount += (chunks[i] as Uint8Array).length;
    if (byteCount > INLINE_BYTES_MAX) break;
    if (byteCount % 8 === 0) count = i + 1;
  }
  return count;
}

/** The bytes from `from` up to `to` of all chunks together. */
function cutChunks(chunks: readonly Uint8Array[], from: number, to: number): Uint8Array[] {
  const cut: Uint8Array[] = [];
  let at = 0;
  for (const chunk of chunks) {
    const begin = Math.max(from - at, 0);
    const end = Math.min(to - at, chunk.length);
    if (begin < end) cut.push(chunk.subarray(begin, end));
    at += chunk.length;
  }
  return cut;
}
