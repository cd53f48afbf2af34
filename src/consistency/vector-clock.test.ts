// Goal: every update of every incarnation of every worker is taken exactly once, whatever comes again.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { VectorClock } from "./vector-clock.ts";

test("stamps are taken as they rise, with gaps, and never twice", () => {
  const clock = new VectorClock();
  assert.deepEqual(
    [1, 2, 2, 1, 7, 3, 7, 8].map((stamp) => clock.advance(9, 1, stamp)),
    [true, true, false, false, true, false, false, true],
  );
  assert.deepEqual(clock.at(9), { incarnation: 1, stamp: 8 });
});

test("whether an update was applied can be asked without applying it", () => {
  const clock = new VectorClock();
  assert.equal(clock.hasApplied(9, 1, 1), false);
  clock.advance(9, 2, 5);
  for (const [incarnation, stamp, hasApplied] of [
    [2, 5, true],
    [2, 4, true],
    [2, 6, false],
    [3, 1, false],
    [1, 99, true],
  ] as const)
    assert.equal(clock.hasApplied(9, incarnation, stamp), hasApplied, `${incarnation} ${stamp}`);
  assert.deepEqual(clock.at(9), { incarnation: 2, stamp: 5 }, "nothing has changed");
});

test("who has the number of one that was forgotten begins anew, also where its entry is kept", () => {
  const clock = new VectorClock();
  const kept = clock.entryOf(9, 1);
  clock.advance(9, 1, 5);
  clock.forget(9);
  assert.notEqual(kept.incarnation, 1, "RequestGate looks it up again");
  assert.equal(clock.advance(9, 1, 1), true);
});

test("workers do not know of each other, also when they take turns", () => {
  const clock = new VectorClock();
  assert.equal(clock.advance(9, 1, 5), true);
  assert.equal(clock.advance(11, 1, 1), true);
  assert.equal(clock.advance(9, 1, 5), false);
  assert.equal(clock.advance(11, 1, 1), false);
  assert.equal(clock.at(13), undefined);
  assert.deepEqual(
    [...clock.entries()].map(([worker, { stamp }]) => [worker, stamp]),
    [
      [9, 5],
      [11, 1],
    ],
  );
});

test("a new incarnation counts from 1 again, and the old one never advances any more (VectorClock.V2)", () => {
  const clock = new VectorClock();
  clock.advance(9, 1, 100);
  assert.equal(clock.advance(9, 2, 1), true);
  assert.equal(clock.advance(9, 1, 101), false);
  assert.equal(clock.advance(9, 2, 1), false);
  assert.equal(clock.advance(9, 2, 2), true);
});

test("whoever keeps the entry of an incarnation sees what is applied of it, and cannot advance it once it was replaced (VectorClock.V2)", () => {
  const clock = new VectorClock();
  const kept = clock.entryOf(9, 1);
  clock.advance(9, 1, 4);
  assert.equal(kept.stamp, 4);
  kept.stamp = 6;
  assert.equal(clock.advance(9, 1, 6), false);
  clock.advance(9, 2, 1);
  assert.equal(kept.stamp, Infinity);
  assert.deepEqual([clock.entryOf(9, 1).stamp, clock.entryOf(9, 2).stamp], [Infinity, 1]);
});

test("for any history: true at most once per stamp, rising within an incarnation, lives never falling (VectorClock.V1, VectorClock.V2)", () => {
  const update = fc.record({
    worker: fc.constantFrom(9, 11, 13),
    incarnation: fc.integer({ min: 1, max: 3 }),
    stamp: fc.integer({ min: 1, max: 8 }),
  });
  fc.assert(
    fc.property(fc.array(update, { maxLength: 60 }), (updates) => {
      const clock = new VectorClock();
      const last = new Map<number, { incarnation: number; stamp: number }>();
      for (const { worker, incarnation, stamp } of updates) {
        const before = last.get(worker) ?? { incarnation: 0, stamp: 0 };
        const isNew = incarnation > before.incarnation || (incarnation === before.incarnation && stamp > before.stamp);
        assert.equal(clock.advance(worker, incarnation, stamp), isNew);
        if (isNew) last.set(worker, { incarnation, stamp });
      }
      for (const [worker, entry] of last) assert.deepEqual(clock.at(worker), entry);
    }),
    { seed: 1, numRuns: 500 },
  );
});
