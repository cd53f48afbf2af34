// Goal: the first key that is not a server's own is found wherever it stands, as the reference finds it.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Random } from "../base/random.ts";
import { Arena } from "./arena.ts";
import { putKeys } from "./arena-lists.ts";
import { PlainOwnershipKernels, simdOwnershipKernels } from "./ownership-kernels.ts";
import { plainMix } from "./plain-partition-kernels.ts";

const PART_BITS = 12;
const arena = new Arena({ bytesMax: 2 ** 21 });
const owned = arena.allocate(2 ** PART_BITS);
const simd = simdOwnershipKernels(arena);
const plain = new PlainOwnershipKernels(arena);

function partOf(key: bigint): number {
  return Number(plainMix(key) >> BigInt(64 - PART_BITS));
}

test("for random keys and parts kernel and reference find the same key (K4)", () => {
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

test("one foreign key is found at every place of a list, and none where all are the server's own", () => {
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
