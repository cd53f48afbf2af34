// block-rows — Goal: every row of a call is sent once, to its block, with the sum of its gradients, and comes back to
// wherever it was named.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../base/errors.ts";
import { Arena } from "../kernel/arena.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import { ArenaSpans } from "./arena-spans.ts";
import { BlockRows } from "./block-rows.ts";
import { RowPlanner } from "./router/row-plan.ts";

const ARENA = new Arena({ bytesMax: 2 ** 24, shared: false });
const PLANNING = { planner: RowPlanner.among(ARENA, [0], 7), spans: new ArenaSpans(ARENA) };
const SHAPE = new TensorShape([1000, 2048]); // 64 rows to a block

test("rows in any order and number are cut by block, summed, and brought back (BlockRows.B1)", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 999 }), { maxLength: 300 }), (rows) => {
      const named = new BlockRows(rows, SHAPE, "w", PLANNING);
      const unique = [...new Set(rows)].sort((a, b) => a - b);
      const sent = named.groups.flatMap(({ block, rows: within }) => [...within].map((row) => block * 64 + row));
      assert.deepEqual(sent, unique);
      assert.equal(named.rowCount, unique.length);
      assert.equal(new Set(named.groups.map(({ block }) => block)).size, named.groups.length);
      let at = 0;
      for (const { from, to, rows: within } of named.groups) {
        assert.deepEqual([from, to - from], [at, within.length]);
        at = to;
      }
      const gradients = named.gradients(Float32Array.from(rows.flatMap((row, i) => [row, i])), 2);
      unique.forEach((row, k) => {
        const positions = rows.flatMap((other, i) => (other === row ? [i] : []));
        assert.deepEqual([...gradients.subarray(2 * k, 2 * k + 2)], [row * positions.length, positions.reduce((sum, i) => sum + i, 0)]);
      });
      const into = new Float32Array(rows.length);
      const landed = named.landing(into, 1);
      unique.forEach((row, k) => {
        landed[k] = row;
      });
      named.deliver(landed, into, 1);
      assert.deepEqual([...into], rows);
    }),
  );
});

test("gradients of a row are added in the order of the list", () => {
  const named = new BlockRows([5, 3, 5, 5], SHAPE, "w", PLANNING);
  const sums = named.gradients(Float32Array.of(1e8, 7, 1, -1e8), 1);
  assert.deepEqual([...sums], [7, Math.fround(Math.fround(1e8 + 1) - 1e8)]);
});

test("rows that ascend travel from and to the caller's own arrays", () => {
  const named = new BlockRows(Uint32Array.of(1, 63, 64, 999), SHAPE, "w", PLANNING);
  const values = new Float32Array(4);
  assert.equal(named.gradients(values, 1), values);
  assert.equal(named.landing(values, 1), values);
  assert.deepEqual(
    named.groups.map(({ block, rows, from, to }) => [block, [...rows], from, to]),
    [
      [0, [1, 63], 0, 2],
      [1, [0], 2, 3],
      [15, [39], 3, 4],
    ],
  );
});

test("rows are exact far beyond 2^32, also where row and position do not fit one number", () => {
  const shape = new TensorShape([2 ** 48]);
  const rows = [2 ** 48 - 1, 16_777_217, 2 ** 47 + 1, 16_777_217];
  for (const list of [rows, BigUint64Array.from(rows, BigInt), [...rows, ...new Array<number>(100).fill(2 ** 48 - 2)]]) {
    const named = new BlockRows(list, shape, "w", PLANNING);
    const sent = named.groups.flatMap(({ block, rows: within }) => [...within].map((row) => block * shape.rowsPerBlock + row));
    assert.deepEqual(
      sent,
      [...new Set([...list].map(Number))].sort((a, b) => a - b),
    );
  }
});

test("rows that are not there, and tensors without rows, are refused (BlockRows.B2)", () => {
  for (const row of [1000, -1, 0.5, NaN, Infinity]) {
    assert.throws(
      () => new BlockRows([0, row], SHAPE, "w", PLANNING),
      (error) => isWeighbridgeError(error, "OUT_OF_RANGE"),
    );
  }
  assert.throws(
    () => new BlockRows([0], new TensorShape([2, 200_000]), "w", PLANNING),
    (error) => isWeighbridgeError(error, "UNSUPPORTED"),
  );
  assert.equal(new BlockRows([], SHAPE, "w", PLANNING).groups.length, 0);
});
