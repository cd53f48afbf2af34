// function-recut — what takes the place of a request of a function that cannot go on as it is: its server refused it
// because the placement has changed, it was cut before the placement changed and has not left yet, or it was applied
// and its answer was lost. The router sends what is made here.

import { asError, type UpdateOutcome, type WeighbridgeError, withOutcome } from "../../base/errors.ts";
import type { Contract } from "../../contracts/contract.ts";
import { detachedError } from "../../peer/call.ts";
import { namedFailure } from "../call-failures.ts";
import { jointOutcome, partlyApplied } from "../part-outcome.ts";
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
    const error = endedAs(isApplied ? "applied" : "not-applied", asError(thrown, "BAD_REQUEST"), fn);
    options.failed?.(error);
    request.end(namedFailure(error, fn, subject));
    return [];
  }
}

function requestsOf(replaced: RoutedRequest, recut: Recut, wasApplied: boolean): RoutedRequest[] {
  const { options, fn, router, subject } = replaced;
  let open = recut.requests.length;
  let failure: WeighbridgeError | undefined;
  const owner: RequestOwner = {
    ended: (error?: WeighbridgeError): void => {
      failure ??= error;
      if (--open > 0) return;
      if (failure === undefined) failure = errorOf(() => recut.answered?.());
      recut.release();
      const outcome = wasApplied ? "applied" : jointOutcome(requests);
      const told = failure === undefined ? undefined : endedAs(outcome, failure, fn);
      if (told !== undefined) options.failed?.(told);
      replaced.end(told);
    },
    crossed: () => replaced.owner.crossed(replaced), // with memory that lives as long as its caller waits
  };
  const requests = recut.requests.map((each) => router.routed(each, subject, owner));
  for (const each of requests) each.order = replaced.order;
  if (!wasApplied && fn.isUpdate) replaced.replacedBy = requests;
  return requests;
}

/** The failure of a request that was cut again, where that is what became of its update. */
function endedAs(outcome: UpdateOutcome | undefined, failure: WeighbridgeError, { isUpdate }: Contract): WeighbridgeError {
  if (!isUpdate || outcome === undefined) return failure;
  return withOutcome(outcome === "not-applied" ? failure : partlyApplied(failure), outcome);
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
