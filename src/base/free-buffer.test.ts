// Goal: memory that is given back is gone at once, and shared memory stays.

import assert from "node:assert/strict";
import { test } from "node:test";
import { freeBuffer } from "./free-buffer.ts";

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
