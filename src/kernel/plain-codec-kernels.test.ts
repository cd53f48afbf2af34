// Goal: the SIMD module equals the plain reference bit for bit, on any floats and keys, and both take and refuse the
// same bytes.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Random } from "../base/random.ts";
import { guardedSpan, putBytes, putFloats, putKeys, putWords, readBytes, readWords } from "../testing/arena-lists.ts";
import { Arena } from "./arena.ts";
import { type CodecKernels, DeltaStatus, INT8_MAGNITUDE_MAX, simdCodecKernels, topKScratchBytes } from "./codec-kernels.ts";
import { PlainCodecKernels } from "./plain-codec-kernels.ts";

const MIB = 2 ** 20;
const KEY_MAX = 2n ** 64n - 1n;

/** Any f32 as its bits: all kinds of numbers, the borders of fp16 and bf16 among them. */
const bitsArbitrary: fc.Arbitrary<number> = fc.oneof(
  fc.nat(0xffff_ffff),
  fc.constantFrom(0, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7f80_0001, 0xffff_ffff, 0x7fc0_0000, 0x7f7f_ffff, 1, 0x8000_0001),
  fc.tuple(fc.nat(0xffff), fc.constantFrom(0x7fff, 0x8000, 0x8001, 0xffff, 0)).map(([upper, lower]) => upper * 0x1_0000 + lower),
  fc
    .tuple(fc.integer({ min: 100, max: 145 }), fc.nat(0x3ff), fc.constantFrom(0, 0xfff, 0x1000, 0x1001, 0x1fff))
    .map(([exponent, fraction, rest]) => exponent * 2 ** 23 + fraction * 2 ** 13 + rest),
);
const floatArbitrary: fc.Arbitrary<number> = fc.oneof(
  fc.float({ noNaN: true, noDefaultInfinity: true, min: Math.fround(-1e30), max: Math.fround(1e30) }),
  fc.integer({ min: -100, max: 100 }),
  fc.constantFrom(0, -0, 1e-45, -1e-45, Math.fround(1e-38)),
);
const ascendingArbitrary: fc.Arbitrary<bigint[]> = fc
  .array(
    fc.oneof(
      fc.bigInt({ min: 0n, max: 300n }),
      fc.bigInt({ min: 0n, max: KEY_MAX }),
      fc.constantFrom(0n, KEY_MAX, KEY_MAX - 1n, 2n ** 63n),
    ),
    { maxLength: 60 },
  )
  .map((keys) => [...new Set(keys)].sort((a, b) => (a < b ? -1 : 1)));

const arena = new Arena({ bytesMax: 8 * MIB });
const plain = new PlainCodecKernels(arena);
const simd = simdCodecKernels(arena);
const bytes = 128 * 1024;
const left = arena.allocate(bytes);
const right = arena.allocate(bytes);
const same = (run: (kernels: CodecKernels, target: number) => unknown): void => {
  arena.bytes.fill(0, left, left + bytes);
  arena.bytes.fill(0, right, right + bytes);
  assert.deepEqual(run(simd, left), run(plain, right));
  assert.ok(Buffer.from(arena.memory.buffer, left, bytes).equals(Buffer.from(arena.memory.buffer, right, bytes)));
};

/** With residual, indices and values side by side at `target`; the one entry more that the lists have is cleared. */
function topK(kernels: CodecKernels, gradient: number, target: number, count: number, keepCount: number, scratch: number): number {
  const indices = target + 32 * 1024;
  const values = indices + 64 * 1024;
  const status = kernels.selectTopK(gradient, target, count, keepCount, indices, values, scratch);
  arena.words.fill(0, indices / 4 + keepCount * 2, indices / 4 + keepCount * 2 + 2);
  arena.words.fill(0, values / 4 + keepCount, values / 4 + keepCount + 1);
  return status;
}

test("fp16 and bf16, NaNs included", () => {
  fc.assert(
    fc.property(fc.array(bitsArbitrary, { maxLength: 40 }), (words) => {
      const source = putWords(arena, words);
      same((kernels, target) => kernels.encodeFp16(source, words.length, target));
      same((kernels, target) => kernels.decodeFp16(source, words.length, target));
      same((kernels, target) => kernels.encodeBf16(source, words.length, target));
      same((kernels, target) => kernels.decodeBf16(source, words.length, target));
      arena.release(source, Math.max(4, words.length * 4));
    }),
  );
});

test("int8 rows", () => {
  const shapes = fc.tuple(fc.integer({ min: 1, max: 70 }), fc.integer({ min: 1, max: 4 }), fc.constantFrom(0, 1), fc.nat());
  fc.assert(
    fc.property(shapes, fc.array(bitsArbitrary, { minLength: 1 }), ([width, rowCount, centred, seed], words) => {
      const random = new Random(seed);
      const values = new Uint32Array(width * rowCount).map(() => words[random.below(words.length)]!);
      const source = putWords(arena, values);
      const floats = new Float32Array(values.buffer).map((value) => (Math.abs(value) <= INT8_MAGNITUDE_MAX ? value : 1));
      for (const list of [values, new Uint32Array(floats.buffer)]) {
        arena.words.set(list, source / 4);
        if (plain.encodeInt8Rows(source, rowCount, width, centred, left) === -1) {
          same((kernels, target) => kernels.encodeInt8Rows(source, rowCount, width, centred, target));
        } else {
          assert.equal(
            simd.encodeInt8Rows(source, rowCount, width, centred, left),
            plain.encodeInt8Rows(source, rowCount, width, centred, right),
          );
        }
      }
      plain.encodeInt8Rows(source, rowCount, width, centred, right);
      const encoded = putBytes(arena, readBytes(arena, right, rowCount * (8 + width)));
      same((kernels, target) => kernels.decodeInt8Rows(encoded, rowCount, width, centred, target));
      arena.release(encoded, rowCount * (8 + width));
      arena.release(source, values.length * 4);
    }),
  );
});

test("top-k with its residual, many equal values among them", () => {
  const scratch = arena.allocate(topKScratchBytes(512));
  fc.assert(
    fc.property(fc.array(fc.tuple(floatArbitrary, floatArbitrary), { minLength: 1, maxLength: 90 }), fc.nat(), (pairs, pick) => {
      const keepCount = 1 + (pick % pairs.length);
      const gradient = putFloats(
        arena,
        pairs.map(([value]) => value),
      );
      same((kernels, target) => {
        arena.floats.set(
          pairs.map(([, value]) => value),
          target / 4,
        );
        return topK(kernels, gradient, target, pairs.length, keepCount, scratch);
      });
      arena.release(gradient, pairs.length * 4);
    }),
  );
});

test("top-k of many, where a sample tells what is small: of even, skewed, misleading and equal sums", () => {
  const count = 4099;
  const scratch = guardedSpan(arena, topKScratchBytes(count));
  const random = new Random(3);
  const makers: readonly ((i: number) => number)[] = [
    () => random.fraction() - 0.5,
    () => (random.fraction() - 0.5) * 2 ** random.below(30),
    (i) => (i % 256 < 4 ? 1000 + i : i), // what is sampled is large
    (i) => (i % 256 < 4 ? 0 : i),
    () => 1,
    () => random.below(3),
    () => 0,
  ];
  for (const make of makers) {
    const gradient = putFloats(
      arena,
      Float32Array.from({ length: count }, (_, i) => make(i)),
    );
    for (const keepCount of [1, 41, 400, 4000, count]) {
      same((kernels, target) => topK(kernels, gradient, target, count, keepCount, scratch.address));
      assert.ok(scratch.isIntact());
    }
  }
});

test("delta-coded keys and signatures", () => {
  fc.assert(
    fc.property(ascendingArbitrary, (keys) => {
      const source = putKeys(arena, keys);
      const byteCount = plain.encodeDeltaKeys(source, keys.length, right);
      assert.equal(simd.encodeDeltaKeys(source, keys.length, left), byteCount);
      assert.deepEqual(readBytes(arena, left, byteCount), readBytes(arena, right, byteCount));
      const encoded = putBytes(arena, readBytes(arena, left, byteCount));
      same((kernels, target) => kernels.decodeDeltaKeys(encoded, byteCount, keys.length, target));
      same((kernels, target) => kernels.signKeys(source, keys.length, target));
      arena.release(encoded, Math.max(1, byteCount));
      arena.release(source, Math.max(8, keys.length * 8));
    }),
  );
});

test("and both take or refuse the same bytes as delta-coded keys", () => {
  fc.assert(
    fc.property(ascendingArbitrary, fc.nat(), fc.nat(255), fc.integer({ min: -3, max: 3 }), (keys, position, flip, more) => {
      const source = putKeys(arena, keys);
      const encodedBytes = plain.encodeDeltaKeys(source, keys.length, right);
      if (encodedBytes > 0) arena.bytes[right + (position % encodedBytes)]! ^= flip;
      const byteCount = Math.max(0, encodedBytes + more);
      const target = arena.allocate(Math.max(8, keys.length * 8));
      const [first, second] = [simd, plain].map(
        (kernels) => kernels.decodeDeltaKeys(right, byteCount, keys.length, target) === DeltaStatus.DONE,
      );
      assert.equal(first, second);
      arena.release(target, Math.max(8, keys.length * 8));
      arena.release(source, Math.max(8, keys.length * 8));
    }),
    { numRuns: 1000 },
  );
});

test("scattered floats", () => {
  const indices = putKeys(arena, [0n, 3n, 9n]);
  const values = putWords(arena, [1, 0x7fa0_0001, 3]);
  same((kernels, target) => kernels.scatterFloats(indices, 3, values, target));
  assert.deepEqual([...readWords(arena, left, 5)], [1, 0, 0, 0x7fa0_0001, 0]);
});
