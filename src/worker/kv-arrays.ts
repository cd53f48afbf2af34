// kv-arrays — what a kv request is made of, and who makes it, sends it and hears of its end. Types alone: kv-request.ts
// is what is made of them.

import type { WeighbridgeError } from "../base/errors.ts";
import type { kvPull, kvPush, kvPushPull } from "../contracts/kv.ts";
import type { Slicer } from "../keys/key-list.ts";
import type { Values } from "../wire/kv-message.ts";
import type { FloatWindow, Landing } from "./kv-landing.ts";
import type { KvCall, KvRequest } from "./kv-request.ts";

export type KvFunctionId = typeof kvPush.id | typeof kvPull.id | typeof kvPushPull.id;

/** Who made the request, and hears of its end. */
export type KvOwner = {
  readonly app: number;
  readonly customer: number;
  readonly window: FloatWindow;
  /** By rank, the incarnation of each server that its requests leave for; 0 before it was known. */
  readonly incarnations: number[];
  /** Sends the calls of its requests, and hears of their ends first; undefined where nobody cuts them again. */
  readonly router?: KvRouter | undefined;
  ended(request: KvRequest, error: WeighbridgeError | undefined): void;
};

/** Sends the calls of a request. */
export type KvRouter = {
  /** All calls of the request have ended. */
  kvEnded(request: KvRequest, failure: WeighbridgeError | undefined): void;
  /** A call failed: true when the router sends what it carried another way, so that the request goes on. */
  kvRefused(call: KvCall | KvRequest, error: WeighbridgeError): boolean;
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

/** Called when a request has ended, with the error if it failed. */
export type KvCallback = (error?: WeighbridgeError) => void;

/** Of the caller, as they are: a copy of them would take as long as all checks of a small request. */
export type KvRequestOptions = {
  /** 0 if left out, as the priority is. */
  readonly cmd?: number | undefined;
  readonly priority?: number | undefined;
  readonly callback?: KvCallback | undefined;
};

/** What few requests have. */
export type KvSpecial = {
  /** The application's own, in the place of the servers' ranges. */
  readonly slicer?: Slicer | undefined;
  /** What to do with answers of unknown length, before the request ends. */
  readonly fill?: ((landings: readonly Landing[]) => void) | undefined;
};
