// Goal: numbers rise from 0, everybody who waits hears the end, and memory goes with what is open.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { OpenWaits } from "../base/open-waits.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { RequestTracker, TrackedRequest } from "./request-tracker.ts";

const failure = (name: string): WeighbridgeError => new WeighbridgeError("NODE_DEAD", name);
function opened(count: number) {
  const clock = new SimClock();
  const tracker = new RequestTracker(new OpenWaits(clock));
  const requests = Array.from({ length: count }, () => new TrackedRequest());
  const numbers = requests.map((request) => tracker.open(request));
  const settle = (number: number, error?: WeighbridgeError): void => tracker.settle(number, requests[number] as TrackedRequest, error);
  return { clock, tracker, numbers, settle };
}

test("numbers are 0, 1, 2 … in the order requests open (RequestTracker.T1)", () => {
  const { tracker, numbers } = opened(5);
  assert.deepEqual(numbers, [0, 1, 2, 3, 4]);
  assert.equal(tracker.nextTimestamp, 5);
});

test("a wait ends with its request, for everybody who waits, now and later", async () => {
  const { tracker, settle } = opened(3);
  const waits = Promise.all([tracker.wait(1), tracker.wait(1)]);
  settle(1);
  await waits;
  await tracker.wait(1);
  assert.deepEqual([tracker.isSettled(0), tracker.isSettled(1), tracker.isSettled(2)], [false, true, false]);
});

test("a failure is what every waiter gets, also who comes when the request is long gone", async () => {
  const { tracker, settle } = opened(3);
  const early = tracker.wait(0);
  settle(0, failure("server 0"));
  settle(1);
  await assert.rejects(early, /server 0/);
  await assert.rejects(tracker.wait(0), /server 0/);
  await tracker.wait(1);
});

test("what ended is forgotten as soon as nothing older is open", () => {
  const { tracker, settle } = opened(1000);
  for (let number = 999; number >= 1; number--) settle(number);
  assert.equal(tracker.keptCount, 1000, "request 0 is still open");
  settle(0);
  assert.equal(tracker.keptCount, 0);
  assert.equal(tracker.isSettled(500), true);
});

test("a request that does not end keeps few of those after it (RequestTracker.T4), and can still be waited for", async () => {
  const { tracker, settle } = opened(100_000);
  for (let number = 2; number < 100_000; number++) settle(number);
  assert.ok(tracker.keptCount < 10_000, `${tracker.keptCount} are kept`);
  assert.deepEqual(
    [0, 1, 2, 99_999].map((number) => tracker.isSettled(number)),
    [false, false, true, true],
  );
  const waiting = tracker.wait(0);
  settle(0);
  await waiting;
  settle(1, failure("server 1"));
  await assert.rejects(tracker.wait(1), /server 1/);
  await tracker.wait(2);
  assert.equal(tracker.keptCount, 0);
});

test("every failure of a full queue is told, however many there are and whenever it is asked for", async () => {
  const { tracker, settle } = opened(60_000);
  for (let number = 0; number < 60_000; number++) settle(number, number % 2 === 0 ? undefined : failure(`request ${number}`));
  await tracker.wait(0);
  await assert.rejects(tracker.wait(1), /request 1$/);
  await assert.rejects(tracker.wait(59_999), /request 59999/);
});

test("a failure that is remembered no more is never taken for a success (RequestTracker.T3)", async () => {
  const { tracker, settle } = opened(70_000);
  for (let number = 0; number < 70_000; number++) settle(number, failure(`request ${number}`));
  await assert.rejects(tracker.wait(1), throwsCode("OUTCOME_FORGOTTEN"));
  await assert.rejects(tracker.wait(69_999), /request 69999/);
});

test("DEADLINE and ABORTED end the wait and leave the request as it is", async () => {
  const { clock, tracker, settle } = opened(1);
  await assert.rejects(clock.runUntil(tracker.wait(0, { timeoutMs: 10 })), throwsCode("DEADLINE"));
  await assert.rejects(tracker.wait(0, { signal: AbortSignal.abort() }), throwsCode("ABORTED"));
  assert.equal(tracker.isSettled(0), false);
  const wait = tracker.wait(0, { timeoutMs: 10 });
  settle(0);
  await wait;
});

test("a number that was never given is refused", async () => {
  const { tracker } = opened(2);
  for (const number of [2, -1, 0.5, Number.NaN, Infinity])
    await assert.rejects(tracker.wait(number), throwsCode("BAD_ARGUMENT"), `${number}`);
});
