// Goal: an error arrives with the code it left with, and anything that was thrown can leave.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { decodeFailure, fromFailure, handlerStack, missingFunction, nearestFunction, toFailure } from "./failure.ts";
import { encodeJson } from "./json-body.ts";

test("an error of ours crosses the wire with code, message and whether to try again", () => {
  for (const retryable of [true, false]) {
    const error = new WeighbridgeError("QUEUE_FULL", "too many wait", { retryable });
    const failure = decodeFailure(encodeJson(toFailure(error)));
    const arrived = fromFailure(failure, "server 1");
    assert.deepEqual([arrived.code, arrived.message, arrived.retryable], ["QUEUE_FULL", "server 1: too many wait", retryable]);
  }
});

test("what a user's handle throws is HANDLER_FAILED, whatever it is", () => {
  assert.deepEqual(toFailure(new TypeError("x is undefined")), {
    code: "HANDLER_FAILED",
    message: "TypeError: x is undefined",
    retryable: false,
  });
  for (const thrown of ["text", 7, undefined, null]) {
    assert.deepEqual(toFailure(thrown), { code: "HANDLER_FAILED", message: String(thrown), retryable: false });
  }
});

test("a code that a newer peer invented is kept", () => {
  assert.equal(fromFailure({ code: "NOT_YET_KNOWN", message: "", retryable: false }, "server 0").code, "NOT_YET_KNOWN");
});

test("a failure that is none is refused", () => {
  for (const body of [{}, [], "no", { code: 7, message: "", retryable: false }, { code: "X", message: "" }]) {
    assert.throws(() => decodeFailure(encodeJson(body)), /a failure.* must be/);
  }
});

test("of a message of megabytes a few kilobytes are sent, and its length; what has no text is shown", () => {
  for (const thrown of [
    new Error("x".repeat(3_000_000)),
    new WeighbridgeError("BAD_REQUEST", "x".repeat(3_000_000)),
    "x".repeat(3_000_000),
  ]) {
    const { message } = toFailure(thrown);
    assert.ok(message.length < 5_000, `${message.length}`);
    assert.match(message, /x … \(cut: the message has 30000\d\d characters\)$/);
  }
  assert.equal(toFailure(Object.create(null)).code, "HANDLER_FAILED");
});

test("the stack of what a user's code threw is found behind our own error, and there is none of errors of ours or of what is no error", () => {
  const thrown = new TypeError("oops");
  const failed = new WeighbridgeError("HANDLER_FAILED", "updater threw", { cause: thrown });
  assert.equal(handlerStack(thrown), thrown.stack);
  assert.equal(handlerStack(new WeighbridgeError("HANDLER_FAILED", "a round failed", { cause: failed })), thrown.stack);
  const throwing = Object.defineProperty(new Error("x"), "stack", {
    get: () => {
      throw new Error("no stack");
    },
  });
  for (const other of [new WeighbridgeError("BAD_ARGUMENT", "no", { cause: thrown }), "text", undefined, throwing])
    assert.equal(handlerStack(other), undefined);
  assert.doesNotMatch(JSON.stringify(toFailure(failed)), /failure\.test/);
});

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
