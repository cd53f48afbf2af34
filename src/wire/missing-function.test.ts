// Goal: what a node says of its functions is read by the caller, who knows which one was meant.

import assert from "node:assert/strict";
import { test } from "node:test";
import { missingFunction, nearestFunction } from "./missing-function.ts";

test("the nearest of the functions that a node says it has is found, with the node's name before the text too", () => {
  const { message } = missingFunction(["users/count", "scale", "top-10"]);
  assert.equal(nearestFunction("sclae", `server 0: ${message}`), "; did you mean scale?");
  assert.equal(nearestFunction("user/count", message), "; did you mean users/count?");
});

test("a node without functions of its own is not said to have any", () => {
  const { message } = missingFunction([]);
  assert.match(message, /it has none of its own: is --functions set\?/);
  assert.equal(nearestFunction("scale", message), "");
  assert.equal(nearestFunction("scale", "there is no function 77 on this node"), "");
});
