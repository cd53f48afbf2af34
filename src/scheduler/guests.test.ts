// guests — Goal: a guest counts while it is heard, by its token, and never again once it was forgotten.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { isGuest } from "../wire/node-id.ts";
import { GUESTS_MAX, Guests } from "./guests.ts";

test("a guest has one number for its token, and another guest another one", () => {
  const guests = new Guests(1000);
  const first = guests.admit("a", "job 1", 0);
  assert.ok(isGuest(first));
  assert.equal(guests.admit("a", "job 1", 10), first, "its answer was lost");
  assert.notEqual(guests.admit("b", "job 1", 10), first);
  assert.deepEqual(guests.entries()[0], { node: first, token: "a" });
});

test("a guest that is silent for the timeout is forgotten, and is not heard any more", () => {
  const guests = new Guests(1000);
  const node = guests.admit("a", "job 1", 0);
  guests.heard(node, 600);
  assert.equal(guests.dueMs(), 1600);
  assert.deepEqual(guests.expire(1599), []);
  assert.deepEqual(guests.expire(1600), [node]);
  assert.equal(guests.dueMs(), Infinity);
  assert.throws(() => guests.heard(node, 1601), throwsCode("FENCED"));
  assert.throws(() => guests.check({ node, token: "a" }), throwsCode("FENCED"));
  assert.equal(guests.resume(node, "a", 1601), false);
});

test("without heartbeats only a link that stays closed ends a guest", () => {
  const guests = new Guests(0);
  const node = guests.admit("a", "job 1", 0);
  assert.equal(guests.dueMs(), Infinity);
  guests.linkDown(node, 100);
  guests.linkDown(node, 200);
  assert.equal(guests.dueMs(), 5100);
  guests.heard(node, 300);
  assert.equal(guests.dueMs(), Infinity);
});

test("a restarted scheduler knows the guests that a server tells of, by their tokens", () => {
  const guests = new Guests(1000);
  const early = guests.admit("a", "job 1", 0);
  const restarted = new Guests(1000);
  restarted.recall(guests.entries(), 5000);
  assert.equal(restarted.resume(early, "b", 5100), false, "another token");
  assert.equal(restarted.resume(early, "a", 5100), true);
  assert.deepEqual(restarted.expire(6000), [], "it was heard");
});

test("there are at most so many guests at a time", () => {
  const guests = new Guests(1000);
  for (let i = 0; i < GUESTS_MAX; i++) guests.admit(`token ${i}`, "job 1", 0);
  assert.equal(guests.size, GUESTS_MAX);
  assert.throws(() => guests.admit("one more", "job 1", 0), throwsCode("QUEUE_FULL"));
  guests.leave(guests.admit("token 7", "job 1", 0));
  guests.admit("one more", "job 1", 0);
});
