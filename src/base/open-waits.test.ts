// Goal: many waits share one timer: each ends at its own deadline, none is forgotten, and nothing is left behind when
// nobody waits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { Deferred } from "./deferred.ts";
import { isWeighbridgeError } from "./errors.ts";
import { OpenWaits } from "./open-waits.ts";

async function endOf(clock: SimClock, wait: Promise<unknown>): Promise<string> {
  return await wait.then(
    (value) => `${String(value)} at ${clock.nowMs()}`,
    (thrown: unknown) => `${isWeighbridgeError(thrown) ? thrown.code : "?"} at ${clock.nowMs()}`,
  );
}

test("each wait ends at its own deadline, or before it with what came, in whichever order they began", async () => {
  const clock = new SimClock();
  const waits = new OpenWaits(clock);
  const never = new Deferred<string>();
  const ends = [30, 10, 20, 10].map((timeoutMs) => endOf(clock, waits.wait(never.promise, "it", { timeoutMs })));
  const comes = new Deferred<string>();
  clock.after(15, () => comes.resolve("came"));
  ends.push(endOf(clock, waits.wait(comes.promise, "it", { timeoutMs: 16 })));
  assert.equal(waits.untilMs, 30);
  assert.equal(clock.pendingCount, 2, "one timer for all, and ours");
  assert.deepEqual(await clock.runUntil(Promise.all(ends)), [
    "DEADLINE at 30",
    "DEADLINE at 10",
    "DEADLINE at 20",
    "DEADLINE at 10",
    "came at 15",
  ]);
  await clock.run();
  assert.equal(waits.untilMs, 0);
  assert.equal(clock.pendingCount, 0);
  assert.equal(clock.nowMs(), 30);
});

test("when nobody waits any more there is no timer; a wait that begins in that turn keeps it", async () => {
  const clock = new SimClock();
  const waits = new OpenWaits(clock);
  for (let step = 0; step < 3; step++) await waits.wait(Promise.resolve(), "it", { timeoutMs: 100 });
  assert.equal(clock.nowMs(), 0);
  await clock.run();
  assert.equal(clock.nowMs(), 0, "nothing was left to wait for");
  const late = endOf(clock, waits.wait(new Deferred<void>().promise, "it", { timeoutMs: 5 }));
  assert.equal(await clock.runUntil(late), "DEADLINE at 5");
});

test("a wait without a deadline has no timer, and an AbortSignal ends any of them with its reason", async () => {
  const clock = new SimClock();
  const waits = new OpenWaits(clock);
  const never = new Deferred<void>().promise;
  assert.equal(waits.wait(never, "it", {}), never);
  for (const timeoutMs of [undefined, 100]) {
    const controller = new AbortController();
    const wait = waits.wait(never, "it", { signal: controller.signal, timeoutMs });
    controller.abort("enough");
    await assert.rejects(wait, (error) => isWeighbridgeError(error, "ABORTED") && error.cause === "enough");
    await assert.rejects(waits.wait(never, "it", { signal: controller.signal }), (error) => isWeighbridgeError(error, "ABORTED"));
  }
  await assert.rejects(waits.wait(never, "it", { timeoutMs: -1 }), (error) => isWeighbridgeError(error, "BAD_ARGUMENT"));
  await clock.run();
  assert.equal(clock.nowMs(), 0);
});
