// kv-worker — pushes and pulls of one customer of an application on a worker (ps-lite: KVWorker). A call returns a
// timestamp at once; the caller waits for it, or passes a callback.
//
// Arrays belong to a call until it ends: it sends and receives without a copy. If the memory of one is transferred or
// shrinks before that, the call fails with BUFFER_DETACHED; its push may have been applied in part.
//
// Invariants:
//   KVWorker.U1. Arguments are checked first: BAD_ARGUMENT or KEYS_NOT_ASCENDING means that nothing was sent.
//   KVWorker.U2. Requests of equal priority reach each server in order; a pull sees this worker's earlier pushes.
//   KVWorker.U3. A callback runs once, after the arrays are filled; `wait` ends no earlier.
//   KVWorker.U4. A request leaves only for incarnations of servers that this KVWorker knows: the first one to a
//       restarted server, whose values are lost, fails with NODE_DEAD (Router.R6).

import { Deferred, type WaitOptions } from "../../base/deferred.ts";
import { badArgument, reasonOf, showValue, type WeighbridgeError } from "../../base/errors.ts";
import { checkOptions, checkWaitOptions, WAIT_NAMES } from "../../base/known-options.ts";
import { kvPull, kvPush, kvPushPull } from "../../contracts/kv.ts";
import { ElementType, elementArrayOf, elementTypeOf } from "../../kernel/elements.ts";
import { requireKeys, type Slicer } from "../../keys/key-list.ts";
import type { RequestTracker } from "../../peer/request-tracker.ts";
import { problemWithLens, type Values } from "../../wire/kv-message.ts";
import type { KvArrays, KvFunctionId, KvSpecial } from "../../worker/kv-arrays.ts";
import { type FloatWindow, fillCallerArrays, fillFailure, fillFromLandings, type Landing } from "../../worker/kv-landing.ts";
import { KvRequest } from "../../worker/kv-request.ts";
import { type KvRoutes, kvRoutesOf } from "../../worker/router/kv-routes.ts";
import type { KVPairs } from "./kv-server.ts";
import type { Postoffice } from "./postoffice.ts";
import { SimpleApp } from "./simple-app.ts";

/** Called when a request has ended. */
export type KVCallback = (error?: WeighbridgeError) => void;

/** How a request is sent. */
export type KVOptions = {
  /** The application's own number, which the server's handle sees. Defaults to 0. */
  readonly cmd?: number | undefined;
  /** Higher overtakes lower between blocks. Defaults to 0. */
  readonly priority?: number | undefined;
  /** Called when the request has ended. */
  readonly callback?: KVCallback | undefined;
};

/** How a push is sent. */
export type KVPushOptions = KVOptions & {
  /** Values per key; left out, every key has vals.length / keys.length of them. */
  readonly lens?: Int32Array | undefined;
};

/** How a pull is sent. */
export type KVPullOptions = KVOptions & {
  /** Filled with the number of values of each key; `vals` must then have room for all of them together. */
  readonly lens?: Int32Array | undefined;
};

const NO_OPTIONS: KVPushOptions = {};
const PAIRS_OPTIONS: readonly string[] = ["cmd", "priority", ...WAIT_NAMES];
const KV_OPTIONS: readonly string[] = ["cmd", "priority", "callback", "lens"];

/** A worker's application: it pushes values of keys to the servers and pulls them (ps-lite: KVWorker). */
export class KVWorker {
  /** The node it is of. */
  readonly office: Postoffice;
  /** Requests with a head and a body, within the same application. */
  readonly simple: SimpleApp;
  // For the requests (KvOwner), as `ended` is.
  /** @internal */
  readonly app: number;
  /** @internal */
  readonly customer: number;
  /** @internal */
  readonly window: FloatWindow;
  /** @internal By rank (KVWorker.U4). */
  readonly incarnations: number[];
  /** @internal */
  readonly router: KvRoutes;
  readonly #tracker: RequestTracker;
  /** The application's slicer; undefined: requests are cut at the servers' ranges. */
  #special: KvSpecial | undefined;

  /** Throws BAD_ARGUMENT on a node that is no worker, without servers, and if this app and customer exist already. */
  constructor(office: Postoffice, appId: number, customerId = 0) {
    const { worker } = office;
    if (worker === undefined) throw badArgument(`a KVWorker needs a worker node, but this is the ${office.role}`);
    if (office.numServers === 0) throw badArgument("a KVWorker needs servers, and this cluster has none");
    this.office = office;
    this.simple = new SimpleApp(office, appId, customerId);
    this.app = appId;
    this.customer = customerId;
    const { router } = worker;
    this.router = kvRoutesOf(router);
    this.window = this.router.window;
    this.#tracker = this.simple.customer.tracker;
    this.incarnations = Array.from({ length: office.numServers }, (_, rank) => router.incarnationOf(rank));
  }

  /** Adds `vals` to `keys`, or passes them to the server's handle. */
  push(keys: BigUint64Array, vals: Values, options: KVPushOptions = NO_OPTIONS): number {
    if (options !== NO_OPTIONS) checkRequestOptions(options);
    return this.#submit(kvPush.id, keys, vals, undefined, options);
  }

  /**
   * Reads the values of `keys` into `vals`. With `lens`, which is filled too, keys may have different numbers of them.
   */
  pull(keys: BigUint64Array, vals: Values, options: KVPullOptions = NO_OPTIONS): number {
    if (options !== NO_OPTIONS) checkRequestOptions(options);
    const { lens } = options;
    if (lens === undefined) return this.#submit(kvPull.id, keys, undefined, vals, options);
    if (!(keys instanceof BigUint64Array)) requireKeys(keys);
    checkLens(lens);
    if (lens.length !== keys.length) throw badArgument(`${lens.length} lens for ${keys.length} keys`);
    return this.#submitVariable(keys, typeOf(vals), options, fillCallerArrays(vals, lens));
  }

  /** Pushes `vals`, then reads the keys into `outs`, in one round trip; no other request comes between on a server. */
  pushPull(keys: BigUint64Array, vals: Values, outs: Values, options: KVPushOptions = NO_OPTIONS): number {
    if (options !== NO_OPTIONS) checkRequestOptions(options);
    return this.#submit(kvPushPull.id, keys, vals, outs, options);
  }

  /** Reads keys whose numbers of values are not known: resolves with arrays of the right size. */
  async pullPairs(keys: BigUint64Array, options: Omit<KVOptions, "callback"> & WaitOptions = {}): Promise<KVPairs<Float32Array>> {
    checkWaitOptions(options, PAIRS_OPTIONS, "the options of a request");
    const { timeoutMs, signal, ...rest } = options;
    const result = new Deferred<KVPairs<Float32Array>>();
    const timestamp = this.#submitVariable(keys, ElementType.F32, rest, (landings) => {
      const lens = new Int32Array(keys.length);
      const vals = fillFromLandings(landings, lens, (count) => new Float32Array(count));
      result.resolve({ keys, vals, lens });
    });
    await this.wait(timestamp, { timeoutMs, signal });
    return await result.promise;
  }

  /**
   * Waits for the end of a request. Rejects with its failure; with DEADLINE or ABORTED the request itself continues.
   */
  async wait(timestamp: number, options?: WaitOptions): Promise<void> {
    if (options !== undefined) checkWaitOptions(options);
    await this.#tracker.wait(timestamp, options);
  }

  /** Resolves when the queues have room again after a QUEUE_FULL. Rejects with DEADLINE or ABORTED. */
  async room(options?: WaitOptions): Promise<void> {
    if (options !== undefined) checkWaitOptions(options);
    await this.router.room(options);
  }

  /** Cuts requests with `slicer` instead of at the servers' key ranges. */
  setSlicer(slicer: Slicer): void {
    this.#special = { slicer };
  }

  #submit(
    functionId: KvFunctionId,
    keys: BigUint64Array,
    sent: Values | undefined,
    received: Values | undefined,
    options: KVPushOptions,
  ): number {
    requireKeys(keys);
    const { lens } = options;
    const values = (sent ?? received) as Values;
    const isPlain = values instanceof Float32Array && lens === undefined && (sent === undefined || received === undefined);
    const dtype = isPlain ? ElementType.F32 : checkedTypeOf({ keys, sent, received, lens });
    const width = lens === undefined ? values.length / keys.length : 0;
    if (lens === undefined && (width === 0 || !Number.isInteger(width))) throw badWidth(keys, values);
    const arrays = { keys, sent, received, lens, dtype, width, elementBytes: values.BYTES_PER_ELEMENT };
    return this.#send(new KvRequest(this, functionId, arrays, options, this.#special));
  }

  #submitVariable(keys: BigUint64Array, dtype: number, options: KVOptions, fill: (landings: readonly Landing[]) => void): number {
    requireKeys(keys);
    const elementBytes = elementArrayOf(dtype)?.BYTES_PER_ELEMENT;
    if (elementBytes === undefined) throw badArgument("values are typed arrays of numbers");
    const arrays: KvArrays = { keys, sent: undefined, received: undefined, lens: undefined, dtype, width: 0, elementBytes };
    return this.#send(new KvRequest(this, kvPull.id, arrays, options, { ...this.#special, fill }));
  }

  #send(request: KvRequest): number {
    const { command, priority } = request;
    if ((command | 0) !== command || (priority | 0) !== priority) throw badWord(request);
    request.timestamp = this.#tracker.nextTimestamp;
    this.router.submit(request);
    return this.#tracker.open(request);
  }

  /** @internal For the requests themselves: one of them has ended. */
  ended(request: KvRequest, error: WeighbridgeError | undefined): void {
    const failure = request.special === undefined ? error : (error ?? fillFailure(request.special.fill, request.landings));
    this.#tracker.settle(request.timestamp, request, failure);
    try {
      request.callback?.(failure);
    } catch (thrown) {
      this.office.log.error("a callback failed", { app: this.app, timestamp: request.timestamp, reason: reasonOf(thrown) });
    }
  }
}

// What few requests need is in functions of its own: V8 inlines only short ones into the path of a small request.

/** The type of all values, if they are not simply floats that are sent or received. */
function checkedTypeOf({ keys, sent, received, lens }: Pick<KvArrays, "keys" | "sent" | "received" | "lens">): number {
  const values = (sent ?? received) as Values;
  const dtype = typeOf(values);
  if (sent !== undefined && received !== undefined) typeOf(received);
  if (lens !== undefined) checkLens(lens);
  const problem = lens === undefined ? undefined : problemWithLens(lens, keys.length, values.length);
  if (problem !== undefined) throw badArgument(problem);
  if (sent !== undefined && received !== undefined && (received.length !== sent.length || elementTypeOf(received) !== dtype))
    throw badArgument(`pushPull sends ${sent.length} values and has room for ${received.length}; both must be equal`);
  return dtype;
}

function typeOf(values: unknown): ElementType {
  const dtype = elementTypeOf(values);
  if (dtype < 0) throw badArgument(`values must be a typed array of numbers, got ${showValue(values)}`);
  return dtype as ElementType;
}

function checkLens(lens: unknown): void {
  if (!(lens instanceof Int32Array)) throw badArgument(`lens must be an Int32Array, got ${showValue(lens)}`);
}

function badWidth(keys: BigUint64Array, values: Values): WeighbridgeError {
  return badArgument(`${values.length} values for ${keys.length} keys: not the same number for each`);
}

function badWord({ command, priority }: KvRequest): WeighbridgeError {
  const [name, value] = (command | 0) === command ? ["priority", priority] : ["cmd", command];
  return badArgument(`${name} is a 32-bit whole number, not ${value}`);
}

/** KVWorker.U1, without a list to search: every request with options passes here. */
function checkRequestOptions(options: object): void {
  if (typeof options !== "object" || options === null) checkOptions(options, KV_OPTIONS, "the options of a request");
  for (const name in options)
    if (name !== "callback" && name !== "lens" && name !== "cmd" && name !== "priority")
      checkOptions(options, KV_OPTIONS, "the options of a request");
}
