// Every way a stream of frames can be cut into reads, and every way it can be wrong.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AssertionError } from "../base/assert.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { feed, randomPayload } from "../testing/stub-link.ts";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, PAYLOAD_BYTES_MAX, paddedBytes } from "./frame.ts";
import { FrameReader, type FrameSink, READ_BUFFER_BYTES } from "./frame-reader.ts";

/** A frame to send: its payload, and whether the receiver names a destination for it. */
type Sent = { readonly payload: Uint8Array; readonly direct: boolean };

const DIRECT_FUNCTION = 1;
const PADDING_BYTE = 0;

/** The frames as they lie in a stream. Request numbers count from 1. */
function streamOf(frames: readonly Sent[]): Uint8Array {
  const bytes = new Uint8Array(frames.reduce((sum, { payload }) => sum + HEADER_BYTES + paddedBytes(payload.length), 0)).fill(PADDING_BYTE);
  const words = new Uint32Array(bytes.buffer);
  let at = 0;
  for (const [index, { payload, direct }] of frames.entries()) {
    const header = new FrameHeader().reset(Kind.REQUEST, direct ? DIRECT_FUNCTION : 0);
    header.request = index + 1;
    header.payloadBytes = payload.length;
    encodeHeader(header, words, at >> 2);
    bytes.set(payload, at + HEADER_BYTES);
    at += HEADER_BYTES + paddedBytes(payload.length);
  }
  return bytes;
}

/**
 * Takes frames, and checks that they come once, in order, where they were asked for (FrameReader.R3), and aligned
 * (FrameReader.R2).
 */
class CheckingSink implements FrameSink {
  readonly #frames: readonly Sent[];
  #asked: { readonly request: number; readonly destination: Uint8Array | undefined } | undefined;
  frameCount = 0;

  constructor(frames: readonly Sent[]) {
    this.#frames = frames;
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    assert.equal(this.#asked, undefined, "FrameReader.R3: asked once per frame");
    assert.equal(header.request, this.frameCount + 1);
    assert.ok(header.payloadBytes > 0, "FrameReader.R3: only frames with a payload");
    const destination = header.functionId === DIRECT_FUNCTION ? new Uint8Array(header.payloadBytes) : undefined;
    this.#asked = { request: header.request, destination };
    return destination;
  }

  frame(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const sent = this.#frames[this.frameCount++];
    assert.ok(sent !== undefined, "no frame too many");
    assert.equal(header.request, this.frameCount);
    assert.equal(header.payloadBytes, sent.payload.length);
    if (sent.payload.length > 0) {
      assert.equal(this.#asked?.request, header.request, "FrameReader.R3: asked before");
      if (sent.direct) assert.equal(bytes, this.#asked?.destination, "FrameReader.R3: the bytes are there");
      else assert.equal((bytes.byteOffset + at) % 8, 0, "FrameReader.R2");
    }
    assert.equal(Buffer.compare(bytes.subarray(at, at + header.payloadBytes), sent.payload), 0, `payload of frame ${this.frameCount}`);
    this.#asked = undefined;
  }
}

/** One buffer for all tests of this file, at an odd place of a larger one, dirty. */
const BUFFER: Uint8Array = new Uint8Array(new ArrayBuffer(READ_BUFFER_BYTES + 64), 8, READ_BUFFER_BYTES).fill(0xee);

function check(frames: readonly Sent[], nextReadBytes: (at: number) => number): number {
  const copying = new CheckingSink(frames);
  feed(new FrameReader(copying, BUFFER), streamOf(frames), nextReadBytes);
  assert.equal(copying.frameCount, frames.length, "all frames came, small ones copied");
  const sink = new CheckingSink(frames);
  const readCount = feed(new FrameReader(sink, BUFFER, 0), streamOf(frames), nextReadBytes);
  assert.equal(sink.frameCount, frames.length, "all frames came");
  return readCount;
}

/** Frames with every padding from 0 to 7, without payload, and with and without a destination. */
const MIXED: readonly Sent[] = [
  { payload: randomPayload(0, 1), direct: false },
  ...Array.from({ length: 8 }, (_, i) => ({ payload: randomPayload(16 + i, i), direct: i % 2 === 0 })),
  { payload: randomPayload(0, 1), direct: true },
  ...Array.from({ length: 8 }, (_, i) => ({ payload: randomPayload(9 + i, i), direct: i % 2 === 1 })),
  { payload: randomPayload(1, 2), direct: true },
  { payload: randomPayload(7, 3), direct: true },
  { payload: randomPayload(3, 4), direct: false },
];

test("frames come whole at every split point of a mixed stream, and at many pairs of them", () => {
  const { length } = streamOf(MIXED);
  for (let split = 1; split < length; split++) check(MIXED, cutAt([split]));
  for (let first = 1; first < 300; first++) for (let second = first + 1; second < 300; second += 7) check(MIXED, cutAt([first, second]));
});

/** Reads that end at these points of the stream. */
function cutAt(points: readonly number[]): (at: number) => number {
  return (at) => (points.find((point) => point > at) ?? Infinity) - at;
}

test("frames come whole in reads of every small size", () => {
  for (let readBytes = 1; readBytes <= 130; readBytes++) check(MIXED, () => readBytes);
});

test("every padding is skipped, with and without a destination, wherever the read ends", () => {
  for (const direct of [false, true]) {
    for (let payloadBytes = 1; payloadBytes <= 16; payloadBytes++) {
      const frames = [0, 1, 2].map((seed) => ({ payload: randomPayload(payloadBytes, seed), direct }));
      const { length } = streamOf(frames);
      for (let split = 1; split < length; split++) check(frames, cutAt([split]));
    }
  }
});

test("random frames come whole in random reads", () => {
  const frame = fc.record({
    payload: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 70_000 })).map((length) => randomPayload(length, length)),
    direct: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 12 }), fc.integer(), (frames, seed) => {
      const random = new Random(seed);
      check(frames, () => 1 + random.below(random.chance(0.5) ? 50 : 40_000));
    }),
    { numRuns: 150 },
  );
});

test("the largest frames fit, in place and direct, behind any small ones, for longer than the buffer", () => {
  const largest = randomPayload(PAYLOAD_BYTES_MAX, 5);
  const random = new Random(6);
  for (const direct of [false, true]) {
    const frames: Sent[] = [];
    for (let i = 0; i < 4; i++) {
      for (let small = random.below(4); small >= 0; small--) frames.push({ payload: randomPayload(random.below(200), i), direct: false });
      frames.push({ payload: largest, direct });
    }
    check(frames, () => 1 + random.below(300_000));
    check(frames, () => Infinity);
  }
});

test("large frames that follow each other are read to the end of a frame where the next would not fit, and so never moved (FrameReader.R8)", () => {
  const payload = new Uint8Array(300 * 1024).fill(7);
  const stream = streamOf(Array.from({ length: 20 }, () => ({ payload, direct: false })));
  const frameBytes = HEADER_BYTES + payload.length;
  const buffer = new Uint8Array(4 * frameBytes - 8);
  let frameCount = 0;
  const sink: FrameSink = {
    destination: () => undefined,
    frame: (_, bytes, at) => {
      assert.deepEqual(bytes.subarray(at, at + payload.length), payload);
      frameCount++;
    },
  };
  const reader = new FrameReader(sink, buffer);
  buffer.copyWithin = () => assert.fail("a frame was moved");
  for (let at = 0; at < stream.length; ) {
    const view = reader.view();
    // the first read tells how long frames are
    const count = Math.min(view.length, stream.length - at, at === 0 ? 1000 : Number.POSITIVE_INFINITY);
    view.set(stream.subarray(at, at + count));
    reader.received(count);
    at += count;
  }
  assert.equal(frameCount, 20);
});

test("a stream of small frames may be longer than the buffer", () => {
  const frames = Array.from({ length: 40_000 }, (_, i) => ({ payload: randomPayload(i % 24, i), direct: false }));
  const random = new Random(7);
  check(frames, () => 1 + random.below(100_000));
  check(frames, () => Infinity);
});

test("a payload with a destination is read straight into it, all but the bytes that came with its header", () => {
  const payload = randomPayload(500_000, 8);
  const destination = new Uint8Array(payload.length);
  let done = false;
  const reader = new FrameReader(
    {
      destination: () => destination,
      frame: (_header, bytes) => {
        assert.equal(bytes, destination);
        done = true;
      },
    },
    BUFFER,
  );
  const stream = streamOf([{ payload, direct: true }]);
  reader.view().set(stream.subarray(0, HEADER_BYTES + 100));
  reader.received(HEADER_BYTES + 100);
  const view = reader.view();
  assert.equal(view.buffer, destination.buffer);
  assert.equal(view.byteOffset, 100);
  assert.equal(view.length, payload.length - 100, "not beyond the frame");
  view.set(stream.subarray(HEADER_BYTES + 100));
  reader.received(view.length);
  assert.ok(done);
  assert.equal(Buffer.compare(destination, payload), 0);
});

test("bulk frames cost two reads each: one with the header, one straight to the destination", () => {
  const frames = Array.from({ length: 20 }, (_, i) => ({ payload: randomPayload(512 * 1024, i), direct: true }));
  const readCount = check(frames, () => Infinity);
  assert.ok(readCount <= 41, `${readCount} reads for 20 frames`);
});

test("a truncated stream gives the frames that are whole and nothing of the last", () => {
  const { length } = streamOf(MIXED);
  for (let cut = 0; cut <= length; cut++) {
    const sink = new CheckingSink(MIXED);
    feed(new FrameReader(sink, BUFFER, 0), streamOf(MIXED).subarray(0, cut), () => 97);
    let wholeCount = 0;
    for (let at = 0; wholeCount < MIXED.length; wholeCount++) {
      const { payload, direct } = MIXED[wholeCount] as Sent;
      // In place a frame waits for its padding.
      const neededBytes = direct ? payload.length : paddedBytes(payload.length);
      if (at + HEADER_BYTES + neededBytes > cut) break;
      at += HEADER_BYTES + paddedBytes(payload.length);
    }
    assert.equal(sink.frameCount, wholeCount, `cut at ${cut}`);
  }
});

test("frames with small destinations that come together are read together", () => {
  const frames = Array.from({ length: 20 }, (_, i) => ({ payload: randomPayload(32_768 + i, i), direct: true }));
  const sink = new CheckingSink(frames);
  assert.equal(
    feed(new FrameReader(sink, BUFFER), streamOf(frames), () => Infinity),
    1,
  );
  assert.equal(sink.frameCount, frames.length);
});

test("what is no frame is refused as soon as its header is there, and the frames before it were handled", () => {
  const breaks: readonly [name: string, offset: number, value: number][] = [
    ["magic", 0, 0],
    ["version", 2, 1],
    ["kind", 3, 77],
    ["payload over the limit", 11, 1],
  ];
  for (const [name, offset, value] of breaks) {
    for (const readBytes of [1, 63, 64, 65, 200, Infinity]) {
      const frames = MIXED.slice(0, 4);
      const stream = new Uint8Array([...streamOf(frames), ...streamOf(MIXED.slice(1, 2))]);
      const at = streamOf(frames).length;
      stream[at + offset] = value;
      const sink = new CheckingSink(frames);
      const reader = new FrameReader(sink, BUFFER);
      assert.throws(
        () => feed(reader, stream.subarray(0, at + HEADER_BYTES), () => readBytes),
        (error) => isWeighbridgeError(error, "BAD_FRAME"),
        `${name} in reads of ${readBytes}`,
      );
      assert.equal(sink.frameCount, frames.length);
    }
  }
});

test("a throw of the sink comes out of received (FrameReader.R4)", () => {
  const boom = new Error("boom");
  const throwing = (): never => {
    throw boom;
  };
  const sinks: readonly FrameSink[] = [
    { destination: throwing, frame: () => {} },
    { destination: () => undefined, frame: throwing },
    { destination: (header) => new Uint8Array(header.payloadBytes), frame: throwing },
  ];
  const stream = streamOf([{ payload: randomPayload(20, 9), direct: false }]);
  for (const sink of sinks) {
    for (const readBytes of [10, 70, 84, Infinity]) assert.throws(() => feed(new FrameReader(sink, BUFFER), stream, () => readBytes), boom);
  }
});

test("a destination of the wrong length is our own bug", () => {
  const sink: FrameSink = { destination: (header) => new Uint8Array(header.payloadBytes + 8), frame: () => {} };
  const stream = streamOf([{ payload: randomPayload(20, 10), direct: true }]);
  assert.throws(() => feed(new FrameReader(sink, BUFFER), stream, () => Infinity), AssertionError);
});

test("a buffer that is not aligned, or a second one that is too small, is our own bug", () => {
  const sink = new CheckingSink([]);
  assert.throws(() => new FrameReader(sink, new Uint8Array(new ArrayBuffer(READ_BUFFER_BYTES + 8), 4)), AssertionError);
  assert.throws(() => new FrameReader(sink, BUFFER).moveTo(new Uint8Array(READ_BUFFER_BYTES - 1)), AssertionError);
});

test("the reader can move to another buffer while it hands out any frame, in place or direct, wherever the read ends", () => {
  const small = new Uint8Array(400);
  const { length } = streamOf(MIXED);
  for (let moveAt = 1; moveAt <= MIXED.length; moveAt++) {
    for (let split = 1; split < length; split += 7) {
      const checking = new CheckingSink(MIXED);
      const reader: FrameReader = new FrameReader(
        {
          destination: (header) => checking.destination(header),
          frame: (header, bytes, at) => {
            checking.frame(header, bytes, at);
            if (checking.frameCount === moveAt) reader.moveTo(BUFFER);
          },
        },
        small,
      );
      feed(reader, streamOf(MIXED), cutAt([split]));
      assert.equal(checking.frameCount, MIXED.length, `moved after frame ${moveAt}, read split at ${split}`);
    }
  }
});

test("the reader knows whether its stream may end here", () => {
  const stream = streamOf(MIXED);
  const reader = new FrameReader(new CheckingSink(MIXED), BUFFER);
  const ends = new Set(MIXED.map((_, index) => streamOf(MIXED.slice(0, index)).length).concat(stream.length));
  for (let at = 0; at < stream.length; at++) {
    assert.equal(reader.isInsideFrame, !ends.has(at), `at ${at}`);
    feed(reader, stream.subarray(at, at + 1), () => 1);
  }
  assert.equal(reader.isInsideFrame, false);
});

test("reads from and into shared memory", () => {
  const shared = new Uint8Array(new SharedArrayBuffer(READ_BUFFER_BYTES));
  const sink = new CheckingSink(MIXED);
  feed(new FrameReader(sink, shared), streamOf(MIXED), () => 100);
  assert.equal(sink.frameCount, MIXED.length);
});

test("frames that waited are handled between two reads, and the view given before stays the place of the next bytes (FrameReader.R6)", () => {
  const frame = (request: number): Uint8Array => {
    const bytes = new Uint8Array(HEADER_BYTES + 8);
    const header = new FrameHeader().reset(Kind.REQUEST, 1);
    header.request = request;
    header.payloadBytes = 8;
    encodeHeader(header, new Uint32Array(bytes.buffer), 0);
    return bytes;
  };
  const stream = new Uint8Array([1, 2, 3, 4, 5].flatMap((request) => [...frame(request)]));
  for (let cut = 1; cut < stream.length; cut++) {
    const seen: number[] = [];
    const reader: FrameReader = new FrameReader(
      {
        destination: () => undefined,
        frame: ({ request }) => {
          seen.push(request);
          reader.isHeld = true; // one frame at a time
        },
      },
      new Uint8Array(READ_BUFFER_BYTES),
    );
    reader.view().set(stream.subarray(0, cut));
    reader.received(cut);
    const view = reader.view(); // as a socket does it: chosen right after the read before
    for (let turn = 0; turn < 3; turn++) {
      reader.isHeld = false;
      reader.goOn();
    }
    view.set(stream.subarray(cut));
    reader.isHeld = false;
    reader.received(stream.length - cut);
    for (let turn = 0; turn < 5; turn++) {
      reader.isHeld = false;
      reader.goOn();
    }
    assert.deepEqual(seen, [1, 2, 3, 4, 5], `cut at ${cut}`);
  }
});

test("a destination that is transferred away while it is filled costs its own frame alone, whether it is read there or copied (FrameReader.R9)", () => {
  const frames: readonly Sent[] = [
    { payload: randomPayload(1000, 1), direct: true },
    { payload: randomPayload(500, 2), direct: false },
  ];
  const stream = streamOf(frames);
  for (const copyBytesMax of [0, 2000]) {
    for (const lostAt of [HEADER_BYTES, HEADER_BYTES + 1, HEADER_BYTES + 400, HEADER_BYTES + 999]) {
      const seen: string[] = [];
      let given: Uint8Array | undefined;
      const sink: FrameSink = {
        destination: (header) => {
          if (header.functionId !== DIRECT_FUNCTION) return undefined;
          given = new Uint8Array(header.payloadBytes);
          return given;
        },
        frame: (header, bytes, at) => {
          const isRight =
            Buffer.compare(bytes.subarray(at, at + header.payloadBytes), frames[header.request - 1]?.payload ?? new Uint8Array()) === 0;
          seen.push(`${header.request} ${bytes === given ? "landed" : "elsewhere"} ${header.request === 1 || isRight}`);
        },
      };
      const reader = new FrameReader(sink, BUFFER, copyBytesMax);
      feed(reader, stream.subarray(0, lostAt), () => 100);
      if (given !== undefined) structuredClone(given, { transfer: [given.buffer as ArrayBuffer] });
      feed(reader, stream.subarray(lostAt), () => 100);
      assert.deepEqual(seen, ["1 elsewhere true", "2 elsewhere true"], `copies up to ${copyBytesMax}, lost at ${lostAt}`);
    }
  }
});
