// Goal: repeated keys are found in the order of their first occurrence, sums equal the reference bit for bit, and a
// list without duplicates is left alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Random } from "../base/random.ts";
import { putFloats, putKeys, putWords, readFloats, readKey, readWords } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import { type DuplicateKernels, duplicateScratchBytes, simdDuplicateKernels } from "./duplicate-kernels.ts";
import { OPTIMIZER } from "./optimizer-kernels.ts";
import { PlainDuplicateKernels } from "./plain-duplicate-kernels.ts";

const KEY_MAX = 2n ** 64n - 1n;
const MIB = 2 ** 20;
const UNTOUCHED = 0xabad_cafe;

const IMPLEMENTATIONS: readonly ((arena: Arena) => DuplicateKernels)[] = [
  (arena) => new PlainDuplicateKernels(arena),
  (arena) => simdDuplicateKernels(arena),
];

const keyArbitrary: fc.Arbitrary<bigint> = fc.oneof(
  fc.constantFrom(0n, 1n, KEY_MAX, KEY_MAX - 1n, 2n ** 63n, 2n ** 32n),
  fc.bigInt({ min: 0n, max: 200n }),
  fc.bigInt({ min: 0n, max: 200n }).map((key) => key << 40n),
);

type Found = { readonly uniqueKeys: readonly bigint[]; readonly indexes: readonly number[] };

function find(open: (arena: Arena) => DuplicateKernels, keys: readonly bigint[], inPlace: boolean): Found {
  const arena = new Arena({ bytesMax: 4 * MIB });
  const list = putKeys(arena, keys);
  const uniqueKeys = inPlace ? list : putKeys(arena, keys);
  const indexes = putWords(arena, new Uint32Array(keys.length).fill(UNTOUCHED));
  const scratch = arena.allocate(duplicateScratchBytes(keys.length));
  const count = open(arena).findDuplicates(list, keys.length, 12_345, scratch, uniqueKeys, indexes);
  return {
    uniqueKeys: Array.from({ length: count }, (_, i) => readKey(arena, uniqueKeys + i * 8)),
    indexes: [...readWords(arena, indexes, keys.length)],
  };
}

test("unique keys come in the order of their first occurrence, and every key finds itself (DuplicateKernels.D1)", () => {
  fc.assert(
    fc.property(fc.array(keyArbitrary, { maxLength: 400 }), fc.boolean(), (keys, inPlace) => {
      const expected = [...new Set(keys)];
      for (const open of IMPLEMENTATIONS) {
        const { uniqueKeys, indexes } = find(open, keys, inPlace);
        assert.deepEqual(uniqueKeys, expected);
        if (expected.length === keys.length) assert.deepEqual(indexes, new Array(keys.length).fill(UNTOUCHED), "DuplicateKernels.D3");
        else
          assert.deepEqual(
            indexes.map((index) => uniqueKeys[index]),
            keys,
          );
      }
    }),
    { numRuns: 200 },
  );
});

test("lists whose parts repeat nothing, everything or about half of what came before are found as the reference finds them", () => {
  const random = new Random(11);
  const partsOf: Readonly<Record<string, (known: number) => number>> = {
    nothing: (known) => known,
    everything: (known) => random.below(known),
    half: (known) => (random.below(2) === 0 ? known : random.below(known)),
    few: (known) => (random.below(20) === 0 ? random.below(known) : known),
  };
  for (const order of [["half"], ["nothing", "half", "everything", "half"], ["everything", "few", "nothing", "half", "few"]]) {
    const ids = [0];
    let known = 1;
    for (const part of order) {
      for (let i = 0; i < 700; i++) {
        const id = partsOf[part]!(known);
        known = Math.max(known, id + 1);
        ids.push(id);
      }
    }
    const keys = ids.map((id) => KEY_MAX - (BigInt(id) << 20n));
    for (const inPlace of [false, true]) {
      const [expected, found] = IMPLEMENTATIONS.map((open) => find(open, keys, inPlace));
      assert.deepEqual(found, expected, `${order.join(", ")}, in place ${inPlace}`);
      assert.deepEqual(found?.indexes, ids);
    }
  }
});

test("the scratch is enough and not overrun for every number of keys around powers of two", () => {
  for (const keyCount of [1, 2, 3, 7, 8, 9, 15, 16, 17, 127, 128, 129, 1023, 1024, 1025, 4096, 4097]) {
    const arena = new Arena({ bytesMax: 4 * MIB });
    const keys = putKeys(
      arena,
      Array.from({ length: keyCount }, (_, i) => BigInt(i)),
    );
    const scratchBytes = duplicateScratchBytes(keyCount);
    const scratch = arena.allocate(scratchBytes + 64);
    arena.bytes.fill(0xee, scratch, scratch + scratchBytes + 64);
    assert.equal(simdDuplicateKernels(arena).findDuplicates(keys, keyCount, 1, scratch, keys, keys), keyCount);
    for (let i = scratchBytes; i < scratchBytes + 64; i++) assert.equal(arena.bytes[scratch + i], 0xee);
  }
});

test("the secret changes nothing of the result", () => {
  const random = new Random(4);
  const keys = Array.from({ length: 1_000 }, () => BigInt(random.below(600)));
  const results = [0, 1, 0xffff_ffff].map((secret) => {
    const arena = new Arena({ bytesMax: 4 * MIB });
    const list = putKeys(arena, keys);
    const indexes = arena.allocate(4_000);
    simdDuplicateKernels(arena).findDuplicates(list, 1_000, secret, arena.allocate(duplicateScratchBytes(1_000)), list, indexes);
    return readWords(arena, indexes, 1_000);
  });
  assert.deepEqual(results[1], results[0]);
  assert.deepEqual(results[2], results[0]);
});

test("sums equal the reference bit for bit, also in place, for every width up to 40 and for wide rows", () => {
  for (const width of [...Array.from({ length: 40 }, (_, i) => i + 1), 64, 100, 257]) {
    const random = new Random(width);
    const keys = Array.from({ length: 90 }, () => BigInt(random.below(1 + random.below(120))));
    const gradients = Float32Array.from({ length: 90 * width }, () => (random.fraction() - 0.5) * 2 ** random.below(20));
    for (const inPlace of [false, true]) {
      const results = IMPLEMENTATIONS.map((open) => {
        const arena = new Arena({ bytesMax: 4 * MIB });
        const kernels = open(arena);
        const list = putKeys(arena, keys);
        const indexes = arena.allocate(90 * 4);
        const rows = putFloats(arena, gradients);
        const out = inPlace ? rows : arena.allocate(90 * width * 4);
        const count = kernels.findDuplicates(list, 90, 9, arena.allocate(duplicateScratchBytes(90)), list, indexes);
        assert.equal(kernels.sumDuplicates(rows, 90, width, indexes, 0, 0, out), count);
        return { count, sums: readWords(arena, out, count * width) };
      });
      assert.deepEqual(results[1], results[0], `width ${width}, in place ${inPlace}`);
    }
  }
});

test("a list that comes in pieces, its sums in another order, has the same sums", () => {
  for (const pieceRows of [1, 7, 90]) {
    const random = new Random(pieceRows);
    const keys = Array.from({ length: 90 }, () => BigInt(random.below(40)));
    const gradients = Float32Array.from({ length: 90 * 5 }, () => (random.fraction() - 0.5) * 2 ** random.below(20));
    const results = IMPLEMENTATIONS.map((open) => {
      const arena = new Arena({ bytesMax: MIB });
      const kernels = open(arena);
      const list = putKeys(arena, keys);
      const indexes = arena.allocate(90 * 4);
      const rows = putFloats(arena, gradients);
      const count = kernels.findDuplicates(list, 90, 9, arena.allocate(duplicateScratchBytes(90)), list, indexes);
      const rowsTo = putWords(
        arena,
        readWords(arena, indexes, 90).map((index) => count - 1 - index),
      );
      const [out, whole] = [arena.allocate(count * 20), arena.allocate(count * 20)];
      let known = 0;
      for (let from = 0; from < 90; from += pieceRows) {
        const pieceCount = Math.min(pieceRows, 90 - from);
        known = kernels.sumDuplicates(rows + from * 20, pieceCount, 5, indexes + from * 4, rowsTo + from * 4, known, out);
      }
      assert.equal(known, count);
      kernels.sumDuplicates(rows, 90, 5, indexes, 0, 0, whole);
      const reversed = Array.from({ length: count }, (_, i) => [...readWords(arena, out + (count - 1 - i) * 20, 5)]).flat();
      assert.deepEqual(reversed, [...readWords(arena, whole, count * 5)]);
      return reversed;
    });
    assert.deepEqual(results[1], results[0]);
  }
});

test("one key repeated throughout sums in the order of the list", () => {
  const arena = new Arena({ bytesMax: MIB });
  const kernels = simdDuplicateKernels(arena);
  const list = putKeys(arena, new Array<bigint>(1_000).fill(KEY_MAX));
  const indexes = arena.allocate(4_000);
  const values = Float32Array.from({ length: 1_000 }, (_, i) => (i % 2 === 0 ? 1e8 : 1 + i));
  const rows = putFloats(arena, values);
  assert.equal(kernels.findDuplicates(list, 1_000, 0, arena.allocate(duplicateScratchBytes(1_000)), list, indexes), 1);
  assert.equal(readKey(arena, list), KEY_MAX);
  kernels.sumDuplicates(rows, 1_000, 1, indexes, 0, 0, rows);
  assert.equal(
    readFloats(arena, rows, 1)[0],
    values.reduce((sum, value) => Math.fround(sum + value)),
  );
});

test("a lone negative zero keeps its sign: the first occurrence is copied, not added to zero", () => {
  const arena = new Arena({ bytesMax: MIB });
  const kernels = simdDuplicateKernels(arena);
  const list = putKeys(arena, [5n, 6n, 5n]);
  const indexes = arena.allocate(12);
  const rows = putFloats(arena, [1, -0, 2]);
  kernels.findDuplicates(list, 3, 0, arena.allocate(duplicateScratchBytes(3)), list, indexes);
  kernels.sumDuplicates(rows, 3, 1, indexes, 0, 0, rows);
  assert.deepEqual([...readFloats(arena, rows, 2)], [3, -0]);
});

test("rows of one key merge to the last, the least or the greatest, in pieces and in place, as the reference has it", () => {
  for (const merge of [OPTIMIZER.assign, OPTIMIZER.min, OPTIMIZER.max]) {
    for (const width of [1, 3, 4, 17]) {
      const random = new Random(width);
      const keys = Array.from({ length: 90 }, () => BigInt(random.below(40)));
      const given = Float32Array.from({ length: 90 * width }, () => (random.fraction() - 0.5) * 2 ** random.below(20));
      const results = IMPLEMENTATIONS.map((open) => {
        const arena = new Arena({ bytesMax: MIB });
        const kernels = open(arena);
        const list = putKeys(arena, keys);
        const indexes = arena.allocate(90 * 4);
        const rows = putFloats(arena, given);
        const count = kernels.findDuplicates(list, 90, 9, arena.allocate(duplicateScratchBytes(90)), list, indexes);
        const out = arena.allocate(count * width * 4);
        const half = kernels.mergeDuplicates(merge, rows, 50, width, indexes, indexes, 0, out);
        const all = kernels.mergeDuplicates(merge, rows + 50 * width * 4, 40, width, indexes + 200, indexes + 200, half, out);
        assert.equal(all, count);
        kernels.mergeDuplicates(merge, rows, 90, width, indexes, 0, 0, rows);
        assert.deepEqual(readWords(arena, rows, count * width), readWords(arena, out, count * width));
        return readWords(arena, out, count * width);
      });
      assert.deepEqual(results[1], results[0], `merge ${merge}, width ${width}`);
    }
  }
});

test("an empty list has no unique keys", () => {
  for (const open of IMPLEMENTATIONS) assert.deepEqual(find(open, [], false), { uniqueKeys: [], indexes: [] });
});
