// kv-request — one push, pull or pushPull of a user, over all servers that own some of its keys. Ends once, when every frame ended:
// well, or with the first error.

import type { Deferred } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import type { TrackedRequest } from "../peer/request-tracker.ts";
import type { FunctionId } from "../wire/function-id.ts";
import type { Values } from "../wire/kv-message.ts";

export type KvFunctionId = typeof FunctionId.KV_PUSH | typeof FunctionId.KV_PULL | typeof FunctionId.KV_PUSH_PULL;

/** Who made the request, and hears of its end. */
export type KvOwner = {
  readonly app: number;
  readonly customer: number;
  readonly window: FloatWindow;
  ended(request: KvRequest, error: WeighbridgeError | undefined): void;
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
  /** Whether the application chose the servers itself; left out: it did not. */
  readonly isAppCut?: boolean;
  /** What to do with answers of unknown length, before the request ends; left out for all other requests. */
  readonly fill?: (landings: readonly Landing[]) => void;
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
  readonly isAppCut: boolean;
  readonly fill: ((landings: readonly Landing[]) => void) | undefined;
  readonly landings: Landing[] | undefined;
  /** Its number within its customer, given when it is tracked. */
  timestamp = 0;
  isSettled = false;
  error: WeighbridgeError | undefined;
  waiting: Deferred<void> | undefined;
  /** How long the arrays were when the request was made: one that is transferred away, or shrinks, has another length from then on. */
  readonly #keyCount: number;
  readonly #sentCount: number;
  readonly #receivedCount: number;
  readonly #lensCount: number;
  #openFrames = 0;
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
    this.isAppCut = options.isAppCut === true;
    this.fill = options.fill;
    this.landings = options.fill === undefined ? undefined : [];
    this.#keyCount = arrays.keys.length;
    this.#sentCount = arrays.sent?.length ?? 0;
    this.#receivedCount = arrays.received?.length ?? 0;
    this.#lensCount = arrays.lens?.length ?? 0;
  }

  /** Whether all its arrays are still there. */
  get isIntact(): boolean {
    const { keys, sent, received, lens } = this;
    return (
      keys.length >= this.#keyCount &&
      (sent === undefined || sent.length >= this.#sentCount) &&
      (received === undefined || received.length >= this.#receivedCount) &&
      (lens === undefined || lens.length >= this.#lensCount)
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

  /** How many frames there are to end. Set before the first one is sent. */
  open(frameCount: number): void {
    this.#openFrames = frameCount;
  }

  frameDone(): void {
    if (--this.#openFrames === 0) this.owner.ended(this, this.#failure);
  }

  frameFailed(error: WeighbridgeError): void {
    this.#failure ??= error;
    this.frameDone();
  }
}
