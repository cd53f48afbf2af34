// Goal: joined bytes are those of all parts in order, and share no memory with them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "./bytes.ts";

test("parts stand one after the other, empty ones take no room, and none at all give none", () => {
  assert.deepEqual(joinBytes([Uint8Array.of(1, 2), Uint8Array.of(), Uint8Array.of(3)]), Uint8Array.of(1, 2, 3));
  assert.deepEqual(joinBytes([]), new Uint8Array(0));
});

test("what is joined is a copy, of views and of shared memory too", () => {
  const shared = new Uint8Array(new SharedArrayBuffer(4)).fill(7);
  const whole = joinBytes([shared.subarray(1, 3)]);
  shared.fill(0);
  assert.deepEqual(whole, Uint8Array.of(7, 7));
  assert.ok(whole.buffer instanceof ArrayBuffer);
});
