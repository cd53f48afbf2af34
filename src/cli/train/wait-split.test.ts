// Goal: a worker's waiting is divided at the moment at which the slowest of the others was as far as the values need.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Exchange, WaitSplit } from "./wait-split.ts";

/** Steps of 10: one that is `late` reaches each clock so much later, and all have the values 2 after the slowest. */
function steps(count: number, { late, slowest, staleness = 0 }: { late: number; slowest: number; staleness?: number }): Exchange[] {
  return Array.from({ length: count }, (_, i) => {
    const clock = i + 1;
    const reachedAt = 10 * clock + late;
    const valuesAt = clock <= staleness ? 0 : 10 * (clock - staleness) + slowest + 2;
    return [clock, reachedAt, reachedAt, Math.max(0, valuesAt - reachedAt)];
  });
}

test("the worker that is ready first waits for the other, and then both wait for the servers", () => {
  const split = new WaitSplit({ workerCount: 2, staleness: 0 });
  split.take(0, steps(50, { late: 0, slowest: 6 }));
  assert.equal(split.othersShare(0), 0, "the other worker has not reported");
  split.take(1, steps(50, { late: 6, slowest: 6 }));
  assert.equal(split.othersShare(0), 6 / 8);
  assert.equal(split.othersShare(1), 0);
});

test("reports may come in any portions", () => {
  const split = new WaitSplit({ workerCount: 2, staleness: 0 });
  const [first, second] = [steps(50, { late: 0, slowest: 3 }), steps(50, { late: 3, slowest: 3 })];
  for (let i = 0; i < 50; i += 5) {
    split.take(1, second.slice(i, i + 5));
    split.take(0, first.slice(i, i + 5));
  }
  assert.equal(split.othersShare(0), 3 / 5);
});

test("one worker waits for servers alone, and so do workers of asp", () => {
  const alone = new WaitSplit({ workerCount: 1, staleness: 0 });
  alone.take(0, steps(9, { late: 0, slowest: 0 }));
  assert.equal(alone.othersShare(0), 0);
  const free = new WaitSplit({ workerCount: 2, staleness: Infinity });
  free.take(0, steps(9, { late: 0, slowest: 6 }));
  free.take(1, steps(9, { late: 6, slowest: 6 }));
  assert.equal(free.othersShare(0), 0);
});

test("under ssp a wait is for others until they are within the bound", () => {
  const split = new WaitSplit({ workerCount: 2, staleness: 2 });
  split.take(0, steps(50, { late: 0, slowest: 26, staleness: 2 }));
  split.take(1, steps(50, { late: 26, slowest: 26, staleness: 2 }));
  assert.equal(split.othersShare(0), 6 / 8);
});

test("a worker that reports no more holds the judgement up for a while only", () => {
  const split = new WaitSplit({ workerCount: 2, staleness: 0 });
  split.take(1, steps(10, { late: 6, slowest: 6 }));
  split.take(0, steps(10, { late: 0, slowest: 6 }));
  assert.equal(split.othersShare(0), 6 / 8);
  split.take(0, steps(3000, { late: 0, slowest: 0 }).slice(10));
  assert.ok(split.othersShare(0) < 6 / 8, `${split.othersShare(0)}`);
});
