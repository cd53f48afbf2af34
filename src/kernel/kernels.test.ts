// Goal: every implementation of Kernels is right on its own, against a Map, and SimdKernels equals PlainKernels bit for
// bit.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { Random } from "../base/random.ts";
import { putFloats, putKeys, putWords, readFloats, readKey, readWords } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import { CURSOR_BYTES, DONE, KEY_MISSING, type Kernels, LIST_ROWS_MAX, NO_ROOM, ROW_KEY_BYTES } from "./kernels.ts";
import { PlainKernels } from "./plain-kernels.ts";
import { SimdKernels } from "./simd-kernels.ts";

const KEY_MAX = 2n ** 64n - 1n;
const MIB = 2 ** 20;
const SECRET = 0x5eed_0123_4567_89abn;

const IMPLEMENTATIONS: readonly { readonly name: string; readonly shared: boolean; readonly open: (arena: Arena) => Kernels }[] = [
  { name: "PlainKernels", shared: true, open: (arena) => new PlainKernels(arena) },
  { name: "SimdKernels", shared: true, open: (arena) => new SimdKernels(arena) },
  { name: "SimdKernels on plain memory", shared: false, open: (arena) => new SimdKernels(arena) },
];

/** Few keys, so that they meet again; both ends of u64 among them (Kernels.K1). */
const keyArbitrary: fc.Arbitrary<bigint> = fc.oneof(
  fc.constantFrom(0n, 1n, KEY_MAX, KEY_MAX - 1n, 2n ** 63n, 2n ** 32n),
  fc.bigInt({ min: 0n, max: 300n }),
  fc.bigInt({ min: 0n, max: 300n }).map((key) => key << 40n),
);
const keysArbitrary = fc.array(keyArbitrary, { minLength: 1, maxLength: 300 });
const stepArbitrary = fc.record({
  operation: fc.constantFrom("add", "add", "add known", "gather", "insert", "remove", "find", "other word"),
  keys: keysArbitrary,
  seed: fc.nat(),
});

/** What a table should be. */
class Oracle {
  readonly rows = new Map<bigint, Float32Array>();
  readonly #width: number;

  constructor(width: number) {
    this.#width = width;
  }

  insert(key: bigint): Float32Array {
    const row = this.rows.get(key) ?? new Float32Array(this.#width);
    this.rows.set(key, row);
    return row;
  }

  add(keys: readonly bigint[], values: Float32Array): void {
    for (const [i, key] of keys.entries()) {
      const row = this.insert(key);
      for (let j = 0; j < this.#width; j++) row[j]! += values[i * this.#width + j]!;
    }
  }

  gather(keys: readonly bigint[]): Float32Array {
    const out = new Float32Array(keys.length * this.#width);
    for (const [i, key] of keys.entries()) out.set(this.rows.get(key) ?? [], i * this.#width);
    return out;
  }
}

function randomFloats(seed: number, count: number): Float32Array {
  const random = new Random(seed);
  return Float32Array.from({ length: count }, () => (random.fraction() - 0.5) * 2 ** random.below(20));
}

function consecutive(from: number, count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => BigInt(from + i));
}

/** All keys that listRows gives. */
function listKeys(arena: Arena, kernels: Kernels, table: number): bigint[] {
  const cursor = arena.allocate(CURSOR_BYTES);
  const rows = arena.allocate(LIST_ROWS_MAX * 4);
  kernels.zero(cursor, CURSOR_BYTES);
  const keys: bigint[] = [];
  for (let count = 0; count >= 0; ) {
    count = kernels.listRows(table, cursor, rows);
    for (const row of readWords(arena, rows, Math.max(0, count))) keys.push(readKey(arena, row));
  }
  return keys;
}

function ascending(keys: Iterable<bigint>): bigint[] {
  return [...keys].sort((a, b) => (a < b ? -1 : 1));
}

for (const { name, shared, open } of IMPLEMENTATIONS) {
  describe(name, () => {
    test("a table agrees with a Map over random operations, for narrow, odd and wide rows", () => {
      for (const width of [1, 2, 3, 5, 8, 16, 33]) {
        fc.assert(
          fc.property(fc.array(stepArbitrary, { minLength: 1, maxLength: 12 }), (steps) => checkSteps(open, shared, width, steps)),
          { numRuns: 8 },
        );
      }
    });

    test("a table survives many growths: every row is found, listed once and right", () => {
      for (const [width, rowCount] of [
        [1, 30_000],
        [8, 20_000],
        [20, 8_000],
      ] as const) {
        const arena = new Arena({ bytesMax: 32 * MIB, shared });
        const kernels = open(arena);
        const table = kernels.createTable({ payloadBytes: width * 4, secret: SECRET });
        const keys = consecutive(0, rowCount).map((key) => BigInt.asUintN(64, key * 0x9e37_79b9_7f4a_7c15n));
        const address = putKeys(arena, keys);
        const values = putFloats(arena, randomFloats(width, rowCount * width));
        const scratch = arena.allocate(rowCount * width * 4);
        for (let from = 0; from < rowCount; from += 777) {
          const count = Math.min(777, rowCount - from);
          assert.equal(kernels.addRows(table, address + from * 8, count, values + from * width * 4), DONE);
        }
        assert.equal(kernels.rowCount(table), rowCount);
        assert.equal(kernels.gatherRows(table, address, rowCount, scratch), 0);
        assert.deepEqual(readFloats(arena, scratch, rowCount * width), readFloats(arena, values, rowCount * width));
        assert.deepEqual(ascending(listKeys(arena, kernels, table)), ascending(keys));
      }
    });

    test("keys that come in the order of the table's own hashes are as good as others", () => {
      const arena = new Arena({ bytesMax: 16 * MIB, shared });
      const kernels = open(arena);
      const source = kernels.createTable({ payloadBytes: 4, secret: SECRET });
      const keys = consecutive(0, 20_000);
      kernels.insertRows(source, putKeys(arena, keys), keys.length);
      const table = kernels.createTable({ payloadBytes: 4, secret: SECRET });
      const inHashOrder = listKeys(arena, kernels, source);
      const address = putKeys(arena, inHashOrder);
      assert.equal(kernels.insertRows(table, address, 10_000), DONE);
      for (let i = 10_000; i < 20_000; i++) assert.equal(kernels.insertRows(table, address + i * 8, 1), DONE);
      assert.ok(kernels.tableBytes(table) <= kernels.tableBytes(source) * 1.5);
      assert.deepEqual(ascending(listKeys(arena, kernels, table)), keys);
    });

    test("the memory of removed rows serves new ones, and a destroyed table gives everything back", () => {
      const arena = new Arena({ bytesMax: 16 * MIB, shared });
      const kernels = open(arena);
      const first = putKeys(arena, consecutive(0, 5_000));
      const second = putKeys(arena, consecutive(1_000_000, 5_000));
      const used = arena.usedBytes;
      const table = kernels.createTable({ payloadBytes: 12, secret: SECRET });
      kernels.insertRows(table, first, 5_000);
      const full = kernels.tableBytes(table);
      for (let round = 0; round < 10; round++) {
        const [old, next] = round % 2 === 0 ? [first, second] : [second, first];
        assert.equal(kernels.removeRows(table, old, 5_000), 5_000);
        assert.equal(kernels.removeRows(table, old, 5_000), 0);
        assert.equal(kernels.findKnown(table, old, 5_000), -1);
        assert.equal(kernels.insertRows(table, next, 5_000), DONE);
      }
      assert.ok(kernels.tableBytes(table) <= full * 1.1, `${full} bytes became ${kernels.tableBytes(table)}`);
      kernels.destroyTable(table);
      assert.equal(arena.usedBytes, used);
    });

    test("a row that is reused begins with zeros (Kernels.K2)", () => {
      const arena = new Arena({ bytesMax: MIB, shared });
      const kernels = open(arena);
      const table = kernels.createTable({ payloadBytes: 12, secret: SECRET });
      const [key, other] = [putKeys(arena, [7n]), putKeys(arena, [8n])];
      const values = putFloats(arena, [1, 2, 3]);
      kernels.addRows(table, key, 1, values);
      kernels.removeRows(table, key, 1);
      kernels.insertRows(table, other, 1);
      assert.equal(kernels.gatherRows(table, other, 1, values), 0);
      assert.deepEqual(readFloats(arena, values, 3), new Float32Array(3));
    });

    test("a full arena refuses a batch whole and keeps every row as it was (Kernels.K3)", () => {
      for (const batchSize of [1, 7, 300]) {
        const arena = new Arena({ bytesMax: MIB, shared });
        const kernels = open(arena);
        const table = kernels.createTable({ payloadBytes: 20, secret: SECRET });
        const keys = putKeys(arena, consecutive(0, 30_000));
        const out = arena.allocate(300 * 20);
        const ones = putFloats(arena, new Float32Array(300 * 5).fill(1));
        let kept = 0;
        while (kernels.addRows(table, keys + kept * 8, batchSize, ones) === DONE) kept += batchSize;
        assert.ok(kept > 5_000, `${kept} rows in 1 MiB`);
        assert.equal(kernels.rowCount(table), kept);
        assert.equal(kernels.findKnown(table, keys + kept * 8, batchSize), -1);
        assert.equal(kernels.insertRows(table, keys + kept * 8, batchSize), NO_ROOM);
        assert.equal(kernels.addRows(table, keys, 300, ones), DONE, "known keys need no room");
        for (let from = 0; from < kept; from += 300) {
          const count = Math.min(300, kept - from);
          assert.equal(kernels.gatherRows(table, keys + from * 8, count, out), 0);
          const expected = new Float32Array(count * 5).fill(from === 0 ? 2 : 1);
          assert.deepEqual(readFloats(arena, out, count * 5), expected);
        }
      }
    });

    test("rows inserted during a walk do not disturb it: old rows are listed exactly once", () => {
      const arena = new Arena({ bytesMax: 8 * MIB, shared });
      const kernels = open(arena);
      const table = kernels.createTable({ payloadBytes: 4, secret: SECRET });
      const old = consecutive(0, 8_000);
      kernels.insertRows(table, putKeys(arena, old), old.length);
      const cursor = arena.allocate(CURSOR_BYTES);
      const rows = arena.allocate(LIST_ROWS_MAX * 4);
      kernels.zero(cursor, CURSOR_BYTES);
      const seen: bigint[] = [];
      for (let count = 0, from = 100_000; count >= 0; from += 3_000) {
        count = kernels.listRows(table, cursor, rows);
        for (const row of readWords(arena, rows, Math.max(0, count))) seen.push(readKey(arena, row));
        if (from < 110_000) kernels.insertRows(table, putKeys(arena, consecutive(from, 3_000)), 3_000);
      }
      assert.deepEqual(ascending(seen.filter((key) => key < 8_000n)), old);
      assert.equal(new Set(seen).size, seen.length);
    });

    test("checkAscending finds the first key that does not rise, unsigned", () => {
      const arena = new Arena({ bytesMax: MIB, shared });
      const kernels = open(arena);
      const check = (keys: bigint[]): number => kernels.checkAscending(putKeys(arena, keys), keys.length);
      assert.equal(check([]), -1);
      assert.equal(check([KEY_MAX]), -1);
      assert.equal(check([0n, 1n, 2n ** 63n, KEY_MAX]), -1);
      assert.equal(check([0n, 0n]), 1);
      assert.equal(check([1n, 2n, 3n, 2n, 1n]), 3);
      assert.equal(check([2n ** 63n, 2n ** 63n - 1n]), 1);
      assert.equal(check([0xffff_ffffn, 0x1_0000_0000n]), -1);
    });

    test("gatherListedRows gathers what gatherRows does, and says which row is not its key's", () => {
      const arena = new Arena({ bytesMax: 4 * MIB, shared });
      const kernels = open(arena);
      for (const width of [1, 3, 16, 64, 65, 200]) {
        const payloadBytes = width * 4;
        const table = kernels.createTable({ payloadBytes, secret: SECRET });
        const keys = putKeys(arena, [...consecutive(5, 400), 0n, 2n ** 64n - 1n]);
        const keyCount = 402;
        const values = putFloats(arena, randomFloats(width, keyCount * width));
        kernels.addRows(table, keys, keyCount, values);
        const rows = arena.allocate(keyCount * 4);
        kernels.findRows(table, keys, keyCount, rows);
        const out = putFloats(arena, randomFloats(1, keyCount * width));
        assert.equal(kernels.gatherListedRows(rows, keys, keyCount, payloadBytes, out), -1);
        assert.deepEqual(readWords(arena, out, keyCount * width), readWords(arena, values, keyCount * width));
        assert.equal(kernels.gatherListedRows(rows, keys, 0, payloadBytes, out), -1);
        for (const wrong of [0, 1, 127, 128, 301, 401]) {
          const [row, other] = [arena.words[rows / 4 + wrong]!, arena.words[rows / 4 + ((wrong + 1) % keyCount)]!];
          arena.words[rows / 4 + wrong] = other;
          assert.equal(kernels.gatherListedRows(rows, keys, keyCount, payloadBytes, out), wrong);
          arena.words[rows / 4 + wrong] = row;
        }
      }
    });

    test("addListedRows adds what addKnownRows does, and nothing where a row is not its key's", () => {
      const arena = new Arena({ bytesMax: 4 * MIB, shared });
      const kernels = open(arena);
      for (const width of [1, 3, 16, 64, 65, 200]) {
        const payloadBytes = width * 4;
        const [table, twin] = [0, 1].map(() => kernels.createTable({ payloadBytes, secret: SECRET })) as [number, number];
        const keys = putKeys(arena, [...consecutive(5, 400), 0n, 2n ** 64n - 1n]);
        const keyCount = 402;
        const values = putFloats(arena, randomFloats(width, keyCount * width));
        for (const one of [table, twin]) kernels.addRows(one, keys, keyCount, values);
        const rows = arena.allocate(keyCount * 4);
        kernels.findRows(table, keys, keyCount, rows);
        const out = [0, 1].map(() => putFloats(arena, randomFloats(1, keyCount * width))) as [number, number];
        const assertSame = (): void => {
          kernels.gatherRows(table, keys, keyCount, out[0]);
          kernels.gatherRows(twin, keys, keyCount, out[1]);
          assert.deepEqual(readWords(arena, out[0], keyCount * width), readWords(arena, out[1], keyCount * width));
        };
        const more = putFloats(arena, randomFloats(width + 1, keyCount * width));
        assert.equal(kernels.addListedRows(rows, keys, keyCount, payloadBytes, more), -1);
        kernels.addKnownRows(twin, keys, keyCount, more);
        assertSame();
        assert.equal(kernels.addListedRows(rows, keys, 0, payloadBytes, more), -1);
        for (const wrong of [0, 1, 127, 128, 301, 401]) {
          const [row, other] = [arena.words[rows / 4 + wrong]!, arena.words[rows / 4 + ((wrong + 1) % keyCount)]!];
          arena.words[rows / 4 + wrong] = other;
          assert.equal(kernels.addListedRows(rows, keys, keyCount, payloadBytes, more), wrong);
          arena.words[rows / 4 + wrong] = row;
        }
        assertSame();
      }
    });

    test("findOtherWord and setWords see the first word of a payload only where there is a row", () => {
      const arena = new Arena({ bytesMax: MIB, shared });
      const kernels = open(arena);
      const table = kernels.createTable({ payloadBytes: 8, secret: SECRET });
      const keys = putKeys(arena, consecutive(0, 400));
      kernels.insertRows(table, keys, 200);
      kernels.setWords(table, keys, 400, 9);
      assert.equal(kernels.rowCount(table), 200);
      assert.equal(kernels.findOtherWord(table, keys, 400, 9), -1);
      assert.equal(kernels.findOtherWord(table, keys, 400, 8), 0);
      kernels.setWords(table, keys + 150 * 8, 1, 7);
      assert.equal(kernels.findOtherWord(table, keys, 400, 9), 150);
      assert.equal(arena.words[(kernels.findRow(table, keys) + ROW_KEY_BYTES) / 4 + 1], 0);
    });
  });
}

function checkSteps(
  open: (arena: Arena) => Kernels,
  shared: boolean,
  width: number,
  steps: readonly { operation: string; keys: bigint[]; seed: number }[],
): void {
  const arena = new Arena({ bytesMax: 4 * MIB, shared });
  const kernels = open(arena);
  const table = kernels.createTable({ payloadBytes: width * 4, secret: SECRET });
  const oracle = new Oracle(width);
  for (const { operation, keys, seed } of steps) {
    const address = putKeys(arena, keys);
    const missing = keys.filter((key) => !oracle.rows.has(key)).length;
    const values = randomFloats(seed, keys.length * width);
    const valuesAddress = putFloats(arena, values);
    if (operation === "add") {
      assert.equal(kernels.addRows(table, address, keys.length, valuesAddress), DONE);
      oracle.add(keys, values);
    } else if (operation === "add known") {
      const status = kernels.addKnownRows(table, address, keys.length, valuesAddress);
      assert.equal(status, missing === 0 ? DONE : KEY_MISSING);
      if (missing === 0) oracle.add(keys, values);
    } else if (operation === "insert") {
      assert.equal(kernels.findOrInsertRows(table, address, keys.length, valuesAddress), DONE);
      for (const [i, row] of readWords(arena, valuesAddress, keys.length).entries()) assert.equal(readKey(arena, row), keys[i]);
      for (const key of keys) oracle.insert(key);
    } else if (operation === "remove") {
      const present = new Set(keys.filter((key) => oracle.rows.delete(key)));
      assert.equal(kernels.removeRows(table, address, keys.length), present.size);
    } else if (operation === "find") {
      assert.equal(kernels.findRows(table, address, keys.length, valuesAddress), missing);
      assert.equal(
        kernels.findKnown(table, address, keys.length),
        keys.findIndex((key) => oracle.rows.has(key)),
      );
      for (const [i, row] of readWords(arena, valuesAddress, keys.length).entries())
        assert.equal(row, kernels.findRow(table, address + i * 8));
    }
    const missingNow = keys.filter((key) => !oracle.rows.has(key)).length;
    assert.equal(kernels.gatherRows(table, address, keys.length, valuesAddress), missingNow);
    assert.deepEqual(readFloats(arena, valuesAddress, keys.length * width), oracle.gather(keys));
    assert.equal(kernels.rowCount(table), oracle.rows.size);
  }
  assert.deepEqual(ascending(listKeys(arena, kernels, table)), ascending(oracle.rows.keys()));
}

test("add, sum and axpy of SimdKernels equal PlainKernels bit for bit, for every length up to 70 and every 4-byte offset (Kernels.K4)", () => {
  const results = [PlainKernels, SimdKernels].map((Implementation) => {
    const arena = new Arena({ bytesMax: MIB });
    const kernels = new Implementation(arena);
    const [a, b, c] = [1, 2, 3].map((seed) => putFloats(arena, randomFloats(seed, 100)));
    for (let count = 0; count <= 70; count++) {
      const [left, right] = [a! + (count % 5) * 4, b! + (count % 3) * 4];
      kernels.add(left, right, count);
      kernels.sum(c! + (count % 4) * 4, left, right, count);
      kernels.axpy(a!, c! + 4, 0.1 * count - 3, count);
    }
    return readWords(arena, a!, 1_000);
  });
  assert.deepEqual(results[0], results[1]);
});

test("special values add alike: infinities, denormals and both zeros", () => {
  const special = [0, -0, 1e-45, -1e-45, 1e-38, 3.4e38, Number.POSITIVE_INFINITY, -1, 16_777_216, 0.1];
  const results = [PlainKernels, SimdKernels].map((Implementation) => {
    const arena = new Arena({ bytesMax: MIB });
    const kernels = new Implementation(arena);
    const target = putFloats(
      arena,
      Array.from({ length: 100 }, (_, i) => special[i % 10]!),
    );
    kernels.add(
      target,
      putFloats(
        arena,
        Array.from({ length: 100 }, (_, i) => special[Math.floor(i / 10)]!),
      ),
      100,
    );
    return readWords(arena, target, 100);
  });
  assert.deepEqual(results[0], results[1]);
});

test("copy and zero touch exactly their bytes, also where spans overlap", () => {
  for (const Implementation of [PlainKernels, SimdKernels]) {
    const arena = new Arena({ bytesMax: MIB });
    const kernels = new Implementation(arena);
    const at = putWords(arena, [0x04030201, 0x08070605, 0x0c0b0a09]);
    kernels.copy(at + 1, at, 8);
    assert.deepEqual([...arena.bytes.slice(at, at + 12)], [1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]);
    kernels.zero(at + 3, 5);
    assert.deepEqual([...arena.bytes.slice(at, at + 12)], [1, 1, 2, 0, 0, 0, 0, 0, 8, 10, 11, 12]);
  }
});

test("tables above 2 GiB work, and findRow gives positive addresses", () => {
  const arena = new Arena();
  if (arena.bytesMax < 2 ** 32) return; // the engine gave less: an address space limit
  arena.allocate(2 ** 31);
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes: 4, secret: SECRET });
  const keys = putKeys(arena, consecutive(0, 3_000));
  const ones = putFloats(arena, new Float32Array(3_000).fill(1));
  assert.equal(kernels.addRows(table, keys, 3_000, ones), DONE);
  assert.equal(kernels.addRows(table, keys, 3_000, ones), DONE);
  assert.ok(kernels.findRow(table, keys) > 2 ** 31);
  kernels.gatherRows(table, keys, 3_000, ones);
  assert.deepEqual(readFloats(arena, ones, 3_000), new Float32Array(3_000).fill(2));
});

test("a million keys of one float take less than 20 bytes each, all in all", () => {
  const arena = new Arena({ bytesMax: 64 * MIB });
  const kernels = new SimdKernels(arena);
  const table = kernels.createTable({ payloadBytes: 4, secret: SECRET });
  const keys = arena.allocate(10_000 * 8);
  for (let from = 0; from < 1_000_000; from += 10_000) {
    for (let i = 0; i < 10_000; i++) arena.words[keys / 4 + i * 2] = from + i;
    assert.equal(kernels.insertRows(table, keys, 10_000), DONE);
    const bytesPerRow = kernels.tableBytes(table) / kernels.rowCount(table);
    if (from >= 100_000) assert.ok(bytesPerRow < 20, `${bytesPerRow} bytes per row at ${from} rows`);
  }
  assert.ok(kernels.tableBytes(table) < 20e6);
});
