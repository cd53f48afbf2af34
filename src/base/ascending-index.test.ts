// Goal: every member of an ascending list is found at its place, whatever lies behind the part that counts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ascendingIndex } from "./ascending-index.ts";

test("each of the first numbers is found where it stands, in either kind of list", () => {
  for (const ascending of [Int32Array.of(-5, 0, 3, 9, 1, 1), Float64Array.of(-5, 0, 3, 2 ** 40, 1, 1)])
    for (let place = 0; place < 4; place++) assert.equal(ascendingIndex(ascending, 4, ascending[place]!), place);
});

test("of one number the place is 0", () => {
  assert.equal(ascendingIndex(Int32Array.of(7), 1, 7), 0);
});
