// Goal: sparse rows of every element, by column and by weight, do what a plain Map does, keep their invariants after
// every operation, and change nothing when they refuse one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { ELEMENT_NAMES, elementsAt, ROW_ELEMENTS, type RowElement } from "../../kernel/row-element.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import type { RowPlace } from "./column-updates.ts";
import { COLUMNS_MAX, SparseRows, sparseElements } from "./sparse-rows.ts";

type Value = number | bigint;

/** A span in the middle of some memory whose other elements are 7. */
function span(element: RowElement, capacity: number): RowPlace {
  const length = sparseElements(element, capacity);
  const cells = elementsAt(element, new ArrayBuffer((length + 4) * ROW_ELEMENTS[element].bytes), 0, length + 4);
  cells.fill((element === "i64" ? 7n : 7) as never);
  cells.fill((element === "i64" ? 0n : 0) as never, 2, length + 2);
  return { cells, start: 2, length };
}

function entriesOf(rows: SparseRows, row: RowPlace): [number, Value][] {
  return Array.from({ length: rows.count(row) }, (_, i) => [rows.column(row, i), rows.value(row, i)]);
}

/** As C++ has it. */
function sum(element: RowElement, a: Value, b: Value): Value {
  if (element === "i64") return BigInt.asIntN(64, (a as bigint) + (b as bigint));
  const exact = (a as number) + (b as number);
  return element === "i32" ? exact | 0 : element === "f32" ? Math.fround(exact) : exact;
}

function randomValue(element: RowElement, random: Random): Value {
  const small = random.below(7) - 3;
  if (element === "i64") return random.below(20) === 0 ? 2n ** 63n - 1n : BigInt(small);
  if (element === "i32") return random.below(20) === 0 ? 2 ** 31 - 1 : small;
  return small / 4;
}

function sortedEntries(model: ReadonlyMap<number, Value>, order: "column" | "weight"): [number, Value][] {
  return [...model].sort(([a, x], [b, y]) => (order === "column" || x === y ? a - b : x > y ? -1 : 1));
}

/** SparseRows.S1, SparseRows.S2, SparseRows.S4, and that nothing beside the row was written. */
function assertIs(rows: SparseRows, row: RowPlace, order: "column" | "weight", model: ReadonlyMap<number, Value>, message: string): void {
  assert.deepEqual(entriesOf(rows, row), sortedEntries(model, order), message);
  const fresh = span(rows.element, rows.capacity(row));
  for (const [column, value] of sortedEntries(model, "column")) rows.addTo(fresh, column, value as never);
  assert.deepEqual(row.cells, fresh.cells, `${message}: equal rows have equal bits`);
}

for (const element of ELEMENT_NAMES) {
  for (const order of ["column", "weight"] as const) {
    test(`10,000 random operations on a sparse row of ${element} by ${order} do what a Map does`, () => {
      const random = new Random(7);
      const capacity = 12;
      const [rows, updates] = [new SparseRows<RowElement>(element, order), new SparseRows<RowElement>(element)];
      const row = span(element, capacity);
      const model = new Map<number, Value>();
      const put = (column: number, value: Value): void =>
        void (value === 0 || value === 0n ? model.delete(column) : model.set(column, value));
      const zero = element === "i64" ? 0n : 0;
      let refused = 0;
      for (let step = 0; step < 10_000; step++) {
        const columns = new Set(Array.from({ length: 1 + random.below(4) }, () => random.below(16) * 1_000_003));
        const given = new Map([...columns].map((column) => [column, randomValue(element, random)] as const));
        const expected = new Map(model);
        for (const [column, value] of given) {
          const added = sum(element, expected.get(column) ?? zero, value);
          if (added === zero || added === 0) expected.delete(column);
          else expected.set(column, added);
        }
        const before = row.cells.slice();
        const isWhole = random.below(2) === 0;
        const update = span(element, capacity);
        for (const [column, value] of given) updates.addTo(update, column, value as never);
        const act = (): void => {
          if (isWhole) rows.add(row, update);
          else for (const [column, value] of given) rows.addTo(row, column, value as never);
        };
        if (isWhole && expected.size > capacity) {
          assert.throws(act, throwsCode("OUT_OF_RANGE", /room for 12 columns/));
          assert.deepEqual(row.cells, before, `step ${step}: what is refused changes nothing`);
          refused++;
          continue;
        }
        if (!isWhole && model.size + given.size > capacity) continue;
        act();
        for (const column of columns) put(column, expected.get(column) ?? zero);
        if (step % 16 === 0) assertIs(rows, row, order, model, `seed 7, step ${step}`);
      }
      assertIs(rows, row, order, model, "at the end");
      for (let column = 0; column < 16; column++) assert.equal(rows.get(row, column * 1_000_003), model.get(column * 1_000_003) ?? zero);
      assert.ok(refused > 100, `${refused} updates were too much for the row`);
    });
  }
}

test("one more column than a row has room for is OUT_OF_RANGE, and one that it has is not", () => {
  const rows = new SparseRows("i32");
  const row = span("i32", 2) as RowPlace<"i32">;
  rows.addTo(row, 5, 1);
  rows.addTo(row, COLUMNS_MAX - 1, 1);
  assert.throws(
    () => rows.addTo(row, 6, 1),
    throwsCode("OUT_OF_RANGE", /room for 2 columns other than 0, and not for one more: raise rowCapacity/),
  );
  rows.addTo(row, 6, 0);
  rows.addTo(row, 5, -1);
  rows.addTo(row, 6, 1);
  assert.deepEqual(entriesOf(rows as unknown as SparseRows, row), [
    [6, 1],
    [COLUMNS_MAX - 1, 1],
  ]);
});

test("bits that no writer of updates makes are BAD_REQUEST, and the row stays as it was", () => {
  const rows = new SparseRows("f64");
  const row = span("f64", 3) as RowPlace<"f64">;
  rows.addTo(row, 1, 2.5);
  const before = row.cells.slice();
  const wrong = (message: RegExp, spoil: (words: Uint32Array, values: Float64Array) => void): void => {
    const update = span("f64", 3) as RowPlace<"f64">;
    for (const column of [3, 5]) rows.addTo(update, column, 1);
    const { buffer, byteOffset } = update.cells.subarray(update.start);
    spoil(new Uint32Array(buffer, byteOffset, 4), update.cells.subarray(update.start + 2, update.start + 5));
    assert.throws(() => rows.add(row, update), throwsCode("BAD_REQUEST", message));
    assert.deepEqual(row.cells, before);
  };
  wrong(/4 entries where there is room for 3/, (words) => words.set([4], 0));
  wrong(/4294967295 entries/, (words) => words.set([2 ** 32 - 1], 0));
  wrong(/column 5 behind column 5/, (words) => words.set([5], 1));
  wrong(/column 5 behind column 6/, (words) => words.set([6], 1));
  wrong(/column 2139095040 behind column 3/, (words) => words.set([COLUMNS_MAX], 2));
  wrong(/0 for column 5/, (_, values) => values.set([0], 1));
  wrong(/more than the 1 entries/, (words) => words.set([1], 0));
  wrong(/more than the 2 entries/, (_, values) => values.set([1], 2));
  wrong(/more than the 2 entries/, (words) => words.set([9], 3));
});
