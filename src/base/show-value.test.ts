// show-value — Goal: whatever a caller gave can be shown in an error.

import assert from "node:assert/strict";
import { test } from "node:test";
import { showValue } from "./show-value.ts";

test("shows numbers, bigints and text as code writes them, lists and objects as JSON", () => {
  const shown = [1.5, NaN, -0, 5n, "x", undefined, null, true, [1, 2n], { a: "b" }, Symbol("s")].map(showValue);
  assert.deepEqual(shown, ["1.5", "NaN", "0", "5n", '"x"', "undefined", "null", "true", '[1,"2n"]', '{"a":"b"}', "Symbol(s)"]);
});

test("shows arrays of numbers by their type, and of long values the beginning", () => {
  assert.equal(showValue(new Float64Array(1000)), "a Float64Array");
  assert.equal(
    showValue(() => 1),
    "a function",
  );
  assert.equal(showValue("x".repeat(1000)).length, 81);
});

test("is never what throws", () => {
  const circle: { self?: unknown } = {};
  circle.self = circle;
  const sly = {
    toJSON() {
      throw new Error("no");
    },
  };
  assert.deepEqual([circle, sly, Object.create(null)].map(showValue), ["an object", "an object", "{}"]);
});
