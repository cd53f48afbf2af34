// call-function — calls a typed function of the node behind one channel, and waits for its answer. Requests to the
// owners of parts are cut by the router (worker/function-client.ts); both send the same frames (function-call.ts).

import type { Clock } from "../base/clock.ts";
import { checkNotAborted, Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { WeighbridgeError, withOutcome } from "../base/errors.ts";
import type { Contract, JsonContract } from "../contracts/contract.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { outcomeOfCall, tellsOutcome } from "./call-outcome.ts";
import type { CallWindow } from "./call-window.ts";
import type { Channel } from "./channel.ts";
import { functionCalls } from "./function-call.ts";
import { type ServedFunction, servedFunction } from "./served-function.ts";
import { unheard } from "./unheard-update.ts";

/** The control plane passes everything else. */
export const CONTROL_PRIORITY: number = 1 << 30;

export type CallOptions = WaitOptions & {
  readonly clock: Clock;
  readonly priority?: number | undefined;
  /** What may be open with the node; left out where few calls can be. */
  readonly window?: CallWindow | undefined;
};

/**
 * Rejects with the handler's or the channel's error, QUEUE_FULL (nothing sent), DEADLINE or ABORTED (it goes on). A
 * signal that has fired already sends nothing. The failure of what was sent says what became of it (UnheardUpdate.U1).
 */
export async function callFunction<Q extends Fields, R extends Fields>(
  channel: Channel,
  fn: Contract<Q, R>,
  request: FieldValues<Q>,
  { clock, priority = CONTROL_PRIORITY, window, ...wait }: CallOptions,
): Promise<FieldValues<R>> {
  const what = `${channel.name} to answer ${fn.name}`;
  checkNotAborted(what, wait);
  const response = new Deferred<FieldValues<R>>();
  const calls = functionCalls({
    ...{ fn, request, priority, number: channel.nextCallNumber(), scope: 0 },
    answered: (values) => response.resolve(values),
    ended: () => window?.close(byteCount),
    failed: (error) => {
      window?.close(byteCount);
      response.reject(tellsOutcome(fn) ? withOutcome(error, outcomeOfCall(fn, error, calls)) : error);
    },
  });
  const byteCount = calls.reduce((sum, call) => sum + call.byteCount, 0);
  channel.checkRoom(calls.length);
  if (window?.admits(byteCount) === false) {
    const message = `${channel.name} has not answered ${window.describe()}; ${fn.name} has ${byteCount} more`;
    throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
  }
  window?.open(byteCount);
  for (const call of calls) channel.send(call, true);
  try {
    return await waitFor(response.promise, what, clock, wait);
  } catch (thrown) {
    throw tellsOutcome(fn) ? unheard(thrown, response.promise) : thrown;
  }
}

/** As `callFunction`, for functions of JSON bodies. */
export async function callJson<Q, R>(channel: Channel, fn: JsonContract<Q, R>, body: Q, clock: Clock, wait: WaitOptions = {}): Promise<R> {
  const response = await callFunction(channel, fn, { body }, { clock, ...wait });
  return response.body;
}

/** Serves a function of JSON bodies, now or later. */
export function serveJson<Q, R>(fn: JsonContract<Q, R>, serve: (channel: Channel, request: Q) => R | Promise<R>): ServedFunction<Channel> {
  return servedFunction(fn, {
    handler: (channel: Channel, { body }) => {
      const answer = serve(channel, body);
      return answer instanceof Promise ? answer.then((late) => ({ body: late })) : { body: answer };
    },
  });
}
