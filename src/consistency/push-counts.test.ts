// push-counts — Goal: a push is counted once on a server, by whichever message it hears of it, over restarts of workers
// and servers; and who pushed at a clock is known when the clock is over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type PushCounter, PushCounts, type PushReport } from "./push-counts.ts";

const P = 7;
const holder = (worker: number, incarnation = 1) => ({ worker, incarnation });
const report = (...entries: readonly (readonly [clock: number, parameter: number, number: number])[]): PushReport => ({
  clocks: Uint32Array.from(entries, ([clock]) => clock),
  parameters: Uint32Array.from(entries, ([, parameter]) => parameter),
  numbers: Uint32Array.from(entries, ([, , number]) => number),
});

/** Counts as a parameter does: async steps, or clocks that are over. */
class Counter implements PushCounter {
  count = 0;
  readonly over: number[] = [];
  isSync = false;
  isHere = true;

  pushed(parameter: number, _clock: number, count: number): boolean | undefined {
    if (parameter !== P || !this.isHere) return undefined;
    if (!this.isSync) this.count += count;
    return this.isSync;
  }

  roundOver(_parameter: number, clock: number): void {
    this.over.push(clock);
  }
}

test("a number counts once, by a frame or by the end of the clock, whichever comes first (PushCounts.C1)", () => {
  const counter = new Counter();
  const counts = new PushCounts(counter);
  assert.equal(counts.rise(holder(1), P, 2), 2, "the first push had no row here");
  assert.equal(counts.rise(holder(1), P, 2), 0, "another frame of it");
  counts.ended(holder(1), report([0, P, 5]), { from: 0, to: 1 });
  assert.equal(counter.count, 3);
  counts.ended(holder(1), report([0, P, 5]), { from: 1, to: 1 }); // told again
  assert.equal(counter.count, 3);
  assert.equal(counts.rise(holder(1), P, 6), 1);
  assert.equal(counts.rise(holder(2), P, 1), 1, "each worker has numbers of its own");
});

test("a push that overtakes the end of its worker's clock counts what came before it", () => {
  const counter = new Counter();
  const counts = new PushCounts(counter);
  assert.equal(counts.rise(holder(1), P, 4), 4, "three pushes at clock 0, the fourth at clock 1");
  counts.ended(holder(1), report([0, P, 3]), { from: 0, to: 1 });
  assert.equal(counter.count, 0);
});

test("a restarted worker begins at 1 and is counted beside its earlier incarnation (PushCounts.C3)", () => {
  const counts = new PushCounts(new Counter());
  assert.equal(counts.rise(holder(1), P, 9), 9);
  counts.join(holder(1, 2), report(), 0);
  assert.equal(counts.rise(holder(1, 2), P, 1), 1);
});

test("a server that does not know an incarnation counts it from what it brings; one that does, also what it missed (PushCounts.C3)", () => {
  const counter = new Counter();
  const fresh = new PushCounts(counter);
  counter.isHere = false; // it was restarted, and is not restored yet
  fresh.join(holder(1), report([0, P, 40]), 0);
  counter.isHere = true;
  assert.equal(fresh.rise(holder(1), P, 41), 1);
  fresh.join(holder(1), report([0, P, 45]), 3); // it was taken for dead here, and pushed elsewhere
  assert.equal(counter.count, 4);
});

test("who pushed at a sync clock is known until it is over, also of several clocks that are told at once (PushCounts.C2)", () => {
  const counter = new Counter();
  counter.isSync = true;
  const counts = new PushCounts(counter);
  counts.ended(holder(1), report([0, P, 2], [1, P, 3]), { from: 0, to: 2 });
  counts.ended(holder(2), report([1, P, 1]), { from: 0, to: 2 });
  counts.ended(holder(2), report([1, P, 1]), { from: 2, to: 2 }); // told again
  assert.deepEqual([counts.pusherCount(P, 0), counts.pusherCount(P, 1), counts.pusherCount(P, 2)], [1, 2, 0]);
  assert.deepEqual(counts.clocksBelow(2), [0, 1]);
  for (const clock of counts.clocksBelow(1)) {
    counts.end(clock);
    counts.forget(clock);
  }
  assert.deepEqual(counter.over, [0]);
  assert.deepEqual(counts.clocksBelow(2), [1]);
  assert.equal(counter.count, 0, "a sync push is no step of its own");
});

test("what is told of a parameter that is not here leaves nothing behind (PushCounts.C4)", () => {
  const counter = new Counter();
  counter.isHere = false;
  const counts = new PushCounts(counter);
  counts.ended(holder(1), report([0, P, 5]), { from: 0, to: 1 });
  assert.deepEqual(counts.clocksBelow(9), []);
  counter.isHere = true;
  assert.equal(counts.rise(holder(1), P, 6), 6, "nothing was kept of it");
});

test("a push that was refused here is not counted, until its number comes again (PushCounts.C5)", () => {
  const counter = new Counter();
  const counts = new PushCounts(counter);
  assert.equal(counts.rise(holder(1), P, 1), 1);
  counts.refuse(holder(1), P, 1);
  counts.ended(holder(1), report([0, P, 1]), { from: 0, to: 1 });
  assert.equal(counter.count, 0, "the end of the clock does not bring it back");
  assert.equal(counts.rise(holder(1), P, 2), 1, "the next one counts for itself alone");
  assert.equal(counts.rise(holder(1), P, 1), 1, "another frame of it, which was taken");
  assert.equal(counts.rise(holder(1), P, 1), 0, "its second frame");
});
