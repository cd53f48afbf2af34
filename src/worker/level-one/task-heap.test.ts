// task-heap — tasks come out highest priority first, first come first served within one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { levelOneMemory } from "./level-one.ts";
import { ModelWords, OWNER } from "./model-words.ts";
import { comesBefore, TaskHeap } from "./task-heap.ts";

test("whatever is inserted and removed in between, the first is the one that comes before all others (200 seeds)", () => {
  const heap = new TaskHeap(new ModelWords(levelOneMemory(2, 64), OWNER), 0);
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const model: { readonly task: number; readonly priority: number; readonly sequence: number }[] = [];
    const takeFirst = (): void => {
      model.sort((one, other) => (comesBefore(one.priority, one.sequence, other.priority, other.sequence) ? -1 : 1));
      const first = model.shift();
      assert.deepEqual(
        [heap.first, heap.firstPriority, heap.firstSequence],
        [first?.task, first?.priority, first?.sequence],
        `seed ${seed}`,
      );
      heap.removeFirst();
    };
    for (let sequence = 0x7fff_ffe0, step = 0; step < 120; step++) {
      if (model.length > 0 && (model.length === 60 || random.chance(0.4))) takeFirst();
      else {
        sequence = (sequence + 1) | 0; // wraps around
        const entry = { task: random.below(1000), priority: random.below(4) - 2, sequence };
        model.push(entry);
        heap.insert(entry.task, entry.priority, entry.sequence);
      }
      assert.equal(heap.size, model.length);
    }
    while (model.length > 0) takeFirst();
    assert.equal(heap.size, 0);
  }
});

test("all that is taken out at once comes in the same order, also if it came in another one", () => {
  const heap = new TaskHeap(new ModelWords(levelOneMemory(2, 64), OWNER), 0);
  for (let seed = 1; seed <= 50; seed++) {
    const random = new Random(seed);
    const entries = Array.from({ length: random.below(60) }, (_, task) => ({ task, priority: random.below(seed % 2 === 0 ? 1 : 4) }));
    for (const { task, priority } of entries) heap.insert(task, priority, (0x7fff_fff0 + task) | 0);
    const expected = entries.toSorted((one, other) => other.priority - one.priority || one.task - other.task);
    assert.deepEqual(
      heap.drain(),
      expected.map(({ task }) => task),
      `seed ${seed}`,
    );
    assert.equal(heap.size, 0);
  }
});
