// kv-request — one push, pull or pushPull of a user, over all servers that own some of its keys, and the calls of about a block each that carry what one
// server is asked for (spec/protocol.md, the kv functions). Ends once, when every call ended: well, or with the first error. Not which server that is:
// the router decides it.

import type { WeighbridgeError } from "../base/errors.ts";
import type { kvPull, kvPush, kvPushPull } from "../contracts/kv.ts";
import type { Slicer } from "../keys/key-list.ts";
import type { TrackedRequest } from "../peer/request-tracker.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import { KEY_BYTES, keysPerFrame, LARGE_VALUE_BYTES, LEN_BYTES, type Values } from "../wire/kv-message.ts";
import { addPieces, type KvPart, type KvSpan, variableSpans } from "../wire/kv-spans.ts";
import { KvCall } from "./kv-call.ts";

export type KvFunctionId = typeof kvPush.id | typeof kvPull.id | typeof kvPushPull.id;

/** Who made the request, and hears of its end. */
export type KvOwner = {
  readonly app: number;
  readonly customer: number;
  readonly window: FloatWindow;
  /** By rank, the incarnation of each server that its requests leave for; 0 before it was known. */
  readonly incarnations: number[];
  /** Who sends the calls of its requests, and hears of their ends first; undefined where nobody cuts them again. */
  readonly router?: KvRouter | undefined;
  ended(request: KvRequest, error: WeighbridgeError | undefined): void;
};

/** Who sends the calls of a request. */
export type KvRouter = {
  /** All calls of the request have ended. */
  kvEnded(request: KvRequest, failure: WeighbridgeError | undefined): void;
  /** A call failed: true when the router sends what it carried another way, so that the request goes on. */
  kvRefused(call: KvCall, error: WeighbridgeError): boolean;
  /** The last call that was neither answered nor refused has ended, and some were refused. */
  kvAllRefused(request: KvRequest): void;
};

/** The arrays of a request; they belong to it until it ends. */
export type KvArrays = {
  readonly keys: BigUint64Array;
  /** Values to send; undefined for a pull. */
  readonly sent: Values | undefined;
  /** Room for the answer, exactly as long as it will be; undefined for a push, and when lengths are not known. */
  readonly received: Values | undefined;
  /** Values per key of `sent`, when they differ. */
  readonly lens: Int32Array | undefined;
  readonly dtype: number;
  /** Values per key; 0 when lens say, or when nobody knows. */
  readonly width: number;
  readonly elementBytes: number;
};

export type KvCallback = (error?: WeighbridgeError) => void;

/** A variable-length answer for these keys, as it landed: values, then lens. */
export type Landing = { readonly keyFrom: number; readonly keyTo: number; readonly bytes: Uint8Array };

/** A float view of the buffer answers were last read from: making one per tiny answer would cost more than the answer. */
export class FloatWindow {
  #bytes: Uint8Array | undefined;
  #floats: Float32Array = new Float32Array(0);

  over(bytes: Uint8Array): Float32Array {
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#floats = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
    }
    return this.#floats;
  }
}

export type KvRequestOptions = {
  readonly command: number;
  readonly priority: number;
  readonly callback: KvCallback | undefined;
  /** What to do with answers of unknown length, before the request ends; left out for all other requests. */
  readonly fill?: ((landings: readonly Landing[]) => void) | undefined;
  /** The application's own, in the place of the servers' ranges. */
  readonly slicer?: Slicer | undefined;
};

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
  const frameKeys = keysPerFrame(width * elementBytes);
  for (let from = keyFrom; from < keyTo; from += frameKeys) {
    const to = Math.min(keyTo, from + frameKeys);
    const first = valueFrom + (from - keyFrom) * width;
    spans.push({ keyFrom: from, keyTo: to, valueFrom: first, valueTo: first + (to - from) * width, width, pieceOffset: -1, isLast: false });
  }
  return spans;
}
