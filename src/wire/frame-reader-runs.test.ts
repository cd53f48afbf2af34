// Goal: the frames of a run, which share one header, come one by one however the run is cut into reads, and all of them
// if the reader is held inside one (FrameReader.R7).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { feed, randomPayload } from "../testing/stub-link.ts";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, paddedBytes } from "./frame.ts";
import { FrameReader, type FrameSink, READ_BUFFER_BYTES } from "./frame-reader.ts";

/** One buffer for all tests of this file, dirty. */
const BUFFER: Uint8Array = new Uint8Array(READ_BUFFER_BYTES).fill(0xee);

/** A run of `count` requests of `payloadBytes` each, from request `first` on; every payload differs. */
function runOf(first: number, count: number, payloadBytes: number): Uint8Array {
  const stride = paddedBytes(payloadBytes);
  const bytes = new Uint8Array(HEADER_BYTES + stride * count);
  const header = new FrameHeader().reset(Kind.REQUEST, 0);
  Object.assign(header, { request: first, more: count - 1, payloadBytes, stamp: 100 + first, arg3: 200 + first });
  encodeHeader(header, new Uint32Array(bytes.buffer), 0);
  for (let i = 0; i < count; i++) bytes.set(randomPayload(payloadBytes, first + i), HEADER_BYTES + i * stride);
  return bytes;
}

/** Runs and single frames, requests 1 to 18 in all. */
const RUNS: Uint8Array = Buffer.concat([runOf(1, 5, 12), runOf(6, 1, 12), runOf(7, 3, 0), runOf(10, 1, 0), runOf(11, 8, 16)]);
const RUN_PAYLOADS: readonly number[] = [12, 12, 12, 12, 12, 12, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16];

/** Checks that the frames of RUNS come one by one, each with a header of its own. */
class RunSink implements FrameSink {
  frameCount = 0;
  /** Called with the number of each frame. */
  taken: (request: number) => void = () => {};

  destination(): Uint8Array | undefined {
    return undefined;
  }

  frame(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const request = ++this.frameCount;
    const payloadBytes = RUN_PAYLOADS[request - 1];
    assert.deepEqual(
      [header.request, header.stamp, header.arg3, header.payloadBytes],
      [request, 100 + request, 200 + request, payloadBytes],
    );
    assert.deepEqual(bytes.slice(at, at + header.payloadBytes), randomPayload(header.payloadBytes, request), `payload ${request}`);
    this.taken(request);
  }
}

test("the frames of runs come one by one, at every split point (FrameReader.R7)", () => {
  for (let split = 1; split <= RUNS.length; split++) {
    const sink = new RunSink();
    feed(new FrameReader(sink, BUFFER), RUNS, (at) => (at < split ? split - at : RUNS.length));
    assert.equal(sink.frameCount, RUN_PAYLOADS.length, `split at ${split}`);
  }
  for (let step = 1; step < 80; step++) {
    const sink = new RunSink();
    feed(new FrameReader(sink, BUFFER), RUNS, () => step);
    assert.equal(sink.frameCount, RUN_PAYLOADS.length, `in steps of ${step}`);
  }
});

test("of a truncated run nothing comes, and the reader knows that it is inside a frame", () => {
  const run = runOf(1, 5, 12);
  for (let length = 0; length < run.length; length++) {
    const sink = new RunSink();
    const reader = new FrameReader(sink, BUFFER);
    feed(reader, run.subarray(0, length), () => run.length);
    assert.equal(sink.frameCount, 0, `of ${length} bytes`);
    assert.equal(reader.isInsideFrame, length > 0);
  }
});

test("a reader that is held inside a run hands the run over whole, and nothing behind it until it goes on (FrameReader.R5, FrameReader.R7)", () => {
  const ends = [5, 6, 9, 10, 18]; // the last frame of each run, and single frames
  for (const isRead of [false, true]) {
    for (let step = 1; step <= RUNS.length; step += 7) {
      const sink = new RunSink();
      const reader = new FrameReader(sink, BUFFER);
      let taken = 0;
      sink.taken = () => {
        taken++;
        reader.isHeld = true;
      };
      const goOn = (): void => {
        const before = taken;
        reader.isHeld = false;
        reader.goOn();
        assert.ok(taken === before || ends.find((end) => end > before) === taken, `from frame ${before} to frame ${taken}`);
      };
      for (let at = 0; at < RUNS.length; at += step) {
        const part = RUNS.subarray(at, at + step);
        reader.view().set(part);
        reader.received(part.length);
        if (isRead) continue;
        for (let before = -1; before !== taken; ) {
          before = taken;
          goOn();
        }
        reader.isHeld = false;
      }
      for (let turn = 0; turn < ends.length; turn++) goOn();
      assert.equal(taken, RUN_PAYLOADS.length);
      assert.equal(reader.isInsideFrame, false);
    }
  }
});

test("a run that does not fit the buffer is refused at its header: only a handshake's is that small", () => {
  const sink = new RunSink();
  const reader = new FrameReader(sink, new Uint8Array(8192));
  const run = runOf(1, 2048, 128);
  reader.view().set(run.subarray(0, HEADER_BYTES));
  assert.throws(
    () => reader.received(HEADER_BYTES),
    (error) => isWeighbridgeError(error, "BAD_FRAME") && /2048 frames before its hello/.test(error.message),
  );
});

test("the longest run fits the buffer", () => {
  const run = runOf(1, 2048, 128);
  let count = 0;
  const reader = new FrameReader({ destination: () => undefined, frame: () => count++ }, BUFFER);
  feed(reader, run, () => 10_000);
  assert.equal(count, 2048);
});
