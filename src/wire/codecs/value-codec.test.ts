// Goal: one suite for every value codec: what is encoded comes back within its bound, in no more bytes than promised;
// lengths that are wrong by one and bytes of any kind are typed errors; and nothing outside the target is written.
//
// Goal: words of every kind come back bit for bit, in few bytes where few of them are not 0 and never in more than they
// have; every truncation and every mask that does not fit is a typed error.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { putFloats, putWords, readFloats, readWords } from "../../testing/arena-lists.ts";
import { codecStage } from "../../testing/store-stage.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { Residuals } from "./codec-memory.ts";
import { linkEncoding, openValueCodec, type ValueCodecChoice } from "./link-encoding.ts";
import { PackedCodec, type ValueShape } from "./value-codec.ts";

const GUARD = 0x5a;
const GUARD_BYTES = 64;

type Expectation = {
  readonly choice: ValueCodecChoice;
  readonly bytes: (shape: ValueShape) => number;
  readonly bound: (values: Float32Array) => number;
};

const largest = (values: Float32Array): number => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
const EXPECTATIONS: readonly Expectation[] = [
  { choice: "f32", bytes: ({ rowCount, width }) => rowCount * width * 4, bound: () => 0 },
  { choice: "packed", bytes: ({ rowCount, width }) => rowCount * width * 4, bound: () => 0 }, // of which no word is 0
  { choice: "fp16", bytes: ({ rowCount, width }) => rowCount * width * 2, bound: (values) => largest(values) * 2 ** -11 + 2 ** -25 },
  { choice: "bf16", bytes: ({ rowCount, width }) => rowCount * width * 2, bound: (values) => largest(values) * 2 ** -8 },
  {
    choice: "int8",
    bytes: ({ rowCount, width }) => rowCount * (width + 4),
    bound: (values) => (largest(values) / 127) * 0.50004 + 2 ** -126,
  },
  {
    choice: "int8-centred",
    bytes: ({ rowCount, width }) => rowCount * (width + 8),
    bound: (values) => (largest(values) / 127) * 0.50004 + 2 ** -126,
  },
];

const shapeArbitrary = fc.record({ rowCount: fc.integer({ min: 1, max: 6 }), width: fc.integer({ min: 1, max: 37 }) });

function randomValues(seed: number, count: number): Float32Array {
  const random = new Random(seed);
  return Float32Array.from({ length: count }, () => (random.fraction() - 0.5) * 2 ** random.below(10));
}

for (const { choice, bytes, bound } of EXPECTATIONS) {
  describe(`the codec ${JSON.stringify(choice)}`, () => {
    test("brings values back within its bound, in exactly the bytes it promises", () => {
      const context = codecStage();
      const { arena } = context;
      const codec = openValueCodec(context, choice);
      fc.assert(
        fc.property(shapeArbitrary, fc.nat(), (shape, seed) => {
          const values = randomValues(seed, shape.rowCount * shape.width);
          const source = putFloats(arena, values);
          const targetBytes = codec.encodeBound(shape);
          const target = arena.allocate(targetBytes);
          const back = arena.allocate(values.length * 4);
          const byteCount = codec.encode({ ...shape, source, target });
          assert.equal(byteCount, bytes(shape));
          assert.ok(byteCount <= targetBytes, "ValueCodec.V1");
          codec.decode({ ...shape, source: target, byteCount, target: back });
          const decoded = readFloats(arena, back, values.length);
          for (const [i, value] of values.entries()) assert.ok(Math.abs(decoded[i]! - value) <= bound(values), `${value}: ${decoded[i]}`);
          arena.release(source, values.length * 4);
          arena.release(target, targetBytes);
          arena.release(back, values.length * 4);
        }),
      );
    });

    test("refuses a payload that is a byte too short or too long", () => {
      const context = codecStage();
      const codec = openValueCodec(context, choice);
      const shape = { rowCount: 3, width: 5 };
      const source = context.arena.allocate(200);
      for (const byteCount of [0, bytes(shape) - 1, bytes(shape) + 1]) {
        assert.throws(
          () => codec.decode({ ...shape, source, byteCount, target: context.arena.allocate(60) }),
          (error) => isWeighbridgeError(error, "BAD_REQUEST"),
        );
      }
    });
  });
}

describe("top-k", () => {
  const choice = { topK: 0.1 };

  test("sends the largest and keeps the others for the next time, so that nothing is lost", () => {
    const context = codecStage();
    const { arena } = context;
    const codec = openValueCodec(context, choice);
    const residuals = new Residuals(context);
    const shape = { rowCount: 7, width: 13 };
    const count = 91;
    const target = arena.allocate(codec.encodeBound(shape));
    const back = arena.allocate(count * 4);
    const pushed = new Float64Array(count);
    const received = new Float64Array(count);
    const random = new Random(4);
    for (let step = 0; step < 50; step++) {
      const gradient = Float32Array.from({ length: count }, () => random.below(201) - 100);
      const source = putFloats(arena, gradient);
      const byteCount = codec.encode({ ...shape, source, target, residual: residuals.spanOf(0, count) });
      assert.ok(byteCount <= codec.encodeBound(shape), "ValueCodec.V1");
      codec.decode({ ...shape, source: target, byteCount, target: back });
      const decoded = readFloats(arena, back, count);
      const kept = readFloats(arena, residuals.spanOf(0, count), count);
      assert.equal(decoded.filter((value) => value !== 0).length, 10, "a tenth of 91, rounded up");
      for (let i = 0; i < count; i++) {
        pushed[i]! += gradient[i]!;
        received[i]! += decoded[i]!;
        assert.equal(received[i]! + kept[i]!, pushed[i], `TopKCodec.T1: step ${step}, value ${i}`);
      }
    }
    residuals.close();
    codec.close();
  });

  test("refuses a gradient that is not finite and leaves the residual as it was", () => {
    const context = codecStage();
    const codec = openValueCodec(context, choice);
    const residual = putFloats(context.arena, [1, 2, 3]);
    const source = putFloats(context.arena, [1, Number.NaN, 1]);
    const shape = { rowCount: 1, width: 3 };
    const target = context.arena.allocate(codec.encodeBound(shape));
    assert.throws(
      () => codec.encode({ ...shape, source, target, residual }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && error.message.includes("value 1"),
    );
    assert.deepEqual([...readFloats(context.arena, residual, 3)], [1, 2, 3]);
  });

  test("whatever bytes are given, writes only its target or throws BAD_REQUEST", () => {
    const context = codecStage();
    const { arena } = context;
    const codec = openValueCodec(context, choice);
    const shape = { rowCount: 4, width: 10 };
    const start = arena.allocate(160 + 2 * GUARD_BYTES);
    arena.bytes.fill(GUARD, start, start + 160 + 2 * GUARD_BYTES);
    const encoded = arena.allocate(codec.encodeBound(shape));
    const residual = putFloats(arena, new Float32Array(40));
    const byteCount = codec.encode({ ...shape, source: putFloats(arena, randomValues(1, 40)), target: encoded, residual });
    const valid = arena.bytes.slice(encoded, encoded + byteCount);
    const source = arena.allocate(256);
    let taken = 0;
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.nat(byteCount - 1), fc.nat(255), fc.nat(3), (noise, at, flip, cut) => {
        const bytes = cut === 0 ? noise : valid.slice(0, cut === 1 ? at : byteCount);
        if (cut >= 2) bytes[at]! ^= flip;
        arena.bytes.set(bytes, source);
        try {
          codec.decode({ ...shape, source, byteCount: bytes.length, target: start + GUARD_BYTES });
          taken++;
        } catch (error) {
          assert.ok(isWeighbridgeError(error, "BAD_REQUEST"), String(error));
        }
        for (let i = 0; i < GUARD_BYTES; i++) {
          assert.equal(arena.bytes[start + i], GUARD);
          assert.equal(arena.bytes[start + GUARD_BYTES + 160 + i], GUARD);
        }
      }),
      { numRuns: 2000 },
    );
    assert.ok(taken > 0, "some are legal: the values may be anything");
  });
});

describe("linkEncoding", () => {
  test("loses nothing by default", () => {
    assert.deepEqual(linkEncoding("table"), { push: "f32", pull: "f32", keys: "delta", keyCache: false, compression: "none" });
  });

  test("takes every choice that makes sense", () => {
    for (const { choice } of EXPECTATIONS) assert.equal(linkEncoding("table", { push: choice, pull: choice }).pull, choice);
    assert.deepEqual(linkEncoding("tensor", { push: { topK: 0.01 } }).push, { topK: 0.01 });
  });

  test("refuses what does not, and says what would", () => {
    const cases: readonly (readonly [() => unknown, RegExp])[] = [
      [() => linkEncoding("tensor", { push: "fp8" as "fp16" }), /push is one of f32, fp16, bf16, int8, int8-centred, packed, not "fp8"/],
      [() => linkEncoding("tensor", { pull: { topK: 0.1 } }), /pull cannot be top-k/],
      [() => linkEncoding("table", { push: { topK: 0.1 } }), /table cannot be top-k/],
      [() => linkEncoding("tensor", { push: { topK: 0 } }), /above 0 and at most 1, not 0/],
      [() => linkEncoding("tensor", { push: { topK: Number.NaN } }), /not NaN/],
      [() => linkEncoding("tensor", { push: null as unknown as "f32" }), /not null/],
      [() => linkEncoding("tensor", { keys: "sorted" as "raw" }), /keys is one of raw, delta/],
      [() => linkEncoding("tensor", { compression: "snappy" as "zstd" }), /none, zstd, not "snappy"/],
      [() => linkEncoding("tensor", { cache: true } as object), /there is no "cache"/],
    ];
    for (const [call, message] of cases) {
      assert.throws(call, (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && message.test(error.message), String(message));
    }
  });
});

test("rows of which few words are not 0 travel in a mask and those words, and come back bit for bit", () => {
  const context = codecStage();
  const { arena } = context;
  const codec = new PackedCodec(context);
  const random = new Random(3);
  for (let round = 0; round < 200; round++) {
    const shape = { rowCount: 1 + random.below(5), width: 1 + random.below(200) };
    const wordCount = shape.rowCount * shape.width;
    const share = random.fraction();
    const words = Array.from({ length: wordCount }, () => (random.chance(share) ? random.uint32() : 0));
    const [source, target, back] = [putWords(arena, words), arena.allocate(wordCount * 4), arena.allocate(wordCount * 4)];
    const byteCount = codec.encode({ ...shape, source, target });
    const occupied = words.filter((word) => word !== 0).length;
    assert.equal(byteCount, Math.min(wordCount * 4, Math.ceil(wordCount / 64) * 8 + occupied * 4), `round ${round}`);
    codec.decode({ ...shape, source: target, byteCount, target: back });
    assert.deepEqual([...readWords(arena, back, wordCount)], words, `round ${round}`);
    for (const [address] of [[source], [target], [back]] as const) arena.release(address, wordCount * 4);
  }
});

test("every truncation of packed words, and bytes behind them, are BAD_REQUEST", () => {
  const context = codecStage();
  const { arena } = context;
  const codec = new PackedCodec(context);
  const shape = { rowCount: 2, width: 40 };
  const words = Array.from({ length: 80 }, (_, i) => (i % 9 === 0 ? i + 1 : 0));
  const [source, target, back] = [putWords(arena, words), arena.allocate(400), arena.allocate(320)];
  const byteCount = codec.encode({ ...shape, source, target });
  assert.equal(byteCount, 16 + 9 * 4);
  for (let cut = 0; cut < 400; cut++) {
    if (cut === byteCount || cut === 320) continue;
    assert.throws(
      () => codec.decode({ ...shape, source: target, byteCount: cut, target: back }),
      throwsCode("BAD_REQUEST", /mask of 80 words|bytes of f32 where 320 are due/),
    );
  }
  arena.bytes.fill(0xff, target, target + 16);
  assert.throws(() => codec.decode({ ...shape, source: target, byteCount, target: back }), throwsCode("BAD_REQUEST", /mask of 80 words/));
});
