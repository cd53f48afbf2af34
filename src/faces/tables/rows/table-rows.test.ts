// Goal: every row type of tables does to rows what a plain model does, on both sides alike: update after update in the
// process cache, put together in a span that is laid over a row, and as servers apply that span.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { ELEMENT_NAMES, elementsAt, ROW_ELEMENTS, type RowArray, type RowElement, type RowSpans } from "../../../kernel/row-element.ts";
import { PLAIN_ROW_TYPES, TABLE_ROW_TYPES } from "../../../store/row-types/built-in-row-types.ts";
import type { RowPlace, UpdateOf } from "../../../store/row-types/column-updates.ts";
import type { PsRowType } from "../../../store/row-types/ps-row-type.ts";
import { COLUMNS_MAX } from "../../../store/row-types/sparse-rows.ts";
import { throwsCode } from "../../../testing/throws-code.ts";
import type { RowAccessor } from "../row-accessor.ts";
import type { AccessorOfRow, TableRowType } from "../table-row-type.ts";
import { customRow } from "./custom-row.ts";
import { type DenseAccessor, denseRow, multiplicativeRow } from "./dense-row.ts";
import { SparseAccessor, type SparseColumns, type SparseFeatureAccessor, sortedRow, sparseFeatureRow, sparseRow } from "./sparse-row.ts";

type Value = number | bigint;
type Case = {
  readonly name: string;
  readonly rowType: (element: RowElement) => TableRowType;
  /** What a column begins with, and what an update makes of it. */
  readonly first: number;
  readonly combine: (element: RowElement, value: Value, update: Value) => Value;
  readonly update: (element: RowElement, random: Random) => Value;
  readonly columnOf: (index: number) => number;
};

const CAPACITY = 10;

/** As C++ has it. */
function kept(element: RowElement, exact: Value): Value {
  if (element === "i64") return BigInt.asIntN(64, BigInt(exact));
  return element === "i32" ? Number(BigInt.asIntN(32, BigInt(exact))) : element === "f32" ? Math.fround(Number(exact)) : Number(exact);
}

function plus(element: RowElement, value: Value, update: Value): Value {
  return element.startsWith("i") ? kept(element, BigInt(value) + BigInt(update)) : kept(element, Number(value) + Number(update));
}

function times(element: RowElement, value: Value, update: Value): Value {
  return element.startsWith("i") ? kept(element, BigInt(value) * BigInt(update)) : kept(element, Number(value) * Number(update));
}

/** Exact in every order; of integers some that wrap around. */
function summand(element: RowElement, random: Random): Value {
  const small = random.below(9) - 4;
  if (!element.startsWith("i")) return kept(element, small / 4);
  return kept(element, random.below(30) === 0 ? BigInt(small) * 2n ** 61n + 2n ** 30n : BigInt(small));
}

function factor(element: RowElement, random: Random): Value {
  const small = [-1, 1, 1, 2, 3][random.below(5)] as number;
  if (element.startsWith("i")) return kept(element, BigInt(random.below(200) === 0 ? 0 : small));
  return kept(element, [-1, 1, 0.5, 2][random.below(4)] as number);
}

const consecutive = (index: number): number => index;
const scattered = (index: number): number => (index * 214_000_037) % COLUMNS_MAX;

const CASES: readonly Case[] = [
  { name: "dense", rowType: denseRow, first: 0, combine: plus, update: summand, columnOf: consecutive },
  { name: "sparse", rowType: sparseRow, first: 0, combine: plus, update: summand, columnOf: scattered },
  { name: "sorted", rowType: sortedRow, first: 0, combine: plus, update: summand, columnOf: scattered },
  {
    ...{ name: "sparse feature", first: 0, combine: plus, update: summand, columnOf: consecutive },
    rowType: (element) => sparseFeatureRow(element, { dim: CAPACITY }),
  },
  { name: "multiplicative", rowType: multiplicativeRow, first: 1, combine: times, update: factor, columnOf: consecutive },
  {
    ...{ name: "custom", first: 0, combine: plus, update: summand, columnOf: consecutive },
    rowType: (element) =>
      customRow({
        ...{ name: "plain", version: 1, deterministic: true, dtype: element },
        apply: ({ cells, start }, column, update) => {
          cells[start + column] = plus(element, cells[start + column] as Value, update) as never;
        },
      }),
  },
];

/** Zeros, in the middle of other elements. */
function room(element: RowElement, length: number): RowPlace {
  const cells = elementsAt(element, new ArrayBuffer((length + 2) * ROW_ELEMENTS[element].bytes), 0, length + 2);
  return { cells, start: 1, length };
}

function newRow(rowType: TableRowType): RowPlace {
  const row = room(rowType.element, rowType.elements(CAPACITY));
  const made = rowType.plugIn?.make?.(CAPACITY);
  if (made !== undefined) row.cells.set(made as never, row.start);
  return row;
}

function serverHalf({ plugIn, element }: TableRowType): PsRowType {
  return (plugIn ?? PLAIN_ROW_TYPES[element]) as unknown as PsRowType;
}

function spans({ cells, start, length }: RowPlace): RowSpans {
  return { count: 1, width: length, elements: cells, starts: Uint32Array.of(start) };
}

function held<A extends RowAccessor>(accessor: A): A {
  accessor.slot = 0;
  return accessor;
}

type Reader = { get(column: number): Value };

for (const { name, rowType: typeOf, first, combine, update: drawn, columnOf } of CASES) {
  for (const element of ELEMENT_NAMES) {
    test(`10,000 random updates of a ${name} row of ${element} do what a plain model does, in the cache and on servers`, () => {
      const random = new Random(11);
      const rowType = typeOf(element);
      const server = serverHalf(rowType);
      const one = kept(element, first);
      const model = new Map<number, Value>();
      const [cached, stored, laid] = [newRow(rowType), newRow(rowType), newRow(rowType)];
      for (let step = 0; step < 10_000; ) {
        const [mine, others] = [room(element, cached.length), room(element, cached.length)];
        for (let i = random.below(12); i >= 0; i--, step++) {
          const column = columnOf(random.below(CAPACITY));
          const update = drawn(element, random) as UpdateOf<RowElement>;
          rowType.apply(cached, column, update);
          rowType.add(i % 3 === 0 ? others : mine, column, update);
          model.set(column, combine(element, model.get(column) ?? one, update));
        }
        const merged = { ...mine, cells: mine.cells.slice() } as RowPlace;
        rowType.merge(merged, others);
        server.add(spans(mine), spans(others));
        assert.deepEqual(merged.cells, mine.cells, `step ${step}: servers and caches put updates together alike`);
        rowType.lay(laid, mine);
        server.apply(spans(stored), spans(mine));
        assert.deepEqual(stored.cells, laid.cells, `step ${step}: servers and caches lay updates over rows alike`);
      }
      assert.deepEqual(stored.cells, cached.cells, "updates one by one, and put together");
      const accessor = held(rowType.accessor(cached)) as RowAccessor & Reader;
      for (let i = 0; i < CAPACITY; i++) assert.equal(accessor.get(columnOf(i)), model.get(columnOf(i)) ?? one);
      assert.deepEqual([cached.cells[0], cached.cells.at(-1)], [kept(element, 0), kept(element, 0)], "nothing beside the row was written");
    });

    test(`a span of ${name} updates of ${element} that cancel out is all zeros, and such a span changes nothing`, () => {
      const rowType = typeOf(element);
      const [span, row] = [room(element, rowType.elements(CAPACITY)), newRow(rowType)];
      const there = first === 0 ? [3, -3] : element.startsWith("i") ? [-1, -1] : [4, 0.25];
      for (const update of there) rowType.add(span, columnOf(3), kept(element, update) as UpdateOf<RowElement>);
      assert.deepEqual(span.cells, room(element, span.length).cells);
      rowType.apply(row, columnOf(2), kept(element, 2) as UpdateOf<RowElement>);
      const before = row.cells.slice();
      rowType.lay(row, span);
      serverHalf(rowType).apply(spans(row), spans(span));
      assert.deepEqual(row.cells, before);
    });
  }
}

test("an accessor of a sorted row reads the greatest value first, of a sparse row the lowest column", () => {
  const [sparse, sorted] = [sparseRow("f64"), sortedRow("f64")];
  const rows = [room("f64", sparse.elements(4)), room("f64", sorted.elements(4))] as RowPlace<"f64">[];
  for (const [column, update] of [
    [7, 1],
    [2, 5],
    [9, -3],
    [4, 1],
    [2, -4.5],
  ] as const) {
    sparse.apply(rows[0]!, column, update);
    sorted.apply(rows[1]!, column, update);
  }
  const [byColumn, byWeight] = [held(sparse.accessor(rows[0]!)), held(sorted.accessor(rows[1]!))];
  assert.deepEqual([...byColumn].flat(), [2, 0.5, 4, 1, 7, 1, 9, -3]);
  assert.deepEqual([...byWeight].flat(), [4, 1, 7, 1, 2, 0.5, 9, -3]);
  assert.deepEqual(byWeight.toArrays(), { columns: Uint32Array.of(4, 7, 2, 9), values: Float64Array.of(1, 1, 0.5, -3) });
  assert.deepEqual([byWeight.size, byWeight.columnAt(2), byWeight.valueAt(2), byWeight.get(9), byWeight.get(8)], [4, 2, 0.5, -3, 0]);
});

test("a row of features gives all of them at once, with their number", () => {
  const features = sparseFeatureRow("i64", { dim: 1000 });
  const row = room("i64", features.elements(3)) as RowPlace<"i64">;
  features.apply(row, 999, 2n ** 40n);
  features.apply(row, 5, -1n);
  const accessor = held(features.accessor(row));
  assert.deepEqual(accessor.toSparseFeature(), { dim: 1000, columns: Uint32Array.of(5, 999), values: BigInt64Array.of(-1n, 2n ** 40n) });
  assert.equal(features.columnCount(3), 1000);
  for (const dim of [0, 1.5, COLUMNS_MAX + 1, undefined])
    assert.throws(() => sparseFeatureRow("i64", { dim: dim as number }), throwsCode("BAD_ARGUMENT", /dim is a whole number from 1 to/));
});

test("one column more than a sparse row has room for is OUT_OF_RANGE in the cache, in the oplog and on servers, and changes nothing", () => {
  for (const make of [sparseRow, sortedRow]) {
    const rowType = make("i32");
    const [row, span, other] = Array.from({ length: 3 }, () => room("i32", rowType.elements(2)) as RowPlace<"i32">);
    for (const column of [1, 2]) {
      rowType.apply(row!, column, 1);
      rowType.add(span!, column, 1);
    }
    rowType.add(other!, 3, 1);
    const before = row!.cells.slice();
    const full = throwsCode("OUT_OF_RANGE", /room for 2 columns other than 0.*raise rowCapacity/);
    assert.throws(() => rowType.apply(row!, 3, 1), full);
    assert.throws(() => rowType.add(span!, 3, 1), full);
    assert.throws(() => rowType.lay(row!, other!), full);
    assert.throws(() => rowType.plugIn!.apply(spans(row!) as RowSpans<"i32">, spans(other!) as RowSpans<"i32">), full);
    assert.deepEqual(row!.cells, before);
    rowType.apply(row!, 1, -1);
    rowType.apply(row!, 3, 1);
  }
});

test("a released accessor reads nothing, and one that is held refuses what is no column or entry", () => {
  const rowType = sparseRow("f32");
  const accessor = rowType.accessor(room("f32", rowType.elements(2)) as RowPlace<"f32">);
  for (const read of [
    () => accessor.get(1),
    () => accessor.size,
    () => accessor.columnAt(0),
    () => [...accessor],
    () => accessor.toArrays(),
  ])
    assert.throws(read, throwsCode("CLOSED", /was released: get the row again/));
  held(accessor);
  for (const column of [-1, 0.5, Number.NaN, COLUMNS_MAX, "1" as never])
    assert.throws(() => accessor.get(column), throwsCode("OUT_OF_RANGE", /no column/));
  for (const entry of [-1, 0.5, 0]) assert.throws(() => accessor.valueAt(entry), throwsCode("OUT_OF_RANGE", /has 0 entries, and no entry/));
  assert.equal(accessor.get(COLUMNS_MAX - 1), 0);
});

test("importance is the greatest relative change, or the change itself of a column that is 0; of factors how far they are from 1", () => {
  for (const make of [sparseRow, sortedRow]) {
    const rowType = make("f64");
    const [row, span] = [room("f64", rowType.elements(4)), room("f64", rowType.elements(4))] as [RowPlace<"f64">, RowPlace<"f64">];
    assert.equal(rowType.importance(row, span), 0);
    rowType.apply(row, 1, 8);
    rowType.add(span, 1, -4);
    assert.equal(rowType.importance(row, span), 0.5);
    rowType.add(span, 2, 3);
    assert.equal(rowType.importance(row, span), 3);
  }
  const products = multiplicativeRow("f64");
  const [row, span] = [newRow(products as unknown as TableRowType), room("f64", CAPACITY)] as [RowPlace<"f64">, RowPlace<"f64">];
  products.add(span, 1, 0.25);
  products.add(span, 2, 0);
  assert.equal(products.importance(row, span), 1);
  products.apply(row, 2, 0);
  assert.equal(products.importance(row, span), 0.75);
});

test("a factor of 0 is an update as any other, and stays 0 whatever comes behind it", () => {
  for (const element of ELEMENT_NAMES) {
    const products = multiplicativeRow<RowElement>(element);
    const [row, span] = [newRow(products), room(element, CAPACITY)];
    for (const update of [5, 0, 3]) products.add(span, 4, kept(element, update) as UpdateOf<RowElement>);
    products.lay(row, span);
    const accessor = held(products.accessor(row));
    assert.deepEqual([accessor.get(3), accessor.get(4)], [kept(element, 1), kept(element, 0)]);
  }
});

/** The greatest number that each column was given, and in the last element how many there were. */
const greatest = customRow({
  name: "greatest",
  version: 1,
  deterministic: true,
  dtype: "i32",
  neutral: -(2 ** 31),
  elements: (capacity) => capacity + 1,
  zero: ({ cells, start, length }) => cells.fill(-(2 ** 31), start, start + length - 1),
  apply: ({ cells, start, length }, column, update) => {
    cells[start + column] = Math.max(cells[start + column]!, update);
    cells[start + length - 1]! += 1;
  },
  addUpdates: Math.max,
  importance: ({ cells, start }, column, update) => Math.max(0, update - cells[start + column]!),
});

test("a row type of a user's own has its own zero, its own neutral update and its own importance on both sides", () => {
  const row = newRow(greatest as unknown as TableRowType) as RowPlace<"i32">;
  const span = room("i32", greatest.elements(CAPACITY)) as RowPlace<"i32">;
  assert.deepEqual([greatest.elements(CAPACITY), greatest.columnCount(CAPACITY)], [11, 10]);
  for (const update of [3, 0, 2]) greatest.add(span, 1, update);
  greatest.add(span, 2, -(2 ** 31));
  greatest.add(span, 4, 0);
  greatest.apply(row, 4, -7);
  assert.equal(greatest.importance(row, span), 3 + 2 ** 31);
  greatest.lay(row, span);
  const accessor = held(greatest.accessor(row));
  assert.deepEqual([accessor.get(1), accessor.get(2), accessor.get(4), accessor.get(10)], [3, -(2 ** 31), 0, 3]);
});

test("what makes no row type is refused with BAD_ARGUMENT", () => {
  const options = { name: "mine", version: 1, deterministic: true, dtype: "f64", apply: () => {} } as const;
  const refused = (other: object, message: RegExp): void =>
    assert.throws(() => customRow({ ...options, ...other }), throwsCode("BAD_ARGUMENT", message));
  for (const { name } of Object.values(TABLE_ROW_TYPES).flatMap((types) => Object.values(types)))
    refused({ name }, new RegExp(`not called ${name}: that is one of ours`));
  refused({ name: "f64" }, /not called f64/);
  refused({ element: "i32" }, /element is now called dtype/);
  refused({ dtype: "u8" }, /rows must be of f32, f64, i32 and i64, got "u8"/);
  refused({ apply: undefined }, /apply is a function/);
  refused({ apply: async () => {} }, /apply is done when it returns/);
  refused({ neutral: 1n }, /neutral is an update of f64/);
  refused({ neutral: Number.NaN }, /neutral is an update of f64/);
  refused({ aply: () => {} }, /has no "aply".*did you mean apply/);
  for (const make of [denseRow, sparseRow, sortedRow, multiplicativeRow])
    assert.throws(() => make("f16" as "f32"), throwsCode("BAD_ARGUMENT", /rows must be of f32, f64, i32 and i64, got "f16"/));
});

test("types flow: rows of an element have accessors, updates and arrays of it", () => {
  type Is<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
  const [dense, wide, features] = [denseRow("f64"), sparseRow("i64"), sparseFeatureRow("f32", { dim: 9 })];
  const own = customRow({
    ...{ name: "own", version: 1, deterministic: true, dtype: "i64" },
    apply: () => {},
    accessor: (place) => new SparseAccessor(place, undefined as never),
  });
  const facts: [
    Is<AccessorOfRow<typeof dense>, DenseAccessor<"f64">>,
    Is<ReturnType<AccessorOfRow<typeof dense>["get"]>, number>,
    Is<ReturnType<AccessorOfRow<typeof wide>["get"]>, bigint>,
    Is<ReturnType<AccessorOfRow<typeof wide>["toArrays"]>, SparseColumns<"i64">>,
    Is<SparseColumns<"i64">["values"], RowArray<"i64">>,
    Is<AccessorOfRow<typeof features>, SparseFeatureAccessor<"f32">>,
    Is<Parameters<typeof wide.add>[2], bigint>,
    Is<AccessorOfRow<typeof own>, SparseAccessor<"i64">>,
    Is<AccessorOfRow<typeof greatest>, DenseAccessor<"i32">>,
  ] = [true, true, true, true, true, true, true, true, true];
  assert.equal(facts.length, 9);
});
