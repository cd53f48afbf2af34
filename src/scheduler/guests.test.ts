// guests — Goal: a guest counts while it is heard, by its token, and never again once it was forgotten.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../testing/throws-code.ts";
import { isGuest } from "../wire/node-id.ts";
import { GUESTS_MAX, Guests } from "./guests.ts";

test("a guest has one number for its token, and another guest another one", () => {
  const guests = new Guests(1000);
  const first = guests.admit({ token: "a", label: "h:a" }, "job 1", 0);
  assert.ok(isGuest(first));
  assert.equal(guests.admit({ token: "a", label: "h:a" }, "job 1", 10), first, "its answer was lost");
  assert.notEqual(guests.admit({ token: "b", label: "h:b" }, "job 1", 10), first);
  assert.deepEqual(guests.entries()[0], { node: first, token: "a" });
});

test("of 100,000 guests that come and go no two have the same number", () => {
  const guests = new Guests(1000);
  const seen = new Set<number>();
  for (let i = 0; i < 100_000; i++) {
    const node = guests.admit({ token: "a", label: "" }, "job 1", 0);
    assert.ok(isGuest(node));
    seen.add(node);
    guests.leave(node);
  }
  assert.equal(seen.size, 100_000);
});

test("a guest that is silent for the timeout is forgotten, and is not heard any more", () => {
  const guests = new Guests(1000);
  const node = guests.admit({ token: "a", label: "h:a" }, "job 1", 0);
  guests.heard(node, 600);
  assert.equal(guests.dueMs(), 1600);
  assert.deepEqual(guests.expire(1599), []);
  assert.deepEqual(guests.expire(1600), [node]);
  assert.equal(guests.dueMs(), Infinity);
  assert.throws(() => guests.heard(node, 1601), throwsCode("FENCED"));
  assert.throws(() => guests.check({ node, token: "a" }), throwsCode("FENCED"));
  assert.equal(guests.resume(node, { token: "a", label: "h:a" }, 1601), false);
});

test("without heartbeats only a link that stays closed ends a guest", () => {
  const guests = new Guests(0);
  const node = guests.admit({ token: "a", label: "h:a" }, "job 1", 0);
  assert.equal(guests.dueMs(), Infinity);
  guests.linkDown(node, 100);
  guests.linkDown(node, 200);
  assert.equal(guests.dueMs(), 5100);
  guests.heard(node, 300);
  assert.equal(guests.dueMs(), Infinity);
});

test("a restarted scheduler knows the guests that a server tells of, by their tokens", () => {
  const guests = new Guests(1000);
  const early = guests.admit({ token: "a", label: "h:a" }, "job 1", 0);
  const restarted = new Guests(1000);
  restarted.recall(guests.entries(), 5000);
  assert.equal(restarted.resume(early, { token: "b", label: "h:b" }, 5100), false, "another token");
  assert.equal(restarted.resume(early, { token: "a", label: "h:a" }, 5100), true);
  assert.deepEqual(restarted.expire(6000), [], "it was heard");
});

test("of two servers the newer list counts, and guests that the restarted scheduler has let in stay", () => {
  const guests = new Guests(1000);
  const known = guests.admit({ token: "a", label: "" }, "job 1", 0);
  const forgotten = guests.admit({ token: "b", label: "" }, "job 1", 0);
  const restarted = new Guests(1000);
  restarted.recall(guests.entries(), 5000);
  assert.equal(restarted.resume(known, { token: "a", label: "h:a" }, 5100), true);
  const own = restarted.admit({ token: "c", label: "h:c" }, "job 2", 5200);
  guests.leave(forgotten);
  const later = guests.admit({ token: "d", label: "" }, "job 1", 0);
  restarted.recall(guests.entries(), 5300);
  const labels = new Map(restarted.status(5300).map(({ node, label }) => [node, label]));
  assert.deepEqual(Object.fromEntries(labels), { [known]: "h:a", [later]: "", [own]: "h:c" });
});

test("there are at most so many guests at a time", () => {
  const guests = new Guests(1000);
  for (let i = 0; i < GUESTS_MAX; i++) guests.admit({ token: `token ${i}`, label: "" }, "job 1", 0);
  assert.equal(guests.size, GUESTS_MAX);
  assert.throws(() => guests.admit({ token: "one more", label: "" }, "job 1", 0), throwsCode("QUEUE_FULL"));
  guests.leave(guests.admit({ token: "token 7", label: "" }, "job 1", 0));
  guests.admit({ token: "one more", label: "" }, "job 1", 0);
});

test("status tells where guests run, since when they are there, when they were heard, and who has no link", () => {
  const guests = new Guests(1000);
  const [a, b] = [guests.admit({ token: "a", label: "h:a" }, "job 1", 0), guests.admit({ token: "b", label: "h:b" }, "job 1", 100)];
  guests.heard(a, 400);
  guests.linkDown(b, 450);
  assert.deepEqual(guests.status(500), [
    { node: a, label: "h:a", hereMs: 500, heartbeatAgeMs: 100, linked: true },
    { node: b, label: "h:b", hereMs: 400, heartbeatAgeMs: 400, linked: false },
  ]);
  assert.equal(guests.admit({ token: "a", label: "h:a" }, "job 1", 600), a);
  assert.equal(guests.status(700)[0]?.hereMs, 700, "its answer was lost: it came when it came first");
  const restarted = new Guests(1000);
  restarted.recall(guests.entries(), 1000);
  restarted.resume(a, { token: "a", label: "h:a" }, 1100);
  assert.deepEqual(restarted.status(1200), [
    { node: a, label: "h:a", heartbeatAgeMs: 100, linked: true },
    { node: b, label: "", heartbeatAgeMs: 200, linked: false },
  ]);
});
