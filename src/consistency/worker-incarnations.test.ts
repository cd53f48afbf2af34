// Goal: only the newest incarnation of a worker counts, and only while it lives.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { WorkerIncarnations } from "./worker-incarnations.ts";

const holder = (incarnation: number) => ({ worker: 9, incarnation });

/** "ok", or the code that `check` throws. */
function verdict(holders: WorkerIncarnations, incarnation: number): string {
  try {
    holders.check(holder(incarnation));
    return "ok";
  } catch (error) {
    assert.ok(isWeighbridgeError(error));
    return error.code;
  }
}

test("an incarnation that was replaced never counts again, whatever is said of it later (WorkerIncarnations.L1)", () => {
  const holders = new WorkerIncarnations();
  holders.began(holder(1));
  assert.equal(verdict(holders, 1), "ok");
  holders.began(holder(2));
  assert.deepEqual([verdict(holders, 1), verdict(holders, 2)], ["FENCED", "ok"]);
  holders.revived(holder(1));
  holders.ended(holder(1));
  holders.began(holder(1));
  assert.deepEqual([verdict(holders, 1), verdict(holders, 2)], ["FENCED", "ok"]);
});

test("an incarnation that ended counts again only when it is said to live (WorkerIncarnations.L2), and the next one at once", () => {
  const holders = new WorkerIncarnations();
  holders.began(holder(1));
  holders.ended(holder(1));
  holders.began(holder(1));
  assert.deepEqual([verdict(holders, 1), verdict(holders, 2)], ["NODE_DEAD", "ok"]);
  holders.revived(holder(1));
  assert.equal(verdict(holders, 1), "ok");
});

test("an incarnation can end before anybody heard of it", () => {
  const holders = new WorkerIncarnations();
  holders.ended(holder(3));
  assert.deepEqual([verdict(holders, 2), verdict(holders, 3), verdict(holders, 4)], ["FENCED", "NODE_DEAD", "ok"]);
  assert.equal(holders.workerCount, 1);
});
