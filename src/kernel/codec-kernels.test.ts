// Goal: every implementation of CodecKernels brings values back right on its own, against the engine's own conversions
// or by the bound that the test names. That they are equal is plain-codec-kernels.test.ts; top-k and keys have tests of
// their own.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { Random } from "../base/random.ts";
import { guardedSpan, putBytes, putFloats, putWords, readBytes, readFloats } from "../testing/arena-lists.ts";
import { CODEC_IMPLEMENTATIONS } from "../testing/store-stage.ts";
import { INT8_MAGNITUDE_MAX, packedWordsBound } from "./codec-kernels.ts";

/** The engine's own binary16. */
type HalfView = DataView & {
  setFloat16(at: number, value: number, isLittle: boolean): void;
  getFloat16(at: number, isLittle: boolean): number;
};

function isNanBits(bits: number): boolean {
  return (bits & 0x7fff_ffff) > 0x7f80_0000;
}

for (const { name, fresh } of CODEC_IMPLEMENTATIONS) {
  describe(name, () => {
    test("words that are not 0 are packed behind a mask and come back, for every number of words around 64 and any density", () => {
      const random = new Random(8);
      for (const wordCount of [0, 1, 7, 63, 64, 65, 127, 128, 200, 1000]) {
        for (const density of [0, 0.05, 0.5, 1]) {
          const { arena, kernels } = fresh();
          const words = Uint32Array.from({ length: wordCount }, () => (random.chance(density) ? 1 + random.below(2 ** 31) : 0));
          const wordsMax = words.filter((word) => word !== 0).length;
          const target = guardedSpan(arena, packedWordsBound({ wordCount, wordsMax }));
          const source = putWords(arena, words);
          const byteCount = kernels.packWords(source, wordCount, wordsMax, target.address);
          assert.equal(byteCount, Math.ceil(wordCount / 64) * 8 + wordsMax * 4);
          assert.ok(target.isIntact());
          const back = guardedSpan(arena, wordCount * 4);
          assert.equal(kernels.unpackWords(target.address, byteCount, wordCount, back.address), 0);
          assert.ok(back.isIntact());
          assert.deepEqual(readBytes(arena, back.address, wordCount * 4), readBytes(arena, source, wordCount * 4));
          if (wordsMax > 0) assert.equal(kernels.packWords(source, wordCount, wordsMax - 1, target.address), 0, "one word too many");
          assert.ok(target.isIntact());
        }
      }
    });

    test("packed words whose mask tells of another number of bytes or words are refused, and nothing is written (CodecKernels.E2)", () => {
      const { arena, kernels } = fresh();
      const packed = putWords(arena, [0b101, 0, 7, 9]); // 65 words need two masks, 3 need one
      const out = putBytes(arena, new Uint8Array(260).fill(0xee));
      assert.equal(kernels.unpackWords(packed, 12, 3, out), 1, "a word is missing");
      assert.equal(kernels.unpackWords(packed, 20, 3, out), 1, "a word too many");
      assert.equal(kernels.unpackWords(packed, 16, 2, out), 1, "a bit behind the end");
      assert.equal(kernels.unpackWords(packed, 4, 3, out), 1, "half a mask");
      assert.equal(kernels.unpackWords(packed, 8, 65, out), 1, "one mask for 65 words");
      assert.ok(readBytes(arena, out, 260).every((byte) => byte === 0xee));
      assert.equal(kernels.unpackWords(packed, 16, 3, out), 0);
      assert.deepEqual([...readBytes(arena, out, 12)], [7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0]);
    });

    test("turns every fp16 into the float it is, and that float into the same fp16 again", () => {
      const { arena, kernels } = fresh();
      const halves = putBytes(arena, new Uint8Array(Uint16Array.from({ length: 65_536 }, (_, i) => i).buffer));
      const floats = arena.allocate(65_536 * 4);
      const back = arena.allocate(65_536 * 2);
      kernels.decodeFp16(halves, 65_536, floats);
      kernels.encodeFp16(floats, 65_536, back);
      const view = new DataView(arena.memory.buffer) as HalfView;
      for (let half = 0; half < 65_536; half++) {
        const expected = view.getFloat16(halves + half * 2, true);
        assert.ok(Object.is(arena.floats[floats / 4 + half], expected), `${half.toString(16)}: ${expected}`);
        const again = Number.isNaN(expected) ? (half & 0x8000) | 0x7e00 : half;
        assert.equal(view.getUint16(back + half * 2, true), again, half.toString(16));
      }
    });

    test("rounds to fp16 as the engine does: ties to even, subnormals, overflow to infinity, NaN to the quiet one of its sign", () => {
      const { arena, kernels } = fresh();
      const view = new DataView(arena.memory.buffer) as HalfView;
      const oracle = new DataView(new ArrayBuffer(2)) as HalfView;
      const random = new Random(16);
      const count = 50_001;
      const words = putWords(
        arena,
        Uint32Array.from({ length: count }, (_, i) =>
          i % 2 === 0 ? random.uint32() : (100 + random.below(50)) * 2 ** 23 + random.below(2 ** 14) * 2 ** 9,
        ),
      );
      const target = arena.allocate(count * 2);
      kernels.encodeFp16(words, count, target);
      for (let i = 0; i < count; i++) {
        const bits = arena.words[words / 4 + i]!;
        oracle.setFloat16(0, view.getFloat32(words + i * 4, true), true);
        const expected = isNanBits(bits) ? ((bits >>> 16) & 0x8000) | 0x7e00 : oracle.getUint16(0, true);
        assert.equal(view.getUint16(target + i * 2, true), expected, bits.toString(16));
      }
    });

    test("rounds to bf16: ties to even, NaN stays NaN, infinity stays infinity", () => {
      const { arena, kernels } = fresh();
      const cases: readonly (readonly [number, number])[] = [
        [0x3f80_0000, 0x3f80],
        [0x3f80_8000, 0x3f80],
        [0x3f81_8000, 0x3f82],
        [0x3f80_8001, 0x3f81],
        [0x7f7f_ffff, 0x7f80],
        [0x7f80_0000, 0x7f80],
        [0x7f80_0001, 0x7fc0],
        [0xffff_ffff, 0xffff],
        [0x8000_0000, 0x8000],
        [0x0000_8001, 0x0001],
      ];
      const source = putWords(
        arena,
        cases.map(([bits]) => bits),
      );
      const target = arena.allocate(cases.length * 2);
      const back = arena.allocate(cases.length * 4);
      kernels.encodeBf16(source, cases.length, target);
      kernels.decodeBf16(target, cases.length, back);
      const view = new DataView(arena.memory.buffer);
      for (const [i, [bits, expected]] of cases.entries()) {
        assert.equal(view.getUint16(target + i * 2, true), expected, bits.toString(16));
        assert.equal(arena.words[back / 4 + i], expected * 0x1_0000, bits.toString(16));
      }
    });

    test("brings rows back from int8 within scale × (1/2 + 2^-15) + 2^-23 × |zero|, symmetric and centred", () => {
      const rows = fc.tuple(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 5 }),
        fc.constantFrom(0, 1),
        fc.nat(),
        fc.constantFrom(0, 0.1, -5, 1e6, 1e30),
      );
      fc.assert(
        fc.property(rows, ([width, rowCount, centred, seed, offset]) => {
          const { arena, kernels } = fresh();
          const random = new Random(seed);
          const size = 2 ** (random.below(250) - 140);
          const floats = Float32Array.from({ length: width * rowCount }, () => (random.fraction() - 0.5) * size + offset);
          const source = putFloats(arena, floats);
          const target = arena.allocate(rowCount * 8 + floats.length);
          const back = arena.allocate(floats.length * 4);
          assert.equal(kernels.encodeInt8Rows(source, rowCount, width, centred, target), -1);
          assert.equal(kernels.decodeInt8Rows(target, rowCount, width, centred, back), -1);
          const decoded = readFloats(arena, back, floats.length);
          for (const [i, value] of floats.entries()) {
            const row = Math.floor(i / width);
            const scale = arena.floats[target / 4 + row]!;
            const zero = centred === 1 ? arena.floats[target / 4 + rowCount + row]! : 0;
            const bound = scale * (0.5 + 2 ** -15) + 2 ** -23 * Math.abs(zero);
            assert.ok(Math.abs(decoded[i]! - value) <= bound, `${value} became ${decoded[i]}, scale ${scale}, zero ${zero}`);
          }
        }),
      );
    });

    test("uses all 127 steps of int8, and a row of zeros stays one", () => {
      const { arena, kernels } = fresh();
      const source = putFloats(arena, [1, -2, 0.5, 0, 0, -0, 0, 0, 10, 11, 12, 11]);
      const target = arena.allocate(100);
      const back = arena.allocate(48);
      assert.equal(kernels.encodeInt8Rows(source, 3, 4, 0, target), -1);
      assert.deepEqual([...new Int8Array(readBytes(arena, target + 12, 4).buffer)], [64, -127, 32, 0]);
      kernels.decodeInt8Rows(target, 3, 4, 0, back);
      assert.deepEqual([...readFloats(arena, back + 16, 4)], [0, 0, 0, 0]);
      assert.equal(kernels.encodeInt8Rows(source, 3, 4, 1, target), -1);
      assert.equal(arena.floats[target / 4 + 5], 11, "the middle of the third row");
      assert.deepEqual([...new Int8Array(readBytes(arena, target + 32, 4).buffer)], [-127, 0, 127, 0]);
    });

    test("refuses rows with NaN, infinity or more than 2^126, naming the first", () => {
      for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -(2 ** 126) * (1 + 2 ** -23), 3e38]) {
        for (const column of [0, 5, 17, 18]) {
          const { arena, kernels } = fresh();
          const floats = new Float32Array(19 * 3).fill(1);
          floats[19 + column] = wrong;
          const source = putFloats(arena, floats);
          for (const centred of [0, 1]) assert.equal(kernels.encodeInt8Rows(source, 3, 19, centred, arena.allocate(200)), 1, `${wrong}`);
        }
      }
    });

    test("takes values up to 2^126, and what comes back is finite", () => {
      const { arena, kernels } = fresh();
      const source = putFloats(arena, [INT8_MAGNITUDE_MAX, -INT8_MAGNITUDE_MAX, INT8_MAGNITUDE_MAX, INT8_MAGNITUDE_MAX]);
      const target = arena.allocate(64);
      const back = arena.allocate(16);
      for (const centred of [0, 1]) {
        assert.equal(kernels.encodeInt8Rows(source, 2, 2, centred, target), -1);
        assert.equal(kernels.decodeInt8Rows(target, 2, 2, centred, back), -1);
        assert.ok(readFloats(arena, back, 4).every((value) => Number.isFinite(value) && Math.abs(value) > 0.99 * INT8_MAGNITUDE_MAX));
      }
    });

    test("refuses scales, zeros and bytes that no int8 encoder makes", () => {
      const { arena, kernels } = fresh();
      const width = 20;
      const target = arena.allocate(16 + 2 * width);
      const back = arena.allocate(2 * width * 4);
      const source = putFloats(arena, new Float32Array(2 * width).fill(3));
      const spoil = (change: () => void): number => {
        kernels.encodeInt8Rows(source, 2, width, 1, target);
        change();
        return kernels.decodeInt8Rows(target, 2, width, 1, back);
      };
      assert.equal(
        spoil(() => {}),
        -1,
      );
      for (const scale of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e-40, 1e37]) {
        assert.equal(
          spoil(() => {
            arena.floats[target / 4 + 1] = scale;
          }),
          1,
          `scale ${scale}`,
        );
      }
      for (const zero of [Number.NaN, Number.NEGATIVE_INFINITY, 3e38]) {
        assert.equal(
          spoil(() => {
            arena.floats[target / 4 + 2] = zero;
          }),
          0,
          `zero ${zero}`,
        );
      }
      for (const column of [0, 15, 16, 19]) {
        assert.equal(
          spoil(() => {
            arena.bytes[target + 16 + width + column] = 0x80;
          }),
          1,
          `-128 in column ${column}`,
        );
      }
    });
  });
}
