// row-locks — Goal: whoever reads without a lock can tell whether somebody changed the rows of a group meanwhile.

import assert from "node:assert/strict";
import { test } from "node:test";
import { HELD, RowLocks } from "./row-locks.ts";

const [THREAD, ENDED] = [2, 3];

test("a group that nobody had is unchanged, and one that was held is not (RowLocks.L4)", () => {
  const locks = new RowLocks();
  const sibling = new RowLocks(locks.buffer);
  const before = locks.changesOf(5);
  assert.ok(locks.isUnchanged(5, before));
  sibling.lock(5, THREAD);
  assert.equal(locks.changesOf(5), HELD);
  assert.ok(!locks.isUnchanged(5, before), "somebody is at it");
  sibling.unlock(5);
  assert.ok(!locks.isUnchanged(5, before), "somebody was at it");
  assert.ok(locks.isUnchanged(5, locks.changesOf(5)));
  assert.ok(locks.isUnchanged(6, locks.changesOf(6)), "its neighbour is another group");
});

test("what the owner did, and a thread that ended with a lock, count as changes", () => {
  const locks = new RowLocks();
  const first = locks.changesOf(0);
  assert.ok(locks.tryLockAll());
  locks.unlockAll();
  const second = locks.changesOf(0);
  assert.notEqual(second, first);
  locks.lock(0, ENDED);
  assert.deepEqual(locks.takeFrom(THREAD), []);
  assert.equal(locks.changesOf(0), HELD);
  assert.deepEqual(locks.takeFrom(ENDED), [0]);
  assert.ok(locks.changesOf(0) !== HELD && locks.changesOf(0) !== second);
});

test("the count of changes begins again and is never taken for HELD", () => {
  const locks = new RowLocks();
  new Int32Array(locks.buffer)[1] = 2 ** 31 - 1;
  const last = locks.changesOf(0);
  locks.lock(0, THREAD);
  locks.unlock(0);
  assert.deepEqual([last, locks.changesOf(0)], [2 ** 31 - 1, 0]);
});
