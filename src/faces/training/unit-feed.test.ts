// Goal: an epoch that was interrupted goes on with the first batch that was not done; the ones before are done for
// whoever counts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { checkFirstStep, resumedFeed, type Unit, type UnitFeed } from "./unit-feed.ts";

/** Part 1 of 2 of each of four batches. */
class CountingFeed implements UnitFeed {
  readonly repeatedCount = 0;
  readonly isStocked = true;
  readonly doneUnits: number[] = [];
  #batch = 0;

  async next(): Promise<Unit | "over"> {
    const batch = this.#batch++;
    return await Promise.resolve(batch < 4 ? { unit: 2 * batch + 1, batch, part: 1 } : "over");
  }

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
