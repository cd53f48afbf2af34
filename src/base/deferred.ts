// deferred — a promise with its handles outside; a wait with a deadline and an AbortSignal on any promise; a wait for
// several until each has ended.

import type { Clock } from "./clock.ts";
import { badArgument, showValue, WeighbridgeError } from "./errors.ts";

export class Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    // A failure nobody waits for yet is not a crash; a later wait still gets it.
    promise.catch(() => {});
    this.promise = promise;
    this.resolve = resolve;
    this.reject = reject;
  }
}

/** How long a caller waits. */
export type WaitOptions = {
  /** How long to wait at most; no limit when left out. */
  readonly timeoutMs?: number | undefined;
  /** Ends the wait with ABORTED when it fires. */
  readonly signal?: AbortSignal | undefined;
};

/** Throws BAD_ARGUMENT for an illegal wait; for callers that send something before they wait. */
export function checkWait(options: WaitOptions): void {
  if (typeof options !== "object" || options === null)
    throw badArgument(`how to wait is an object, such as { timeoutMs: 1000 }, or left out, not ${showValue(options)}`);
  const { timeoutMs, signal } = options;
  if (timeoutMs !== undefined && !(typeof timeoutMs === "number" && timeoutMs >= 0))
    throw badArgument(`timeoutMs must be a number of milliseconds from 0 on, got ${showValue(timeoutMs)}`);
  if ("deadlineMs" in options) throw badArgument("deadlineMs is now called timeoutMs");
  if (signal !== undefined && typeof signal?.addEventListener !== "function")
    throw badArgument(`a signal is an AbortSignal, not ${showValue(signal)}`);
}

/**
 * Waits for `promise`; rejects with DEADLINE or ABORTED if that comes first, and with BAD_ARGUMENT for an illegal
 * deadline. `what` completes "waiting for …".
 */
export async function waitFor<T>(promise: Promise<T>, what: string, clock: Clock, options: WaitOptions = {}): Promise<T> {
  try {
    checkWait(options);
    checkNotAborted(what, options);
  } catch (thrown) {
    Promise.resolve(promise).catch(() => {}); // nobody waits for it
    throw thrown;
  }
  const { timeoutMs, signal } = options;
  if (timeoutMs === undefined && signal === undefined) return await promise;
  const early = new Deferred<never>();
  const cancelTimer = timeoutMs === undefined ? undefined : clock.after(timeoutMs, () => early.reject(deadlineError(what, timeoutMs)));
  const onAbort = (): void => early.reject(aborted(what, signal));
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, early.promise]);
  } finally {
    cancelTimer?.();
    signal?.removeEventListener("abort", onAbort);
  }
}

/**
 * Throws ABORTED where the signal has fired already; for callers that send something before they wait. `what` completes
 * "the wait for …".
 */
export function checkNotAborted(what: string, { signal }: WaitOptions): void {
  if (signal?.aborted) throw aborted(what, signal);
}

/** `what` completes "waited … for …". */
export function deadlineError(what: string, timeoutMs: number): WeighbridgeError {
  return new WeighbridgeError("DEADLINE", `waited ${Math.round(timeoutMs)} ms for ${what}`, { retryable: true });
}

/** `what` completes "the wait for …". */
export function aborted(what: string, signal: AbortSignal | undefined): WeighbridgeError {
  return new WeighbridgeError("ABORTED", `the wait for ${what} was aborted`, { cause: signal?.reason });
}

export async function sleep(clock: Pick<Clock, "after">, delayMs: number): Promise<void> {
  await new Promise<void>((resolve) => void clock.after(delayMs, resolve));
}

/** What is left of a wait that begins now. */
export function restOf(wait: WaitOptions, clock: Clock): () => WaitOptions {
  const fromMs = clock.nowMs();
  const { timeoutMs } = wait;
  return () => (timeoutMs === undefined ? wait : { ...wait, timeoutMs: Math.max(0, timeoutMs - (clock.nowMs() - fromMs)) });
}

/**
 * Waits for all; rejects with the failure of the first in the list that failed. What they use is free afterwards,
 * whether they failed or not.
 */
export async function allEnded(promises: readonly Promise<unknown>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(promises)) if (outcome.status === "rejected") throw outcome.reason;
}
