// Goal: the same seed gives the same numbers on every machine, evenly spread.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random, randomToken } from "./random.ts";

test("a seed fixes the numbers", () => {
  const numbers = (seed: number): number[] => {
    const random = new Random(seed);
    return Array.from({ length: 5 }, () => random.uint32());
  };
  assert.deepEqual(numbers(1), numbers(1));
  assert.notDeepEqual(numbers(1), numbers(2));
  assert.deepEqual(numbers(2 ** 32 + 3), numbers(3), "seeds are 32 bits");
  assert.deepEqual(numbers(1), [1580013426, 350525680, 3524174333, 3011703609, 643872864]);
});

test("fractions stay in [0, 1), whole numbers below their bound, and every part is drawn about equally often", () => {
  const random = new Random(9);
  const counts = new Array<number>(10).fill(0);
  for (let i = 0; i < 50_000; i++) {
    const fraction = random.fraction();
    assert.ok(fraction >= 0 && fraction < 1);
    const drawn = random.below(10);
    counts[drawn] = (counts[drawn] as number) + 1;
  }
  assert.equal(counts.length, 10);
  for (const count of counts) assert.ok(Math.abs(count - 5000) < 300, counts.join());
});

test("a chance of 0 never comes true and one of 1 always", () => {
  const random = new Random(3);
  for (let i = 0; i < 1000; i++) {
    assert.equal(random.chance(0), false);
    assert.equal(random.chance(1), true);
  }
});

test("a token needs no randomUUID, which pages over plain HTTP lack, and no two are the same", (t) => {
  t.mock.method(crypto, "randomUUID", () => assert.fail("a page over plain HTTP has none"));
  const tokens = new Set(Array.from({ length: 1000 }, randomToken));
  assert.equal(tokens.size, 1000);
  for (const token of tokens) assert.match(token, /^[0-9a-f]{32}$/);
});
