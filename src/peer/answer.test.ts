// Goal: an answer repeats what its request said, says how much of it there is, and lets go of what it held exactly
// once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StubLink } from "../testing/stub-link.ts";
import { FrameHeader, HEADER_BYTES, Kind, offsetBytesOf, type RequestLabel, setExtent, totalBytesOf } from "../wire/frame.ts";
import { Answer, labelOf } from "./answer.ts";
import { EncodedFrames, INLINE_BYTES_MAX, PagePool } from "./frame-batch.ts";

const LABEL: RequestLabel = { functionId: 33, priority: -4, request: 2 ** 40, app: 7, customer: 65_535, command: -2 };

function written(answer: Answer) {
  const batch = new EncodedFrames(new PagePool());
  const link = new StubLink();
  answer.writeTo(new FrameHeader(), batch);
  const taken = batch.take();
  link.write(taken.chunks, () => taken.flushed());
  const [frame] = link.take();
  assert.ok(frame !== undefined);
  return { ...frame, flush: () => link.flush() };
}

test("repeats function, priority, number, app, customer and command", () => {
  const { header } = written(new Answer(LABEL, { flags: 48 }));
  assert.deepEqual(labelOf(header), { ...LABEL, stamp: 0 });
  assert.deepEqual([header.kind, header.flags, header.payloadBytes], [Kind.REPLY, 48, 0]);
  assert.equal(written(new Answer(LABEL, { kind: Kind.FAILURE })).header.kind, Kind.FAILURE);
});

test("small payloads are copied and let go at once, large ones leave from where they lie and are held until the flush", () => {
  for (const [byteCount, releasedEarly] of [
    [INLINE_BYTES_MAX, 1],
    [INLINE_BYTES_MAX + 1, 0],
  ] as const) {
    let released = 0;
    const payload = new Uint8Array(byteCount).fill(7);
    const frame = written(new Answer(LABEL, { payload, held: { release: () => released++ } }));
    assert.equal(released, releasedEarly);
    assert.deepEqual(frame.payload, payload);
    frame.flush();
    assert.equal(released, 1);
  }
});

test("says how long the whole answer is and where this part begins, beyond 32 bits as well", () => {
  const single = written(new Answer(LABEL, { payload: new Uint8Array(10) })).header;
  assert.deepEqual([totalBytesOf(single), offsetBytesOf(single)], [10, 0]);
  const header = new FrameHeader();
  setExtent(header, 2 ** 35 + 5, 2 ** 33 + 7);
  assert.deepEqual([totalBytesOf(header), offsetBytesOf(header)], [2 ** 35 + 5, 2 ** 33 + 7], "also before it was on the wire");
  const options = { payload: new Uint8Array(3), totalBytes: 2 ** 35 + 5, offsetBytes: 2 ** 33 + 7 };
  const part = written(new Answer(LABEL, options)).header;
  assert.deepEqual([totalBytesOf(part), offsetBytesOf(part)], [2 ** 35 + 5, 2 ** 33 + 7]);
});

test("an answer that never leaves lets go of what it held", () => {
  let released = 0;
  new Answer(LABEL, { payload: new Uint8Array(9), held: { release: () => released++ } }).discard();
  assert.equal(released, 1);
  new Answer(LABEL).discard();
});

test("takes room in a queue even when it carries nothing", () => {
  assert.equal(new Answer(LABEL).byteCount, HEADER_BYTES);
  assert.equal(new Answer(LABEL, { payload: new Uint8Array(100) }).byteCount, HEADER_BYTES + 100);
});
