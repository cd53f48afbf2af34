// simple-app — requests with a number and a body, to a node or to every member of a group (ps-lite: SimpleApp). KVWorker and KVServer are
// SimpleApps too.
//
// Invariants:
//   M1. A request to a group that this node is a member of is served here too, by this application's own handle, over no link and from no call of
//       `request` itself.

import { Deferred, type WaitOptions } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { simpleRequest } from "../../contracts/applications.ts";
import type { Channel } from "../../peer/channel.ts";
import { frameCountOf, functionCalls } from "../../peer/function-call.ts";
import { fromFailure, toFailure } from "../../wire/failure.ts";
import type { RequestLabel } from "../../wire/frame.ts";
import { nameOf } from "../../wire/node-id.ts";
import { checkBody } from "../../wire/simple-frame.ts";
import { Customer } from "./customer.ts";
import type { Postoffice } from "./postoffice.ts";

/** A request or a response, as a handle sees it. */
export type SimpleData = {
  readonly head: number;
  readonly body: Uint8Array;
  /** Node id of who sent it. */
  readonly sender: number;
  /** Of the request. */
  readonly timestamp: number;
  readonly customerId: number;
};

export type SimpleHandle = (data: SimpleData, app: SimpleApp) => void | Promise<void>;

/** How a request is answered, once. */
type OpenRequest = { answer(body: Uint8Array): void; fail(thrown: unknown): void };

const NOTHING = new Uint8Array(0);

export class SimpleApp {
  readonly office: Postoffice;
  readonly customer: Customer;
  #requestHandle: SimpleHandle | undefined;
  #responseHandle: SimpleHandle | undefined;
  readonly #unanswered = new WeakMap<SimpleData, OpenRequest>();

  /** Throws BAD_ARGUMENT when this node already has this app (on a worker: this app and customer). */
  constructor(office: Postoffice, appId: number, customerId: number = appId) {
    this.office = office;
    this.customer = new Customer(office, appId, customerId);
    office.addSimpleApp(this.customer, (channel, body, label) => this.#serve(channel, body, label));
  }

  /**
   * Sends to a node, or to every node of a group (1 to 7), this one too if it is a member (M1). Returns the timestamp to wait for.
   * Throws, nothing sent to anybody, NO_ROUTE when a receiver cannot be reached from here (nodes of one role do not talk to each other),
   * NODE_DEAD when one is dead or has left, QUEUE_FULL when too much waits for one already.
   */
  request(head: number, body: Uint8Array | string, receiver: number): number {
    const bytes = bytesOf(body);
    if ((head | 0) !== head) throw new WeighbridgeError("BAD_ARGUMENT", `a head is a 32-bit whole number, not ${head}`);
    checkBody(bytes);
    const { nodeId: self, failure } = this.office;
    if (failure !== undefined) throw failure;
    const receivers = this.office.nodeIds(receiver);
    if (receivers.length === 0) throw new WeighbridgeError("NO_ROUTE", `${receiver} is no node and no group with members`);
    const channels = receivers.filter((node) => node !== self).map((node) => this.office.channelTo(node));
    const callCount = frameCountOf(bytes.length);
    const full = channels.find((channel) => !channel.admits(callCount));
    if (full !== undefined) throw new WeighbridgeError("QUEUE_FULL", `too many calls to ${full.name} wait already`, { retryable: true });
    const { appId: app, customerId: customer } = this.customer;
    const timestamp = this.customer.newRequest(receivers.length);
    const endedBy =
      (sender: number) =>
      (error: WeighbridgeError | undefined, answer: Uint8Array): void => {
        if (error === undefined) this.#respond({ head, body: answer, sender, timestamp, customerId: customer });
        this.customer.addResponse(timestamp, error);
      };
    for (const channel of channels) {
      const ended = endedBy(channel.id);
      const calls = functionCalls({
        ...{
          fn: simpleRequest,
          request: { body: bytes },
          number: timestamp,
          priority: 0,
          scope: 0,
          address: { app, customer, command: head },
        },
        answered: ({ body: answer }) => ended(undefined, answer),
        failed: (error) => ended(error, NOTHING),
      });
      for (const call of calls) channel.send(call, true);
    }
    if (channels.length < receivers.length)
      this.#askSelf({ head, body: bytes.slice(), sender: self, timestamp, customerId: customer }, endedBy(self));
    return timestamp;
  }

  /** Answers a request that the request handle was given; once. */
  response(request: SimpleData, body: Uint8Array | string = NOTHING): void {
    const open = this.#unanswered.get(request);
    if (open === undefined) throw new WeighbridgeError("BAD_ARGUMENT", "this request was answered already, or is none of this app's");
    open.answer(bytesOf(body));
    this.#unanswered.delete(request);
  }

  /** Who answers requests. May answer later; what it throws goes back to the asker. Without one, requests are answered with an empty body. */
  setRequestHandle(handle: SimpleHandle): void {
    this.#requestHandle = handle;
  }

  /** Who sees responses, before the wait for them ends. */
  setResponseHandle(handle: SimpleHandle): void {
    this.#responseHandle = handle;
  }

  /** Waits until every receiver answered. Rejects with the first failure, DEADLINE or ABORTED. */
  async wait(timestamp: number, options?: WaitOptions): Promise<void> {
    await this.customer.wait(timestamp, options);
  }

  #serve(channel: Channel, body: Uint8Array, label: RequestLabel): Promise<Uint8Array> {
    const answered = new Deferred<Uint8Array>();
    const data: SimpleData = { head: label.command, body, sender: channel.id, timestamp: label.request, customerId: label.customer };
    const answer = (bytes: Uint8Array): void => {
      checkBody(bytes);
      answered.resolve(bytes);
    };
    const fail = (thrown: unknown): void =>
      answered.reject(
        isWeighbridgeError(thrown) ? thrown : new WeighbridgeError("HANDLER_FAILED", toFailure(thrown).message, { cause: thrown }),
      );
    this.#handle(data, { answer, fail });
    return answered.promise;
  }

  /** M1 */
  #askSelf(data: SimpleData, ended: (error: WeighbridgeError | undefined, answer: Uint8Array) => void): void {
    const { office } = this;
    const forget = office.node.whenOver((error) => ended(error, NOTHING));
    const open: OpenRequest = {
      answer: (body) => {
        checkBody(body);
        if (forget()) ended(undefined, body.slice());
      },
      fail: (thrown) => {
        if (forget()) ended(fromFailure(toFailure(thrown), nameOf(data.sender)), NOTHING);
      },
    };
    office.clock.soon(() => this.#handle(data, open));
  }

  #handle(data: SimpleData, open: OpenRequest): void {
    this.#unanswered.set(data, open);
    if (this.#requestHandle === undefined) {
      this.response(data);
      return;
    }
    const fail = (thrown: unknown): void => {
      if (this.#unanswered.delete(data)) open.fail(thrown);
      else this.office.log.error("a request handle failed after it had answered", { reason: reasonOf(thrown) });
    };
    try {
      const result = this.#requestHandle(data, this);
      if (result instanceof Promise) result.catch(fail);
    } catch (thrown) {
      fail(thrown);
    }
  }

  #respond(data: SimpleData): void {
    try {
      const result = this.#responseHandle?.(data, this);
      if (result instanceof Promise) result.catch((thrown: unknown) => this.#logHandleError(thrown));
    } catch (thrown) {
      this.#logHandleError(thrown);
    }
  }

  #logHandleError(thrown: unknown): void {
    this.office.log.error("a response handle failed", { app: this.customer.appId, reason: String(thrown) });
  }
}

/** A copy: what it was made from may change, or go, before it has left. */
function bytesOf(body: Uint8Array | string): Uint8Array {
  return typeof body === "string" ? new TextEncoder().encode(body) : body.slice();
}
