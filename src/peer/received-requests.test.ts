// Goal: every request is fresh once and in order, whatever is lost, doubled or swapped on the way, and answers are kept
// as long as needed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { Answer } from "./answer.ts";
import { ReceivedRequests } from "./channel.ts";

const answerTo = (request: number): Answer => new Answer({ functionId: 1, priority: 0, request, app: 0, customer: 0, command: 0 });

test("requests are fresh once, in the order of their numbers (ReceivedRequests.S1, ReceivedRequests.S2)", () => {
  const received = new ReceivedRequests();
  assert.deepEqual(
    [1, 2, 2, 1, 3].map((request) => received.admit(request, 1)),
    ["fresh", "fresh", "again", "again", "fresh"],
  );
  assert.equal(received.expected, 4);
});

test("what follows a missing request is refused until that one came (ReceivedRequests.S2)", () => {
  const received = new ReceivedRequests();
  assert.deepEqual(
    [2, 3, 1, 3, 2, 3].map((request) => received.admit(request, 1)),
    ["gap", "gap", "fresh", "gap", "fresh", "fresh"],
  );
});

test("a duplicate of a request whose answer is still to come is ignored, then answered as remembered", () => {
  const received = new ReceivedRequests();
  received.admit(1, 1);
  received.park(1);
  assert.equal(received.admit(1, 1), "ignore");
  assert.equal(received.parkedCount, 1);
  assert.equal(received.unpark(1), true);
  assert.equal(received.unpark(1), false);
  const answers = [answerTo(1)];
  received.remember(1, answers);
  assert.equal(received.admit(1, 1), "remembered");
  assert.equal(received.remembered(1), answers);
});

test("answers are kept until the caller has them, and not longer (ReceivedRequests.S3)", () => {
  const received = new ReceivedRequests();
  for (let request = 1; request <= 10; request++) {
    received.admit(request, 1);
    if (request % 2 === 0) received.remember(request, [answerTo(request)]);
  }
  assert.equal(received.rememberedCount, 5);
  received.admit(11, 5);
  assert.equal(received.rememberedCount, 3);
  assert.deepEqual(received.remembered(4), []);
  received.admit(12, 12);
  assert.equal(received.rememberedCount, 0);
  received.remember(9, [answerTo(9)]);
  assert.equal(received.rememberedCount, 0, "nobody waits for it any more");
});

test("requests that the caller gave up before they came are not waited for (ReceivedRequests.S4)", () => {
  const received = new ReceivedRequests();
  received.admit(1, 1);
  assert.equal(received.admit(9, 9), "fresh", "2 to 8 will never come");
  assert.equal(received.expected, 10);
  assert.equal(received.admit(5, 5), "again");
  assert.equal(received.admit(12, 11), "gap");
  assert.equal(received.admit(11, 11), "fresh");
});

test("a wild number of settled requests costs nothing", () => {
  const received = new ReceivedRequests();
  for (let request = 1; request <= 100; request++) {
    received.admit(request, 1);
    received.remember(request, [answerTo(request)]);
  }
  assert.equal(received.admit(101, 2 ** 52), "fresh");
  assert.equal(received.expected, 102, "no request settles more than those before it");
  assert.equal(received.rememberedCount, 0);
});

test("for 200 seeds of lost, doubled and swapped requests all become fresh, in order", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const received = new ReceivedRequests();
    const fresh: number[] = [];
    for (let turns = 0; received.expected <= 20; turns++) {
      assert.ok(turns < 10_000, `seed ${seed}: no end`);
      const request = received.expected + random.below(5) - 2; // what a sender that goes back and on may send
      if (request < 1) continue;
      if (received.admit(request, 1) === "fresh") fresh.push(request);
    }
    assert.deepEqual(
      fresh,
      Array.from({ length: 20 }, (_, i) => i + 1),
      `seed ${seed}`,
    );
  }
});
