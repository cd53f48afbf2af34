// Goal: a scheduler whose job failed stays until every node of the cluster knows why, and never longer than it has to.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import { FailureNotice } from "./failure-notice.ts";

const LINGER_MS = 2000;

function noticeOf(serverCount: number, workerCount: number) {
  const clock = new SimClock();
  const notice = new FailureNotice({ clock, serverCount, workerCount, lingerMs: LINGER_MS });
  let isOver = false;
  notice.over().then(
    () => {
      isOver = true;
    },
    () => {},
  );
  const isOverAfter = async (ms: number): Promise<boolean> => {
    await clock.advance(ms);
    return isOver;
  };
  return { notice, isOverAfter };
}

test("it is over once every server and every worker was told", async () => {
  const { notice, isOverAfter } = noticeOf(1, 2);
  notice.told("server", "a");
  notice.told("worker", "b");
  assert.equal(await isOverAfter(10), false);
  notice.told("worker", "c");
  assert.equal(await isOverAfter(10), true);
});

test("a node that asks twice is one node", async () => {
  const { notice, isOverAfter } = noticeOf(0, 2);
  notice.told("worker", "b");
  notice.told("worker", "b");
  assert.equal(await isOverAfter(10), false);
});

test("a server too many does not stand for a worker that has yet to come", async () => {
  const { notice, isOverAfter } = noticeOf(1, 1);
  notice.told("server", "a");
  notice.told("server", "one too many");
  assert.equal(await isOverAfter(LINGER_MS - 1), false);
  notice.told("worker", "late");
  assert.equal(await isOverAfter(0), true);
});

test("whoever does not come is waited for no longer than lingerMs", async () => {
  const { isOverAfter } = noticeOf(1, 1);
  assert.equal(await isOverAfter(LINGER_MS - 1), false);
  assert.equal(await isOverAfter(2), true);
});
