// Goal: blocks appear when pushed, a held block never changes, and its memory goes back with the last hold.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "../../kernel/arena.ts";
import { putFloats, putKeys, readFloats } from "../../testing/arena-lists.ts";
import { simdSumHost } from "../../testing/store-stage.ts";
import { BLOCK_BYTES } from "./large-value.ts";
import { SumStore } from "./sum-store.ts";

const MIB = 2 ** 20;
const BLOCK_FLOATS = BLOCK_BYTES / 4;
/** Two whole blocks and a rest. */
const WIDTH = BLOCK_FLOATS * 2 + 5;

function open(bytesMax = 16 * MIB): { arena: Arena; store: SumStore; key: number; ones: number } {
  const arena = new Arena({ bytesMax });
  const store = new SumStore({ ...simdSumHost(arena), secret: 1n });
  return { arena, store, key: putKeys(arena, [77n]), ones: putFloats(arena, new Float32Array(BLOCK_FLOATS).fill(1)) };
}

test("blocks add up one by one; those never pushed read as zeros and take no memory", () => {
  const { arena, store, key, ones } = open();
  const used = arena.usedBytes;
  store.pushBlock({ key, width: WIDTH, blockIndex: 2, values: ones, elementCount: 5 });
  assert.ok(arena.usedBytes - used < BLOCK_BYTES);
  store.pushBlock({ key, width: WIDTH, blockIndex: 1, values: ones, elementCount: BLOCK_FLOATS });
  store.pushBlock({ key, width: WIDTH, blockIndex: 1, values: ones, elementCount: BLOCK_FLOATS });
  assert.equal(store.holdBlock(key, WIDTH, 0), undefined);
  const out = arena.allocate(WIDTH * 4);
  store.pull({ keys: key, keyCount: 1, width: WIDTH, out });
  const expected = new Float32Array(WIDTH)
    .fill(2, BLOCK_FLOATS)
    .fill(1, BLOCK_FLOATS * 2)
    .fill(0, 0, BLOCK_FLOATS);
  assert.deepEqual(readFloats(arena, out, WIDTH), expected);
  assert.equal(store.keyCount, 1);
});

test("a held block does not change while pushes go on, and its memory returns with the last hold (LargeValue.B1, LargeValue.B2)", () => {
  const { arena, store, key, ones } = open();
  const push = (): void => store.pushBlock({ key, width: WIDTH, blockIndex: 0, values: ones, elementCount: BLOCK_FLOATS });
  push();
  const used = arena.usedBytes;
  const [first, second] = [store.holdBlock(key, WIDTH, 0)!, store.holdBlock(key, WIDTH, 0)!];
  assert.equal(first.address, second.address);
  assert.equal(first.byteCount, BLOCK_BYTES);
  assert.equal(arena.usedBytes, used, "a hold alone copies nothing");
  push();
  push();
  assert.equal(arena.usedBytes, used + BLOCK_BYTES, "one copy serves both pushes");
  const third = store.holdBlock(key, WIDTH, 0)!;
  assert.deepEqual([arena.floats[first.address / 4], arena.floats[third.address / 4]], [1, 3]);
  first.release();
  assert.equal(arena.usedBytes, used + BLOCK_BYTES);
  second.release();
  assert.equal(arena.usedBytes, used);
  third.release();
  push();
  assert.equal(arena.usedBytes, used, "an unheld block is changed in place");
  const last = store.holdBlock(key, WIDTH, 0)!;
  assert.deepEqual(readFloats(arena, last.address, BLOCK_FLOATS), new Float32Array(BLOCK_FLOATS).fill(4));
  last.release();
  assert.throws(() => last.release(), /twice/);
});

test("a whole push copies only the blocks that are held", () => {
  const { arena, store, key } = open();
  const values = putFloats(arena, new Float32Array(WIDTH).fill(1));
  const push = (): void => store.push({ keys: key, keyCount: 1, width: WIDTH, values });
  push();
  const used = arena.usedBytes;
  const hold = store.holdBlock(key, WIDTH, 1)!;
  push();
  assert.equal(arena.usedBytes, used + BLOCK_BYTES);
  assert.equal(arena.floats[hold.address / 4], 1);
  hold.release();
  assert.equal(arena.usedBytes, used);
});

test("a held block outlives the store", () => {
  const { arena, store, key, ones } = open();
  const used = arena.usedBytes;
  store.pushBlock({ key, width: WIDTH, blockIndex: 0, values: ones, elementCount: BLOCK_FLOATS });
  const hold = store.holdBlock(key, WIDTH, 0)!;
  store.close();
  assert.equal(arena.usedBytes, used + BLOCK_BYTES);
  assert.equal(arena.floats[hold.address / 4], 1);
  hold.release();
  assert.equal(arena.usedBytes, used);
});

test("a full arena refuses a block, and a key that is new, without a trace", () => {
  const { arena, store, key, ones } = open(2 * MIB);
  const push = (blockIndex: number): void => store.pushBlock({ key, width: WIDTH, blockIndex, values: ones, elementCount: BLOCK_FLOATS });
  push(0);
  const hold = store.holdBlock(key, WIDTH, 0)!;
  while (arena.tryAllocate(64 * 1024) !== 0);
  assert.throws(() => push(1), { code: "ARENA_FULL" });
  assert.throws(() => push(0), { code: "ARENA_FULL" }, "there is no room for a copy");
  assert.equal(arena.floats[hold.address / 4], 1);
  const other = key + 8;
  arena.words[other / 4] = 78;
  assert.throws(() => store.pushBlock({ key: other, width: WIDTH, blockIndex: 0, values: ones, elementCount: BLOCK_FLOATS }), {
    code: "ARENA_FULL",
  });
  assert.equal(store.keyCount, 1);
  hold.release();
  push(0);
  assert.equal(arena.floats[store.holdBlock(key, WIDTH, 0)!.address / 4], 2);
});

test("blocks that a value does not have, or of another size, are refused", () => {
  const { store, key, ones } = open();
  const refusal = { code: "BAD_REQUEST" };
  const push = (width: number, blockIndex: number, elementCount: number) => (): void =>
    store.pushBlock({ key, width, blockIndex, values: ones, elementCount });
  assert.throws(push(WIDTH, 3, BLOCK_FLOATS), refusal);
  assert.throws(push(WIDTH, -1, BLOCK_FLOATS), refusal);
  assert.throws(push(WIDTH, 0.5, BLOCK_FLOATS), refusal);
  assert.throws(push(WIDTH, 2, 6), refusal);
  assert.throws(push(100, 0, 100), refusal);
  assert.throws(() => store.holdBlock(key, WIDTH, 3), refusal);
  assert.throws(push(2 ** 31, 0, BLOCK_FLOATS), { code: "ARENA_FULL" });
  assert.equal(store.keyCount, 0);
});
