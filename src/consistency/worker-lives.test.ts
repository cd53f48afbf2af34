// Goal: only the newest life of a worker counts, and only while it lives.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { WorkerLives } from "./worker-lives.ts";

const life = (incarnation: number) => ({ worker: 9, incarnation });

/** "ok", or the code that `check` throws. */
function verdict(lives: WorkerLives, incarnation: number): string {
  try {
    lives.check(life(incarnation));
    return "ok";
  } catch (error) {
    assert.ok(isWeighbridgeError(error));
    return error.code;
  }
}

test("a life that was replaced never counts again, whatever is said of it later (L1)", () => {
  const lives = new WorkerLives();
  lives.began(life(1));
  assert.equal(verdict(lives, 1), "ok");
  lives.began(life(2));
  assert.deepEqual([verdict(lives, 1), verdict(lives, 2)], ["FENCED", "ok"]);
  lives.revived(life(1));
  lives.ended(life(1));
  lives.began(life(1));
  assert.deepEqual([verdict(lives, 1), verdict(lives, 2)], ["FENCED", "ok"]);
});

test("a life that ended counts again only when it is said to live (L2), and the next one at once", () => {
  const lives = new WorkerLives();
  lives.began(life(1));
  lives.ended(life(1));
  lives.began(life(1));
  assert.deepEqual([verdict(lives, 1), verdict(lives, 2)], ["NODE_DEAD", "ok"]);
  lives.revived(life(1));
  assert.equal(verdict(lives, 1), "ok");
});

test("a life can end before anybody heard of it", () => {
  const lives = new WorkerLives();
  lives.ended(life(3));
  assert.deepEqual([verdict(lives, 2), verdict(lives, 3), verdict(lives, 4)], ["FENCED", "NODE_DEAD", "ok"]);
  assert.equal(lives.workerCount, 1);
});
