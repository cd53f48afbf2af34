// Goal: the frames of a bundle come one by one, each with the header that it would have on its own, and land where they
// belong, however the bundle is cut into reads; and nothing of one that does not add up is handed over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { EncodedFrames, PagePool } from "../peer/frame-batch.ts";
import { writeFrame } from "../peer/function-call.ts";
import { feed, randomPayload } from "../testing/stub-link.ts";
import { FrameHeader, HEADER_BYTES, ITEM_BYTES, Kind, MAGIC, PROTOCOL_VERSION, paddedBytes } from "./frame.ts";
import { FrameReader, READ_BUFFER_BYTES } from "./frame-reader.ts";
import { FunctionId } from "./function-id.ts";

const BUFFER: Uint8Array = new Uint8Array(READ_BUFFER_BYTES).fill(0xee);

type Sent = Partial<FrameHeader> & { readonly request: number; readonly payloadBytes: number };

function requestOf({ payloadBytes, ...fields }: Sent): FrameHeader {
  const header = new FrameHeader().reset(Kind.REQUEST, FunctionId.FUNCTION);
  return Object.assign(header, { payloadBytes, settled: 3, epoch: 5000, command: -7, arg0: 0xffff_fff0, arg3: payloadBytes, ...fields });
}

function answerOf({ payloadBytes, ...fields }: Sent): FrameHeader {
  const header = new FrameHeader().reset(Kind.REPLY, FunctionId.FUNCTION);
  return Object.assign(header, { payloadBytes, command: -7, arg0: payloadBytes, ...fields });
}

/** The bytes of these frames, and how many frames they are on the link. */
function written(headers: readonly FrameHeader[], takesRuns = true): Uint8Array {
  const batch = new EncodedFrames(new PagePool());
  batch.takesRuns = takesRuns;
  for (const header of headers) writeFrame(header, batch, [randomPayload(header.payloadBytes, header.request)], header.payloadBytes);
  const { chunks } = batch.take();
  return Buffer.concat(chunks);
}

/** The header of a frame as it arrives: `settled` is that of the first, and numbers of calls do not travel. */
function arrived(header: FrameHeader, first: FrameHeader): FrameHeader {
  const copy = new FrameHeader();
  copy.copyFrom(header);
  copy.settled = first.settled;
  if (header.kind === Kind.REQUEST) copy.arg1 = 0;
  return copy;
}

/** Takes frames; payloads above `landedMin` land in memory of their own. */
class Sink {
  readonly headers: FrameHeader[] = [];
  readonly landed: boolean[] = [];
  readonly #landedMin: number;

  constructor(landedMin = Infinity) {
    this.#landedMin = landedMin;
  }

  destination({ payloadBytes }: FrameHeader): Uint8Array | undefined {
    return payloadBytes > this.#landedMin ? new Uint8Array(payloadBytes) : undefined;
  }

  frame(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const copy = new FrameHeader();
    copy.copyFrom(header);
    this.headers.push(copy);
    this.landed.push(at === 0 && bytes.length === header.payloadBytes && header.payloadBytes > 0);
    assert.deepEqual(bytes.slice(at, at + header.payloadBytes), randomPayload(header.payloadBytes, header.request), `${header.request}`);
  }
}

const STEP: readonly FrameHeader[] = [
  requestOf({ request: 8, payloadBytes: 100, stamp: 0, priority: 1, arg1: 70 }),
  requestOf({ request: 9, payloadBytes: 4, stamp: 2 ** 33, priority: -4, command: 11, settled: 4 }),
  requestOf({ request: 10, payloadBytes: 0, stamp: 0, arg0: 3 }),
  requestOf({ request: 11, payloadBytes: 5000, stamp: 2 ** 33 + 9 }),
];
const ANSWERS: readonly FrameHeader[] = [
  answerOf({ request: 11, payloadBytes: 24 }),
  answerOf({ request: 9, payloadBytes: 0, priority: -4, command: 11 }),
  answerOf({ request: 2 ** 31 + 9, payloadBytes: 4999, priority: 7 }),
];

test("the frames of bundles come one by one with headers of their own, at every split point", () => {
  const bytes = Buffer.concat([written(STEP), written(ANSWERS), written(STEP.slice(0, 1))]);
  const spans = (headers: readonly FrameHeader[]): number => headers.reduce((sum, { payloadBytes }) => sum + paddedBytes(payloadBytes), 0);
  const bundleBytes = (headers: readonly FrameHeader[]): number => HEADER_BYTES + spans(headers) + ITEM_BYTES * (headers.length - 1);
  assert.equal(bytes.length, bundleBytes(STEP) + bundleBytes(ANSWERS) + bundleBytes(STEP.slice(0, 1)), "one header for each");
  const expected = [...STEP.map((each) => arrived(each, STEP[0]!)), ...ANSWERS, STEP[0]!];
  for (let split = 1; split <= bytes.length; split += split < 300 ? 1 : 97) {
    const sink = new Sink();
    feed(new FrameReader(sink, BUFFER), bytes, (at) => (at < split ? split - at : bytes.length));
    assert.deepEqual(sink.headers, expected, `split at ${split}`);
  }
});

test("a payload of a bundle lands where its sink says", () => {
  const sink = new Sink(50);
  feed(new FrameReader(sink, BUFFER), written([...STEP, ...ANSWERS]), () => 1000);
  assert.deepEqual(sink.landed, [true, false, false, true, false, false, true]);
});

test("only what may share a bundle does: epoch, kind, order, whole requests, bounded bytes, and a reader that takes them", () => {
  const headerCount = (headers: readonly FrameHeader[], takesRuns = true): number => {
    const batch = new EncodedFrames(new PagePool());
    batch.takesRuns = takesRuns;
    let count = 0;
    for (const header of headers) {
      const before = batch.byteCount;
      writeFrame(header, batch, [new Uint8Array(header.payloadBytes)], header.payloadBytes);
      if (batch.byteCount - before - paddedBytes(header.payloadBytes) === HEADER_BYTES) count++;
    }
    return count;
  };
  const pair = (fields: Partial<FrameHeader>, payloadBytes = 8): FrameHeader[] => [
    requestOf({ request: 1, payloadBytes: 8, stamp: 4 }),
    requestOf({ request: 2, payloadBytes, stamp: 5, ...fields }),
  ];
  assert.equal(headerCount(pair({})), 1);
  assert.equal(headerCount(pair({}), false), 2);
  assert.equal(headerCount(pair({ epoch: 5001 })), 2);
  assert.equal(headerCount(pair({ request: 3 })), 2);
  assert.equal(headerCount(pair({ stamp: 3 })), 2, "stamps rise");
  assert.equal(headerCount(pair({ flags: 1 })), 2, "a part of a request");
  assert.equal(headerCount(pair({ arg3: 16 })), 2, "the last part of a request");
  assert.equal(headerCount(pair({ functionId: FunctionId.KV_PUSH })), 2);
  assert.equal(headerCount(pair({ kind: Kind.REPLY })), 2);
  assert.equal(headerCount(pair({ kind: Kind.FAILURE })), 2);
  assert.equal(headerCount(pair({}, 256 * 1024)), 1);
  assert.equal(headerCount(pair({}, 256 * 1024 + 8)), 2, "larger ones stream");
  const many = Array.from({ length: 6 }, (_, i) => requestOf({ request: i + 1, payloadBytes: 128 * 1024 }));
  assert.equal(headerCount(many), 2, "512 KiB in one bundle");
  const answers = [answerOf({ request: 5, payloadBytes: 8 }), answerOf({ request: 1, payloadBytes: 8 })];
  assert.equal(headerCount(answers), 1, "answers in any order");
  assert.equal(headerCount([answers[0]!, answerOf({ request: 1, payloadBytes: 8, arg0: 16 })]), 2, "a part of an answer");
});

test("nothing of a bundle that does not add up is handed over", () => {
  const good = written(STEP);
  const changed = (...changes: readonly (readonly [word: number, value: number])[]): Uint8Array => {
    const bytes = good.slice();
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    for (const [word, value] of changes) words[word] = value;
    return bytes;
  };
  const item = (HEADER_BYTES + paddedBytes(100)) / 4;
  const bad: Readonly<Record<string, Uint8Array>> = {
    "more items than there are": changed([13, 4]),
    "4 billion items": changed([13, 0xffff_ffff]),
    "fewer items": changed([13, 2]),
    "a first payload beyond the end": changed([14, 0xffff_fff8]),
    "a payload beyond the end": changed([item, 0xffff_fff8]),
    "a shorter payload": changed([14, 50]),
    "a mark below 0": changed([item + 4, -1]),
    "a mark of no stamp": changed([6, 0], [7, 0]),
    "a run": changed([5, 1 << 21]),
    "a failure": changed([0, MAGIC | (PROTOCOL_VERSION << 16) | (Kind.FAILURE << 24)]),
    "numbers beyond 2^53": changed([4, 0xffff_ffff], [5, 0x1f_ffff]),
  };
  for (const [what, bytes] of Object.entries(bad)) {
    const sink = new Sink();
    assert.throws(
      () => feed(new FrameReader(sink, BUFFER), bytes, () => bytes.length),
      (error) => isWeighbridgeError(error, "BAD_FRAME"),
      what,
    );
    assert.equal(sink.headers.length, 0, what);
  }
});
