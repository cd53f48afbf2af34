// kv-request — one push, pull or pushPull of a user, over all servers that own some of its keys. Most requests are
// small and go to one server: such a one is its own call, so that nothing else is made for it. All others have calls of
// about a block each (KvCall). A request ends once, when every call ended: well, or with the first error; the router
// adds what was applied all the same (part-outcome.ts). Not which server that is: the router decides it; not what is in
// its frames: kv-frame.ts.
//
// Invariants (KvFrame.K1, AnswerLanding.L2 and AnswerLanding.L3 hold as well):
//   KvRequest.K2. A read must follow a waiting write when the key spans of their parts touch: a comparison of first and
//       last keys, never of all. Of the whole parts, because a handle on the server may take a request only as a whole:
//       its frames stay in order, and a write counts as waiting until its last frame has left.

import type { UpdateOutcome, WeighbridgeError } from "../base/errors.ts";
import { kvPush } from "../contracts/kv.ts";
import { KEY_BYTES } from "../kernel/elements.ts";
import type { Cuts } from "../keys/key-list.ts";
import type { AnswerLanding } from "../peer/answer-landing.ts";
import type { Call } from "../peer/call.ts";
import { outcomeOf } from "../peer/call-outcome.ts";
import type { FrameBatch } from "../peer/frame-batch.ts";
import type { TrackedRequest } from "../peer/request-tracker.ts";
import { APP_CUT, BLOCK_BYTES, type FrameHeader } from "../wire/frame.ts";
import { DTYPE_SHIFT, KvFlag, LARGE_VALUE_BYTES, LEN_BYTES, type Values } from "../wire/kv-message.ts";
import { type KvPart, type KvSpan, uniformSpans, variableSpans } from "../wire/kv-spans.ts";
import type { KvArrays, KvCallback, KvFunctionId, KvOwner, KvRequestOptions, KvSpecial } from "./kv-arrays.ts";
import { byteCountOf, encodeKv, encodeWithdrawnKv, type KvFrame, kvDestination, takeAnswer } from "./kv-frame.ts";
import type { Landing } from "./kv-landing.ts";
import type { Piece } from "./part-outcome.ts";

export class KvRequest implements KvArrays, TrackedRequest, Call, KvFrame {
  // Declared: to define what the constructor sets would set it to undefined first, for every small request.
  declare readonly owner: KvOwner;
  declare readonly functionId: KvFunctionId;
  declare readonly keys: BigUint64Array;
  declare readonly sent: Values | undefined;
  declare readonly received: Values | undefined;
  declare readonly lens: Int32Array | undefined;
  declare readonly dtype: number;
  declare readonly width: number;
  declare readonly elementBytes: number;
  declare readonly command: number;
  declare readonly priority: number;
  declare readonly callback: KvCallback | undefined;
  declare readonly special: KvSpecial | undefined;
  /** How long the arrays were when the request was made: a transferred or shrunk one is shorter later. */
  declare readonly keyTo: number;
  /** Of those that are sent, and of those that are received: where both are, they are as many. */
  declare readonly valueTo: number;
  /** What has come of answers of unknown length. */
  landings: Landing[] | undefined;
  /** Its number at the router. */
  order = 0;
  /** Its number within its customer, given when it is tracked. */
  timestamp = 0;
  isSettled = false;
  error: WeighbridgeError | undefined;
  waiting: PromiseWithResolvers<void> | undefined;
  /** Of an update in several frames, by those that have ended; undefined before the first has. */
  outcomes: Piece[] | undefined;
  #openFrames = 0;
  #refusedFrames = 0;
  // As a call: one that carries all of it to one server.
  epoch = 0;
  request = 0;
  stamp = 0;
  sentAtMs = 0;
  sendCount = 0;
  declare isGathered?: boolean;
  landing: AnswerLanding | undefined;

  constructor(owner: KvOwner, functionId: KvFunctionId, arrays: KvArrays, options: KvRequestOptions, special?: KvSpecial) {
    const { keys, sent, received } = arrays;
    const { cmd, priority } = options;
    const values = sent ?? received;
    this.owner = owner;
    this.functionId = functionId;
    this.keys = keys;
    this.sent = sent;
    this.received = received;
    this.lens = arrays.lens;
    this.dtype = arrays.dtype;
    this.width = arrays.width;
    this.elementBytes = arrays.elementBytes;
    this.command = cmd === undefined ? 0 : cmd;
    this.priority = priority === undefined ? 0 : priority;
    this.callback = options.callback;
    this.special = special;
    this.keyTo = keys.length;
    this.valueTo = values === undefined ? 0 : values.length;
  }

  /** Whether all its arrays are still there. */
  get isIntact(): boolean {
    const { keys, sent, received, lens, keyTo, valueTo } = this;
    return (
      keys.length >= keyTo &&
      (sent === undefined || sent.length >= valueTo) &&
      (received === undefined || received.length >= valueTo) &&
      (lens === undefined || lens.length >= keyTo)
    );
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
    return this.special?.slicer !== undefined;
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
    const { owner, error } = this;
    const { router } = owner;
    if (--this.#openFrames > 0) {
      if (this.#refusedFrames === this.#openFrames) router?.kvAllRefused(this);
    } else if (router === undefined) owner.ended(this, error);
    else router.kvEnded(this, error);
  }

  frameFailed(error: WeighbridgeError): void {
    this.error ??= error;
    this.frameDone();
  }

  /** One of several frames of an update has ended at this server. */
  note(server: number, outcome: UpdateOutcome): void {
    this.outcomes ??= [];
    this.outcomes.push({ server, outcome });
  }

  // Call and KvFrame.

  get kvRequest(): this {
    return this;
  }

  get part(): this {
    return this;
  }

  get keyFrom(): number {
    return 0;
  }

  get valueFrom(): number {
    return 0;
  }

  get pieceOffset(): number {
    return -1;
  }

  get isLast(): boolean {
    return true;
  }

  get flags(): number {
    const flags = flagsOf(this);
    return flags | KvFlag.FIRST | KvFlag.LAST;
  }

  get isCall(): true {
    return true;
  }

  get isUpdate(): boolean {
    return this.sent !== undefined;
  }

  get isRead(): boolean {
    return this.functionId !== kvPush.id;
  }

  get isIdempotent(): boolean {
    return false;
  }

  get byteCount(): number {
    return byteCountOf(this);
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    encodeKv(this, header, batch);
  }

  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    encodeWithdrawnKv(this, header, batch);
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    return kvDestination(this, header);
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    if (!takeAnswer(this, header, bytes, at)) return false;
    this.frameDone();
    return true;
  }

  failed(error: WeighbridgeError): void {
    if (this.owner.router?.kvRefused(this, error) !== true) this.frameFailed(error);
  }

  mustFollow(waiting: Call): boolean {
    return touches(this, waiting);
  }
}

/** One of several frames of a request. */
export class KvCall implements Call, KvFrame {
  readonly kvRequest: KvRequest;
  readonly part: KvPart;
  readonly priority: number;
  readonly epoch: number;
  /** Whom it went to last. */
  server = 0;
  request = 0;
  stamp = 0;
  sentAtMs = 0;
  sendCount = 0;
  readonly keyFrom: number;
  readonly keyTo: number;
  readonly valueFrom: number;
  readonly valueTo: number;
  readonly width: number;
  readonly pieceOffset: number;
  readonly isLast: boolean;
  readonly flags: number;
  landing: AnswerLanding | undefined;

  constructor(request: KvRequest, span: KvSpan, epoch: number, part: KvPart) {
    this.kvRequest = request;
    this.part = part;
    this.priority = request.priority;
    this.epoch = epoch;
    this.keyFrom = span.keyFrom;
    this.keyTo = span.keyTo;
    this.valueFrom = span.valueFrom;
    this.valueTo = span.valueTo;
    this.width = span.width;
    this.pieceOffset = span.pieceOffset;
    this.isLast = span.isLast;
    const isFirst = span.keyFrom === part.keyFrom && span.pieceOffset <= 0;
    const ends = (isFirst ? KvFlag.FIRST : 0) | (span.isLast ? KvFlag.LAST : 0);
    this.flags = flagsOf(request) | ends | (span.pieceOffset >= 0 ? KvFlag.PIECE : request.lens === undefined ? 0 : KvFlag.LENS);
  }

  get isCall(): true {
    return true;
  }

  get functionId(): number {
    return this.kvRequest.functionId;
  }

  get isUpdate(): boolean {
    return this.kvRequest.isUpdate;
  }

  get isRead(): boolean {
    return this.kvRequest.isRead;
  }

  get isIdempotent(): boolean {
    return false;
  }

  get byteCount(): number {
    return byteCountOf(this);
  }

  get isIntact(): boolean {
    return this.kvRequest.isIntact;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    encodeKv(this, header, batch);
  }

  encodeWithdrawn(header: FrameHeader, batch: FrameBatch): void {
    encodeWithdrawnKv(this, header, batch);
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    return kvDestination(this, header);
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    if (!takeAnswer(this, header, bytes, at)) return false;
    const request = this.kvRequest;
    const isTaken = (header.flags & KvFlag.GATHERED) === 0; // otherwise its last frame tells
    if (isTaken && request.isUpdate) request.note(this.server, "applied");
    request.frameDone();
    return true;
  }

  failed(error: WeighbridgeError): void {
    const request = this.kvRequest;
    if (request.owner.router?.kvRefused(this, error) === true) return;
    if (request.isUpdate) request.note(this.server, outcomeOf(error, [this]));
    request.frameFailed(error);
  }

  mustFollow(waiting: Call): boolean {
    return touches(this, waiting);
  }
}

/** KvRequest.K2 */
function touches({ kvRequest: mine, part }: KvFrame, waiting: Call): boolean {
  if (!(waiting instanceof KvRequest || waiting instanceof KvCall) || !waiting.isUpdate) return false;
  const { kvRequest: theirs, part: theirPart } = waiting;
  return (
    mine.owner.app === theirs.owner.app &&
    (mine.keys[part.keyFrom] as bigint) <= (theirs.keys[theirPart.keyTo - 1] as bigint) &&
    (theirs.keys[theirPart.keyFrom] as bigint) <= (mine.keys[part.keyTo - 1] as bigint)
  );
}

/** The flags that all frames of a request have. */
function flagsOf({ dtype, lens, special }: KvRequest): number {
  const type = dtype << DTYPE_SHIFT;
  return lens === undefined && special === undefined ? type : type | specialFlags(lens, special);
}

function specialFlags(lens: Int32Array | undefined, special: KvSpecial | undefined): number {
  const lengths = (lens === undefined ? 0 : KvFlag.VARIABLE) | (special?.fill === undefined ? 0 : KvFlag.WANT_LENS);
  return lengths | (special?.slicer === undefined ? 0 : APP_CUT);
}

/** Whether one frame carries all of a request: then it need not be cut, where one server owns its keys. */
export function fitsOneFrame({ keyTo, lens, width, elementBytes }: KvRequest): boolean {
  return lens === undefined && isOneFrame(keyTo, width * elementBytes);
}

/** Whether so many keys with values of this size are one frame, as `uniformSpans` cuts them. */
function isOneFrame(keyCount: number, valueBytes: number): boolean {
  return valueBytes < LARGE_VALUE_BYTES && keyCount * (KEY_BYTES + LEN_BYTES + valueBytes) <= BLOCK_BYTES;
}

type KvStart = Pick<KvPart, "keyFrom" | "valueFrom">;

/** Calls `visit` with what the cuts make of the keys from `keyFrom` on, and with the index of its range, in order. */
export function eachPart(request: KvRequest, cuts: Cuts, from: KvStart, visit: (part: KvPart, range: number) => void): void {
  let { valueFrom } = from;
  for (let range = 0; range + 1 < cuts.length; range++) {
    const [keyFrom, keyTo] = [from.keyFrom + (cuts[range] as number), from.keyFrom + (cuts[range + 1] as number)];
    if (keyFrom === keyTo) continue;
    const valueTo = valueFrom + request.valueCount(keyFrom, keyTo);
    visit({ keyFrom, keyTo, valueFrom, valueTo }, range);
    valueFrom = valueTo;
  }
}

/** The calls of this part, in order; the last one is marked. */
export function cutPart(request: KvRequest, part: KvPart, epoch: number): KvCall[] {
  const { lens, width, elementBytes } = request;
  const { keyFrom, keyTo, valueFrom } = part;
  if (lens === undefined && isOneFrame(keyTo - keyFrom, width * elementBytes)) {
    const valueTo = valueFrom + (keyTo - keyFrom) * width;
    return [new KvCall(request, { keyFrom, keyTo, valueFrom, valueTo, width, pieceOffset: -1, isLast: true }, epoch, part)];
  }
  const spans = lens === undefined ? uniformSpans(width, elementBytes, part) : variableSpans(lens, elementBytes, part);
  const last = spans.at(-1);
  if (last !== undefined) last.isLast = true;
  return spans.map((span) => new KvCall(request, span, epoch, part));
}
