// write-back — Goal: a row that left the cache is kept until the servers have it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "../../kernel/arena.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { putFloats } from "../../testing/arena-lists.ts";
import { WriteBack } from "./write-back.ts";

function stage() {
  const arena = new Arena({ bytesMax: 2 ** 20 });
  const writes: [string, string][] = [];
  const failures: Error[] = [];
  const writer = {
    rowFloats: 2,
    write: async (keys: BigUint64Array, rows: Float32Array): Promise<void> => {
      writes.push([[...keys].join(), [...rows].join()]);
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
    },
  };
  const leaving = new WriteBack(arena, new SimdKernels(arena), writer);
  const add = (key: bigint, row: readonly number[]): void =>
    leaving.add(Number(key & 0xffff_ffffn), Number(key >> 32n), putFloats(arena, row));
  return { arena, writes, failures, leaving, add };
}

test("rows leave together, as they were when they were added, and their memory comes back", async () => {
  const { arena, writes, leaving, add } = stage();
  const row = putFloats(arena, [1, 2]);
  const before = arena.usedBytes;
  leaving.open(3);
  leaving.add(5, 0, row);
  arena.floats[row >>> 2] = 9;
  add(2n ** 63n, [3, 4]);
  assert.equal(leaving.rowCount, 2);
  leaving.send();
  await leaving.settled();
  assert.deepEqual(writes, [[`5,${2n ** 63n}`, "1,2,3,4"]]);
  assert.equal(leaving.rowCount, 0);
  assert.ok(arena.usedBytes <= before + 128, "but for the lists of the test");
});

test("what could not be written is written again, and kept until it is (WriteBack.B1)", async () => {
  const { writes, failures, leaving, add } = stage();
  leaving.open(1);
  add(5n, [1, 2]);
  failures.push(new Error("first"), new Error("second"));
  leaving.send();
  await assert.rejects(leaving.settled(), /second/);
  assert.equal(leaving.rowCount, 1);
  await leaving.settled();
  assert.equal(leaving.rowCount, 0);
  assert.equal(writes.length, 3);
  assert.equal(new Set(writes.map(String)).size, 1);
});

test("`written` tells the first failure at once, and what it tells of is kept (WriteBack.B1)", async () => {
  const { writes, failures, leaving, add } = stage();
  leaving.open(1);
  add(5n, [1, 2]);
  failures.push(new Error("first"));
  await assert.rejects(leaving.written(), /first/);
  assert.deepEqual([leaving.rowCount, writes.length], [1, 1]);
  await leaving.written();
  assert.deepEqual([leaving.rowCount, writes.length], [0, 2]);
});

test("a batch that stays empty sends nothing", async () => {
  const { writes, leaving } = stage();
  leaving.open(4);
  leaving.send();
  await leaving.settled();
  leaving.open(0);
  await leaving.settled();
  assert.deepEqual(writes, []);
});
