// table-parts — Goal: one part of a table is walked, counted, saved, dropped and loaded by itself, bit for bit, in
// small tables as in large ones; and whoever chooses keys cannot make a table large by choosing their part.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { Arena } from "../kernel/arena.ts";
import { CURSOR_BYTES, DONE, type Kernels, LIST_ROWS_MAX, NO_ROOM } from "../kernel/kernels.ts";
import { PlainKernels } from "../kernel/plain-kernels.ts";
import { simdRowKernels } from "../kernel/row-kernels.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { PART_COUNT, partOf } from "../keys/part.ts";
import { putFloats, putKeys, readFloats } from "../testing/arena-lists.ts";
import { NEVER_TRIED } from "../testing/store-stage.ts";
import { TableStore } from "./table-store.ts";

const MIB = 2 ** 20;
const SECRET = 0x5eed_0123_4567_89abn;
const FACTOR = 0xd6e8_feb8_6659_fd93n;
const INVERSE = inverseOf(FACTOR);

function inverseOf(factor: bigint): bigint {
  let inverse = 1n;
  for (let i = 0; i < 6; i++) inverse = BigInt.asUintN(64, inverse * (2n - factor * inverse));
  return inverse;
}

/** The key whose mix this is. */
function unmix(mixed: bigint): bigint {
  let key = mixed ^ (mixed >> 32n);
  key = BigInt.asUintN(64, key * INVERSE);
  key = BigInt.asUintN(64, (key ^ (key >> 32n)) * INVERSE);
  return key ^ (key >> 32n);
}

const part = (key: bigint): number => partOf(Number(key & 0xffff_ffffn), Number(key >> 32n));
const keyOf = (partNumber: number, rest: number): bigint => unmix((BigInt(partNumber) << 52n) | BigInt(rest));
const ascending = (keys: Iterable<bigint>): bigint[] => [...keys].sort((a, b) => (a < b ? -1 : 1));

/** All keys that a walk over a part gives. */
function keysOfPart(arena: Arena, kernels: Kernels, table: number, partNumber: number): bigint[] {
  const cursor = arena.allocate(CURSOR_BYTES);
  const rows = arena.allocate(LIST_ROWS_MAX * 4);
  kernels.zero(cursor, CURSOR_BYTES);
  const keys: bigint[] = [];
  for (let count = 0; count >= 0; count = kernels.listPart(table, partNumber, cursor, rows))
    for (let i = 0; i < count; i++) {
      const at = (arena.words[(rows >>> 2) + i] as number) >>> 2;
      keys.push((BigInt(arena.words[at + 1] as number) << 32n) | BigInt(arena.words[at] as number));
    }
  arena.release(cursor, CURSOR_BYTES);
  arena.release(rows, LIST_ROWS_MAX * 4);
  return keys;
}

for (const [name, open] of [
  ["PlainKernels", (arena: Arena): Kernels => new PlainKernels(arena)],
  ["SimdKernels", (arena: Arena): Kernels => new SimdKernels(arena)],
] as const) {
  test(`${name}: a part is listed, counted and dropped by itself, in tables of any size`, () => {
    for (const rowCount of [1, 300, 5_000, name === "SimdKernels" ? 300_000 : 20_000]) {
      const arena = new Arena({ bytesMax: 64 * MIB });
      const kernels = open(arena);
      const table = kernels.createTable({ payloadBytes: 4, secret: SECRET });
      const byPart = new Map<number, bigint[]>();
      const keys = Array.from({ length: rowCount }, (_, i) => BigInt.asUintN(64, BigInt(i) * 0x9e37_79b9_7f4a_7c15n));
      for (const key of keys) byPart.set(part(key), [...(byPart.get(part(key)) ?? []), key]);
      const address = putKeys(arena, keys);
      for (let from = 0; from < rowCount; from += 10_000)
        assert.equal(kernels.insertRows(table, address + from * 8, Math.min(10_000, rowCount - from)), DONE);
      const random = new Random(rowCount);
      let left = rowCount;
      for (let i = 0; i < 40; i++) {
        const chosen = i === 0 ? 0 : i === 1 ? PART_COUNT - 1 : random.below(PART_COUNT);
        const expected = byPart.get(chosen) ?? [];
        assert.deepEqual(ascending(keysOfPart(arena, kernels, table, chosen)), ascending(expected));
        assert.equal(kernels.countPart(table, chosen), expected.length);
        if (i % 3 !== 0) continue;
        assert.equal(kernels.dropPart(table, chosen), expected.length);
        left -= expected.length;
        byPart.delete(chosen);
        assert.equal(kernels.rowCount(table), left);
        assert.equal(kernels.countPart(table, chosen), 0);
      }
    }
  });
}

test("keys of one part, or of parts that lie side by side, are found and take little more than others", () => {
  for (const parts of [[7], [0, 1], [4094, 4095], [100, 101, 102, 103, 2000]]) {
    const arena = new Arena({ bytesMax: 64 * MIB });
    const kernels = new SimdKernels(arena);
    const table = kernels.createTable({ payloadBytes: 4, secret: SECRET });
    const keys = Array.from({ length: 50_000 }, (_, i) => keyOf(parts[i % parts.length] as number, i));
    const address = putKeys(arena, keys);
    for (let from = 0; from < keys.length; from += 1000) {
      assert.equal(kernels.insertRows(table, address + from * 8, 1000), DONE);
      // Rows of 12 bytes and their index, a directory of at most 16 bytes for each row of the fullest part, beside 64
      // KiB, and the empty segments that set the parts apart.
      const rowCount = from + 1000;
      const bound = rowCount * 26 + (rowCount / parts.length) * 16 + 2 ** 16 + parts.length * 12 * 2112;
      assert.ok(kernels.tableBytes(table) <= bound, `${kernels.tableBytes(table)} bytes for ${rowCount} rows of ${parts.length} parts`);
    }
    assert.equal(kernels.gatherRows(table, address, keys.length, arena.allocate(keys.length * 4)), 0);
    for (const one of parts) assert.equal(kernels.countPart(table, one), keys.length / parts.length);
  }
});

test("an arena that keys of few parts have filled refuses more of them whole, and loses none", () => {
  for (const [partCount, batch] of [
    [1, 700],
    [3, 4096],
    [64, 9000],
  ] as const) {
    const arena = new Arena({ bytesMax: 6 * MIB });
    const kernels = new SimdKernels(arena);
    const table = kernels.createTable({ payloadBytes: 8, secret: SECRET });
    const keys = arena.allocate(batch * 8);
    const values = putFloats(arena, new Float32Array(batch * 2).fill(1));
    let rowCount = 0;
    for (let status: number = DONE; status === DONE; rowCount += status === DONE ? batch : 0) {
      const list = BigUint64Array.from({ length: batch }, (_, i) => keyOf((rowCount + i) % partCount, rowCount + i));
      new BigUint64Array(arena.memory.buffer, keys, batch).set(list);
      status = kernels.addRows(table, keys, batch, values);
      assert.ok(status === DONE || status === NO_ROOM);
    }
    assert.equal(kernels.rowCount(table), rowCount);
    assert.ok(rowCount > 10_000, `${rowCount} rows`);
    let counted = 0;
    for (let one = 0; one < partCount; one++) counted += kernels.countPart(table, one);
    assert.equal(counted, rowCount);
  }
});

function store(): { readonly arena: Arena; readonly table: TableStore } {
  const arena = new Arena({ bytesMax: 16 * MIB });
  const rowKernels = simdRowKernels(arena);
  const updater = {
    ...NEVER_TRIED,
    rowExtraBytes: () => 8,
    startRows: () => {},
    updateRows: (rows: number, rowCount: number) => {
      for (let i = 0; i < rowCount; i++) arena.words[((arena.words[(rows >>> 2) + i] as number) >>> 2) + 3] = 77;
    },
  };
  const initializer = { recipe: 0, kernels: { initializeRows: () => {} } };
  const table = new TableStore({ arena, kernels: new SimdKernels(arena), rowKernels, width: 2, updater, initializer, versions: true });
  return { arena, table };
}

test("a part that is saved and loaded, once or twice, has the same rows with all that is kept beside them, and others stay", () => {
  const [one, two] = [store(), store()];
  const keys = Array.from({ length: 8000 }, (_, i) => keyOf(i % 5, i));
  const address = putKeys(one.arena, keys);
  one.table.restore({
    keys: address,
    keyCount: keys.length,
    payloads: putFloats(
      one.arena,
      Float32Array.from({ length: keys.length * 5 }, (_, i) => i),
    ),
  });
  const other = putKeys(two.arena, [keyOf(4, 1_000_000)]);
  two.table.restore({ keys: other, keyCount: 1, payloads: putFloats(two.arena, Float32Array.of(9, 9, 9, 9, 9)) });
  for (let time = 0; time < 2; time++) for (const images of one.table.parts.save(3)) two.table.loadRows(images);
  assert.equal(two.table.parts.countOfPart(3), 1600);
  assert.equal(two.table.rowCount, 1601);
  const moved = putKeys(
    two.arena,
    keys.filter((_, i) => i % 5 === 3),
  );
  const out = two.arena.allocate(1600 * 20);
  two.table.readPayloads({ keys: moved, keyCount: 1600, out });
  const expected = keys.flatMap((_, i) => (i % 5 === 3 ? [0, 1, 2, 3, 4].map((j) => i * 5 + j) : []));
  assert.deepEqual(readFloats(two.arena, out, 1600 * 5), Float32Array.from(expected));
  assert.equal(one.table.dropPart(3), 1600);
  assert.equal(one.table.rowCount, 6400);
  assert.equal(one.table.parts.countOfPart(3), 0);
});

test("a part that is dropped while a checkpoint is saved is in it as it was", () => {
  const { arena, table } = store();
  const keys = Array.from({ length: 3000 }, (_, i) => keyOf(i % 3, i));
  table.restore({ keys: putKeys(arena, keys), keyCount: 3000, payloads: putFloats(arena, new Float32Array(15_000).fill(2)) });
  const frozen = table.freeze();
  table.dropPart(1);
  const out = arena.allocate(3000 * 8);
  let taken = 0;
  for (let count = 0; count >= 0; taken += Math.max(0, count)) count = frozen.take(500, [{ offset: -8, byteCount: 8, address: out }]);
  frozen.close();
  assert.equal(taken, 3000);
  assert.equal(table.rowCount, 2000);
});
