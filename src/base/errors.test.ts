// Goal: callers match errors by code, errors keep their cause, and anything thrown or given can be shown in a message.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AssertionError, assert as check } from "./assert.ts";
import { isWeighbridgeError, reasonOf, restated, showValue, WeighbridgeError, withOutcome } from "./errors.ts";

test("an error has a code, may be worth another try, and keeps its cause", () => {
  const cause = new Error("deep down");
  const error = new WeighbridgeError("NODE_DEAD", "server 1 is dead", { retryable: true, cause });
  assert.deepEqual([error.name, error.code, error.retryable, error.cause], ["WeighbridgeError", "NODE_DEAD", true, cause]);
  assert.equal(new WeighbridgeError("CLOSED", "over").retryable, false);
  assert.equal("cause" in new WeighbridgeError("CLOSED", "over"), false);
});

test("isWeighbridgeError looks at the type, and at the code when one is asked for", () => {
  const error: unknown = new WeighbridgeError("CLOSED", "over");
  assert.equal(isWeighbridgeError(error), true);
  assert.equal(isWeighbridgeError(error, "CLOSED"), true);
  assert.equal(isWeighbridgeError(error, "DEADLINE"), false);
  assert.equal(isWeighbridgeError({ code: "CLOSED" }), false);
});

test("isWeighbridgeError knows the errors of another copy of the package, which is no instance of this one's class", async () => {
  const path = "./errors.ts?another-copy";
  const copy = (await import(path)) as {
    readonly WeighbridgeError: typeof WeighbridgeError;
    readonly isWeighbridgeError: typeof isWeighbridgeError;
  };
  const theirs: unknown = new copy.WeighbridgeError("DEADLINE", "too late", { outcome: "unknown" });
  assert.equal(theirs instanceof WeighbridgeError, false);
  assert.equal(isWeighbridgeError(theirs, "DEADLINE"), true);
  assert.equal(isWeighbridgeError(theirs, "CLOSED"), false);
  assert.equal(copy.isWeighbridgeError(new WeighbridgeError("CLOSED", "over"), "CLOSED"), true);
  for (const other of [new Error("no"), null, undefined, 5, "CLOSED", {}, () => {}]) assert.equal(isWeighbridgeError(other), false);
});

test("an error keeps what became of an update when it is told again, and what is changed of it", () => {
  const settled = Promise.resolve("applied" as const);
  const parts = [{ server: 1, outcome: "unknown" }] as const;
  const detail = { at: 1 };
  const error = new WeighbridgeError("DEADLINE", "late", { retryable: true, detail, cause: "why", outcome: "unknown", parts, settled });
  const again = restated(error, "late again");
  assert.deepEqual(
    [again.message, again.cause, again.outcome, again.parts, again.settled],
    ["late again", error, "unknown", parts, settled],
  );
  const other = withOutcome(error, "applied", { retryable: false });
  assert.deepEqual([other.message, other.cause, other.stack, other.detail], ["late", "why", error.stack, detail]);
  assert.deepEqual([other.outcome, other.retryable, other.parts], ["applied", false, parts]);
  assert.equal(withOutcome(error, "unknown", { parts: undefined }).parts, undefined);
  assert.equal("outcome" in new WeighbridgeError("CLOSED", "over"), false);
});

test("whatever was thrown has a text", () => {
  assert.equal(reasonOf(new Error("why")), "why");
  assert.equal(reasonOf("just so"), "just so");
  assert.equal(reasonOf(undefined), "undefined");
});

test("what was thrown has a text whatever it is: without a prototype, with a text that throws, revoked", () => {
  const hostile = Proxy.revocable({}, {});
  hostile.revoke();
  const textThrows = {
    toString: () => {
      throw new Error("no text");
    },
  };
  const messageThrows = Object.defineProperty(new Error("x"), "message", {
    get: () => {
      throw new Error("no message");
    },
  });
  const noText = Object.assign(new Error("x"), { message: Object.create(null) as string });
  for (const thrown of [Object.create(null), textThrows, messageThrows, noText, hostile.proxy]) {
    assert.equal(typeof reasonOf(thrown), "string");
    assert.equal(isWeighbridgeError(thrown), false);
  }
  assert.equal(reasonOf(Symbol("mine")), "Symbol(mine)");
  assert.equal(reasonOf(Object.assign(Object.create(null), { code: 7 })), '{"code":7}');
});

test("a failed assertion is a bug of ours, not a WeighbridgeError", () => {
  assert.throws(
    () => check(false, "one is more than two"),
    (error) => error instanceof AssertionError && !isWeighbridgeError(error),
  );
  check(true, "nothing happens");
});

test("shows numbers, bigints and text as code writes them, lists and objects as JSON", () => {
  const shown = [1.5, NaN, -0, 5n, "x", undefined, null, true, [1, 2n], { a: "b" }, Symbol("s")].map(showValue);
  assert.deepEqual(shown, ["1.5", "NaN", "0", "5n", '"x"', "undefined", "null", "true", '[1,"2n"]', '{"a":"b"}', "Symbol(s)"]);
});

test("shows an object of a class that JSON shows nothing of by the name of the class", () => {
  const shown = [new Set([1]), new Map(), [1].values(), new (class Mine {})(), new Date(0), {}].map(showValue);
  assert.deepEqual(shown, ["a Set", "a Map", "an Array Iterator", "a Mine", '"1970-01-01T00:00:00.000Z"', "{}"]);
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
  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  const sly = {
    toJSON() {
      throw new Error("no");
    },
  };
  assert.deepEqual([cyclic, sly, Object.create(null)].map(showValue), ["an object", "an object", "{}"]);
});
