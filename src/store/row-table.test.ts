// Goal: a table that is restored takes no more memory than the one that was saved, though its rows come in the order of
// their parts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { Arena } from "../kernel/arena.ts";
import { CURSOR_BYTES, LIST_ROWS_MAX } from "../kernel/kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { PART_COUNT, partOf } from "../keys/part.ts";
import { putKeys } from "../testing/arena-lists.ts";
import { splitFor } from "./row-table.ts";

const MIB = 2 ** 20;
/** What another secret may cost or save: another number of rows in each segment. */
const NOISE = 0.005;

const partOfKey = (key: bigint): number => partOf(Number(key & 0xffff_ffffn), Number(key >> 32n));

/** The keys of a table's rows in the order in which a checkpoint has them. */
function listed(arena: Arena, kernels: SimdKernels, table: number): bigint[] {
  const [cursor, rows] = [arena.allocate(CURSOR_BYTES), arena.allocate(LIST_ROWS_MAX * 4)];
  kernels.zero(cursor, CURSOR_BYTES);
  const keys: bigint[] = [];
  for (let count = kernels.listRows(table, cursor, rows); count >= 0; count = kernels.listRows(table, cursor, rows)) {
    for (const row of arena.words.slice(rows >>> 2, (rows >>> 2) + count))
      keys.push((BigInt(arena.words[(row >>> 2) + 1] as number) << 32n) | BigInt(arena.words[row >>> 2] as number));
  }
  return keys;
}

/** A table of these keys, made in batches; `expected` as a restore makes it. */
type Filled = { readonly arena: Arena; readonly kernels: SimdKernels; readonly table: number; readonly bytes: number };
function filled(keys: readonly bigint[], payloadBytes: number, secret: bigint, expected?: Float64Array): Filled {
  const arena = new Arena({ bytesMax: 64 * MIB });
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes, secret });
  if (expected !== undefined) {
    kernels.expectRows(table, keys.length);
    assert.ok(splitFor(kernels, table, expected));
  }
  const at = putKeys(arena, keys);
  for (let from = 0; from < keys.length; from += 500) kernels.insertRows(table, at + from * 8, Math.min(500, keys.length - from));
  kernels.settleRows(table);
  assert.equal(kernels.findRows(table, at, keys.length, arena.allocate(keys.length * 4)), 0, "every key has its row");
  return { arena, kernels, table, bytes: kernels.tableBytes(table) };
}

for (const payloadBytes of [4, 12, 44, 64, 68, 260]) {
  test(`a restored table of rows of ${payloadBytes} bytes takes no more memory than one that grew`, () => {
    const random = new Random(payloadBytes);
    for (const rowCount of [1, 300, 2_500, 15_000, 40_000]) {
      const keys = Array.from({ length: rowCount }, (_, i) => BigInt(i) * 3n + BigInt(random.below(3)));
      const live = filled(keys, payloadBytes, 1n);
      const byPart = new Float64Array(PART_COUNT);
      const saved = listed(live.arena, live.kernels, live.table);
      for (const key of saved) byPart[partOfKey(key)]! += 1;
      const restored = filled(saved, payloadBytes, 2n, byPart);
      assert.ok(restored.bytes <= live.bytes * (1 + NOISE) + 4096, `${rowCount} rows: ${restored.bytes} bytes, ${live.bytes} before`);
    }
  });
}

test("a table whose rows are all of a few parts, as an attacker may choose them, is restored in the same memory", () => {
  const keys: bigint[] = [];
  for (let key = 0n; keys.length < 6_000; key++) if (partOfKey(key) % 512 === 7) keys.push(key);
  const live = filled(keys, 64, 1n);
  const saved = listed(live.arena, live.kernels, live.table);
  const byPart = new Float64Array(PART_COUNT);
  for (const key of saved) byPart[partOfKey(key)]! += 1;
  assert.ok(filled(saved, 64, 2n, byPart).bytes <= live.bytes * (1 + NOISE) + 4096);
});
