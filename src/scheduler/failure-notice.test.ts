// Goal: a scheduler whose job failed stays until every node of the cluster knows why, and never longer than it has to.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { FailureNotice } from "./failure-notice.ts";

const LINGER_MS = 2000;

function farewellOf(serverCount: number, workerCount: number) {
  const clock = new SimClock();
  const farewell = new FailureNotice({ clock, serverCount, workerCount, lingerMs: LINGER_MS });
  let isOver = false;
  farewell.over().then(
    () => {
      isOver = true;
    },
    () => {},
  );
  const isOverAfter = async (ms: number): Promise<boolean> => {
    await clock.advance(ms);
    return isOver;
  };
  return { farewell, isOverAfter };
}

test("it is over once every server and every worker was told", async () => {
  const { farewell, isOverAfter } = farewellOf(1, 2);
  farewell.told("server", "a");
  farewell.told("worker", "b");
  assert.equal(await isOverAfter(10), false);
  farewell.told("worker", "c");
  assert.equal(await isOverAfter(10), true);
});

test("a node that asks twice is one node", async () => {
  const { farewell, isOverAfter } = farewellOf(0, 2);
  farewell.told("worker", "b");
  farewell.told("worker", "b");
  assert.equal(await isOverAfter(10), false);
});

test("a server too many does not stand for a worker that has yet to come", async () => {
  const { farewell, isOverAfter } = farewellOf(1, 1);
  farewell.told("server", "a");
  farewell.told("server", "one too many");
  assert.equal(await isOverAfter(LINGER_MS - 1), false);
  farewell.told("worker", "late");
  assert.equal(await isOverAfter(0), true);
});

test("whoever does not come is waited for no longer than lingerMs", async () => {
  const { isOverAfter } = farewellOf(1, 1);
  assert.equal(await isOverAfter(LINGER_MS - 1), false);
  assert.equal(await isOverAfter(2), true);
});
