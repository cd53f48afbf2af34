// held-parameter — Goal: a handle knows the lives of servers that it was told of, and no others; what it says of a loss tells all that its reader needs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { HeldParameter } from "./held-parameter.ts";
import { PushNumbers } from "./push-numbers.ts";

test("a server is known in the life in which the parameter was found there, and in no other", () => {
  const held = new HeldParameter({ name: "w", maker: "tensor", parameter: 7 }, new PushNumbers());
  assert.ok(!held.knows(0, 1), "nothing was found yet");
  assert.ok(!held.knows(0, 0), "no life at all is none that it knows");
  held.found(0, 1);
  assert.ok(held.knows(0, 1));
  assert.ok(!held.knows(0, 2));
  assert.ok(!held.knows(1, 1), "each server has lives of its own");
  held.found(0, 2);
  assert.deepEqual([held.knows(0, 1), held.knows(0, 2)], [false, true]);
});

test("a loss names the parameter, the server and its life, and what to do", () => {
  const { code, retryable, message } = new HeldParameter({ name: 'my "e"', maker: "embedding", parameter: 7 }, new PushNumbers()).lost(
    3,
    2,
  );
  assert.deepEqual([code, retryable], ["UNKNOWN_PARAMETER", false]);
  assert.match(message, /"my \\"e\\""/);
  assert.match(message, /server 3 was restarted \(life 2\)/);
  assert.match(message, /nothing was sent; restore a checkpoint, or make it again with embedding\(\)/);
});
