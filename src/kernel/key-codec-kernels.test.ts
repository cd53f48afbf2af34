// Goal: every implementation of the codecs of keys brings any ascending list back; no bytes of a peer make a decoder
// read or write where it should not.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { guardedSpan, putBytes, putKeys, readBytes, readKey, readKeys } from "../testing/arena-lists.ts";
import { CODEC_IMPLEMENTATIONS } from "../testing/store-stage.ts";
import { DeltaStatus, deltaKeysBound } from "./codec-kernels.ts";

const KEY_MAX = 2n ** 64n - 1n;

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

for (const { name, fresh } of CODEC_IMPLEMENTATIONS) {
  describe(name, () => {
    test("delta-codes any ascending keys in no more than the bound, and brings them back", () => {
      fc.assert(
        fc.property(ascendingArbitrary, (keys) => {
          const { arena, kernels } = fresh();
          const target = guardedSpan(arena, deltaKeysBound(keys.length));
          const back = guardedSpan(arena, keys.length * 8);
          const byteCount = kernels.encodeDeltaKeys(putKeys(arena, keys), keys.length, target.address);
          assert.ok(target.isIntact());
          assert.ok(byteCount >= Math.ceil(keys.length / 2) && byteCount <= deltaKeysBound(keys.length));
          assert.equal(kernels.decodeDeltaKeys(target.address, byteCount, keys.length, back.address), DeltaStatus.DONE);
          assert.ok(back.isIntact());
          assert.deepEqual(readKeys(arena, back.address, keys.length), keys);
        }),
      );
    });

    test("needs half a byte for a key that follows the one before", () => {
      const { arena, kernels } = fresh();
      const keys = putKeys(
        arena,
        Array.from({ length: 1000 }, (_, i) => BigInt(i)),
      );
      assert.equal(kernels.encodeDeltaKeys(keys, 1000, arena.allocate(9000)), 500);
    });

    test("refuses to encode keys that do not ascend, wherever", () => {
      const { arena, kernels } = fresh();
      const target = arena.allocate(200);
      for (const keys of [
        [1n, 1n],
        [2n, 1n],
        [0n, 0n],
        [KEY_MAX, KEY_MAX],
        [1n, 2n, 2n],
        [5n, 6n, 7n, 3n],
        [KEY_MAX, 0n, 1n],
      ]) {
        assert.equal(kernels.encodeDeltaKeys(putKeys(arena, keys), keys.length, target), -1, keys.join());
      }
    });

    test("refuses delta-coded keys that are cut, too long, not the shortest or past 2^64 - 1, each for its reason", () => {
      const { arena, kernels } = fresh();
      const keys = arena.allocate(1000);
      const decode = (keyCount: number, bytes: readonly number[]): number =>
        kernels.decodeDeltaKeys(putBytes(arena, bytes), bytes.length, keyCount, keys);
      const ff = Array.from({ length: 8 }, () => 0xff);
      assert.equal(decode(0, []), DeltaStatus.DONE);
      assert.equal(decode(1, [0x08, ...ff]), DeltaStatus.DONE);
      assert.equal(decode(2, [0x21, 7, 0, 1]), DeltaStatus.DONE);
      assert.equal(decode(1, []), DeltaStatus.TOO_SHORT);
      assert.equal(decode(2, [0x21, 7, 0]), DeltaStatus.TOO_SHORT);
      assert.equal(decode(2, [0x21, 7, 0, 1, 0]), DeltaStatus.TOO_LONG);
      assert.equal(decode(0, [0]), DeltaStatus.TOO_LONG);
      assert.equal(decode(2, [0x21, 7, 1, 0]), DeltaStatus.WRONG_LENGTH, "a leading zero");
      assert.equal(decode(1, [0x10]), DeltaStatus.WRONG_LENGTH, "half a byte that is not used");
      assert.equal(decode(1, [0x09, ...ff, 1]), DeltaStatus.WRONG_LENGTH, "nine bytes");
      assert.equal(decode(2, [0x08, ...ff]), DeltaStatus.NOT_ASCENDING);
      assert.equal(decode(2, [0x88, ...ff, ...ff]), DeltaStatus.NOT_ASCENDING);
    });

    test("whatever bytes are given as delta-coded keys, reads and writes only its own", () => {
      const { arena, kernels } = fresh();
      const back = guardedSpan(arena, 40 * 8);
      let done = 0;
      const bytesArbitrary = fc.oneof(
        fc.uint8Array({ maxLength: 120 }),
        fc
          .tuple(fc.array(fc.constantFrom(0, 1, 0x11, 0x10, 0x18, 0x88), { maxLength: 20 }), fc.uint8Array({ maxLength: 120 }))
          .map((parts) => Uint8Array.from(parts.flatMap((part) => [...part]))),
      );
      fc.assert(
        fc.property(bytesArbitrary, fc.nat(40), fc.nat(255), (bytes, keyCount, behind) => {
          // What lies behind the bytes must not matter (CodecKernels.E2).
          const source = arena.allocate(256);
          arena.bytes.fill(behind, source, source + 256);
          arena.bytes.set(bytes, source);
          const status = kernels.decodeDeltaKeys(source, bytes.length, keyCount, back.address);
          arena.bytes.fill(behind ^ 0xff, source + bytes.length, source + 256);
          assert.equal(kernels.decodeDeltaKeys(source, bytes.length, keyCount, back.address), status);
          arena.release(source, 256);
          assert.ok(back.isIntact());
          if (status !== DeltaStatus.DONE) return;
          done++;
          const keys = readKeys(arena, back.address, keyCount);
          for (let i = 1; i < keyCount; i++) assert.ok(keys[i]! > keys[i - 1]!);
          const again = arena.allocate(400);
          assert.equal(kernels.encodeDeltaKeys(back.address, keyCount, again), bytes.length, "CodecKeys.D1: one encoding for a list");
          assert.deepEqual(readBytes(arena, again, bytes.length), Uint8Array.from(bytes));
          arena.release(again, 400);
        }),
        { numRuns: 3000 },
      );
      assert.ok(done > 0, "some bytes are legal");
    });

    test("signs lists so that order, length and every bit of every key count", () => {
      const { arena, kernels } = fresh();
      const signature = arena.allocate(8);
      const sign = (keys: readonly bigint[]): bigint => {
        const address = putKeys(arena, keys);
        kernels.signKeys(address, keys.length, signature);
        arena.release(address, Math.max(8, keys.length * 8));
        return readKey(arena, signature);
      };
      const keys = Array.from({ length: 11 }, (_, i) => BigInt(i * i));
      const seen = new Set([sign(keys), sign([]), sign([0n]), sign([0n, 0n]), sign([...keys].reverse()), sign(keys.slice(1))]);
      for (let at = 0; at < keys.length; at++) {
        for (let bit = 0n; bit < 64n; bit++) seen.add(sign(keys.with(at, keys[at]! ^ (1n << bit))));
      }
      assert.equal(seen.size, 6 + 11 * 64);
    });
  });
}
