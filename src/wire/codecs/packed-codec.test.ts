// Goal: words of every kind come back bit for bit, in few bytes where few of them are not 0 and never in more than they
// have; every truncation and every mask that does not fit is a typed error.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { putWords, readWords } from "../../testing/arena-lists.ts";
import { codecStage } from "../../testing/codec-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { PackedCodec } from "./packed-codec.ts";

test("rows of which few words are not 0 travel in a mask and those words, and come back bit for bit", () => {
  const context = codecStage();
  const { arena } = context;
  const codec = new PackedCodec(context);
  const random = new Random(3);
  for (let round = 0; round < 200; round++) {
    const shape = { rowCount: 1 + random.below(5), width: 1 + random.below(200) };
    const wordCount = shape.rowCount * shape.width;
    const share = random.fraction();
    const words = Array.from({ length: wordCount }, () => (random.chance(share) ? random.uint32() : 0));
    const [source, target, back] = [putWords(arena, words), arena.allocate(wordCount * 4), arena.allocate(wordCount * 4)];
    const byteCount = codec.encode({ ...shape, source, target });
    const occupied = words.filter((word) => word !== 0).length;
    assert.equal(byteCount, Math.min(wordCount * 4, Math.ceil(wordCount / 64) * 8 + occupied * 4), `round ${round}`);
    codec.decode({ ...shape, source: target, byteCount, target: back });
    assert.deepEqual([...readWords(arena, back, wordCount)], words, `round ${round}`);
    for (const [address] of [[source], [target], [back]] as const) arena.release(address, wordCount * 4);
  }
});

test("every truncation of packed words, and bytes behind them, are BAD_REQUEST", () => {
  const context = codecStage();
  const { arena } = context;
  const codec = new PackedCodec(context);
  const shape = { rowCount: 2, width: 40 };
  const words = Array.from({ length: 80 }, (_, i) => (i % 9 === 0 ? i + 1 : 0));
  const [source, target, back] = [putWords(arena, words), arena.allocate(400), arena.allocate(320)];
  const byteCount = codec.encode({ ...shape, source, target });
  assert.equal(byteCount, 16 + 9 * 4);
  for (let cut = 0; cut < 400; cut++) {
    if (cut === byteCount || cut === 320) continue;
    assert.throws(
      () => codec.decode({ ...shape, source: target, byteCount: cut, target: back }),
      throwsCode("BAD_REQUEST", /mask of 80 words|bytes of f32 where 320 are due/),
    );
  }
  arena.bytes.fill(0xff, target, target + 16);
  assert.throws(() => codec.decode({ ...shape, source: target, byteCount, target: back }), throwsCode("BAD_REQUEST", /mask of 80 words/));
});
