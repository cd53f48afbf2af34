// Goal: an epoch that was interrupted goes on with the first batch that was not done; the ones before are done for
// whoever counts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { LentUnit } from "../../worker/unit-feed.ts";
import { checkFirstStep, cutBatch, resumedFeed, type UnitFeed } from "./unit-feed.ts";

/** Part 1 of 2 of each of four batches. */
class CountingFeed implements UnitFeed {
  readonly repeatedCount = 0;
  readonly isStocked = true;
  readonly isOver = false;
  readonly hasRetired = false;
  readonly doneUnits: number[] = [];
  readonly #firstClock: number | undefined;
  #batch = 0;

  constructor(firstClock?: number) {
    this.#firstClock = firstClock;
  }

  get nextClock(): number | undefined {
    return this.#firstClock === undefined ? undefined : this.#firstClock + this.#batch;
  }

  async next(): Promise<LentUnit | "over"> {
    const clock = this.nextClock;
    const batch = this.#batch++;
    const due = clock === undefined ? {} : { parts: 1, clock };
    return await Promise.resolve(batch < 4 ? { unit: 2 * batch + 1, batch, part: 1, ...due } : "over");
  }

  retire(): void {}

  done(unit: number): void {
    this.doneUnits.push(unit);
  }

  close(): void {}
}

test("passes over the units of earlier batches, and reports them as done", async () => {
  const inner = new CountingFeed();
  const feed = resumedFeed(inner, 2);
  assert.deepEqual(await feed.next(), { unit: 5, batch: 2, part: 1 });
  assert.deepEqual(inner.doneUnits, [1, 3]);
  feed.done(5);
  assert.deepEqual(await feed.next(), { unit: 7, batch: 3, part: 1 });
  assert.equal(await feed.next(), "over");
  assert.deepEqual(inner.doneUnits, [1, 3, 5]);
});

test("rounds of earlier batches take no clocks", async () => {
  const feed = resumedFeed(new CountingFeed(7), 2);
  assert.deepEqual(await feed.next(), { unit: 5, batch: 2, part: 1, parts: 1, clock: 7 });
  assert.equal(feed.nextClock, 8);
});

test("a batch in rounds is cut so that as many workers as the start has can share it evenly, and others nearly", () => {
  const cut = (batchSize: number, workerCount: number, sampleCountMax = Math.ceil(batchSize / workerCount)): number[] => {
    const { partCount, partsMax, unitSizeMax } = cutBatch({ batchSize, workerCount, inRounds: true }, { sampleCountMax });
    return [partCount, partsMax, unitSizeMax];
  };
  assert.deepEqual(cut(64, 2), [64, 32, 32]);
  assert.deepEqual(cut(64, 2, 64), [64, 64, 64]);
  assert.deepEqual(cut(1000, 7), [238, 34, 143]);
  for (let workerCount = 1; workerCount <= 9; workerCount++) {
    for (let batchSize = workerCount; batchSize < 700; batchSize += 13) {
      const [partCount = 0, partsMax = 0, unitSizeMax = 0] = cut(batchSize, workerCount);
      assert.ok(partsMax * workerCount >= partCount, `${workerCount} workers have room for a batch of ${batchSize}`);
      assert.ok(unitSizeMax <= Math.ceil(batchSize / workerCount), `and their networks for the shares`);
    }
  }
  assert.throws(() => cut(64, 2, 31), throwsCode("BAD_ARGUMENT", /parts of 32 samples; the network was built for 31/));
  assert.throws(() => cut(1, 2), throwsCode("BAD_ARGUMENT", /leaves some of 2 workers without a sample/));
});

test("an epoch from its beginning is the feed itself", () => {
  const inner = new CountingFeed();
  assert.equal(resumedFeed(inner, 0), inner);
});

test("an epoch begins with one of its steps", () => {
  checkFirstStep(0, 1);
  checkFirstStep(3, 4);
  for (const bad of [-1, 4, 0.5, Number.NaN]) {
    assert.throws(
      () => checkFirstStep(bad, 4),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
  }
});
