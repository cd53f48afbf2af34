// Goal: what an UpdateJournal keeps comes back bit for bit, however much it is and however often it was kept.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { UpdateJournal } from "./update-journal.ts";

test("after undo everything is as it was when it was kept first (UpdateJournal.J1)", () => {
  const random = new Random(3);
  const words = Uint32Array.from({ length: 20_000 }, () => random.below(2 ** 32));
  const before = words.slice();
  const journal = new UpdateJournal(words);
  for (let turn = 0; turn < 2; turn++) {
    for (let i = 0; i < 500; i++) {
      const [from, count] = [random.below(19_900), random.below(100)];
      journal.keep(from, count);
      words.fill(i, from, from + count);
    }
    journal.undo();
    assert.deepEqual(words, before);
  }
  journal.keep(0, 10);
  words.fill(1, 0, 10);
  journal.clear();
  journal.undo();
  assert.equal(words[0], 1, "what was cleared stays");
});
