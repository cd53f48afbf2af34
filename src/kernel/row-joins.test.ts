// Goal: what row-joins promises: as sumDuplicates of the kernels, for rows that no kernel adds up, in one piece and in
// several.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { Arena } from "./arena.ts";
import type { MergeNumber } from "./duplicate-kernels.ts";
import { addRows } from "./element-loops.ts";
import { OPTIMIZER } from "./optimizer-kernels.ts";
import { rowJoin } from "./row-joins.ts";

const MIB = 2 ** 20;
const WIDTH = 3;
const NUMBERS = { name: "numbers", add: addRows };

test("rows of one key are added in place or elsewhere, in pieces of any length, integers wrapping", () => {
  const random = new Random(7);
  for (let turn = 0; turn < 50; turn++) {
    const arena = new Arena({ bytesMax: 4 * MIB });
    const keyCount = 1 + random.below(40);
    const unique: number[] = [];
    const indexes = Array.from({ length: keyCount }, () => {
      const key = random.below(20);
      if (!unique.includes(key)) unique.push(key);
      return unique.indexOf(key);
    });
    const values = Array.from({ length: keyCount * WIDTH }, () => BigInt(random.below(2 ** 31)) * 2n ** 33n);
    const expected = new BigInt64Array(unique.length * WIDTH);
    for (const [i, index] of indexes.entries()) for (let j = 0; j < WIDTH; j++) expected[index * WIDTH + j]! += values[i * WIDTH + j]!;
    const [rows, list, out] = [keyCount * WIDTH * 8, keyCount * 4, keyCount * WIDTH * 8].map((bytes) => arena.allocate(bytes)) as [
      number,
      number,
      number,
    ];
    new BigInt64Array(arena.memory.buffer, rows, keyCount * WIDTH).set(values);
    arena.words.set(indexes, list >>> 2);
    const join = rowJoin({ arena, element: "i64", width: WIDTH, merge: undefined, rowType: NUMBERS });
    const isInPlace = turn % 2 === 0;
    const pieceMax = isInPlace ? keyCount : 1 + random.below(8);
    let known = 0;
    for (let from = 0; from < keyCount; from += pieceMax) {
      const count = Math.min(pieceMax, keyCount - from);
      const at = { keyCount: count, width: WIDTH * 2, indexes: list + from * 4, rowsTo: 0, known };
      known = join({ ...at, rows: rows + from * WIDTH * 8, out: isInPlace ? rows : out });
    }
    assert.equal(known, unique.length);
    assert.deepEqual(new BigInt64Array(arena.memory.buffer, isInPlace ? rows : out, expected.length), expected, `turn ${turn}`);
  }
});

test("of values the last, the least or the greatest counts, and what a user's row type throws is HANDLER_FAILED", () => {
  const arena = new Arena({ bytesMax: 4 * MIB });
  const rows = arena.allocate(64);
  const list = arena.allocate(64);
  arena.words.set([0, 0, 0], list >>> 2);
  const joined = (merge?: MergeNumber, rowType = NUMBERS): number | undefined => {
    const values = new Int32Array(arena.memory.buffer, rows, 3);
    values.set([5, -9, 7]);
    rowJoin({ arena, element: "i32", width: 1, merge, rowType })({
      rows,
      keyCount: 3,
      width: 1,
      indexes: list,
      rowsTo: 0,
      known: 0,
      out: rows,
    });
    return values[0];
  };
  assert.deepEqual([joined(), joined(OPTIMIZER.assign), joined(OPTIMIZER.min), joined(OPTIMIZER.max)], [3, 7, -9, 7]);
  const add = (): void => {
    throw new Error("no sums today");
  };
  assert.throws(
    () => joined(undefined, { name: "moody", add }),
    (thrown) => isWeighbridgeError(thrown, "HANDLER_FAILED") && /row type "moody" cannot add updates: no sums today/.test(thrown.message),
  );
});
