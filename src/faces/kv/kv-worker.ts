// kv-worker — pushes and pulls of one user of an application on a worker (ps-lite: KVWorker). Calls return at once with a timestamp;
// `wait` or a callback tells the end.
//
// Arrays given to a call belong to it until it ends: they are sent from, and received into, without a copy. When the memory of one is transferred away, or shrinks,
// before that, the call fails with BUFFER_DETACHED, and what it pushed may have been applied, in part or whole.
//
// Invariants:
//   U1. Arguments are checked before anything is sent; what is wrong throws BAD_ARGUMENT or KEYS_NOT_ASCENDING and sends nothing.
//   U2. Requests of equal priority reach each server in the order they were made; a pull sees every earlier push of this worker to its keys.
//   U3. A callback is called once, after the arrays are filled; `wait` ends no earlier.
//   U4. A request leaves for incarnations of servers that this KVWorker knows, or for none: the first one to a server that was started again fails with
//       NODE_DEAD, nothing sent (Router.R6). What was pushed to the incarnation before is lost, and would read as zeros.

import type { WaitOptions } from "../../base/deferred.ts";
import { Deferred } from "../../base/deferred.ts";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { checkOptions, checkWaitOptions, WAIT_NAMES } from "../../base/known-options.ts";
import { kvPull, kvPush, kvPushPull } from "../../contracts/kv.ts";
import { ElementType, elementArrayOf, elementTypeOf } from "../../kernel/elements.ts";
import { firstDescent, type Slicer } from "../../keys/key-list.ts";
import type { RequestTracker } from "../../peer/request-tracker.ts";
import type { Values } from "../../wire/kv-message.ts";
import { CallerArray } from "../../worker/caller-array.ts";
import type { KvArrays, KvCallback, KvFunctionId, KvOwner, KvRequestOptions } from "../../worker/kv-arrays.ts";
import type { FloatWindow, Landing } from "../../worker/kv-landing.ts";
import { KvRequest } from "../../worker/kv-request.ts";
import { type KvRoutes, kvRoutesOf } from "../../worker/router/kv-routes.ts";
import type { KVPairs } from "./kv-pairs.ts";
import type { Postoffice } from "./postoffice.ts";
import { SimpleApp } from "./simple-app.ts";
import { fillFromLandings } from "./variable-pull.ts";

export type KVCallback = KvCallback;

export type KVOptions = {
  /** The application's own number, seen by the server's handle. Defaults to 0. */
  readonly cmd?: number;
  /** Higher overtakes lower between blocks. Defaults to 0. */
  readonly priority?: number;
  readonly callback?: KVCallback;
};

export type KVPushOptions = KVOptions & {
  /** Values per key; left out, every key has vals.length / keys.length of them. */
  readonly lens?: Int32Array;
};

export type KVPullOptions = KVOptions & {
  /** Is filled with the number of values of each key; `vals` must then have room for all of them together. */
  readonly lens?: Int32Array;
};

const NO_OPTIONS: KVPushOptions = {};
const PAIRS_OPTIONS: readonly string[] = ["cmd", "priority", ...WAIT_NAMES];
const KV_OPTIONS: readonly string[] = ["cmd", "priority", "callback", "lens"];

export class KVWorker implements KvOwner {
  readonly office: Postoffice;
  /** Requests with a head and a body, within the same application. */
  readonly simple: SimpleApp;
  readonly app: number;
  readonly customer: number;
  readonly window: FloatWindow;
  /** By rank (U4). */
  readonly incarnations: number[];
  /** For the requests themselves, as are those above: what sends them. */
  readonly router: KvRoutes;
  readonly #tracker: RequestTracker;
  /** The application's own; undefined: requests are cut at the servers' ranges. */
  #slicer: Slicer | undefined;

  /** Throws BAD_ARGUMENT on a node that is no worker, without servers, and when this app and customer exist already. */
  constructor(office: Postoffice, appId: number, customerId = 0) {
    const { worker } = office;
    if (worker === undefined) throw new WeighbridgeError("BAD_ARGUMENT", `a KVWorker needs a worker node, but this is the ${office.role}`);
    if (office.numServers === 0) throw bad("a KVWorker needs servers, and this cluster has none");
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

  /** Adds (or whatever the server's handle does) `vals` to `keys`. */
  push(keys: BigUint64Array, vals: Values, options: KVPushOptions = NO_OPTIONS): number {
    if (options !== NO_OPTIONS) checkRequestOptions(options);
    return this.#submit(kvPush.id, keys, vals, undefined, options);
  }

  /** Reads the values of `keys` into `vals`. With `lens`, keys may have different numbers of values, and `lens` is filled too. */
  pull(keys: BigUint64Array, vals: Values, options: KVPullOptions = NO_OPTIONS): number {
    if (options !== NO_OPTIONS) checkRequestOptions(options);
    if (options.lens !== undefined) return this.#pullInto(keys, vals, options.lens, options);
    return this.#submit(kvPull.id, keys, undefined, vals, options);
  }

  /** Pushes `vals`, then reads the keys into `outs`, in one round trip; on each server one after the other with nothing in between. */
  pushPull(keys: BigUint64Array, vals: Values, outs: Values, options: KVPushOptions = NO_OPTIONS): number {
    if (options !== NO_OPTIONS) checkRequestOptions(options);
    return this.#submit(kvPushPull.id, keys, vals, outs, options);
  }

  /** Reads keys whose numbers of values are not known: resolves with arrays of the right size. */
  async pullPairs(keys: BigUint64Array, options: Omit<KVOptions, "callback"> & WaitOptions = {}): Promise<KVPairs<Float32Array>> {
    checkWaitOptions(options, PAIRS_OPTIONS, "the options of a request");
    const { deadlineMs, signal, ...rest } = options;
    const result = new Deferred<KVPairs<Float32Array>>();
    const timestamp = this.#submitVariable(keys, ElementType.F32, rest, (landings) => {
      const lens = new Int32Array(keys.length);
      const vals = fillFromLandings(landings, lens, (count) => new Float32Array(count));
      result.resolve({ keys, vals, lens });
    });
    await this.wait(timestamp, { deadlineMs, signal });
    return await result.promise;
  }

  /** Waits for the end of a request. Rejects with its failure; with DEADLINE or ABORTED the request itself goes on. */
  async wait(timestamp: number, options?: WaitOptions): Promise<void> {
    if (options !== undefined) checkWaitOptions(options);
    await this.#tracker.wait(timestamp, options);
  }

  /** Resolves when calls are taken on again after a QUEUE_FULL. Rejects with DEADLINE or ABORTED. */
  async room(options?: WaitOptions): Promise<void> {
    if (options !== undefined) checkWaitOptions(options);
    await this.router.room(options);
  }

  /** Cuts requests with `slicer` instead of at the servers' key ranges. */
  setSlicer(slicer: Slicer): void {
    this.#slicer = slicer;
  }

  #submit(
    functionId: KvFunctionId,
    keys: BigUint64Array,
    sent: Values | undefined,
    received: Values | undefined,
    options: KVPushOptions,
  ): number {
    const { lens, cmd, priority, callback } = options;
    const values = (sent ?? received) as Values;
    checkKeys(keys);
    const dtype = values instanceof Float32Array ? ElementType.F32 : elementTypeOf(values);
    if (dtype < 0) throw badValues(values);
    const width = lens === undefined ? widthOf(keys, values) : checkLens(keys, values, lens);
    if (sent !== undefined && received !== undefined && (received.length !== sent.length || elementTypeOf(received) !== dtype))
      throw badRoom(sent, received);
    const arrays: KvArrays = { keys, sent, received, lens, dtype, width, elementBytes: values.BYTES_PER_ELEMENT };
    return this.#send(new KvRequest(this, functionId, arrays, this.#optionsOf(cmd, priority, callback, undefined)));
  }

  #pullInto(keys: BigUint64Array, vals: Values, lens: Int32Array, options: KVPullOptions): number {
    if (lens.length !== keys.length) throw bad(`${lens.length} lens for ${keys.length} keys`);
    const given = [new CallerArray(vals), new CallerArray(lens)];
    return this.#submitVariable(keys, elementTypeOf(vals), options, (landings) => {
      for (const array of given) array.check("a pull", false);
      fillFromLandings(landings, lens, (count) => {
        if (count > vals.length) throw new WeighbridgeError("VALUE_LENGTH", `${count} values came, but there is room for ${vals.length}`);
        return vals;
      });
    });
  }

  #submitVariable(keys: BigUint64Array, dtype: number, options: KVOptions, fill: (landings: readonly Landing[]) => void): number {
    checkKeys(keys);
    const { cmd, priority, callback } = options;
    const elementBytes = elementArrayOf(dtype)?.BYTES_PER_ELEMENT ?? 0;
    if (elementBytes === 0) throw bad("values are typed arrays of numbers");
    const arrays: KvArrays = { keys, sent: undefined, received: undefined, lens: undefined, dtype, width: 0, elementBytes };
    return this.#send(new KvRequest(this, kvPull.id, arrays, this.#optionsOf(cmd, priority, callback, fill)));
  }

  /** Written out: spreading an object here took as long as all checks of a small request. */
  #optionsOf(
    cmd: number | undefined,
    priority: number | undefined,
    callback: KvCallback | undefined,
    fill: KvRequestOptions["fill"],
  ): KvRequestOptions {
    return { command: checkWord(cmd, "cmd"), priority: checkWord(priority, "priority"), callback, fill, slicer: this.#slicer };
  }

  #send(request: KvRequest): number {
    request.timestamp = this.#tracker.nextTimestamp;
    this.router.submit(request);
    return this.#tracker.open(request);
  }

  /** For the requests themselves: one of them has ended. */
  ended(request: KvRequest, error: WeighbridgeError | undefined): void {
    const { fill, landings, callback } = request;
    const failure = error ?? (fill === undefined ? undefined : attempt(() => fill(landings ?? [])));
    this.#tracker.settle(request.timestamp, request, failure);
    if (callback === undefined) return;
    try {
      callback(failure);
    } catch (thrown) {
      this.#tellOf(thrown, request.timestamp);
    }
  }

  #tellOf(thrown: unknown, timestamp: number): void {
    this.office.log.error("a callback failed", { app: this.app, timestamp, reason: reasonOf(thrown) });
  }
}

/** The error of something that may throw one. */
function attempt(run: () => void): WeighbridgeError | undefined {
  try {
    run();
    return undefined;
  } catch (thrown) {
    return thrown instanceof WeighbridgeError ? thrown : new WeighbridgeError("BAD_REQUEST", reasonOf(thrown), { cause: thrown });
  }
}

// What is wrong is told by functions of their own: the engine takes only short ones into the path of a small request.

function checkKeys(keys: BigUint64Array): void {
  if (!(keys instanceof BigUint64Array) || keys.length === 0 || firstDescent(keys) >= 0) throw badKeys(keys);
}

function badKeys(keys: BigUint64Array): WeighbridgeError {
  if (!(keys instanceof BigUint64Array)) return bad("keys are a BigUint64Array");
  if (keys.length === 0) return bad("a request needs at least one key");
  const at = firstDescent(keys);
  return new WeighbridgeError(
    "KEYS_NOT_ASCENDING",
    `keys must be ascending and unique, but key ${at} (${keys[at]}) follows ${keys[at - 1]}`,
  );
}

function badValues(values: unknown): WeighbridgeError {
  return bad(`values are typed arrays of numbers, not ${Object.prototype.toString.call(values)}`);
}

function badRoom(sent: Values, received: Values): WeighbridgeError {
  return bad(`pushPull sends ${sent.length} values and has room for ${received.length}; both must be alike`);
}

function widthOf(keys: BigUint64Array, values: Values): number {
  const width = values.length / keys.length;
  if (width === 0 || !Number.isInteger(width)) throw badWidth(keys, values);
  return width;
}

function badWidth(keys: BigUint64Array, values: Values): WeighbridgeError {
  return bad(`${values.length} values for ${keys.length} keys: not the same number for each`);
}

/** Returns the width to send: none, the lens say it. */
function checkLens(keys: BigUint64Array, values: Values, lens: Int32Array): number {
  if (lens.length !== keys.length) throw bad(`${lens.length} lens for ${keys.length} keys`);
  let sum = 0;
  for (let i = 0; i < lens.length; i++) {
    const length = lens[i] as number;
    if (length < 0) throw bad(`the length of key ${i} is ${length}`);
    sum += length;
  }
  if (sum !== values.length) throw bad(`lens add up to ${sum}, but there are ${values.length} values`);
  return 0;
}

/** U1, without a list to search: it is asked with every request that has options. */
function checkRequestOptions(options: object): void {
  if (typeof options !== "object" || options === null) checkOptions(options, KV_OPTIONS, "the options of a request");
  for (const name in options)
    if (name !== "callback" && name !== "lens" && name !== "cmd" && name !== "priority")
      checkOptions(options, KV_OPTIONS, "the options of a request");
}

function checkWord(value = 0, name: string): number {
  if ((value | 0) !== value) throw badWord(value, name);
  return value;
}

function badWord(value: number, name: string): WeighbridgeError {
  return bad(`${name} is a 32-bit whole number, not ${value}`);
}

function bad(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_ARGUMENT", what);
}
