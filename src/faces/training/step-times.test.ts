// Goal: what a worker sends, waits for and computes are told apart, and a wait is noted with the clock it follows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { nextTurn } from "./event-loop.ts";
import { StepTimes } from "./step-times.ts";

/** Times of a clock that goes on when it is told to. */
function timed(): { readonly times: StepTimes; readonly pass: (ms: number) => void } {
  let nowMs = 100;
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  return { times: new StepTimes(() => nowMs), pass };
}

test("all time is sent, waited or computed in, each by itself", async () => {
  const { times, pass } = timed();
  pass(5);
  assert.deepEqual(times.shares, { sendShare: 0, waitShare: 0 });
  times.send(() => pass(3));
  await nextTurn();
  await times.wait(nextTurn().then(() => pass(2)));
  assert.deepEqual(times.shares, { sendShare: 0.3, waitShare: 0.2 });
  times.restart();
  pass(1);
  assert.deepEqual(times.shares, { sendShare: 0, waitShare: 0 });
});

test("the rest of the turn in which gradients were handed over counts as sending: links write then", async () => {
  const { times, pass } = timed();
  const written = Promise.resolve().then(() => pass(6));
  times.send(() => pass(1));
  await times.wait(
    written
      .then(() => nextTurn())
      .then(() => nextTurn())
      .then(() => pass(3)),
  );
  assert.deepEqual(times.shares, { sendShare: 0.7, waitShare: 0.3 });
});

test("an exchange is told when the next clock is reached: when it began, and all its waits", async () => {
  const { times, pass } = timed();
  times.reached(1);
  assert.equal(times.lastExchange, undefined);
  pass(2);
  await times.wait(nextTurn().then(() => pass(3)));
  pass(4);
  await times.wait(nextTurn().then(() => pass(5)));
  times.reached(2);
  assert.deepEqual(times.lastExchange, { clock: 1, reachedAtMs: 100, waitsFromMs: 102, waitedMs: 8 });
  times.reached(3);
  assert.deepEqual(times.lastExchange, { clock: 2, reachedAtMs: 114, waitsFromMs: 0, waitedMs: 0 });
});

test("a wait that fails counts too", async () => {
  const { times, pass } = timed();
  const failing = nextTurn().then(() => {
    pass(1);
    throw new Error("gone");
  });
  await assert.rejects(times.wait(failing), /gone/);
  assert.equal(times.shares.waitShare, 1);
});
