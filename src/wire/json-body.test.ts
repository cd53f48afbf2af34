// Goal: a body that has the shape is taken as it is, and one that has not says where and how it differs, whatever a
// peer puts there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import {
  type Check,
  count,
  decodeJson,
  encodeJson,
  flag,
  list,
  object,
  oneOf,
  optional,
  shortText,
  text,
  wholeNumber,
} from "./json-body.ts";

function refused(check: Check<unknown>, value: unknown, message: RegExp): void {
  assert.throws(
    () => check(value, "M"),
    (error) => {
      assert.ok(isWeighbridgeError(error, "BAD_REQUEST"), String(error));
      assert.match(error.message, message);
      return true;
    },
  );
}

test("a count is a whole number from 0 up", () => {
  for (const value of [0, 1, 2 ** 53 - 1]) assert.equal(count(value, "M"), value);
  for (const value of [-1, 0.5, 2 ** 53, NaN, Infinity, "1", null, undefined, true, [], {}])
    refused(count, value, /^M must be a whole number from 0 up/);
});

test("a whole number may be negative", () => {
  assert.equal(wholeNumber(-5, "M"), -5);
  refused(wholeNumber, 0.5, /must be a whole number, but is 0.5/);
});

test("texts, flags and choices are what they say", () => {
  assert.equal(text("", "M"), "");
  assert.equal(flag(false, "M"), false);
  assert.equal(oneOf("alive", "dead")("dead", "M"), "dead");
  refused(text, 7, /M must be a string, but is 7/);
  refused(flag, 0, /M must be true or false, but is 0/);
  refused(oneOf("alive", "dead"), "gone", /M must be one of alive, dead, but is "gone"/);
});

test("a short text has a limit, and the message does not repeat all of a long one", () => {
  assert.equal(shortText(3)("abc", "M"), "abc");
  refused(shortText(3), "abcd", /M must be a string of at most 3 characters, but is "abcd"/);
  refused(shortText(3), "x".repeat(1_000_000), /but is 1000000 characters long: "x{80}"…$/);
});

test("an optional field may be left out or null, and is checked otherwise", () => {
  assert.equal(optional(count)(undefined, "M"), undefined);
  assert.equal(optional(count)(null, "M"), undefined);
  assert.equal(optional(count)(3, "M"), 3);
  refused(optional(count), "3", /M must be/);
});

test("objects keep the fields of their shape and ignore all others", () => {
  const shape = object({ node: count, label: optional(text) });
  assert.deepEqual(shape({ node: 1, newer: { things: [] } }, "M"), { node: 1, label: undefined });
  refused(shape, {}, /M.node must be a whole number from 0 up, but is left out/);
  for (const [value, found] of [
    [[], "a list"],
    [null, "null"],
    ["x", '"x"'],
    [undefined, "left out"],
  ] as const)
    refused(shape, value, new RegExp(`M must be an object, but is ${found}`));
});

test("a path leads to what is wrong in lists and objects within them", () => {
  const shape = object({ nodes: list(object({ rank: count })) });
  refused(shape, { nodes: [{ rank: 0 }, { rank: -1 }] }, /^M.nodes\[1\].rank must be a whole number from 0 up, but is -1$/);
  refused(shape, { nodes: {} }, /^M.nodes must be a list, but is an object$/);
});

test("names that objects have by themselves are not fields", () => {
  refused(object({ constructor: count }), JSON.parse('{"__proto__": {"constructor": 1}}'), /M.constructor must be/);
  assert.deepEqual(object({ node: count })(JSON.parse('{"node": 1, "__proto__": {"node": 2}}'), "M"), { node: 1 });
});

test("JSON comes back as it was", () => {
  const value = { text: "„ü€😀\u0000", count: 2 ** 53 - 1, list: [true, null] };
  assert.deepEqual(
    decodeJson((decoded) => decoded, "M", encodeJson(value)),
    value,
  );
});

test("bytes that are no JSON, or no UTF-8, are refused by name", () => {
  for (const bytes of [new Uint8Array(0), new Uint8Array(3), Uint8Array.of(0x22, 0xff, 0x22), new TextEncoder().encode('{"a":1}}')]) {
    assert.throws(() => decodeJson(object({}), "HEARTBEAT", bytes), /the body of HEARTBEAT is not JSON/);
  }
});

test("nesting deeper than the stack is refused like anything else", () => {
  const deep = (open: string, close: string): Uint8Array => new TextEncoder().encode(open.repeat(200_000) + close.repeat(200_000));
  assert.throws(() => decodeJson(object({}), "M", deep("[", "]")), /M must be an object, but is a list/);
  const nested = new TextEncoder().encode(`{"node":${"[".repeat(200_000)}${"]".repeat(200_000)}}`);
  assert.throws(() => decodeJson(object({ node: count }), "M", nested), /M.node must be a whole number from 0 up, but is a list/);
});
