// guest-list — Goal: a guest is served while the roster lists its number with its token, and is gone with either.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { FIRST_GUEST_ID } from "../wire/node-id.ts";
import { GuestList } from "./guest-list.ts";

const NODE = FIRST_GUEST_ID + 5;

test("guests that are listed no longer are gone, and the others stay", () => {
  const list = new GuestList();
  const left: number[] = [];
  list.onGone = (node) => left.push(node);
  assert.deepEqual(list.follow([NODE, NODE + 1].map((node) => ({ node, token: "a" }))), []);
  assert.deepEqual(list.follow([{ node: NODE, token: "a" }]), [NODE + 1]);
  assert.deepEqual(left, [NODE + 1]);
  list.check({ node: NODE, token: "a" });
  assert.throws(() => list.check({ node: NODE + 1, token: "a" }), throwsCode("NO_ROUTE"));
});

test("a number that has another token is another guest: the one before is gone", () => {
  const list = new GuestList();
  const left: number[] = [];
  list.onGone = (node) => left.push(node);
  list.follow([{ node: NODE, token: "a" }]);
  assert.deepEqual(list.follow([{ node: NODE, token: "b" }]), [NODE], "the roster between the two never came here");
  assert.deepEqual(left, [NODE]);
  list.check({ node: NODE, token: "b" });
  assert.throws(() => list.check({ node: NODE, token: "a" }), throwsCode("NO_ROUTE"));
});
