// Goal: every key reaches its owner's span in order, rows can be moved there and back, all equal to the reference bit
// for bit.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Random } from "../base/random.ts";
import { putFloats, putKeys, putWords, readKey, readWords } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import { type PartitionKernels, partitionScratchBytes, simdOwnershipKernels, simdPartitionKernels } from "./partition-kernels.ts";
import { PlainOwnershipKernels, PlainPartitionKernels, plainMix } from "./plain-partition-kernels.ts";

const KEY_MAX = 2n ** 64n - 1n;
const MIB = 2 ** 20;

const IMPLEMENTATIONS: readonly ((arena: Arena) => PartitionKernels)[] = [
  (arena) => new PlainPartitionKernels(arena),
  (arena) => simdPartitionKernels(arena),
];

const keyArbitrary: fc.Arbitrary<bigint> = fc.oneof(
  fc.constantFrom(0n, 1n, KEY_MAX, 2n ** 63n, 2n ** 32n),
  fc.bigInt({ min: 0n, max: 500n }),
  fc.bigInt({ min: 0n, max: KEY_MAX }),
);

type Case = { readonly keys: readonly bigint[]; readonly partBits: number; readonly ownerCount: number; readonly seed: number };

function partition(open: (arena: Arena) => PartitionKernels, { keys, partBits, ownerCount, seed }: Case) {
  const arena = new Arena({ bytesMax: 2 * MIB });
  const random = new Random(seed);
  const ownerOf = Uint16Array.from({ length: 2 ** partBits }, () => random.below(ownerCount));
  const owners = putWords(arena, new Uint32Array(2 ** partBits / 2));
  new Uint16Array(arena.memory.buffer, owners, ownerOf.length).set(ownerOf);
  const list = putKeys(arena, keys);
  const [spans, keysOut, sources] = [(ownerCount + 1) * 4, keys.length * 8, keys.length * 4].map((n) => arena.allocate(Math.max(n, 1)));
  const scratchBytes = partitionScratchBytes({ keyCount: keys.length, ownerCount });
  const scratch = arena.allocate(scratchBytes + 4);
  arena.bytes.fill(0xee, scratch, scratch + scratchBytes + 4);
  open(arena).partitionKeys(list, keys.length, owners, partBits, ownerCount, scratch, spans!, keysOut!, sources!);
  assert.deepEqual(arena.bytes.slice(scratch + scratchBytes, scratch + scratchBytes + 4), new Uint8Array(4).fill(0xee));
  return {
    ownerOf,
    spans: [...readWords(arena, spans!, ownerCount + 1)],
    keys: keys.map((_, i) => readKey(arena, keysOut! + i * 8)),
    sources: [...readWords(arena, sources!, keys.length)],
  };
}

const caseArbitrary: fc.Arbitrary<Case> = fc.record({
  keys: fc.array(keyArbitrary, { maxLength: 300 }),
  partBits: fc.integer({ min: 1, max: 12 }),
  ownerCount: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.constant(300)),
  seed: fc.nat(),
});

test("kernel and reference give the same spans, keys and sources for odd and even lists, empty ones too", () => {
  fc.assert(
    fc.property(caseArbitrary, (given) => {
      const [plain, simd] = IMPLEMENTATIONS.map((open) => partition(open, given));
      assert.deepEqual(simd, plain);
    }),
    { numRuns: 300 },
  );
});

test("each span holds exactly its owner's keys, in the order of the list (PartitionKernels.P1)", () => {
  fc.assert(
    fc.property(caseArbitrary, (given) => {
      const { ownerOf, spans, keys, sources } = partition((arena) => simdPartitionKernels(arena), given);
      assert.deepEqual([spans[0], spans.at(-1)], [0, given.keys.length]);
      for (let owner = 0; owner < given.ownerCount; owner++) {
        for (let at = spans[owner]!; at < spans[owner + 1]!; at++) {
          assert.equal(keys[at], given.keys[sources[at]!]);
          assert.equal(ownerOf[Number(plainMix(keys[at]!) >> BigInt(64 - given.partBits))], owner);
          if (at > spans[owner]!) assert.ok(sources[at]! > sources[at - 1]!);
        }
      }
    }),
    { numRuns: 200 },
  );
});

test("mixKeys equals the reference for both ends of u64 and many keys between, also in place", () => {
  const random = new Random(11);
  const keys = [0n, 1n, KEY_MAX, 2n ** 32n, 2n ** 63n];
  for (let i = 0; i < 1_000; i++) keys.push((BigInt(random.uint32()) << 32n) | BigInt(random.uint32()));
  for (const open of IMPLEMENTATIONS) {
    const arena = new Arena({ bytesMax: MIB });
    const list = putKeys(arena, keys);
    open(arena).mixKeys(list, keys.length, list);
    for (const [i, key] of keys.entries()) assert.equal(readKey(arena, list + i * 8), plainMix(key));
  }
});

test("rows gathered by index and scattered back are the rows again, bit for bit, for every width up to 40", () => {
  const random = new Random(2);
  const order = Array.from({ length: 50 }, (_, i) => i).sort(() => random.fraction() - 0.5);
  for (let width = 1; width <= 40; width++) {
    const results = IMPLEMENTATIONS.map((open) => {
      const arena = new Arena({ bytesMax: MIB });
      const kernels = open(arena);
      const rows = putFloats(
        arena,
        Float32Array.from({ length: 50 * width }, (_, i) => i * 1.1),
      );
      const indexes = putWords(arena, order);
      const [gathered, back] = [arena.allocate(50 * width * 4), arena.allocate(50 * width * 4 + 4)];
      arena.words[back / 4 + 50 * width] = 77;
      kernels.gatherByIndex(rows, indexes, 50, width, gathered);
      kernels.scatterByIndex(gathered, indexes, 50, width, back);
      assert.deepEqual(readWords(arena, back, 50 * width), readWords(arena, rows, 50 * width));
      assert.equal(arena.words[back / 4 + 50 * width], 77);
      return readWords(arena, gathered, 50 * width);
    });
    assert.deepEqual(results[1], results[0]);
  }
});

const PART_BITS = 12;
const arena = new Arena({ bytesMax: 2 ** 21 });
const owned = arena.allocate(2 ** PART_BITS);
const simd = simdOwnershipKernels(arena);
const plain = new PlainOwnershipKernels(arena);

function partOf(key: bigint): number {
  return Number(plainMix(key) >> BigInt(64 - PART_BITS));
}

test("for random keys and parts kernel and reference find the same key (Kernels.K4)", () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), { maxLength: 300 }), fc.nat(), fc.nat(100), (keys, seed, percent) => {
      const random = new Random(seed);
      for (let part = 0; part < 2 ** PART_BITS; part++) arena.bytes[owned + part] = random.below(100) < percent ? 1 : 0;
      const list = putKeys(arena, keys);
      const found = simd.firstForeignKey(list, keys.length, owned, PART_BITS);
      assert.equal(found, plain.firstForeignKey(list, keys.length, owned, PART_BITS));
      arena.release(list, Math.max(8, keys.length * 8));
    }),
    { seed: 1, numRuns: 300 },
  );
});

test("one foreign key is found at every position of a list, and none where all are the server's own", () => {
  const keys = Array.from({ length: 200 }, (_, i) => BigInt(i) * 977n);
  const list = putKeys(arena, keys);
  arena.bytes.fill(1, owned, owned + 2 ** PART_BITS);
  assert.equal(simd.firstForeignKey(list, keys.length, owned, PART_BITS), keys.length);
  assert.equal(simd.firstForeignKey(list, 0, owned, PART_BITS), 0);
  for (const key of keys) {
    const part = partOf(key);
    arena.bytes[owned + part] = 0;
    assert.equal(
      simd.firstForeignKey(list, keys.length, owned, PART_BITS),
      keys.findIndex((other) => partOf(other) === part),
    );
    arena.bytes[owned + part] = 1;
  }
});
