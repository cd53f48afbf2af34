// Goal: every key goes to the server whose range holds it, and cuts that do not cover the keys exactly are told apart.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { problemWithCuts, sliceByRange, soleOwner } from "./key-list.ts";
import { evenRanges } from "./key-range.ts";

test("every key is cut to the range that holds it", () => {
  const keyList = fc.uniqueArray(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { maxLength: 30 });
  fc.assert(
    fc.property(keyList, fc.integer({ min: 1, max: 9 }), (list, serverCount) => {
      const keys = BigUint64Array.from(list).sort();
      const ranges = evenRanges(serverCount);
      const cuts = sliceByRange(keys, ranges);
      assert.equal(problemWithCuts(cuts, keys.length, serverCount), undefined);
      for (const [server, { begin, end }] of ranges.entries()) {
        for (const key of keys.subarray(cuts[server], cuts[server + 1])) assert.ok(key >= begin && key < end);
      }
    }),
    { seed: 1, numRuns: 500 },
  );
});

test("the sole owner of keys is the one that the cuts give them all to, if there is one", () => {
  const near = fc.tuple(fc.integer({ min: 0, max: 8 }), fc.integer({ min: -2, max: 2 }));
  fc.assert(
    fc.property(fc.array(near, { minLength: 1, maxLength: 4 }), fc.integer({ min: 1, max: 8 }), (list, serverCount) => {
      const ranges = evenRanges(serverCount);
      const places = list.map(([rank, offset]) => BigInt.asUintN(64, (ranges[rank % serverCount]?.begin ?? 0n) + BigInt(offset)));
      const keys = BigUint64Array.from(new Set(places)).sort();
      const cuts = sliceByRange(keys, ranges);
      const owner = ranges.findIndex((_, rank) => cuts[rank] === 0 && cuts[rank + 1] === keys.length);
      assert.equal(soleOwner(keys, ranges), owner);
    }),
    { seed: 2, numRuns: 1000 },
  );
});

test("0 is the first server's and 2^64 − 1 the last one's; range borders belong to the range they begin", () => {
  const ranges = evenRanges(3);
  const border = ranges[1]?.begin as bigint;
  assert.deepEqual(sliceByRange(BigUint64Array.of(0n, border - 1n, border, 2n ** 64n - 1n), ranges), [0, 2, 3, 4]);
});

test("cuts that are too few, do not begin at 0, end early, fall or are no numbers are named", () => {
  assert.equal(problemWithCuts([0, 2, 2, 5], 5, 3), undefined);
  assert.match(problemWithCuts([0, 5], 5, 2) ?? "", /2 cuts for 2 servers/);
  assert.match(problemWithCuts([1, 2, 5], 5, 2) ?? "", /from 1 to 5/);
  assert.match(problemWithCuts([0, 2, 4], 5, 2) ?? "", /must cover 0 to 5/);
  assert.match(problemWithCuts([0, 4, 2, 5], 5, 3) ?? "", /cut 2 below cut 1/);
  for (const cut of [Number.NaN, 1.5, -1, 6]) assert.notEqual(problemWithCuts([0, cut, 5], 5, 2), undefined, `${cut}`);
});
