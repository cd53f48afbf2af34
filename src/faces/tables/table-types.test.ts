// table-types — Goal: types flow from the row type to accessors, increments and batches; what does not fit does not
// compile. The checks are the compiler's: each line below an expected error fails the build if it has none.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type DenseAccessor, denseRow } from "./rows/dense-row.ts";
import { type SparseAccessor, type SparseFeatureAccessor, sparseFeatureRow, sparseRow } from "./rows/sparse-row.ts";
import { DenseUpdateBatch, type Table, UpdateBatch } from "./table.ts";
import type { AccessorOfRow } from "./table-row-type.ts";
import type { NumberRowType, TableThread } from "./table-thread.ts";

/** True if both are the same type, and neither is `any`. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const holds = <_ extends true>(): void => {};

const [floats, doubles, integers, longs] = [denseRow("f32"), denseRow("f64"), denseRow("i32"), denseRow("i64")];
const [sparse, features] = [sparseRow("i64"), sparseFeatureRow("f64", { dim: 9 })];

type Value<A> = A extends { get(column: number): infer V } ? V : never;
type Bulk<A> = A extends { toArray(): infer V } ? V : never;

/** Never called: it only has to compile. */
export function flow(thread: TableThread): void {
  const [wide, long] = [thread.getTableOrDie(0, doubles), thread.getTableOrDie(1, longs)];
  holds<Same<typeof wide, Table<typeof doubles>>>();
  holds<Same<ReturnType<typeof wide.get>, DenseAccessor<"f64"> | Promise<DenseAccessor<"f64">>>>();
  holds<Same<Awaited<ReturnType<typeof long.threadGet>>, DenseAccessor<"i64">>>();
  const plain = thread.getTableOrDie(2);
  holds<Same<typeof plain, Table<NumberRowType>>>();
  holds<Same<Value<Awaited<ReturnType<typeof plain.get>>>, number>>();
  plain.inc(0, 0, 0.5);
  plain.batchInc(0, new UpdateBatch().update(0, 1));
  plain.denseBatchInc(0, new DenseUpdateBatch(0, Float32Array.of(1)));
  // @ts-expect-error a table whose row type is not given has numbers
  plain.inc(0, 0, 1n);
  wide.inc(0, 0, 0.5);
  long.inc(0, 0, 1n);
  wide.denseBatchInc(0, new DenseUpdateBatch(0, Float64Array.of(1)));
  long.batchInc(0, new UpdateBatch<bigint>().update(0, 1n));
  long.denseBatchInc(0, new DenseUpdateBatch(0, BigInt64Array.of(1n)));
  // @ts-expect-error an f64 row takes no bigint
  wide.inc(0, 0, 1n);
  // @ts-expect-error an i64 row takes no number
  long.inc(0, 0, 1);
  // @ts-expect-error an f64 row takes no floats of 32 bits in bulk
  wide.denseBatchInc(0, new DenseUpdateBatch(0, Float32Array.of(1)));
  // @ts-expect-error an i64 row takes no batch of numbers
  long.batchInc(0, new UpdateBatch().update(0, 1));
}

test("a table of f64 rows gives f64 accessors, one of i64 rows bigint and BigInt64Array; so do sparse ones", () => {
  holds<Same<AccessorOfRow<typeof floats>, DenseAccessor<"f32">>>();
  holds<Same<AccessorOfRow<typeof doubles>, DenseAccessor<"f64">>>();
  holds<Same<Value<DenseAccessor<"f64">>, number>>();
  holds<Same<Value<AccessorOfRow<typeof integers>>, number>>();
  holds<Same<Value<AccessorOfRow<typeof longs>>, bigint>>();
  holds<Same<Bulk<AccessorOfRow<typeof doubles>>, Float64Array>>();
  holds<Same<Bulk<AccessorOfRow<typeof integers>>, Int32Array>>();
  holds<Same<Bulk<AccessorOfRow<typeof longs>>, BigInt64Array>>();
  holds<Same<AccessorOfRow<typeof sparse>, SparseAccessor<"i64">>>();
  holds<Same<ReturnType<SparseAccessor<"i64">["toArrays"]>["values"], BigInt64Array>>();
  holds<Same<AccessorOfRow<typeof features>, SparseFeatureAccessor<"f64">>>();
  const at = { start: 0, length: 2 };
  const wide = doubles.accessor({ cells: Float64Array.of(0.1, 2), ...at });
  const long = longs.accessor({ cells: BigInt64Array.of(2n ** 62n, 2n), ...at });
  for (const accessor of [wide, long]) accessor.hold({ unpin: () => {} }, 0, 0, 0);
  assert.deepEqual([wide.get(0), wide.toArray()], [0.1, Float64Array.of(0.1, 2)]);
  assert.deepEqual([long.get(0), long.toArray()], [2n ** 62n, BigInt64Array.of(2n ** 62n, 2n)]);
});
