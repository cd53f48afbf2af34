// Goal: whatever the keys and lengths, the calls of a part carry every key and value exactly once, in order, none more
// than about a block.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { elementTypeOf } from "../kernel/elements.ts";
import { EncodedFrames, PagePool } from "../peer/frame-batch.ts";
import { type StubFrame, StubLink } from "../testing/stub-link.ts";
import { BLOCK_BYTES, FrameHeader, Kind, PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { KvFlag, LARGE_VALUE_BYTES, type Values } from "../wire/kv-message.ts";
import type { KvArrays } from "./kv-arrays.ts";
import { FloatWindow } from "./kv-landing.ts";
import { cutPart, fitsOneFrame, type KvCall, KvRequest } from "./kv-request.ts";

const OWNER = { app: 1, customer: 2, window: new FloatWindow(), incarnations: [], ended: (): void => {} };

function pushOf(values: Values, keyCount: number, lens?: Int32Array): KvRequest {
  const keys = BigUint64Array.from({ length: keyCount }, (_, i) => BigInt(i));
  const width = lens === undefined ? values.length / keyCount : 0;
  const elementBytes = values.BYTES_PER_ELEMENT;
  const arrays: KvArrays = { keys, sent: values, received: undefined, lens, dtype: elementTypeOf(values), width, elementBytes };
  return new KvRequest(OWNER, FunctionId.KV_PUSH, arrays, {});
}

function framesOf(calls: readonly (KvCall | KvRequest)[]): StubFrame[] {
  const link = new StubLink();
  for (const call of calls) {
    const batch = new EncodedFrames(new PagePool());
    call.encode(new FrameHeader().reset(Kind.REQUEST, call.functionId), batch);
    const taken = batch.take();
    const { chunks } = taken;
    link.write(chunks, () => taken.flushed());
  }
  return link.take();
}

/** Puts the frames together again, as a server would, and compares. */
function checkFrames(frames: readonly StubFrame[], request: KvRequest): void {
  const { keys, sent, lens, width, elementBytes } = request;
  const seenKeys: bigint[] = [];
  const seenLens: number[] = [];
  let valueAt = 0;
  const sentBytes = new Uint8Array(sent?.buffer ?? new ArrayBuffer(0), sent?.byteOffset, sent?.byteLength);
  for (const [i, { header, payload }] of frames.entries()) {
    const { arg0: keyCount, arg1, arg2: offset, flags } = header;
    assert.ok(payload.length <= BLOCK_BYTES + 8 && payload.length <= PAYLOAD_BYTES_MAX, `frame ${i} has ${payload.length} bytes`);
    assert.equal((flags & KvFlag.FIRST) !== 0, i === 0, `FIRST on frame ${i}`);
    assert.equal((flags & KvFlag.LAST) !== 0, i === frames.length - 1, `LAST on frame ${i}`);
    const lensBytes = (flags & KvFlag.LENS) === 0 ? 0 : keyCount * 4;
    const values = payload.subarray(keyCount * 8, payload.length - lensBytes);
    assert.deepEqual(values, sentBytes.subarray(valueAt, valueAt + values.length));
    valueAt += values.length;
    const isPiece = (flags & KvFlag.PIECE) !== 0;
    if (isPiece) assert.ok(keyCount === 1 && arg1 * elementBytes >= LARGE_VALUE_BYTES && (offset * elementBytes) % BLOCK_BYTES === 0);
    if (isPiece && offset > 0) continue;
    for (const key of new BigUint64Array(payload.slice(0, keyCount * 8).buffer)) seenKeys.push(key);
    if (isPiece) seenLens.push(arg1);
    else if (lensBytes > 0) for (const length of new Int32Array(payload.slice(payload.length - lensBytes).buffer)) seenLens.push(length);
    else for (let key = 0; key < keyCount; key++) seenLens.push(arg1);
  }
  assert.equal(valueAt, sentBytes.length);
  assert.deepEqual(BigUint64Array.from(seenKeys), keys);
  assert.deepEqual(Int32Array.from(seenLens), lens ?? new Int32Array(keys.length).fill(width));
}

test("any number of keys of one width is carried once and in order", () => {
  const shapes: readonly (readonly [number, number])[] = [
    [1, 1],
    [1, 4095],
    [1, 4096],
    [3, 4096],
    [1, 131_072],
    [1, 131_073],
    [2, 300_000],
    [100_000, 1],
    [10_000, 33],
    [129, 4095],
  ];
  for (const [keyCount, width] of shapes) {
    const request = pushOf(
      Float32Array.from({ length: keyCount * width }, (_, i) => i % 65_521),
      keyCount,
    );
    const part = { keyFrom: 0, keyTo: keyCount, valueFrom: 0, valueTo: keyCount * width };
    checkFrames(framesOf(cutPart(request, part, 1)), request);
  }
});

test("any mix of lengths, types and sizes is carried once and in order", () => {
  const length = fc.oneof(fc.integer({ min: 0, max: 10 }), fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 100_000, max: 200_000 }));
  const makers = [
    (count: number): Values => Float32Array.from({ length: count }, (_, i) => i),
    (count: number): Values => Float64Array.from({ length: count }, (_, i) => i),
    (count: number): Values => Uint8Array.from({ length: count }, (_, i) => i),
  ];
  fc.assert(
    fc.property(fc.array(length, { minLength: 1, maxLength: 12 }), fc.constantFrom(...makers), (list, make) => {
      const lens = Int32Array.from(list);
      const valueCount = list.reduce((a, b) => a + b, 0);
      const request = pushOf(make(valueCount), list.length, lens);
      checkFrames(framesOf(cutPart(request, { keyFrom: 0, keyTo: list.length, valueFrom: 0, valueTo: valueCount }, 1)), request);
    }),
    { seed: 1, numRuns: 20 },
  );
});

test("100,000 empty values are cut as well", () => {
  const lens = new Int32Array(100_000);
  const request = pushOf(new Float32Array(0), lens.length, lens);
  checkFrames(framesOf(cutPart(request, { keyFrom: 0, keyTo: lens.length, valueFrom: 0, valueTo: 0 }, 1)), request);
});

test("a small request to one server is its own call, the same that cutting would make; a larger one is not", () => {
  const small = pushOf(new Float32Array(64).fill(1), 8);
  assert.ok(fitsOneFrame(small));
  assert.deepEqual(framesOf([small]), framesOf(cutPart(small, { keyFrom: 0, keyTo: 8, valueFrom: 0, valueTo: 64 }, 1)));
  assert.ok(!fitsOneFrame(pushOf(new Float32Array(4096), 1)));
  assert.ok(!fitsOneFrame(pushOf(new Float32Array(200_000), 100_000)));
  assert.ok(!fitsOneFrame(pushOf(new Float32Array(1), 1, Int32Array.of(1))));
});
