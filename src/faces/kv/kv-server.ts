// kv-server — an application on a server: keys and values behind a request handle (ps-lite: KVServer). Without a handle of the user's own,
// values are summed, any number of them per key, floats in the arena.

import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import type { KvApplication } from "../../server/kv/kv-application.ts";
import type { WholeRequest } from "../../server/kv/whole-requests.ts";
import type { KVMeta, KVPairs } from "./kv-pairs.ts";
import type { Postoffice } from "./postoffice.ts";
import { SimpleApp } from "./simple-app.ts";

/**
 * Handles one request, whole: all keys of it that this server owns. The arrays are the handle's to keep. It must call
 * `server.response(meta, …)` once, now or later; what it throws before goes back to the worker as HANDLER_FAILED.
 */
export type KVRequestHandle = (meta: KVMeta, pairs: KVPairs, server: KVServer) => void | Promise<void>;

export type ResponseOptions = {
  /** True: the arrays are given away and will not change, so that no copy is needed. */
  readonly owned?: boolean;
};

const PAIR_NAMES: readonly string[] = ["keys", "vals", "lens"];
const RESPONSE_OPTIONS: readonly string[] = ["owned"];

export class KVServer {
  readonly office: Postoffice;
  /** Requests with a head and a body to this application. */
  readonly simple: SimpleApp;
  readonly #application: KvApplication;
  readonly #unanswered = new WeakMap<KVMeta, WholeRequest>();

  /** Throws BAD_ARGUMENT on a node that is no server, and when the application exists already. */
  constructor(office: Postoffice, appId: number) {
    const { server } = office;
    if (server === undefined) throw new WeighbridgeError("BAD_ARGUMENT", `a KVServer needs a server node, but this is the ${office.role}`);
    this.office = office;
    this.simple = new SimpleApp(office, appId, 0); // so that its requests reach KVWorkers, whose customer is 0 unless they say otherwise
    this.#application = server.openKv(appId);
  }

  /** Serves requests with `handle` from now on; `undefined` goes back to summing. */
  setRequestHandle(handle: KVRequestHandle | undefined): void {
    this.#application.serveWhole(handle === undefined ? undefined : (request) => this.#serve(handle, request));
  }

  /**
   * Answers a request that the handle was given; once, from whichever call. A pull is answered with the values of its keys, which are
   * copied unless they are given away. Throws BAD_ARGUMENT for a second answer.
   */
  response(meta: KVMeta, pairs: Partial<KVPairs> = {}, options: ResponseOptions = {}): void {
    const request = this.#unanswered.get(meta);
    if (request === undefined)
      throw new WeighbridgeError("BAD_ARGUMENT", `request ${meta.timestamp} of ${meta.senderName} was answered already`);
    checkOptions(pairs, PAIR_NAMES, "the pairs of a response");
    checkOptions(options, RESPONSE_OPTIONS, "the options of a response");
    const { vals, lens } = pairs;
    if (meta.pull && vals === undefined) throw new WeighbridgeError("BAD_ARGUMENT", "a pull is answered with values");
    const isOwned = options.owned === true;
    this.#application.answer(request, isOwned ? vals : vals?.slice(), isOwned ? lens : lens?.slice());
    this.#unanswered.delete(meta);
  }

  /** Answers a request with an error instead. */
  fail(meta: KVMeta, error: unknown): void {
    const request = this.#unanswered.get(meta);
    if (request === undefined)
      throw new WeighbridgeError("BAD_ARGUMENT", `request ${meta.timestamp} of ${meta.senderName} was answered already`);
    this.#unanswered.delete(meta);
    request.channel.fail(request.label, error);
  }

  #serve(handle: KVRequestHandle, request: WholeRequest): void {
    const { channel, label, isPush, isPull, timestamp, keys, values, lens } = request;
    const meta: KVMeta = {
      cmd: label.command,
      push: isPush,
      pull: isPull,
      sender: channel.id,
      senderName: channel.name,
      timestamp,
      customerId: label.customer,
    };
    this.#unanswered.set(meta, request);
    const failed = (thrown: unknown): void => {
      if (this.#unanswered.has(meta)) this.fail(meta, thrown);
      else this.office.log.error("a request handle failed after it had answered", { worker: meta.senderName, reason: reasonOf(thrown) });
    };
    try {
      const result = handle(meta, { keys, vals: values, lens }, this);
      if (result instanceof Promise) result.catch(failed);
    } catch (thrown) {
      failed(thrown);
    }
  }
}
