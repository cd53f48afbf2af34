// Goal: sparse payloads shrink and come back as they were; no bytes of a peer give more than was declared, take much
// memory, or crash.

import assert from "node:assert/strict";
import { test } from "node:test";
import { zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { codecStage } from "../testing/store-stage.ts";
import { compressPayload, decompressPayload, isCompressible, plainBytesOf } from "../wire/codecs/general-compression.ts";
import { PayloadCodec } from "../wire/codecs/payload-codec.ts";
import { zstd } from "./zstd.ts";

const badRequest = (error: unknown): boolean => isWeighbridgeError(error, "BAD_REQUEST");

/** In shared memory, as payloads in an arena are. */
function gradient(count: number, density: number): Uint8Array {
  const random = new Random(11);
  const floats = new Float32Array(new SharedArrayBuffer(count * 4));
  for (let i = 0; i < count; i++) if (random.chance(density)) floats[i] = (random.fraction() - 0.5) * 0.02;
  return new Uint8Array(floats.buffer);
}

test("sparse gradients shrink at least eight times, and come back as they were", () => {
  const source = gradient(50_000, 0.05);
  const target = new Uint8Array(source.length);
  const byteCount = compressPayload(zstd(), source, target);
  assert.ok(byteCount > 0 && byteCount * 8 < source.length, `${byteCount} bytes`);
  const compressed = target.subarray(0, byteCount);
  const back = new Uint8Array(plainBytesOf(compressed, source.length));
  decompressPayload(zstd(), compressed, back);
  assert.deepEqual(back, Uint8Array.from(source));
});

test("of a sparse payload of a link the zeros are packed away first: fewer bytes than zstd makes of them", () => {
  const context = codecStage();
  const { arena } = context;
  const codec = new PayloadCodec(context, "f32", zstd());
  const shape = { rowCount: 500, width: 100 };
  const values = gradient(50_000, 0.05);
  const source = arena.allocate(values.length);
  const target = arena.allocate(codec.encodeBound(shape));
  arena.bytes.set(values, source);
  const byteCount = codec.encode({ ...shape, source, target });
  assert.ok(byteCount < compressPayload(zstd(), values, new Uint8Array(values.length)), `${byteCount} bytes`);
  const back = arena.allocate(values.length);
  codec.decode({ ...shape, source: target, byteCount, target: back });
  assert.deepEqual(arena.bytes.slice(back, back + values.length), Uint8Array.from(values));
});

test("dense gradients and short payloads travel as they are", () => {
  for (const source of [gradient(50_000, 1), new Uint8Array(4095), new Uint8Array(0)]) {
    assert.equal(isCompressible(source), false);
    assert.equal(compressPayload(zstd(), source, new Uint8Array(source.length)), 0);
  }
});

test("a payload whose sample misleads travels as it is when it does not shrink by an eighth", () => {
  const random = new Random(5);
  const source = Uint8Array.from({ length: 65_536 }, () => random.below(256));
  for (let run = 0; run < 64; run++)
    source.fill(0, Math.floor((run * (source.length - 32)) / 63), Math.floor((run * (source.length - 32)) / 63) + 32);
  assert.equal(isCompressible(source), true);
  assert.equal(compressPayload(zstd(), source, new Uint8Array(source.length)), 0);
});

test("refuses more and less than was declared, bytes behind the end, and what is no zstd", () => {
  const compressed = new Uint8Array(zstdCompressSync(new Uint8Array(10_000)));
  for (const declared of [9999, 10_001, 1]) {
    assert.throws(() => zstd().decompress(compressed, new Uint8Array(declared)), badRequest, `${declared}`);
  }
  assert.throws(() => zstd().decompress(Uint8Array.of(...compressed, 0), new Uint8Array(10_000)), badRequest);
  assert.throws(() => zstd().decompress(compressed.subarray(0, -1), new Uint8Array(10_000)), badRequest);
  assert.throws(() => zstd().decompress(new Uint8Array(0), new Uint8Array(1)), badRequest);
  zstd().decompress(compressed, new Uint8Array(10_000));
});

test("refuses a frame that asks for a window of 128 MiB, and takes one of 1 MiB", () => {
  // magic, no checksum and no size, the window's exponent above 10, one last raw block of one byte
  const frame = (windowLog: number): Uint8Array => Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0, (windowLog - 10) << 3, 9, 0, 0, 42);
  const target = new Uint8Array(1);
  zstd().decompress(frame(20), target);
  assert.deepEqual([...target], [42]);
  assert.throws(() => zstd().decompress(frame(27), target), badRequest);
});

test("whatever a peer sends as compressed gives an error or exactly the declared bytes", () => {
  const valid = new Uint8Array(5000);
  const validBytes = compressPayload(zstd(), gradient(1250, 0.02), valid);
  assert.ok(validBytes > 0);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.nat(validBytes), fc.nat(255), fc.boolean(), (noise, at, flip, isNoise) => {
      const bytes = isNoise ? noise : valid.slice(0, validBytes);
      if (!isNoise && at < validBytes) bytes[at]! ^= flip;
      try {
        const back = new Uint8Array(plainBytesOf(bytes, 1 << 20));
        decompressPayload(zstd(), bytes, back);
      } catch (error) {
        assert.ok(badRequest(error), String(error));
      }
    }),
    { numRuns: 500 },
  );
});
