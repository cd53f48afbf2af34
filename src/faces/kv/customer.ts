// customer — the requests of one user of an application on this node: numbers them, and lets others wait for them (ps-lite: Customer).

import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { checkWaitOptions } from "../../base/known-options.ts";
import { RequestTracker, TrackedRequest } from "../../peer/request-tracker.ts";
import type { Postoffice } from "./postoffice.ts";

/** A request that ends after a number of responses. */
class CountedRequest extends TrackedRequest {
  responseCount = 0;
  failure: WeighbridgeError | undefined;
  readonly expectedCount: number;

  constructor(expectedCount: number) {
    super();
    this.expectedCount = expectedCount;
  }
}

/** Apps and customers are 16 bits on the wire. */
const ID_MAX = 0xffff;

export class Customer {
  readonly office: Postoffice;
  readonly appId: number;
  readonly customerId: number;
  readonly tracker: RequestTracker;
  /** Open counted requests by number. */
  readonly #counted = new Map<number, CountedRequest>();

  /** Throws BAD_ARGUMENT for an app or customer that is no whole number from 0 to 65535. */
  constructor(office: Postoffice, appId: number, customerId: number) {
    checkId("app", appId);
    checkId("customer", customerId);
    this.office = office;
    this.appId = appId;
    this.customerId = customerId;
    this.tracker = new RequestTracker(office.clock, office.requestTimeoutMs);
  }

  /** Opens a request that ends after `expectedCount` responses. Returns its timestamp. */
  newRequest(expectedCount: number): number {
    if (!Number.isSafeInteger(expectedCount) || expectedCount < 0)
      throw new WeighbridgeError("BAD_ARGUMENT", `a request cannot expect ${expectedCount} responses`);
    const request = new CountedRequest(expectedCount);
    const timestamp = this.tracker.open(request);
    this.#counted.set(timestamp, request);
    if (expectedCount === 0) this.#end(timestamp, request);
    return timestamp;
  }

  /** Counts a response, or a failure in its place. The request ends with the first failure once all have come. */
  addResponse(timestamp: number, failure?: WeighbridgeError): void {
    const request = this.#counted.get(timestamp);
    if (request === undefined) return;
    request.failure ??= failure;
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

  #end(timestamp: number, request: CountedRequest): void {
    this.#counted.delete(timestamp);
    this.tracker.settle(timestamp, request, request.failure);
  }
}

function checkId(what: string, id: number): void {
  if (Number.isInteger(id) && id >= 0 && id <= ID_MAX) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `the ${what} id must be a whole number from 0 to ${ID_MAX}, but is ${id}`);
}
