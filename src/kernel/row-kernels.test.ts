// Goal: lists of rows name the rows of their keys, columns come and go bit for bit, and kernel and reference agree on
// everything.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { Random } from "../base/random.ts";
import { putKeys, putWords, readKey, readWords } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import { type ElementArray, ElementType, elementArrayOf, elementBytesOf } from "./elements.ts";
import { CURSOR_BYTES, type Kernels, LIST_ROWS_MAX, ROW_KEY_BYTES } from "./kernels.ts";
import { PlainKernels, partOfKey } from "./plain-kernels.ts";
import { PlainElementKernels, PlainRowKernels } from "./plain-row-kernels.ts";
import {
  type ElementKernels,
  FOREIGN_COUNT,
  NO_ROOM_COUNT,
  type RowKernels,
  simdElementKernels,
  simdRowKernels,
  VERSION_NONE,
} from "./row-kernels.ts";
import { SimdKernels } from "./simd-kernels.ts";

const KEY_MAX = 2n ** 64n - 1n;
const MIB = 2 ** 20;
const SECRET = 0x5eed_0123_4567_89abn;

type Stage = { readonly arena: Arena; readonly kernels: Kernels; readonly rowKernels: RowKernels; readonly table: number };

const IMPLEMENTATIONS: Readonly<Record<string, (arena: Arena) => { kernels: Kernels; rowKernels: RowKernels }>> = {
  PlainRowKernels: (arena) => {
    const kernels = new PlainKernels(arena);
    return { kernels, rowKernels: new PlainRowKernels(arena, kernels) };
  },
  simdRowKernels: (arena) => ({ kernels: new SimdKernels(arena), rowKernels: simdRowKernels(arena) }),
};

const keyArbitrary: fc.Arbitrary<bigint> = fc.oneof(
  fc.constantFrom(0n, 1n, KEY_MAX, 2n ** 63n, 2n ** 32n),
  fc.bigInt({ min: 0n, max: 400n }),
);

function open(name: string, payloadBytes: number, bytesMax = 4 * MIB): Stage {
  const arena = new Arena({ bytesMax });
  const { kernels, rowKernels } = IMPLEMENTATIONS[name]!(arena);
  return { arena, kernels, rowKernels, table: kernels.createTable({ payloadBytes, secret: SECRET }) };
}

function numbers(count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => Math.imul(i + 1, 0x9e37_79b9));
}

for (const name of Object.keys(IMPLEMENTATIONS)) {
  describe(name, () => {
    test("found rows are those of their keys, missing ones are 0 and counted; located ones are made and listed once as fresh", () => {
      fc.assert(
        fc.property(fc.array(keyArbitrary, { maxLength: 300 }), fc.array(keyArbitrary, { maxLength: 300 }), (first, second) => {
          const { arena, rowKernels, table } = open(name, 20);
          const [rows, fresh] = [arena.allocate(2_000), arena.allocate(2_000)];
          const present = new Set<bigint>();
          for (const keys of [first, second]) {
            const list = putKeys(arena, keys);
            assert.equal(rowKernels.findValues(table, list, keys.length, 20, rows, 0), keys.filter((key) => !present.has(key)).length);
            for (const [i, row] of readWords(arena, rows, keys.length).entries()) {
              if (present.has(keys[i]!)) assert.equal(readKey(arena, row - ROW_KEY_BYTES), keys[i]);
              else assert.equal(row, 0);
            }
            const expected = [...new Set(keys.filter((key) => !present.has(key)))];
            assert.equal(rowKernels.locateValues(table, list, keys.length, 20, rows, fresh, 0), expected.length);
            assert.deepEqual(
              [...readWords(arena, fresh, expected.length)].map((row) => readKey(arena, row - ROW_KEY_BYTES)),
              expected,
            );
            for (const [i, row] of readWords(arena, rows, keys.length).entries())
              assert.equal(readKey(arena, row - ROW_KEY_BYTES), keys[i]);
            for (const key of keys) present.add(key);
          }
        }),
        { numRuns: 60 },
      );
    });

    test("a key of a part that is not owned ends a call, in whichever batch it stands, and no row is made (RowKernels.R3)", () => {
      const { arena, kernels, rowKernels, table } = open(name, 8);
      const keys = Array.from({ length: 700 }, (_, i) => BigInt(i));
      const list = putKeys(arena, keys);
      const [rows, fresh, owned] = [arena.allocate(2_800), arena.allocate(2_800), arena.allocate(4096)];
      rowKernels.insertValues(table, list, 10, fresh, 0);
      for (const foreign of [0, 127, 128, 400, 699]) {
        arena.bytes.fill(1, owned, owned + 4096);
        arena.bytes[owned + partOfKey(BigInt(foreign))] = 0;
        const first = keys.findIndex((key) => partOfKey(key) === partOfKey(BigInt(foreign)));
        assert.equal(rowKernels.findValues(table, list, 700, 8, rows, owned), FOREIGN_COUNT);
        assert.equal(rowKernels.locateValues(table, list, 700, 8, rows, fresh, owned), FOREIGN_COUNT);
        assert.equal(rowKernels.insertValues(table, list, 700, fresh, owned), FOREIGN_COUNT);
        assert.equal(kernels.rowCount(table), 10);
        assert.equal(rowKernels.findValues(table, list, first, 8, rows, owned), Math.max(0, first - 10));
      }
      arena.bytes.fill(1, owned, owned + 4096);
      assert.equal(rowKernels.locateValues(table, list, 700, 8, rows, fresh, owned), 690);
    });

    test("a full arena takes back what a call inserted (RowKernels.R1)", () => {
      const { arena, kernels, rowKernels, table } = open(name, 40, MIB);
      const keys = putKeys(
        arena,
        Array.from({ length: 30_000 }, (_, i) => BigInt(i)),
      );
      const fresh = arena.allocate(4_000);
      let kept = 0;
      while (rowKernels.insertValues(table, keys + kept * 8, 1_000, fresh, 0) === 1_000) kept += 1_000;
      assert.ok(kept >= 4_000 && kept < 30_000, `${kept} rows`);
      assert.equal(rowKernels.insertValues(table, keys + kept * 8, 1_000, fresh, 0), NO_ROOM_COUNT);
      assert.equal(kernels.rowCount(table), kept);
      assert.equal(kernels.findKnown(table, keys + kept * 8, 1_000), -1);
      assert.equal(rowKernels.insertValues(table, keys, 1_000, fresh, 0), 0, "known keys need no room");
    });

    test("columns of every width and offset are written and read back, and leave their neighbours alone", () => {
      for (const [offset, floats] of [
        [0, 1],
        [0, 3],
        [4, 4],
        [8, 17],
        [0, 40],
        [12, 28],
      ] as const) {
        const { arena, rowKernels, table } = open(name, 160);
        const list = putKeys(arena, [5n, 0n, KEY_MAX]);
        const [rows, fresh, all, out] = [12, 12, 480, 480].map((bytes) => arena.allocate(bytes)) as [number, number, number, number];
        rowKernels.locateValues(table, list, 3, 160, rows, fresh, 0);
        rowKernels.writeRows(rows, 3, 0, 160, putWords(arena, new Uint32Array(120).fill(7)));
        const values = numbers(3 * floats);
        rowKernels.writeRows(rows, 3, offset, floats * 4, putWords(arena, values));
        rowKernels.readRows(rows, 3, offset, floats * 4, out);
        assert.deepEqual(readWords(arena, out, 3 * floats), values);
        rowKernels.readRows(rows, 3, 0, 160, all);
        const expected = new Uint32Array(120).fill(7);
        for (let row = 0; row < 3; row++) expected.set(values.subarray(row * floats, (row + 1) * floats), row * 40 + offset / 4);
        assert.deepEqual(readWords(arena, all, 120), expected);
        rowKernels.readRows(rows, 3, -ROW_KEY_BYTES, 8, out);
        assert.deepEqual([readKey(arena, out), readKey(arena, out + 8), readKey(arena, out + 16)], [5n, 0n, KEY_MAX]);
      }
    });

    test("columns that are no whole words are written and read back byte for byte, and leave their neighbours alone", () => {
      for (const byteCount of [1, 2, 3, 5, 17, 63]) {
        const { arena, rowKernels, table } = open(name, 64);
        const list = putKeys(arena, [5n, 0n, KEY_MAX]);
        const [rows, fresh, out] = [12, 12, 256].map((bytes) => arena.allocate(bytes)) as [number, number, number];
        rowKernels.locateValues(table, list, 3, 64, rows, fresh, 0);
        rowKernels.writeRows(rows, 3, 0, 64, putWords(arena, new Uint32Array(48).fill(0x0707_0707)));
        const values = Uint8Array.from({ length: 3 * byteCount }, (_, i) => 100 + i);
        const from = arena.allocate(256);
        arena.bytes.set(values, from);
        rowKernels.writeRows(rows, 3, 0, byteCount, from);
        arena.bytes.fill(9, out, out + 256);
        arena.words[rows / 4 + 1] = 0;
        rowKernels.readRows(rows, 3, 0, byteCount, out);
        const read = [...arena.bytes.subarray(out, out + 3 * byteCount + 1)];
        const row = (i: number): number[] => [...values.subarray(i * byteCount, (i + 1) * byteCount)];
        assert.deepEqual(read, [...row(0), ...new Array<number>(byteCount).fill(0), ...row(2), 9]);
        rowKernels.findValues(table, list, 3, 64, rows, 0);
        rowKernels.readRows(rows, 3, 0, 64, out);
        for (let i = 0; i < 3; i++)
          assert.deepEqual(
            [...arena.bytes.subarray(out + i * 64, out + (i + 1) * 64)],
            [...row(i), ...new Array<number>(64 - byteCount).fill(7)],
          );
      }
    });

    test("a key without a row reads as zeros", () => {
      const { arena, rowKernels } = open(name, 20);
      const out = putWords(arena, numbers(10));
      rowKernels.readRows(putWords(arena, [0, 0]), 2, 0, 20, out);
      assert.deepEqual(readWords(arena, out, 10), new Uint32Array(10));
    });

    test("words add up by one or by amounts, modulo 2^32", () => {
      const { arena, rowKernels, table } = open(name, 8);
      const [rows, out] = [arena.allocate(12), arena.allocate(12)];
      rowKernels.locateValues(table, putKeys(arena, [1n, 2n, 1n]), 3, 8, rows, arena.allocate(12), 0);
      rowKernels.addWords(rows, 3, 4, 0);
      rowKernels.addWords(rows, 3, 4, putWords(arena, [10, 0xffff_ffff, 100]));
      rowKernels.readRows(rows, 3, 4, 4, out);
      assert.deepEqual([...readWords(arena, out, 3)], [112, 0, 112]);
      rowKernels.readRows(rows, 3, 0, 4, out);
      assert.deepEqual([...readWords(arena, out, 3)], [0, 0, 0]);
    });

    test("stale rows are those unknown, or more than the bound ahead, also across the turn of the counter", () => {
      const { arena, rowKernels, table } = open(name, 4);
      const rows = arena.allocate(32);
      const versions = [5, 5, 5, 5, 3, 0xffff_fffe, 5];
      rowKernels.locateValues(table, putKeys(arena, [0n, 1n, 2n, 3n, 4n, 5n, 6n]), 7, 4, rows, arena.allocate(32), 0);
      rowKernels.writeRows(rows, 7, 0, 4, putWords(arena, versions));
      arena.words[rows / 4 + 6] = 0; // a key without a row: version 0
      const before = readWords(arena, rows, 7);
      const known = putWords(arena, [5, 3, 2, VERSION_NONE, 0xffff_ffff - 1, 0xffff_fff0, 0]);
      const [indexes, found] = [arena.allocate(32), arena.allocate(32)];
      const stale = rowKernels.staleRows(rows, 7, 0, known, 2, 100, indexes, found);
      assert.deepEqual([...readWords(arena, indexes, stale)], [102, 103, 104, 105]);
      assert.deepEqual([...readWords(arena, found, stale)], [5, 5, 3, 0xffff_fffe]);
      assert.deepEqual([...readWords(arena, rows, stale)], [...before.subarray(2, 6)]);
      assert.equal(rowKernels.staleRows(rows, 1, 0, putWords(arena, [0]), 0xffff_ffff, 0, indexes, found), 0);
      assert.equal(rowKernels.staleRows(rows, 0, 0, known, 2, 0, indexes, found), 0);
    });

    test("spare rows stand in for missing ones, with their keys", () => {
      const { arena, rowKernels } = open(name, 4);
      const keys = putKeys(arena, [10n, 11n, KEY_MAX, 13n]);
      const [spares, used] = [arena.allocate(96), arena.allocate(16)];
      const rows = putWords(arena, [4_096, 0, 0, 8_192]);
      assert.equal(rowKernels.standIn(rows, 4, keys, 0, spares, 24, used), 2);
      assert.deepEqual([...readWords(arena, rows, 4)], [4_096, spares + 8, spares + 32, 8_192]);
      assert.deepEqual([...readWords(arena, used, 2)], [spares + 8, spares + 32]);
      assert.deepEqual([readKey(arena, spares), readKey(arena, spares + 24)], [11n, KEY_MAX]);
      assert.equal(rowKernels.standIn(putWords(arena, [0]), 1, keys, putWords(arena, [3]), spares, 24, used), 1);
      assert.equal(readKey(arena, spares), 13n);
    });
  });
}

test("where there is room for certain no insertion fails, whatever the order of keys: also that of the table's own hashes", () => {
  const source = open("simdRowKernels", 4, 32 * MIB);
  const keyCount = 200_000;
  const all = source.arena.allocate(keyCount * 8);
  for (let i = 0; i < keyCount; i++) source.arena.words[all / 4 + i * 2] = i;
  source.kernels.insertRows(source.table, all, keyCount);
  const inHashOrder = listKeys(source, keyCount);
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed);
    const payloadBytes = seed % 4 === 0 ? 4 + 4 * random.below(20) : 84 + 4 * random.below(20);
    const { arena, rowKernels, table, kernels } = open("simdRowKernels", payloadBytes, (4 + random.below(12)) * MIB);
    const [keys, rows, fresh] = [arena.allocate(40_008), arena.allocate(20_004), arena.allocate(20_004)];
    let inserted = 0;
    for (let at = random.below(keyCount); inserted < keyCount; ) {
      const count = 1 + Math.floor(random.fraction() ** 2 * 5_000);
      if (!rowKernels.hasCertainRoom(table, count)) break;
      for (let i = 0; i < count; i++) arena.words[keys / 4 + i * 2] = inHashOrder[(at + i) % keyCount]!;
      at += seed % 10 === 0 ? random.below(keyCount) : count;
      inserted += rowKernels.locateValues(table, keys, count, 4, rows, fresh, 0);
      assert.equal(kernels.rowCount(table), inserted, `seed ${seed}`);
    }
  }
});

/** The low halves of all keys, in the order of the table's hashes. */
function listKeys({ arena, kernels, table }: Stage, keyCount: number): Uint32Array {
  const [cursor, rows] = [arena.allocate(CURSOR_BYTES), arena.allocate(LIST_ROWS_MAX * 4)];
  kernels.zero(cursor, CURSOR_BYTES);
  const keys = new Uint32Array(keyCount);
  for (let count = 0, at = 0; count >= 0; ) {
    count = kernels.listRows(table, cursor, rows);
    for (let i = 0; i < count; i++) keys[at++] = arena.words[arena.words[rows / 4 + i]! / 4]!;
  }
  return keys;
}

const COUNTS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100];
const GUARD = 0xa5;
const GUARD_BYTES = 16;

type Put = { readonly address: number; readonly values: ElementArray };

/** So many elements with any bits that are no NaN, at any address, between bytes that must stay. */
function put(arena: Arena, type: ElementType, count: number, random: Random): Put {
  const byteCount = count * elementBytesOf(type);
  const span = arena.allocate(byteCount + 3 * GUARD_BYTES);
  arena.bytes.fill(GUARD, span, span + byteCount + 3 * GUARD_BYTES);
  const address = span + GUARD_BYTES + random.below(GUARD_BYTES);
  const bytes = Uint8Array.from({ length: byteCount }, () => random.below(256));
  const values = new (elementArrayOf(type))(bytes.buffer, 0, count);
  if (values instanceof Float32Array || values instanceof Float64Array)
    for (let i = 0; i < count; i++) values[i] = random.below(2 ** 20) / 7;
  arena.bytes.set(bytes, address);
  return { address, values };
}

function bytesOf({ buffer }: ElementArray): number[] {
  return [...new Uint8Array(buffer)];
}

function read(arena: Arena, address: number, byteCount: number): number[] {
  return [...arena.bytes.subarray(address, address + byteCount)];
}

/** As JavaScript's arrays add and wrap. */
function sumOf(one: ElementArray, other: ElementArray): ElementArray {
  const sum = one.slice();
  for (let i = 0; i < sum.length; i++) {
    if (sum instanceof BigInt64Array || sum instanceof BigUint64Array) sum[i] = (one[i] as bigint) + (other[i] as bigint);
    else sum[i] = (one[i] as number) + (other[i] as number);
  }
  return sum;
}

const ELEMENT_IMPLEMENTATIONS: Readonly<Record<string, (arena: Arena) => ElementKernels>> = {
  PlainElementKernels: (arena) => new PlainElementKernels(arena),
  simdElementKernels,
};

for (const [name, kernelsOf] of Object.entries(ELEMENT_IMPLEMENTATIONS)) {
  describe(name, () => {
    for (const [typeName, type] of Object.entries(ElementType)) {
      test(`${typeName} adds runs of any length at any address, and nothing beside them`, () => {
        const random = new Random(type + 1);
        for (const count of COUNTS) {
          const arena = new Arena({ bytesMax: 2 ** 19 });
          const [target, source] = [put(arena, type, count, random), put(arena, type, count, random)];
          kernelsOf(arena).addElements(type, target.address, source.address, count);
          const byteCount = count * elementBytesOf(type);
          assert.deepEqual(read(arena, target.address, byteCount), bytesOf(sumOf(target.values, source.values)), `${count} elements`);
          assert.deepEqual(read(arena, source.address, byteCount), bytesOf(source.values));
          assert.deepEqual(read(arena, target.address - GUARD_BYTES, GUARD_BYTES), new Array(GUARD_BYTES).fill(GUARD));
          assert.deepEqual(read(arena, target.address + byteCount, GUARD_BYTES), new Array(GUARD_BYTES).fill(GUARD));
        }
      });

      test(`${typeName} adds to listed rows, to one that is listed twice both times`, () => {
        const random = new Random(type + 100);
        for (const width of [1, 3, 8, 21]) {
          const arena = new Arena({ bytesMax: 2 ** 19 });
          const rows = Array.from({ length: 3 }, () => put(arena, type, width, random));
          const values = put(arena, type, 4 * width, random);
          const list = putWords(
            arena,
            [0, 2, 1, 2].map((row) => rows[row]!.address - 8),
          );
          kernelsOf(arena).addRowElements(type, list, 4, 8, width, values.address);
          const part = (i: number): ElementArray => values.values.slice(i * width, (i + 1) * width);
          const sums = [sumOf(rows[0]!.values, part(0)), sumOf(rows[1]!.values, part(2)), sumOf(sumOf(rows[2]!.values, part(1)), part(3))];
          const byteCount = width * elementBytesOf(type);
          for (const [i, sum] of sums.entries()) {
            assert.deepEqual(read(arena, rows[i]!.address, byteCount), bytesOf(sum), `row ${i} of width ${width}`);
            assert.deepEqual(read(arena, rows[i]!.address + byteCount, GUARD_BYTES), new Array(GUARD_BYTES).fill(GUARD));
          }
        }
      });
    }
  });
}
