// Goal: what is appended leaves as one aligned stream, small frames in few chunks, large payloads from where they lie, and pages come back
// only after the flush.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StubLink } from "../testing/stub-link.ts";
import { FRAME_ALIGN, FrameHeader, HEADER_BYTES, Kind } from "../wire/frame.ts";
import { FrameBatch, PagePool } from "./frame-batch.ts";

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

function appendInline(batch: FrameBatch, request: number, payload: Uint8Array): void {
  const at = batch.begin(headerOf(request, payload.length), payload.length);
  assert.equal(at % FRAME_ALIGN, 0);
  batch.page.bytes.set(payload, at);
}

function appendAttached(batch: FrameBatch, request: number, payload: Uint8Array): void {
  batch.begin(headerOf(request, payload.length), 0);
  batch.attach(payload);
  batch.pad(payload.length);
}

test("hundreds of small frames leave as one chunk", () => {
  const batch = new FrameBatch(new PagePool());
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

test("frames of every size, inline and attached, over several pages, are read as they were written (B1)", () => {
  const batch = new FrameBatch(new PagePool());
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
  const batch = new FrameBatch(new PagePool());
  const payload = bytesFrom(1, 100_003);
  appendAttached(batch, 1, payload);
  const { chunks } = batch.take();
  assert.ok(chunks.includes(payload));
});

test("a page is used again only after the write that carried it was flushed (B2)", () => {
  const batch = new FrameBatch(new PagePool());
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

test("a hold is let go when its batch was flushed, not before", () => {
  const batch = new FrameBatch(new PagePool());
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
