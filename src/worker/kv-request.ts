// kv-request — one push, pull or pushPull of a user, over all servers that own some of its keys. Ends once, when every frame ended:
// well, or with the first error.

import type { WeighbridgeError } from "../base/errors.ts";
import { TrackedRequest } from "../peer/request-tracker.ts";
import type { FunctionId } from "../wire/function-id.ts";
import type { Values } from "../wire/kv-message.ts";
import type { Landing } from "./kv-part.ts";

export type KvRequestOptions = {
  readonly functionId: FunctionId;
  readonly app: number;
  readonly customer: number;
  readonly command: number;
  readonly priority: number;
  readonly keys: BigUint64Array;
  /** Values to send; undefined for a pull. */
  readonly sent: Values | undefined;
  /** Room for the answer, exactly as long as it will be; undefined for a push, and when lengths are not known. */
  readonly received: Values | undefined;
  /** Values per key of `sent`, when they differ. */
  readonly lens: Int32Array | undefined;
  readonly wantsLens: boolean;
  readonly dtype: number;
  readonly shape: KvShape;
  readonly done: (request: KvRequest, error: WeighbridgeError | undefined) => void;
};

/** Values per key (0: not known or not the same) and bytes per value. */
export type KvShape = { readonly width: number; readonly elementBytes: number };

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

export class KvRequest extends TrackedRequest {
  readonly functionId: number;
  readonly app: number;
  readonly customer: number;
  readonly command: number;
  readonly priority: number;
  /** Its number within its customer, given when it is tracked. */
  timestamp = 0;
  readonly keys: BigUint64Array;
  readonly sent: Values | undefined;
  readonly received: Values | undefined;
  readonly lens: Int32Array | undefined;
  readonly wantsLens: boolean;
  readonly dtype: number;
  readonly shape: KvShape;
  /** Answers of unknown length, in the order they landed. */
  readonly landings: Landing[] = [];
  readonly #window: FloatWindow;
  readonly #done: (request: KvRequest, error: WeighbridgeError | undefined) => void;
  #openFrames = 0;
  #failure: WeighbridgeError | undefined;

  constructor(options: KvRequestOptions, window: FloatWindow) {
    super();
    this.functionId = options.functionId;
    this.app = options.app;
    this.customer = options.customer;
    this.command = options.command;
    this.priority = options.priority;
    this.keys = options.keys;
    this.sent = options.sent;
    this.received = options.received;
    this.lens = options.lens;
    this.wantsLens = options.wantsLens;
    this.dtype = options.dtype;
    this.shape = options.shape;
    this.#done = options.done;
    this.#window = window;
  }

  /** Values of the keys from `keyFrom` up to `keyTo`. */
  valueCount(keyFrom: number, keyTo: number): number {
    const { lens } = this;
    if (lens === undefined) return (keyTo - keyFrom) * this.shape.width;
    let count = 0;
    for (let i = keyFrom; i < keyTo; i++) count += lens[i] as number;
    return count;
  }

  /** How many frames there are to end. Set before the first one is sent. */
  open(frameCount: number): void {
    this.#openFrames = frameCount;
  }

  frameDone(): void {
    if (--this.#openFrames === 0) this.#done(this, this.#failure);
  }

  frameFailed(error: WeighbridgeError): void {
    this.#failure ??= error;
    this.frameDone();
  }

  floatsOver(bytes: Uint8Array): Float32Array {
    return this.#window.over(bytes);
  }
}
