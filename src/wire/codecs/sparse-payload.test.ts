// Goal: payloads of which most is 0 travel packed and come back as they were, compressed or not; bytes that no sender
// makes are refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { codecStage } from "../../testing/store-stage.ts";
import { CompressionMethod, type GeneralCompression, methodOf } from "./general-compression.ts";
import { PayloadCodec } from "./payload-codec.ts";

const SHAPE = { rowCount: 100, width: 64 };
const FLOATS = 6400;
const badRequest = (error: unknown): boolean => isWeighbridgeError(error, "BAD_REQUEST");

/** A compressor that never gains. */
const never: GeneralCompression = { method: CompressionMethod.ZSTD, compress: () => 0, decompress: () => assert.fail("nothing to do") };

/** One that writes runs: (count, byte) pairs. */
const runs: GeneralCompression = {
  method: CompressionMethod.ZSTD,
  compress(source, target) {
    let out = 0;
    for (let at = 0; at < source.length; ) {
      let count = 1;
      while (count < 255 && source[at + count] === source[at]) count++;
      if (out + 2 > target.length) return 0;
      target.set([count, source[at] as number], out);
      out += 2;
      at += count;
    }
    return out;
  },
  decompress(source, target) {
    let at = 0;
    for (let i = 0; i < source.length; i += 2) {
      target.fill(source[i + 1] as number, at, at + (source[i] as number));
      at += source[i] as number;
    }
  },
};

function sent(compression: GeneralCompression, density: number, same = false) {
  const context = codecStage();
  const { arena } = context;
  const codec = new PayloadCodec(context, "f32", compression);
  const random = new Random(3);
  const values = Float32Array.from({ length: FLOATS }, () => (random.chance(density) ? (same ? 1 : random.fraction()) : 0));
  const source = arena.allocate(FLOATS * 4);
  arena.floats.set(values, source >>> 2);
  const target = arena.allocate(codec.encodeBound(SHAPE));
  const byteCount = codec.encode({ ...SHAPE, source, target });
  const back = arena.allocate(FLOATS * 4);
  const decode = (bytes = byteCount): Float32Array => {
    codec.decode({ ...SHAPE, source: target, byteCount: bytes, target: back });
    return arena.floats.slice(back >>> 2, (back >>> 2) + FLOATS) as Float32Array;
  };
  return { arena, values, byteCount, target, decode, method: methodOf(arena.bytes.subarray(target, target + byteCount)) };
}

test("a twentieth of the words travels in a tenth of the bytes, and comes back as it was", () => {
  const { values, byteCount, decode, method } = sent(never, 0.05);
  assert.equal(method, CompressionMethod.PACKED);
  assert.ok(byteCount * 10 < FLOATS * 4, `${byteCount} bytes`);
  assert.deepEqual(decode(), values);
});

test("what is packed is compressed once more where that gains", () => {
  const { values, byteCount, decode, method } = sent(runs, 0.0005, true);
  assert.equal(method, CompressionMethod.PACKED_ZSTD);
  assert.ok(byteCount * 50 < FLOATS * 4, `${byteCount} bytes`);
  assert.deepEqual(decode(), values);
});

test("more than a quarter of the words is not packed", () => {
  const { values, byteCount, decode, method } = sent(never, 0.6);
  assert.equal(method, CompressionMethod.STORED);
  assert.equal(byteCount, 8 + FLOATS * 4);
  assert.deepEqual(decode(), values);
});

test("refuses a mask that does not fit its words, and packed bytes beyond the payload (SparsePayload.S1)", () => {
  const packed = sent(never, 0.05);
  assert.throws(() => packed.decode(packed.byteCount - 4), badRequest);
  packed.arena.bytes[packed.target + 8]! ^= 1;
  assert.throws(() => packed.decode(), badRequest);
  const compressed = sent(runs, 0.0005, true);
  assert.throws(() => compressed.decode(12), badRequest);
  compressed.arena.words[(compressed.target + 8) >>> 2] = FLOATS * 4 + 4;
  assert.throws(() => compressed.decode(), badRequest);
});
