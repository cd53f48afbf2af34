// kv-server — an application on a server: keys and values behind a request handle (ps-lite: KVServer, KVPairs, KVMeta).
// Without a user's handle, the server sums the values of each key, any number of them: floats in the arena.

import { badArgument, reasonOf } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { runHandle } from "../../peer/app-registry.ts";
import type { KvApplication } from "../../server/kv/kv-application.ts";
import type { WholeKvRequest } from "../../server/kv/whole-requests.ts";
import type { Values } from "../../wire/kv-message.ts";
import type { Postoffice } from "./postoffice.ts";
import { SimpleApp } from "./simple-app.ts";

/** Keys with their values. */
export type KVPairs<V extends Values = Values> = {
  /** Strictly ascending. */
  readonly keys: BigUint64Array;
  /** One key's values after the other's; empty in a pull request. */
  readonly vals: V;
  /** Values per key; left out when every key has vals.length / keys.length of them. */
  readonly lens?: Int32Array | undefined;
};

/** What a request has in addition to its keys and values. Keep it to answer later. */
export type KVMeta = {
  readonly cmd: number;
  readonly push: boolean;
  readonly pull: boolean;
  /** Node id of the worker, and its name. */
  readonly sender: number;
  readonly senderName: string;
  readonly timestamp: number;
  readonly customerId: number;
};

/**
 * Handles one whole request: all keys of it that this server owns. The handle may keep the arrays. It must call
 * `server.response(meta, …)` once, now or later; what it throws before that goes to the worker as HANDLER_FAILED.
 */
export type KVRequestHandle = (meta: KVMeta, pairs: KVPairs, server: KVServer) => void | Promise<void>;

/** How a response is sent. */
export type ResponseOptions = {
  /** True: the caller will not change the arrays any more, so that no copy is needed. */
  readonly owned?: boolean | undefined;
};

/** A server's application: it answers the requests of KVWorkers (ps-lite: KVServer). */
export class KVServer {
  readonly office: Postoffice;
  /** Requests with a head and a body to this application. */
  readonly simple: SimpleApp;
  readonly #application: KvApplication;
  readonly #unanswered = new WeakMap<KVMeta, WholeKvRequest>();

  /** Throws BAD_ARGUMENT on a node that is no server, and if the application exists already. */
  constructor(office: Postoffice, appId: number) {
    const { server } = office;
    if (server === undefined) throw badArgument(`a KVServer needs a server node, but this is the ${office.role}`);
    this.office = office;
    // A KVWorker's customer is 0 by default: requests of `simple` reach it.
    this.simple = new SimpleApp(office, appId, 0);
    this.#application = server.openKv(appId);
  }

  /** Serves requests with `handle` from now on; `undefined` returns to summing. */
  setRequestHandle(handle: KVRequestHandle | undefined): void {
    this.#application.serveWhole(handle === undefined ? undefined : (request) => this.#serve(handle, request));
  }

  /**
   * Answers a request of the handle, once. A pull is answered with the values of its keys, which are copied unless they
   * are `owned`. Throws BAD_ARGUMENT for a second answer.
   */
  response(meta: KVMeta, pairs: Partial<KVPairs> = {}, options: ResponseOptions = {}): void {
    const request = this.#open(meta);
    checkOptions(pairs, ["keys", "vals", "lens"], "the pairs of a response");
    checkOptions(options, ["owned"], "the options of a response");
    const { vals, lens } = pairs;
    if (meta.pull && vals === undefined) throw badArgument("a pull is answered with values");
    const isOwned = options.owned === true;
    this.#application.answer(request, isOwned ? vals : vals?.slice(), isOwned ? lens : lens?.slice());
    this.#unanswered.delete(meta);
  }

  /** Answers a request with an error instead. */
  fail(meta: KVMeta, error: unknown): void {
    const { channel, label } = this.#open(meta);
    this.#unanswered.delete(meta);
    channel.fail(label, error);
  }

  #open(meta: KVMeta): WholeKvRequest {
    const request = this.#unanswered.get(meta);
    if (request !== undefined) return request;
    throw badArgument(`request ${meta.timestamp} of ${meta.senderName} was answered already`);
  }

  #serve(handle: KVRequestHandle, request: WholeKvRequest): void {
    const { channel, label, isPush, isPull, timestamp, keys, values, lens } = request;
    const from = { sender: channel.id, senderName: channel.name, customerId: label.customer };
    const meta: KVMeta = { cmd: label.command, push: isPush, pull: isPull, timestamp, ...from };
    this.#unanswered.set(meta, request);
    runHandle(
      () => handle(meta, { keys, vals: values, lens }, this),
      (thrown) => {
        if (this.#unanswered.has(meta)) this.fail(meta, thrown);
        else this.office.log.error("a request handle failed after it had answered", { worker: meta.senderName, reason: reasonOf(thrown) });
      },
    );
  }
}
