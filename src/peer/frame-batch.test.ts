// Goal: what is appended leaves as one aligned stream, small frames in few chunks, large payloads from where they lie,
// and pages come back only after the flush.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StubLink } from "../testing/stub-link.ts";
import { FRAME_ALIGN, FrameHeader, HEADER_BYTES, Kind, paddedBytes, RUN_MORE_MAX } from "../wire/frame.ts";
import { FrameReader, READ_BUFFER_BYTES } from "../wire/frame-reader.ts";
import { EncodedFrames, PagePool } from "./frame-batch.ts";

function headerOf(request: number, payloadBytes: number): FrameHeader {
  const header = new FrameHeader().reset(Kind.REQUEST, 1);
  header.request = request;
  header.payloadBytes = payloadBytes;
  return header;
}

/** Payloads that differ in every byte nearby, so that a shifted copy shows. */
function bytesFrom(first: number, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, i) => (first + i * 7) & 0xff);
}

function appendInline(batch: EncodedFrames, request: number, payload: Uint8Array): void {
  const at = batch.begin(headerOf(request, payload.length), payload.length);
  assert.equal(at % FRAME_ALIGN, 0);
  batch.page.bytes.set(payload, at);
}

function appendAttached(batch: EncodedFrames, request: number, payload: Uint8Array): void {
  batch.begin(headerOf(request, payload.length), 0);
  batch.attach(payload);
  batch.pad(payload.length);
}

test("hundreds of small frames leave as one chunk", () => {
  const batch = new EncodedFrames(new PagePool());
  for (let i = 0; i < 300; i++) appendInline(batch, i + 1, bytesFrom(i, 12));
  const { byteCount } = batch;
  const taken = batch.take();
  assert.equal(taken.chunks.length, 1);
  assert.deepEqual(
    [taken.byteCount, taken.chunks[0]?.length, byteCount],
    [300 * (HEADER_BYTES + 16), 300 * (HEADER_BYTES + 16), byteCount],
  );
  assert.equal(batch.byteCount, 0);
});

test("frames of every size, inline and attached, over several pages, are read as they were written (FrameBatch.B1)", () => {
  const batch = new EncodedFrames(new PagePool());
  const link = new StubLink();
  const payloads = Array.from({ length: 400 }, (_, i) => bytesFrom(i, (i * 37) % 1000));
  for (const [i, payload] of payloads.entries()) (i % 3 === 0 ? appendAttached : appendInline)(batch, i + 1, payload);
  const taken = batch.take();
  const { chunks, byteCount } = taken;
  link.write(chunks, () => taken.flushed());
  assert.equal(link.byteCount, byteCount);
  const frames = link.take();
  assert.deepEqual(
    frames.map(({ header }) => header.request),
    payloads.map((_, i) => i + 1),
  );
  for (const [i, { payload }] of frames.entries()) assert.deepEqual(payload, payloads[i]);
});

test("an attached payload leaves from where it lies", () => {
  const batch = new EncodedFrames(new PagePool());
  const payload = bytesFrom(1, 100_003);
  appendAttached(batch, 1, payload);
  const { chunks } = batch.take();
  assert.ok(chunks.includes(payload));
});

test("a page is used again only after the write that carried it was flushed (FrameBatch.B2)", () => {
  const batch = new EncodedFrames(new PagePool());
  appendInline(batch, 1, bytesFrom(1, 8));
  const first = batch.page;
  const one = batch.take();
  appendInline(batch, 2, bytesFrom(2, 8));
  assert.notEqual(batch.page, first);
  const two = batch.take();
  one.flushed();
  appendInline(batch, 3, bytesFrom(3, 8));
  assert.equal(batch.page, first);
  two.flushed();
});

test("what pads a payload is 0, also in a page that was used before, alone and in a run (FrameBatch.B4)", () => {
  for (const takesRuns of [false, true]) {
    for (let size = 1; size < 24; size++) {
      const pool = new PagePool();
      const used = pool.take();
      used.bytes.fill(0xff);
      pool.give(used);
      const batch = new EncodedFrames(pool);
      batch.takesRuns = takesRuns;
      for (let i = 0; i < 3; i++) {
        const at = batch.begin(Object.assign(headerOf(i + 1, size), { arg3: i }), size);
        assert.equal(batch.page, used);
        batch.page.bytes.fill(0xee, at, at + size);
        const padding = batch.page.bytes.subarray(at + size, at + paddedBytes(size));
        assert.ok(
          padding.every((byte) => byte === 0),
          `behind ${size} bytes`,
        );
      }
    }
  }
});

test("a hold is let go when its batch was flushed, not before", () => {
  const batch = new EncodedFrames(new PagePool());
  let released = 0;
  batch.hold({ release: () => released++ });
  appendInline(batch, 1, bytesFrom(1, 8));
  const one = batch.take();
  const two = batch.take();
  two.flushed();
  assert.equal(released, 0);
  one.flushed();
  assert.equal(released, 1);
});

test("the pool keeps a few pages and lets the rest go", () => {
  const pool = new PagePool();
  const pages = Array.from({ length: 40 }, () => pool.take());
  for (const page of pages) pool.give(page);
  const kept = Array.from({ length: 40 }, () => pool.take()).filter((page) => pages.includes(page));
  assert.equal(kept.length, 16);
});

type Seen = { readonly header: FrameHeader; readonly payload: Uint8Array };

/** What a reader makes of the batch. */
function readBack(batch: EncodedFrames): Seen[] {
  const seen: Seen[] = [];
  const reader = new FrameReader(
    {
      destination: () => undefined,
      frame: (header, bytes, at) => {
        const copy = new FrameHeader();
        copy.copyFrom(header);
        seen.push({ header: copy, payload: bytes.slice(at, at + header.payloadBytes) });
      },
    },
    new Uint8Array(READ_BUFFER_BYTES),
  );
  const taken = batch.take();
  for (const chunk of taken.chunks) {
    reader.view().set(chunk);
    reader.received(chunk.length);
  }
  taken.flushed();
  return seen;
}

function runningBatch(): EncodedFrames {
  const batch = new EncodedFrames(new PagePool());
  batch.takesRuns = true;
  return batch;
}

test("small frames that are alike share a header where the reader takes runs (FrameBatch.B3)", () => {
  const batch = runningBatch();
  for (let i = 0; i < 300; i++) {
    const header = headerOf(i + 1, 12);
    header.stamp = 50 + i;
    header.arg3 = i;
    const at = batch.begin(header, 12);
    batch.page.bytes.set(bytesFrom(i, 12), at);
  }
  assert.equal(batch.byteCount, HEADER_BYTES + 300 * 16);
  const seen = readBack(batch);
  assert.deepEqual(
    seen.map(({ header: { request, stamp, arg3 } }) => [request, stamp, arg3]),
    Array.from({ length: 300 }, (_, i) => [i + 1, 50 + i, i]),
  );
  for (const [i, { payload }] of seen.entries()) assert.deepEqual(payload, bytesFrom(i, 12));
});

test("a run ends with what is not like it: another number, size or kind, and what is attached", () => {
  const batch = runningBatch();
  const sizes = [12, 12, 8, 8, 200, 200, 0, 0, 12];
  for (const [i, size] of sizes.entries()) {
    const header = headerOf(i + 1, size);
    header.arg3 = i;
    const at = batch.begin(header, size);
    batch.page.bytes.set(bytesFrom(i, size), at);
  }
  appendAttached(batch, sizes.length + 1, bytesFrom(9, 12));
  for (const kind of [Kind.FAILURE, Kind.FAILURE, Kind.NOTICE, Kind.NOTICE]) {
    const header = headerOf(batch.byteCount, 0);
    header.kind = kind;
    batch.begin(header, 0);
  }
  const payloadBytes = 16 + 16 + 8 + 8 + 200 + 200 + 16 + 16;
  assert.equal(batch.byteCount, payloadBytes + (6 + 1 + 4) * HEADER_BYTES, "runs of 12, 8 and 0 bytes; 200 bytes are not small");
  assert.deepEqual(
    readBack(batch).map(({ header }) => header.payloadBytes),
    [...sizes, 12, 0, 0, 0, 0],
  );
});

test("frames of different epochs never share a run (FrameBatch.B3)", () => {
  const batch = runningBatch();
  for (const [i, epoch] of [1, 1, 2, 2, 2, 0].entries()) {
    const header = headerOf(i + 1, 8);
    header.arg3 = i;
    header.epoch = epoch;
    const at = batch.begin(header, 8);
    batch.page.bytes.set(bytesFrom(i, 8), at);
  }
  assert.equal(batch.byteCount, 3 * HEADER_BYTES + 6 * 8);
  assert.deepEqual(
    readBack(batch).map(({ header }) => header.epoch),
    [1, 1, 2, 2, 2, 0],
  );
});

test("the longest run is followed by another one, and so is one at the end of a page or of a batch", () => {
  for (const size of [0, 128]) {
    const batch = runningBatch();
    const count = 2 * (RUN_MORE_MAX + 1) + 1;
    for (let i = 0; i < count; i++) {
      const header = headerOf(i + 1, size);
      header.arg3 = i;
      batch.begin(header, size);
    }
    assert.deepEqual(
      readBack(batch).map(({ header }) => header.request),
      Array.from({ length: count }, (_, i) => i + 1),
    );
    batch.begin(Object.assign(headerOf(count + 1, 0), { arg3: count }), 0);
    assert.equal(batch.byteCount, HEADER_BYTES);
  }
});
