// function-recut — what takes the place of a request of a function that cannot go on as it is: its server refused it
// because the placement has changed, it was cut before the placement changed and has not left yet, or it was applied
// and its answer was lost. The router sends what is made here.

import { asError, type WeighbridgeError } from "../../base/errors.ts";
import { type CallFate, detachedError } from "../../peer/call.ts";
import { namedFailure } from "../call-failures.ts";
import { partlyApplied } from "../part-outcome.ts";
import type { RequestOwner, RoutedRequest } from "../router.ts";
import type { Recut } from "./function-request.ts";

/**
 * The requests that take the place of one, as the placement is now; none when it has failed. `isApplied`: it counts
 * already, whatever becomes of them.
 */
export function cutAgain(
  request: RoutedRequest,
  recutOf: (() => Recut) | undefined = request.options.cutAgain,
  isApplied = false,
): RoutedRequest[] {
  const { options, fn, subject } = request;
  let recut: Recut | undefined;
  try {
    if (request.calls.some(({ isIntact }) => !isIntact)) throw detachedError({ isUpdate: fn.isUpdate, sendCount: 0 });
    if (recutOf === undefined) {
      request.cut();
      return [request];
    }
    recut = recutOf();
    return requestsOf(request, recut, isApplied);
  } catch (thrown) {
    recut?.release();
    const error = isApplied ? partlyApplied(asError(thrown, "BAD_REQUEST")) : asError(thrown, "BAD_REQUEST");
    options.failed?.(error);
    request.end(namedFailure(error, fn, subject));
    return [];
  }
}

function requestsOf(replaced: RoutedRequest, recut: Recut, wasApplied: boolean): RoutedRequest[] {
  const { options, fn, router, subject } = replaced;
  let open = recut.requests.length;
  let failure: WeighbridgeError | undefined;
  let isApplied = wasApplied; // some of it, or perhaps
  const owner: RequestOwner = {
    ended: (error?: WeighbridgeError, fate?: CallFate): void => {
      if (error === undefined || fate !== undefined) isApplied = true;
      failure ??= error;
      if (--open > 0) return;
      if (failure === undefined) failure = errorOf(() => recut.answered?.());
      recut.release();
      const told = failure !== undefined && fn.isUpdate && isApplied ? partlyApplied(failure) : failure;
      if (told !== undefined) options.failed?.(told);
      replaced.end(told);
    },
    crossed: () => replaced.owner.crossed(replaced), // with memory that lives as long as its caller waits
  };
  const requests = recut.requests.map((each) => router.routed(each, subject, owner));
  for (const each of requests) each.order = replaced.order;
  return requests;
}

/** Fails what was to be sent again and cannot be. */
export function failRequests(requests: readonly RoutedRequest[], thrown: unknown): void {
  const error = asError(thrown, "BAD_REQUEST");
  for (const request of requests) {
    request.options.failed?.(error);
    request.end(error);
  }
}

/** What something throws. */
function errorOf(run: () => void): WeighbridgeError | undefined {
  try {
    run();
    return undefined;
  } catch (thrown) {
    return asError(thrown, "BAD_REQUEST");
  }
}
