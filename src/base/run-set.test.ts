// Goal: a RunSet has the members that a plain Set has after the same calls, in the fewest runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RunSet } from "./run-set.ts";

const BOUND = 40;

test("after any calls its members are those of a plain set, and no two runs touch", () => {
  const step = fc.tuple(fc.boolean(), fc.nat(BOUND - 1), fc.integer({ min: 1, max: 8 }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const runs = new RunSet();
      const plain = new Set<number>();
      for (const [isAdd, from, length] of steps) {
        if (isAdd) runs.add(from, from + length);
        else runs.remove(from, from + length);
        for (let number = from; number < from + length; number++) {
          if (isAdd) plain.add(number);
          else plain.delete(number);
        }
        const members = [...plain].sort((a, b) => a - b);
        assert.deepEqual([...runs], members);
        assert.equal(runs.size, members.length);
        assert.equal(runs.last, members.at(-1) ?? -1);
        for (let i = 1; i < runs.runs.length; i++) assert.ok((runs.runs[i - 1] as number) < (runs.runs[i] as number), runs.runs.join());
        assert.equal(runs.runCount, runs.runs.length / 2);
      }
      for (let number = 0; number < BOUND + 10; number++) {
        const absent = (from: number): number => (plain.has(from) ? absent(from + 1) : from);
        assert.equal(runs.has(number), plain.has(number), `has ${number}`);
        assert.equal(runs.nextAbsent(number), absent(number), `nextAbsent ${number}`);
        assert.equal(runs.nextPresent(number), Math.min(Infinity, ...[...plain].filter((one) => one >= number)), `nextPresent ${number}`);
        assert.equal(runs.lastBefore(number), Math.max(-1, ...[...plain].filter((one) => one < number)), `lastBefore ${number}`);
      }
      assert.deepEqual([...RunSet.of(runs.runs)], [...runs]);
    }),
  );
});

test("a run that is empty is our own mistake", () => {
  assert.throws(() => new RunSet().add(3, 3), /a run is not empty/);
  assert.throws(() => new RunSet().remove(3, 2), /a run is not empty/);
});

test("numbers far beyond 32 bits are as good as others", () => {
  const set = RunSet.of([2 ** 40, 2 ** 41]);
  assert.equal(set.size, 2 ** 40);
  set.remove(2 ** 40 + 5);
  assert.deepEqual(set.runs, [2 ** 40, 2 ** 40 + 5, 2 ** 40 + 6, 2 ** 41]);
  set.clear();
  assert.equal(set.size, 0);
});
