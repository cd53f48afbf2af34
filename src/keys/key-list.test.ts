// Goal: a list is called ascending exactly when every key is greater than the one before, over the whole 64 bits, for
// short and long lists.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { firstDescent, halvesOf, lowerBound } from "./key-list.ts";

const key = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.bigInt({ min: 0n, max: 20n }),
  fc.constant(2n ** 32n),
  fc.constant(2n ** 64n - 1n),
);

function firstDescentByHand(keys: readonly bigint[]): number {
  return keys.findIndex((value, i) => i > 0 && value <= (keys[i - 1] as bigint));
}

test("names the first key that does not rise, or none", () => {
  const sorted = fc.uniqueArray(key, { maxLength: 40 }).map((keys) => keys.sort((a, b) => (a < b ? -1 : 1)));
  fc.assert(
    fc.property(fc.oneof(fc.array(key, { maxLength: 40 }), sorted), (keys) => {
      assert.equal(firstDescent(BigUint64Array.from(keys)), firstDescentByHand(keys));
    }),
    { seed: 1, numRuns: 2000 },
  );
});

test("sees a descent in either half of the keys, and an equal pair, at the end of a long list", () => {
  const rising = Array.from({ length: 20 }, (_, i) => BigInt(i) * 2n ** 31n);
  const last = rising.at(-1) as bigint;
  assert.equal(firstDescent(BigUint64Array.from([...rising, last + 1n])), -1);
  for (const wrong of [last, last - 1n, last - 2n ** 33n, 0n]) assert.equal(firstDescent(BigUint64Array.from([...rising, wrong])), 20);
});

test("works on a view in the middle of a buffer", () => {
  const keys = BigUint64Array.from([9n, 1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 10n, 0n]);
  assert.equal(firstDescent(keys.subarray(1, 10)), -1);
  assert.equal(firstDescent(keys.subarray(1)), 9);
  assert.deepEqual([...halvesOf(BigUint64Array.of(2n ** 32n + 5n, 7n).subarray(0, 1))], [5, 1]);
});

test("lowerBound is the number of smaller keys", () => {
  fc.assert(
    fc.property(fc.uniqueArray(key, { maxLength: 40 }), key, (keys, bound) => {
      const sorted = BigUint64Array.from(keys).sort();
      assert.equal(lowerBound(sorted, bound), keys.filter((value) => value < bound).length);
    }),
    { seed: 2, numRuns: 1000 },
  );
  assert.equal(lowerBound(BigUint64Array.of(2n ** 64n - 1n), 2n ** 64n), 1);
});
