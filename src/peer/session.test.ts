// Goal: every request is fresh once and in order, whatever is lost, doubled or swapped on the way, and answers are kept as long as needed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { Answer } from "./answer.ts";
import { Session } from "./session.ts";

const answerTo = (request: number): Answer => new Answer({ functionId: 1, priority: 0, request, app: 0, customer: 0, command: 0 });

test("requests are fresh once, in the order of their numbers (S1, S2)", () => {
  const session = new Session();
  assert.deepEqual(
    [1, 2, 2, 1, 3].map((request) => session.admit(request, 1)),
    ["fresh", "fresh", "again", "again", "fresh"],
  );
  assert.equal(session.expected, 4);
});

test("what follows a missing request is refused until that one came (S2)", () => {
  const session = new Session();
  assert.deepEqual(
    [2, 3, 1, 3, 2, 3].map((request) => session.admit(request, 1)),
    ["gap", "gap", "fresh", "gap", "fresh", "fresh"],
  );
});

test("a duplicate of a request whose answer is still to come is ignored, then answered as remembered", () => {
  const session = new Session();
  session.admit(1, 1);
  session.park(1);
  assert.equal(session.admit(1, 1), "ignore");
  assert.equal(session.parkedCount, 1);
  assert.equal(session.unpark(1), true);
  assert.equal(session.unpark(1), false);
  const answers = [answerTo(1)];
  session.remember(1, answers);
  assert.equal(session.admit(1, 1), "remembered");
  assert.equal(session.remembered(1), answers);
});

test("answers are kept until the asker has them, and not longer (S3)", () => {
  const session = new Session();
  for (let request = 1; request <= 10; request++) {
    session.admit(request, 1);
    if (request % 2 === 0) session.remember(request, [answerTo(request)]);
  }
  assert.equal(session.rememberedCount, 5);
  session.admit(11, 5);
  assert.equal(session.rememberedCount, 3);
  assert.deepEqual(session.remembered(4), []);
  session.admit(12, 12);
  assert.equal(session.rememberedCount, 0);
  session.remember(9, [answerTo(9)]);
  assert.equal(session.rememberedCount, 0, "nobody waits for it any more");
});

test("requests that the asker gave up before they came are not waited for (S4)", () => {
  const session = new Session();
  session.admit(1, 1);
  assert.equal(session.admit(9, 9), "fresh", "2 to 8 will never come");
  assert.equal(session.expected, 10);
  assert.equal(session.admit(5, 5), "again");
  assert.equal(session.admit(12, 11), "gap");
  assert.equal(session.admit(11, 11), "fresh");
});

test("a wild number of settled requests costs nothing", () => {
  const session = new Session();
  for (let request = 1; request <= 100; request++) {
    session.admit(request, 1);
    session.remember(request, [answerTo(request)]);
  }
  assert.equal(session.admit(101, 2 ** 52), "fresh");
  assert.equal(session.expected, 102, "no request settles more than those before it");
  assert.equal(session.rememberedCount, 0);
});

test("for 200 seeds of lost, doubled and swapped requests all become fresh, in order", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const session = new Session();
    const fresh: number[] = [];
    for (let turns = 0; session.expected <= 20; turns++) {
      assert.ok(turns < 10_000, `seed ${seed}: no end`);
      const request = session.expected + random.below(5) - 2; // what a sender that goes back and on may send
      if (request < 1) continue;
      if (session.admit(request, 1) === "fresh") fresh.push(request);
    }
    assert.deepEqual(
      fresh,
      Array.from({ length: 20 }, (_, i) => i + 1),
      `seed ${seed}`,
    );
  }
});
