// function-call — one frame of a call of a typed function, whoever serves it. Most calls are one frame; a request that is larger is cut here, and nowhere
// else; the receiver puts it together again before the handler runs (request-assembly.ts).
//
//   frame        FUNCTION, command: the function's name hash │ arg0 signature hash │ arg1 number of the call │ arg2 first byte │ arg3 bytes of all
//   numbered     its number, app, customer and command: its receiver's application, where it is for one │ of several frames: arg1 to arg3 as above
//   flags        PART: more frames of this call follow; without a payload: the call is withdrawn
//
// Invariants:
//   G1. A read leaves behind every waiting update of the same scope (a parameter), whatever their priorities.

import { WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";
import type { Contract } from "../contracts/contract.ts";
import { BLOCK_BYTES, type FrameHeader, PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { FunctionFlag } from "../wire/function-frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import type { EncodedFields, Fields, FieldValues } from "../wire/function-schema.ts";
import { AnswerLanding } from "./answer-landing.ts";
import type { Call, CallFate } from "./call.ts";
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
  /** Whether `answered` copies the response on: then a small one is shown to it where it was read, and does not land. */
  readonly passing?: boolean | undefined;
  /** Told how many bytes the response took. */
  readonly answered: (response: FieldValues<R>, byteCount: number) => void;
  /** `fate`: of an update that had left, at least in part, when its server was taken for dead. */
  readonly failed: (error: WeighbridgeError, fate?: CallFate) => void;
};

/**
 * The calls that carry one request, in order; only the last one ends it well. Throws BAD_ARGUMENT when the request does not fit its schema,
 * or the response cannot land in `into`.
 */
export function functionCalls<Q extends Fields, R extends Fields>(options: FunctionCallOptions<Q, R>): Call[] {
  const { fn, into } = options;
  if (typeof fn?.request?.encode !== "function")
    throw new WeighbridgeError("BAD_ARGUMENT", `a function is what psFunction() makes, not ${showValue(fn)}`);
  if (into !== undefined && !fn.response.isOneArray) {
    throw new WeighbridgeError("BAD_ARGUMENT", `the response of ${fn.name} is not one array, and cannot land in the caller's`);
  }
  const encoded = fn.request.encode(options.request);
  const { byteCount } = encoded;
  const whole = new FunctionCall(options, encoded);
  if (frameCountOf(byteCount) === 1) return [new FrameCall(whole, 0, byteCount)];
  const calls: Call[] = [];
  for (let from = 0; from < byteCount; from += BLOCK_BYTES) calls.push(new FrameCall(whole, from, Math.min(byteCount, from + BLOCK_BYTES)));
  return calls;
}

/** In how many frames a request of so many bytes leaves. */
export function frameCountOf(byteCount: number): number {
  return byteCount <= PAYLOAD_BYTES_MAX ? 1 : Math.ceil(byteCount / BLOCK_BYTES);
}

/** What the frames of one call share. */
class FunctionCall<Q extends Fields, R extends Fields> implements CallFate {
  readonly options: FunctionCallOptions<Q, R>;
  readonly encoded: EncodedFields;
  readonly landing: AnswerLanding;
  #hasEnded = false;
  #lastFate: CallFate | undefined;

  constructor(options: FunctionCallOptions<Q, R>, encoded: EncodedFields) {
    this.options = options;
    this.encoded = encoded;
    const isKept = options.fn.keepsAnswers || encoded.byteCount > PAYLOAD_BYTES_MAX; // function-host's H4
    this.landing = new AnswerLanding(options.into, isKept, options.passing);
  }

  /** Whether the request's arrays, and the one that the response lands in, are still there. */
  get isIntact(): boolean {
    const { chunks, byteCount } = this.encoded;
    let left = byteCount;
    for (let i = 0; i < chunks.length; i++) left -= (chunks[i] as Uint8Array).length;
    return left === 0 && this.landing.isIntact;
  }

  answered(bytes: Uint8Array): void {
    const { fn, answered } = this.options;
    const response = fn.response.decode(bytes, 0, bytes.length);
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    answered(response, bytes.length);
  }

  /** The first frame that fails ends the call: the server refuses the others too. */
  failed(error: WeighbridgeError, fate: CallFate | undefined, isLast: boolean): void {
    if (isLast) this.#lastFate = fate;
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.options.failed(error, fate === undefined ? undefined : this);
  }

  /** That of its last frame, with which it is complete; one that has not left is not applied. */
  get outcome(): CallFate["outcome"] {
    return this.#lastFate?.outcome ?? "dropped";
  }
}

/** Does not inherit from Call: a derived class takes several times as long to construct. */
class FrameCall<Q extends Fields, R extends Fields> implements Call {
  readonly priority: number;
  readonly epoch: number;
  request = 0;
  stamp = 0;
  sentAtMs = 0;
  sendCount = 0;
  readonly #call: FunctionCall<Q, R>;
  readonly #from: number;
  readonly #to: number;

  constructor(call: FunctionCall<Q, R>, from: number, to: number) {
    this.priority = call.options.priority;
    this.epoch = call.options.epoch ?? 0;
    this.#call = call;
    this.#from = from;
    this.#to = to;
  }

  get isCall(): true {
    return true;
  }

  get functionId(): number {
    return this.#call.options.fn.id;
  }

  get isUpdate(): boolean {
    return this.#call.options.fn.isUpdate;
  }

  get isRead(): boolean {
    const { scope, fn } = this.#call.options;
    return scope !== 0 && !(fn.isUpdate && fn.response.isEmpty);
  }

  get isIdempotent(): boolean {
    return !this.isUpdate && this.#isWhole;
  }

  get byteCount(): number {
    return this.#to - this.#from;
  }

  get #isWhole(): boolean {
    return this.byteCount === this.#call.encoded.byteCount;
  }

  get #isLast(): boolean {
    return this.#to === this.#call.encoded.byteCount;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    const { encoded } = this.#call;
    this.#label(header, this.#isLast ? 0 : FunctionFlag.PART, this.byteCount);
    const chunks = this.#isWhole ? encoded.chunks : cutChunks(encoded.chunks, this.#from, this.#to);
    const inlineCount = this.byteCount <= INLINE_BYTES_MAX ? chunks.length : leadingSmall(chunks);
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

  get isIntact(): boolean {
    return this.#call.isIntact;
  }

  /** A part without bytes: the server gives up what it has of the call. */
  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    this.#label(header, FunctionFlag.PART, 0);
    batch.begin(header, 0);
  }

  #label(header: FrameHeader, flags: number, payloadBytes: number): void {
    const { encoded, options } = this.#call;
    header.flags = flags;
    header.payloadBytes = payloadBytes;
    if (options.fn.id === FunctionId.FUNCTION) {
      header.command = options.fn.nameHash;
      header.arg0 = options.fn.signatureHash;
    } else {
      this.#address(header);
      if (this.#isWhole) return;
    }
    header.arg1 = options.number;
    header.arg2 = this.#from;
    header.arg3 = encoded.byteCount;
  }

  #address(header: FrameHeader): void {
    const { address } = this.#call.options;
    if (address === undefined) return;
    header.app = address.app;
    header.customer = address.customer;
    header.command = address.command;
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    return this.#isLast ? this.#call.landing.destination(header) : undefined;
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    if (!this.#isLast) return true;
    const whole = this.#call.landing.take(header, bytes, at, this.sendCount);
    if (whole !== undefined) this.#call.answered(whole);
    return whole !== undefined;
  }

  failed(error: WeighbridgeError, fate?: CallFate): void {
    this.#call.failed(error, fate, this.#isLast);
  }

  /** G1 */
  mustFollow(waiting: Call): boolean {
    return waiting instanceof FrameCall && waiting.isUpdate && waiting.#call.options.scope === this.#call.options.scope;
  }
}

/** How many chunks, from the first on, are worth copying: small together, and a multiple of 8 bytes, since what is inline is padded to that. */
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
