// Goal: who asks for rows ahead of time never has more of them open than it may, and learns when all have ended.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Prefetches } from "./table-rows.ts";

const OPEN_MAX = 1024;

/** Whether it has resolved by now. */
async function isOver(promise: Promise<void>): Promise<boolean> {
  const open = Symbol("open");
  return (await Promise.race([promise, Promise.resolve(open)])) !== open;
}

test("beyond 1,024 open rows whoever asks for one waits until one has ended (Prefetches.P1)", async () => {
  const prefetches = new Prefetches();
  for (let i = 0; i < OPEN_MAX; i++) {
    prefetches.begin();
    assert.equal(prefetches.room(), undefined);
  }
  prefetches.begin();
  const room = prefetches.room();
  assert.ok(room !== undefined && !(await isOver(room)));
  prefetches.resolve();
  await room;
  assert.equal(prefetches.room(), undefined);
});

test("all have ended when each has come or failed; without one nobody waits", async () => {
  const prefetches = new Prefetches();
  await prefetches.wait();
  prefetches.begin();
  prefetches.begin();
  const all = prefetches.wait();
  prefetches.reject();
  assert.equal(await isOver(all), false);
  prefetches.resolve();
  await all;
  await prefetches.wait();
});
