// Goal: whoever waits gets the outcome, or DEADLINE or ABORTED if those come first, and leaves no timer and no listener
// behind.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { Deferred, waitFor } from "./deferred.ts";
import { isWeighbridgeError } from "./errors.ts";

test("a promise that comes in time is what the waiter gets, and the timer is gone", async () => {
  const clock = new SimClock();
  const deferred = new Deferred<number>();
  clock.after(5, () => deferred.resolve(42));
  assert.equal(await clock.runUntil(waitFor(deferred.promise, "it", clock, { timeoutMs: 10 })), 42);
  assert.equal(clock.pendingCount, 0);
});

test("a failure nobody waits for yet is kept for who comes later", async () => {
  const deferred = new Deferred<void>();
  deferred.reject(new Error("too bad"));
  await new Promise((resolve) => setImmediate(resolve)); // an unhandled rejection would end the test here
  await assert.rejects(waitFor(deferred.promise, "it", new SimClock()), /too bad/);
});

test("DEADLINE says how long was waited, and for what", async () => {
  const clock = new SimClock();
  const wait = waitFor(new Deferred<void>().promise, "a miracle", clock, { timeoutMs: 250 });
  await assert.rejects(clock.runUntil(wait), (error) => {
    assert.ok(isWeighbridgeError(error, "DEADLINE"));
    assert.match(error.message, /250 ms for a miracle/);
    return error.retryable;
  });
  assert.equal(clock.nowMs(), 250);
});

test("an AbortSignal ends the wait with ABORTED and its reason, also one that was aborted before", async () => {
  const clock = new SimClock();
  const controller = new AbortController();
  const wait = waitFor(new Deferred<void>().promise, "it", clock, { signal: controller.signal, timeoutMs: 1000 });
  clock.after(1, () => controller.abort("enough"));
  const isAborted = (error: unknown): boolean => isWeighbridgeError(error, "ABORTED") && error.cause === "enough";
  await assert.rejects(clock.runUntil(wait), isAborted);
  assert.equal(clock.pendingCount, 0, "the deadline's timer is gone");
  await assert.rejects(waitFor(Promise.resolve(1), "it", clock, { signal: controller.signal }), isAborted);
});

test("a deadline that is no time is refused at once", async () => {
  for (const timeoutMs of [Number.NaN, -1]) {
    const wait = waitFor(new Deferred<void>().promise, "it", new SimClock(), { timeoutMs });
    await assert.rejects(wait, (error) => isWeighbridgeError(error, "BAD_ARGUMENT"), `${timeoutMs}`);
  }
});
