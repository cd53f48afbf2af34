// Goal: positions come as often as Zipf's law says, and a shuffle keeps each of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../src/base/random.ts";
import { shuffledPositions, zipfDraws } from "./zipf.ts";

const DRAWS = 60_000;

test("position i comes with a share in proportion to (i + 1)^-exponent, every position among them", () => {
  for (const exponent of [0, 1.05]) {
    const draw = zipfDraws(new Random(1), { positionCount: 5, exponent });
    const counts = [0, 0, 0, 0, 0];
    for (let i = 0; i < DRAWS; i++) counts[draw()]!++;
    const weights = counts.map((_, i) => (i + 1) ** -exponent);
    const whole = weights.reduce((sum, weight) => sum + weight);
    for (const [i, count] of counts.entries()) {
      const expected = (DRAWS * weights[i]!) / whole;
      assert.ok(Math.abs(count - expected) < 5 * Math.sqrt(expected), `${i}: ${count} of ${expected}, exponent ${exponent}`);
    }
  }
});

test("a shuffle has every position once, and not in order", () => {
  const positions = shuffledPositions(new Random(1), 1000);
  assert.notDeepEqual([...positions].slice(0, 5), [0, 1, 2, 3, 4]);
  assert.deepEqual(
    [...positions].sort((a, b) => a - b),
    Array.from({ length: 1000 }, (_, i) => i),
  );
});
