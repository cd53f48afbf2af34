// customer — the requests of one user of an application on this node: numbers them, and lets others wait for them (ps-lite: Customer).

import type { WaitOptions } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import { RequestTracker, TrackedRequest } from "../peer/request-tracker.ts";
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

export class Customer {
  readonly office: Postoffice;
  readonly appId: number;
  readonly customerId: number;
  readonly tracker: RequestTracker;
  /** Open counted requests by number. */
  readonly #counted = new Map<number, CountedRequest>();

  constructor(office: Postoffice, appId: number, customerId: number) {
    this.office = office;
    this.appId = appId;
    this.customerId = customerId;
    this.tracker = new RequestTracker(office.clock);
  }

  /** Opens a request that ends after `expectedCount` responses. Returns its timestamp. */
  newRequest(expectedCount: number): number {
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

  /** How many responses a request has had so far; all of them once it ended. */
  responseCount(timestamp: number): number | undefined {
    return this.#counted.get(timestamp)?.responseCount;
  }

  /** Waits for the end of a request; see RequestTracker. */
  async wait(timestamp: number, options: WaitOptions = {}): Promise<void> {
    await this.tracker.wait(timestamp, { ...options, deadlineMs: options.deadlineMs ?? this.office.requestTimeoutMs });
  }

  #end(timestamp: number, request: CountedRequest): void {
    this.#counted.delete(timestamp);
    this.tracker.settle(timestamp, request, request.failure);
  }
}
