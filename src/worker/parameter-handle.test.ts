// parameter-handle — Goal: a handle knows the incarnations of servers that it was told of, and no others; what it says
// of a loss tells all that its reader needs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ParameterHandle } from "./parameter-handle.ts";
import { PushNumbers } from "./worker-clock.ts";

test("a server is known in the incarnation in which the parameter was found there, and in no other", () => {
  const held = new ParameterHandle({ name: "w", maker: "tensor", parameter: 7 }, new PushNumbers());
  const known = (server: number): number | undefined => held.incarnations[server];
  assert.equal(known(0), undefined, "nothing was found yet, and no incarnation is none that it knows");
  held.found(0, 1);
  assert.deepEqual([known(0), known(1)], [1, undefined], "each server has incarnations of its own");
  held.found(0, 2);
  assert.equal(known(0), 2);
});

test("a loss names the parameter, the server and its incarnation, and what to do", () => {
  const { code, retryable, message } = new ParameterHandle({ name: 'my "e"', maker: "embedding", parameter: 7 }, new PushNumbers()).lost(
    3,
    2,
  );
  assert.deepEqual([code, retryable], ["UNKNOWN_PARAMETER", false]);
  assert.match(message, /"my \\"e\\""/);
  assert.match(message, /server 3 was restarted \(incarnation 2\)/);
  assert.match(message, /nothing was sent; restore a checkpoint, or make it again with embedding\(\)/);
});
