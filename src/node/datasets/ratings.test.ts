// Goal: the ratings are what they are said to be: repeatable, of unit spread, and with users and items in their ranges.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { drawRatings, ITEM_COUNT, NOISE, USER_COUNT } from "./ratings.ts";

test("the same seed draws the same ratings, another one others", () => {
  assert.deepEqual(drawRatings({ count: 100, seed: 1 }), drawRatings({ count: 100, seed: 1 }));
  assert.notDeepEqual(drawRatings({ count: 100, seed: 1 }).scores, drawRatings({ count: 100, seed: 2 }).scores);
});

test("scores lie around 0 with a variance of about 1 and the noise's, users and items within their numbers", () => {
  const { users, items, scores, count } = drawRatings({ count: 50_000, seed: 3 });
  const mean = scores.reduce((sum, score) => sum + score, 0) / count;
  const variance = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / count;
  assert.ok(Math.abs(mean) < 0.05, `mean ${mean}`);
  assert.ok(Math.abs(variance - 1 - NOISE ** 2) < 0.15, `variance ${variance}`);
  assert.ok(Math.max(...users) < USER_COUNT && Math.max(...items) < ITEM_COUNT);
});

test("no ratings at all is refused", () => {
  for (const count of [0, -1, 1.5, Number.NaN]) {
    assert.throws(
      () => drawRatings({ count, seed: 1 }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
  }
});
