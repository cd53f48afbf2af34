// Headers, both ways, and what is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AssertionError } from "../base/assert.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import {
  EPOCH_MAX,
  encodeHeader,
  FrameHeader,
  HEADER_BYTES,
  Kind,
  lengthenRun,
  PAYLOAD_BYTES_MAX,
  paddedBytes,
  RUN_MORE_MAX,
  RUN_PAYLOAD_BYTES_MAX,
} from "./frame.ts";
import { decodeHeader } from "./frame-reader.ts";

const WORDS = HEADER_BYTES / 4;

const u16 = fc.integer({ min: 0, max: 0xffff });
const u32 = fc.integer({ min: 0, max: 0xffffffff });
const i32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const u53 = fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 1, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER));
const headerFields = fc.record({
  kind: fc.constantFrom(...Object.values(Kind)),
  functionId: u16,
  flags: u16,
  payloadBytes: fc.integer({ min: 0, max: PAYLOAD_BYTES_MAX }),
  priority: i32,
  request: u53,
  more: fc.constant(0),
  stamp: u53,
  settled: u53,
  epoch: fc.integer({ min: 0, max: EPOCH_MAX }),
  app: u16,
  customer: u16,
  command: i32,
  arg0: u32,
  arg1: u32,
  arg2: u32,
  arg3: u32,
});

function encoded(fields: Partial<FrameHeader>): Uint32Array {
  const words = new Uint32Array(WORDS);
  encodeHeader(Object.assign(new FrameHeader(), fields), words, 0);
  return words;
}

function decoded(words: Uint32Array, at: number = 0): FrameHeader {
  const header = new FrameHeader();
  decodeHeader(words, at, header);
  return header;
}

const isBadFrame =
  (pattern: RegExp) =>
  (error: unknown): boolean =>
    isWeighbridgeError(error, "BAD_FRAME") && pattern.test(error.message);

test("every header comes out as it went in, wherever it lies", () => {
  fc.assert(
    fc.property(headerFields, fc.integer({ min: 0, max: 8 }), (fields, at) => {
      const words = new Uint32Array(at + WORDS + 1).fill(0xa5a5a5a5);
      encodeHeader(Object.assign(new FrameHeader(), fields), words, at);
      assert.deepEqual({ ...decoded(words, at) }, { ...fields });
      assert.equal(words[at + WORDS], 0xa5a5a5a5, "nothing is written behind the header");
      if (at > 0) assert.equal(words[at - 1], 0xa5a5a5a5, "nor before it");
    }),
    { numRuns: 1000 },
  );
});

test("decoding overwrites all that an earlier frame left in the header", () => {
  const header = Object.assign(new FrameHeader(), {
    kind: 5,
    functionId: 1,
    flags: 2,
    payloadBytes: 3,
    priority: 4,
    request: 5,
    more: 4,
    stamp: 6,
  });
  Object.assign(header, { settled: 7, epoch: 15, app: 8, customer: 9, command: 10, arg0: 11, arg1: 12, arg2: 13, arg3: 14 });
  decodeHeader(encoded({}), 0, header);
  assert.deepEqual(header, new FrameHeader());
  header.arg3 = 1;
  assert.deepEqual(header.reset(Kind.REQUEST, 0), new FrameHeader());
});

test("the bytes are those of the table", () => {
  const words = encoded({
    kind: Kind.REPLY,
    functionId: 0x0102,
    flags: 0x0304,
    payloadBytes: 0x050607,
    priority: -2,
    request: 2 ** 40 + 1,
    stamp: 2,
    settled: 3,
    epoch: 2 ** 11 + 1,
    app: 4,
    customer: 5,
    command: -1,
    arg0: 6,
    arg1: 7,
    arg2: 8,
    arg3: 0xfffffffe,
  });
  const expected =
    "57420203 02010403 07060500 feffffff 0100000000010000 0200000000002000 0300000000002000 " +
    "04000500 ffffffff 06000000 07000000 08000000 feffffff";
  assert.equal(Buffer.from(words.buffer).toString("hex"), expected.replaceAll(" ", ""));
});

test("a greeting of ps-lite's is refused with the van to start with", () => {
  const words = new Uint32Array(HEADER_BYTES / 4);
  new Uint8Array(words.buffer).set([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f]);
  assert.throws(() => decoded(words), isBadFrame(/magic bytes "WB", as ps-lite's programs do.*--van zmq/));
});

test("bytes that are no frame of ours are refused, and the reason is named", () => {
  for (let bit = 0; bit < 24; bit++) {
    const words = encoded({});
    words[0] = ((words[0] as number) ^ (1 << bit)) >>> 0;
    assert.throws(() => decoded(words), isBadFrame(bit < 16 ? /magic bytes "WB"/ : /version \d+; this node speaks 2/), `bit ${bit}`);
  }
  for (const kind of [0, 6, 7, 128, 255]) {
    const words = encoded({});
    words[0] = (((words[0] as number) & 0xffffff) | (kind << 24)) >>> 0;
    assert.throws(() => decoded(words), isBadFrame(new RegExp(`no kind ${kind}`)));
  }
});

test("a payload may be as long as the limit and not longer", () => {
  const words = encoded({ payloadBytes: PAYLOAD_BYTES_MAX });
  assert.equal(decoded(words).payloadBytes, PAYLOAD_BYTES_MAX);
  for (const payloadBytes of [PAYLOAD_BYTES_MAX + 1, 2 ** 31, 2 ** 32 - 1]) {
    words[2] = payloadBytes;
    assert.throws(() => decoded(words), isBadFrame(new RegExp(`${payloadBytes} bytes is over the limit`)));
  }
  assert.throws(() => encoded({ payloadBytes: PAYLOAD_BYTES_MAX + 1 }), AssertionError);
});

test("the epoch lies above stamp and settled, and neither changes the other, whatever their highest bits are", () => {
  for (const epoch of [0, 1, 2 ** 11 - 1, 2 ** 11, EPOCH_MAX - 1, EPOCH_MAX])
    for (const stamp of [0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER])
      for (const settled of [0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
        const header = decoded(encoded({ epoch, stamp, settled }));
        assert.deepEqual([header.epoch, header.stamp, header.settled], [epoch, stamp, settled]);
      }
  assert.equal(decoded(encoded({}).fill(0xffffffff, 6, 10)).epoch, EPOCH_MAX);
});

test("a run says how many frames follow its first one, for requests and replies of a few bytes (Frame.F2)", () => {
  fc.assert(
    fc.property(u53, fc.integer({ min: 1, max: RUN_MORE_MAX }), fc.constantFrom(Kind.REQUEST, Kind.REPLY), (number, more, kind) => {
      const request = Math.min(number, Number.MAX_SAFE_INTEGER - more);
      const words = encoded({ kind, request, more, payloadBytes: RUN_PAYLOAD_BYTES_MAX });
      assert.deepEqual([decoded(words).request, decoded(words).more], [request, more]);
    }),
  );
  const words = encoded({ request: 2 ** 40 + 1 });
  for (let more = 1; more <= RUN_MORE_MAX; more++) {
    lengthenRun(words, 0);
    assert.deepEqual([decoded(words).request, decoded(words).more], [2 ** 40 + 1, more]);
  }
});

test("what cannot be a run is refused (Frame.F1, Frame.F2)", () => {
  for (const kind of [Kind.HELLO, Kind.FAILURE, Kind.NOTICE])
    assert.throws(() => decoded(encoded({ kind, more: 1 })), isBadFrame(new RegExp(`a run of frames of kind ${kind}`)));
  assert.throws(() => decoded(encoded({ more: 1, payloadBytes: RUN_PAYLOAD_BYTES_MAX + 1 })), isBadFrame(/a run of payloads of 129 bytes/));
  assert.throws(() => decoded(encoded({ more: 1, request: Number.MAX_SAFE_INTEGER })), isBadFrame(/beyond 2\^53/));
  assert.throws(() => decoded(encoded({ more: 1, request: 1, stamp: Number.MAX_SAFE_INTEGER })), isBadFrame(/beyond 2\^53/));
  assert.equal(decoded(encoded({ more: 0, request: Number.MAX_SAFE_INTEGER })).request, Number.MAX_SAFE_INTEGER);
});

test("random bytes are refused or give a header in range, and nothing else", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: HEADER_BYTES, maxLength: HEADER_BYTES }), fc.boolean(), (bytes, opensWell) => {
      const words = new Uint32Array(bytes.slice().buffer);
      if (opensWell) words[0] = encoded({})[0] as number;
      try {
        const header = decoded(words);
        assert.ok(header.payloadBytes <= PAYLOAD_BYTES_MAX && Number.isSafeInteger(header.request));
      } catch (thrown) {
        assert.ok(isWeighbridgeError(thrown, "BAD_FRAME"));
      }
    }),
  );
});

test("padding goes up to the next multiple of 8", () => {
  for (let bytes = 0; bytes <= 40; bytes++) assert.equal(paddedBytes(bytes), Math.ceil(bytes / 8) * 8);
  assert.equal(paddedBytes(PAYLOAD_BYTES_MAX), PAYLOAD_BYTES_MAX);
});

test("a header reads as one line", () => {
  assert.match(String(new FrameHeader().reset(Kind.NOTICE, 7)), /^NOTICE function=7 .*args=0,0,0,0$/);
  assert.match(String(Object.assign(new FrameHeader(), { kind: 9 })), /^kind 9 /);
});
