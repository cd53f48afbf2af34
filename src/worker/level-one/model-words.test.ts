// Goal: what a round failed with reaches every thread, whatever it was, and breaks nothing on its way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import { createModelMemory, ModelWords, OWNER } from "./model-words.ts";

function kept(thrown: unknown): WeighbridgeError {
  const memory = createModelMemory(1, 4, 4);
  const number = new ModelWords(memory, OWNER).keepFailure(thrown);
  return new ModelWords(memory, 1).failure(number);
}

test("a failure is what it was in every thread: code, message, detail, whether to try again, and what became of an update", () => {
  const failure = kept(new WeighbridgeError("NODE_DEAD", "device 3 has ended:\nit fell over", { retryable: true, detail: { device: 3 } }));
  assert.deepEqual([failure.code, failure.retryable, failure.detail], ["NODE_DEAD", true, { device: 3 }]);
  assert.equal(failure.message, "device 3 has ended:\nit fell over");
  const { retryable, outcome } = kept(new WeighbridgeError("CLOSED", "it"));
  assert.deepEqual([retryable, outcome], [false, undefined]);
  assert.equal(kept(new WeighbridgeError("LINK_LOST", "it", { outcome: "unknown" })).outcome, "unknown");
  assert.deepEqual([kept("words").code, kept("words").message], ["HANDLER_FAILED", "words"]);
});

test("a failure that is too long, or whose detail is no plain data, keeps its code and the beginning of its message", () => {
  const cycle: { self?: object } = {};
  cycle.self = cycle;
  for (const detail of [{ log: "x".repeat(2000) }, { count: 3n }, cycle, () => {}]) {
    const failure = kept(new WeighbridgeError("KERNEL_REJECTED", "it does not compile", { detail }));
    assert.deepEqual([failure.code, failure.message, failure.detail], ["KERNEL_REJECTED", "it does not compile", undefined]);
  }
  const long = kept(new WeighbridgeError("BAD_ARGUMENT", "y".repeat(2000), { detail: { device: 3 } }));
  assert.match(long.message, /^y{400,}$/);
  assert.deepEqual(long.detail, { device: 3 });
});
