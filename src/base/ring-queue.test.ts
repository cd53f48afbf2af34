// Goal: a RingQueue is a list with a head: the same items in the same order as a plain array, however it wraps and
// grows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "./random.ts";
import { RingQueue } from "./ring-queue.ts";

test("hands items out in the order they came, through wraps and growth", () => {
  const random = new Random(1);
  const queue = new RingQueue<number>();
  const model: number[] = [];
  for (let step = 0; step < 20_000; step++) {
    if (random.chance(0.505)) {
      queue.push(step);
      model.push(step);
    } else {
      assert.equal(queue.shift(), model.shift());
    }
    assert.equal(queue.length, model.length);
    const index = random.below(model.length + 2);
    assert.equal(queue.at(index), model[index]);
  }
  assert.ok(model.length > 16, "it has grown");
  while (model.length > 0) assert.equal(queue.shift(), model.shift());
  assert.equal(queue.shift(), undefined);
});

test("knows nothing before its head and behind its end, full or not", () => {
  const queue = new RingQueue<string>();
  for (let i = 0; i < 16; i++) queue.push(`item ${i}`);
  for (const index of [-1, -16, 16, 17, Number.NaN]) assert.equal(queue.at(index), undefined, `${index}`);
  queue.shift();
  queue.push("item 16");
  assert.equal(queue.at(-1), undefined);
  assert.equal(queue.at(15), "item 16");
});

test("an item can be replaced where it stands", () => {
  const queue = new RingQueue<string>();
  for (let i = 0; i < 20; i++) queue.push("old");
  for (let i = 0; i < 5; i++) queue.shift();
  queue.replace(3, "new");
  assert.deepEqual([queue.at(2), queue.at(3), queue.at(4)], ["old", "new", "old"]);
});

test("is empty after a clear, and can be used again", () => {
  const queue = new RingQueue<number>();
  for (let i = 0; i < 100; i++) queue.push(i);
  queue.clear();
  assert.deepEqual([queue.length, queue.at(0), queue.shift()], [0, undefined, undefined]);
  queue.push(7);
  assert.equal(queue.shift(), 7);
});
