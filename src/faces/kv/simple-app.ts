// simple-app — requests with a number and a body, to a node or to all members of a group, and the customer that numbers
// them and waits for their responses (ps-lite: SimpleApp, Customer). KVWorker and KVServer have one each.
//
// Invariants:
//   SimpleApp.M1. A request to a group of this node is also served here, by this application's own handle, without a
//       link, after `request` has returned.

import { Deferred, type WaitOptions } from "../../base/deferred.ts";
import { badArgument, isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { checkWaitOptions } from "../../base/known-options.ts";
import { simpleRequest } from "../../contracts/kv.ts";
import { runHandle, type SimpleServe, simpleHost } from "../../peer/app-registry.ts";
import { frameCountOf, functionCalls } from "../../peer/function-call.ts";
import { RequestTracker, TrackedRequest } from "../../peer/request-tracker.ts";
import { fromFailure, toFailure } from "../../wire/failure.ts";
import { nameOf } from "../../wire/node-id.ts";
import { checkBody } from "../../wire/simple-frame.ts";
import type { Postoffice } from "./postoffice.ts";

/** A request that ends after a number of responses. */
type CountedRequest = { readonly tracked: TrackedRequest; readonly expectedCount: number; responseCount: number };

/** Apps and customers are 16 bits on the wire. */
const ID_MAX = 0xffff;

/** Counts the responses to requests of one application (ps-lite: Customer). */
export class Customer {
  readonly office: Postoffice;
  readonly appId: number;
  readonly customerId: number;
  /** @internal */
  readonly tracker: RequestTracker;
  /** Open requests of `newRequest` by number. */
  readonly #counted = new Map<number, CountedRequest>();

  /** Throws BAD_ARGUMENT if an id is no whole number from 0 to 65535. */
  constructor(office: Postoffice, appId: number, customerId: number) {
    for (const [what, id] of Object.entries({ app: appId, customer: customerId }))
      if (!Number.isInteger(id) || id < 0 || id > ID_MAX)
        throw badArgument(`the ${what} id must be a whole number from 0 to ${ID_MAX}, but is ${id}`);
    this.office = office;
    this.appId = appId;
    this.customerId = customerId;
    this.tracker = new RequestTracker(office.node.waits, office.node.requestTimeoutMs);
  }

  /** Opens a request that ends after `expectedCount` responses. Returns its timestamp. */
  newRequest(expectedCount: number): number {
    if (!Number.isSafeInteger(expectedCount) || expectedCount < 0) throw badArgument(`a request cannot expect ${expectedCount} responses`);
    const request: CountedRequest = { tracked: new TrackedRequest(), expectedCount, responseCount: 0 };
    const timestamp = this.tracker.open(request.tracked);
    this.#counted.set(timestamp, request);
    if (expectedCount === 0) this.#end(timestamp, request);
    return timestamp;
  }

  /** Counts a response, or a failure instead of one. When all have arrived, the request ends with the first failure. */
  addResponse(timestamp: number, failure?: WeighbridgeError): void {
    const request = this.#counted.get(timestamp);
    if (request === undefined) return;
    request.tracked.error ??= failure;
    if (++request.responseCount === request.expectedCount) this.#end(timestamp, request);
  }

  /** How many responses a request of `newRequest` has had so far; undefined once it ended. */
  responseCount(timestamp: number): number | undefined {
    return this.#counted.get(timestamp)?.responseCount;
  }

  /** Waits for the end of a request; see RequestTracker. */
  async wait(timestamp: number, options?: WaitOptions): Promise<void> {
    if (options !== undefined) checkWaitOptions(options);
    await this.tracker.wait(timestamp, options);
  }

  #end(timestamp: number, { tracked }: CountedRequest): void {
    this.#counted.delete(timestamp);
    this.tracker.settle(timestamp, tracked, tracked.error);
  }
}

/** A request or a response, as a handle sees it. */
export type SimpleData = {
  readonly head: number;
  readonly body: Uint8Array;
  /** The sender's node id. */
  readonly sender: number;
  readonly timestamp: number;
  readonly customerId: number;
};

/** Handles a request or a response. */
export type SimpleHandle = (data: SimpleData, app: SimpleApp) => void | Promise<void>;

const NOTHING = new Uint8Array(0);

/** An application of requests with a number and bytes (ps-lite: SimpleApp). */
export class SimpleApp {
  readonly office: Postoffice;
  readonly customer: Customer;
  #requestHandle: SimpleHandle | undefined;
  #responseHandle: SimpleHandle | undefined;
  readonly #unanswered = new WeakMap<SimpleData, Deferred<Uint8Array>>();

  /** Throws BAD_ARGUMENT if this node already has this app (on a worker: this app and customer). */
  constructor(office: Postoffice, appId: number, customerId: number = appId) {
    this.office = office;
    this.customer = new Customer(office, appId, customerId);
    const serve: SimpleServe = ({ id: sender }, body, { command: head, request: timestamp, customer }) =>
      this.#serve({ head, body, sender, timestamp, customerId: customer });
    const host = simpleHost(office.clock, serve);
    office.applications.add(appId, host, customerId);
    office.node.closeWith(host);
  }

  /**
   * Sends to a node, or to every node of a group (1 to 7), this one too if it is a member (SimpleApp.M1). Returns the
   * timestamp. Throws NO_ROUTE if a receiver cannot be reached from here (nodes of one role do not talk to each other),
   * NODE_DEAD if one is dead or has left, QUEUE_FULL if too much waits for one; nothing is sent then.
   */
  request(head: number, body: Uint8Array | string, receiver: number): number {
    const bytes = bytesOf(body);
    if ((head | 0) !== head) throw badArgument(`a head is a 32-bit whole number, not ${head}`);
    checkBody(bytes);
    const { office } = this;
    const { nodeId: self, failure } = office;
    if (failure !== undefined) throw failure;
    const receivers = office.nodeIds(receiver);
    if (receivers.length === 0) throw new WeighbridgeError("NO_ROUTE", `${receiver} is no node and no group with members`);
    const channels = receivers.filter((node) => node !== self).map((node) => office.channelTo(node));
    const callCount = frameCountOf(bytes.length);
    for (const channel of channels) channel.checkRoom(callCount);
    const { appId: app, customerId } = this.customer;
    const timestamp = this.customer.newRequest(receivers.length);
    const endedBy =
      (sender: number) =>
      (error: WeighbridgeError | undefined, answer: Uint8Array): void => {
        const respond = (): void | Promise<void> => this.#responseHandle?.({ head, body: answer, sender, timestamp, customerId }, this);
        const failed = (thrown: unknown): void => office.log.error("a response handle failed", { app, reason: String(thrown) });
        if (error === undefined) runHandle(respond, failed);
        this.customer.addResponse(timestamp, error);
      };
    for (const channel of channels) {
      const ended = endedBy(channel.id);
      const calls = functionCalls({
        ...{ fn: simpleRequest, request: { body: bytes }, number: timestamp, priority: 0, scope: 0 },
        address: { app, customer: customerId, command: head },
        answered: ({ body: answer }) => ended(undefined, answer),
        failed: (error) => ended(error, NOTHING),
      });
      for (const call of calls) channel.send(call, true);
    }
    if (channels.length < receivers.length)
      this.#requestSelf({ head, body: bytes.slice(), sender: self, timestamp, customerId }, endedBy(self));
    return timestamp;
  }

  /** Answers a request that the request handle received; once. */
  response(request: SimpleData, body: Uint8Array | string = NOTHING): void {
    const answered = this.#unanswered.get(request);
    if (answered === undefined) throw badArgument("this request was answered already, or is no request of this app");
    const bytes = bytesOf(body);
    checkBody(bytes);
    answered.resolve(bytes);
    this.#unanswered.delete(request);
  }

  /**
   * Sets the handle that answers requests, now or later. Its errors go to the sender. Without one, answers are empty.
   */
  setRequestHandle(handle: SimpleHandle): void {
    this.#requestHandle = handle;
  }

  /** Sets a handle that sees responses, before the wait for them ends. */
  setResponseHandle(handle: SimpleHandle): void {
    this.#responseHandle = handle;
  }

  /** Waits until every receiver answered. Rejects with the first failure, DEADLINE or ABORTED. */
  async wait(timestamp: number, options?: WaitOptions): Promise<void> {
    await this.customer.wait(timestamp, options);
  }

  #serve(data: SimpleData): Promise<Uint8Array> {
    const answered = new Deferred<Uint8Array>();
    this.#unanswered.set(data, answered);
    const handle = this.#requestHandle ?? (() => this.response(data));
    runHandle(
      () => handle(data, this),
      (thrown) => {
        const failure = (): WeighbridgeError => new WeighbridgeError("HANDLER_FAILED", toFailure(thrown).message, { cause: thrown });
        if (this.#unanswered.delete(data)) answered.reject(isWeighbridgeError(thrown) ? thrown : failure());
        else this.office.log.error("a request handle failed after it had answered", { reason: reasonOf(thrown) });
      },
    );
    return answered.promise;
  }

  /** SimpleApp.M1 */
  #requestSelf(data: SimpleData, ended: (error: WeighbridgeError | undefined, answer: Uint8Array) => void): void {
    const { node, clock } = this.office;
    const forget = node.whenOver((error) => ended(error, NOTHING));
    const served = (error: WeighbridgeError | undefined, answer: Uint8Array): void => {
      if (forget()) ended(error, answer);
    };
    clock.soon(() => {
      this.#serve(data).then(
        (answer) => served(undefined, answer),
        (thrown) => served(fromFailure(toFailure(thrown), nameOf(data.sender)), NOTHING),
      );
    });
  }
}

/** A copy: the caller's bytes may change before they have left. */
function bytesOf(body: Uint8Array | string): Uint8Array {
  return typeof body === "string" ? new TextEncoder().encode(body) : body.slice();
}
