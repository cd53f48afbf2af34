// Goal: joined bytes are those of all parts in order, and share no memory with them; memory that is given back is gone
// at once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { freeBuffer, joinBytes } from "./bytes.ts";

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

test("a buffer that is freed is empty for all its views, and may be freed again", () => {
  const floats = new Float32Array(8);
  const words = new Uint32Array(floats.buffer, 4, 2);
  freeBuffer(words);
  assert.equal(floats.buffer.detached, true);
  assert.deepEqual([floats.length, words.length], [0, 0]);
  freeBuffer(floats);
});

test("shared memory is not freed", () => {
  const bytes = new Uint8Array(new SharedArrayBuffer(8)).fill(3);
  freeBuffer(bytes);
  assert.equal(bytes[7], 3);
});
