// Goal: the frames of a request become one request again, or none: never a part of it, never with a hole, never without
// an answer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PartialRequests } from "../../peer/partial-requests.ts";
import { StubCaller } from "../../testing/stub-caller.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { BLOCK_BYTES, offsetBytesOf, totalBytesOf } from "../../wire/frame.ts";
import { FunctionId } from "../../wire/function-id.ts";
import { dtypeBits, KvFlag } from "../../wire/kv-message.ts";
import { answerWhole, type PartialRequest, type WholeKvRequest, WholeRequests } from "./whole-requests.ts";

const { FIRST, LAST, LENS, VARIABLE, PIECE, WANT_LENS, GATHERED, WHOLE } = KvFlag;
const BLOCK_FLOATS = BLOCK_BYTES / 4;

function stage(workerBytesMax?: number) {
  const requester = new StubCaller();
  const served: WholeKvRequest[] = [];
  const limits = workerBytesMax === undefined ? {} : { workerBytesMax };
  const unfinished = new PartialRequests<PartialRequest>({ clock: requester.clock, ...limits });
  const whole = new WholeRequests(unfinished, (request) => served.push(request));
  for (const functionId of [FunctionId.KV_PULL, FunctionId.KV_PUSH_PULL, FunctionId.KV_PUSH]) requester.serve(functionId, whole);
  return { requester, served, whole, unfinished };
}

/** A payload of keys, floats and lens. */
function payload(keys: readonly bigint[], values: readonly number[] = [], lens: readonly number[] = []): Uint8Array {
  const parts = [BigUint64Array.from(keys), Float32Array.from(values), Int32Array.from(lens)].map((array) => new Uint8Array(array.buffer));
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

/** A frame of a push: 2 keys with a float each. */
const pair = (first: bigint, flags: number, timestamp = 0) => ({
  flags,
  args: [2, 1, 0, timestamp],
  payload: payload([first, first + 1n], [Number(first), Number(first) + 1]),
});

test("a request of one frame is served at once", async () => {
  const { requester, served, unfinished } = stage();
  await requester.request(pair(5n, FIRST | LAST, 42));
  const [request] = served;
  assert.deepEqual([request?.isPush, request?.isPull, request?.timestamp, request?.lens], [true, false, 42, undefined]);
  assert.deepEqual(request?.keys, BigUint64Array.of(5n, 6n));
  assert.deepEqual(request?.values, Float32Array.of(5, 6));
  assert.deepEqual([requester.answers(), requester.channel.parkedCount, unfinished.bytes], [[], 1, 0]);
  answerWhole(request as WholeKvRequest, undefined, undefined);
  await requester.clock.run();
  assert.deepEqual(requester.answers(), ["REPLY 1"]);
});

test("a request of several frames is served once, after the last, while others come in between (WholeRequests.Q1, WholeRequests.Q2)", async () => {
  const { requester, served, unfinished } = stage();
  await requester.request(pair(1n, FIRST, 0));
  await requester.request(pair(100n, FIRST, 1));
  await requester.request(pair(3n, 0, 0));
  assert.deepEqual(
    [...requester.frames()].map(({ header }) => header.flags),
    [GATHERED, GATHERED, GATHERED],
  );
  assert.equal(served.length, 0);
  await requester.request(pair(102n, LAST, 1));
  await requester.request(pair(5n, LAST, 0));
  assert.deepEqual(
    served.map(({ keys }) => [...keys]),
    [
      [100n, 101n, 102n, 103n],
      [1n, 2n, 3n, 4n, 5n, 6n],
    ],
  );
  assert.equal(unfinished.bytes, 0);
});

test("pieces of a long value and groups with lens become one list of lens", async () => {
  const { requester, served } = stage();
  const long = { flags: VARIABLE | PIECE, payload: payload([2n], new Array<number>(BLOCK_FLOATS).fill(1)) };
  await requester.request({ flags: FIRST | VARIABLE | LENS, args: [1, 0, 0, 0], payload: payload([1n], [9, 8], [2]) });
  await requester.request({ ...long, args: [1, BLOCK_FLOATS + 1, 0, 0] });
  await requester.request({ flags: VARIABLE | PIECE, args: [1, BLOCK_FLOATS + 1, BLOCK_FLOATS, 0], payload: payload([2n], [2]) });
  await requester.request({ flags: LAST | VARIABLE | LENS, args: [2, 0, 0, 0], payload: payload([3n, 4n], [7], [0, 1]) });
  const [request] = served;
  assert.deepEqual(request?.keys, BigUint64Array.of(1n, 2n, 3n, 4n));
  assert.deepEqual(request?.lens, Int32Array.of(2, BLOCK_FLOATS + 1, 0, 1));
  assert.deepEqual(request?.values.length, BLOCK_FLOATS + 4);
  assert.deepEqual([request?.values.at(0), request?.values.at(-2), request?.values.at(-1)], [9, 2, 7]);
});

test("a frame without its beginning is refused, also the last one (WholeRequests.Q4)", async () => {
  const { requester, served, unfinished } = stage();
  await requester.request(pair(1n, 0));
  await requester.request(pair(3n, LAST));
  assert.deepEqual(requester.answers(), ["FAILURE 1 BAD_REQUEST", "FAILURE 2 BAD_REQUEST"]);
  assert.deepEqual([served.length, unfinished.bytes], [0, 0]);
});

test("once a frame was refused, what follows of its request is refused too, and nothing is kept of it (WholeRequests.Q4)", async () => {
  const { requester, served, unfinished } = stage();
  await requester.request(pair(1n, FIRST));
  await requester.request({ ...pair(3n, 0), args: [3, 1, 0, 0] });
  await requester.request(pair(5n, 0));
  await requester.request(pair(7n, LAST));
  assert.deepEqual(requester.answers(), ["REPLY 1", "FAILURE 2 BAD_REQUEST", "FAILURE 3 BAD_REQUEST", "FAILURE 4 BAD_REQUEST"]);
  assert.deepEqual([served.length, unfinished.bytes], [0, 0]);
  await requester.request(pair(1n, FIRST | LAST));
  assert.equal(served.length, 1);
});

test("what is put together is bounded; beyond it a request is refused as a whole, and others are not (WholeRequests.Q3)", async () => {
  const { requester, served, unfinished } = stage(9000);
  await requester.request(pair(1n, FIRST, 0));
  await requester.request(pair(1n, FIRST, 1));
  await requester.request(pair(3n, 0, 0));
  await requester.request(pair(5n, 0, 0));
  await requester.request(pair(7n, 0, 0));
  await requester.request(pair(9n, LAST, 0));
  await requester.request(pair(3n, LAST, 1));
  assert.deepEqual(requester.answers().slice(4), ["FAILURE 5 QUEUE_FULL", "FAILURE 6 BAD_REQUEST"]);
  assert.deepEqual(
    served.map(({ timestamp, keys }) => [timestamp, keys.length]),
    [[1, 4]],
  );
  assert.equal(unfinished.bytes, 0);
});

test("keys out of order, within a frame or between two, never reach the handle (WholeRequests.Q5)", async () => {
  const { requester, served } = stage();
  await requester.request({ flags: FIRST | LAST, args: [2, 1, 0, 0], payload: payload([2n, 1n], [1, 2]) });
  await requester.request(pair(5n, FIRST, 1));
  await requester.request(pair(6n, LAST, 1));
  assert.deepEqual(requester.answers(), ["FAILURE 1 KEYS_NOT_ASCENDING", "REPLY 2", "FAILURE 3 KEYS_NOT_ASCENDING"]);
  assert.equal(served.length, 0);
});

test("lengths that do not add up, unknown types, lens that lie and two requests under one number are refused (WholeRequests.Q5)", async () => {
  const { requester, served } = stage();
  const wrong = [
    { flags: FIRST | LAST, args: [0, 1, 0, 0], payload: payload([]) },
    { flags: FIRST | LAST, args: [2, 1, 0, 0], payload: payload([1n, 2n], [1]) },
    { flags: FIRST | LAST, args: [2, 0, 0, 0], payload: payload([1n, 2n]) },
    { flags: FIRST | LAST | dtypeBits(77), args: [1, 1, 0, 0], payload: payload([1n], [1]) },
    { flags: FIRST | LAST | VARIABLE | LENS, args: [2, 0, 0, 0], payload: payload([1n, 2n], [1, 2], [1, 2]) },
    { flags: FIRST | LAST | VARIABLE | LENS, args: [2, 0, 0, 0], payload: payload([1n, 2n], [1, 2], [3, -1]) },
    { flags: FIRST | LAST, args: [1, 1, 0, 0], payload: payload([1n], [1]), functionId: FunctionId.KV_PULL },
  ];
  for (const frame of wrong) await requester.request(frame);
  assert.deepEqual(
    requester.answers(),
    wrong.map((_, i) => `FAILURE ${i + 1} BAD_REQUEST`),
  );
  await requester.request(pair(1n, FIRST));
  await requester.request({ ...pair(3n, LAST), functionId: FunctionId.KV_PUSH_PULL });
  assert.deepEqual(requester.answers(), ["REPLY 8", "FAILURE 9 BAD_REQUEST"]);
  assert.equal(served.length, 0);
});

test("a frame that comes again is answered again, not gathered again", async () => {
  const { requester, served } = stage();
  await requester.request({ ...pair(1n, FIRST), request: 1 });
  await requester.request({ ...pair(1n, FIRST), request: 1 });
  await requester.request({ ...pair(3n, LAST), request: 2 });
  await requester.request({ ...pair(3n, LAST), request: 2 });
  assert.deepEqual(requester.answers(), ["REPLY 1", "REPLY 1"]);
  assert.deepEqual(
    served.map(({ keys }) => keys.length),
    [4],
  );
});

test("what a worker left unfinished when it died goes with its next incarnation", async () => {
  const { requester, whole, unfinished, served } = stage();
  await requester.request(pair(1n, FIRST));
  assert.ok(unfinished.bytes > 0);
  const next = new StubCaller(requester.clock, { incarnation: 2 });
  next.serve(FunctionId.KV_PUSH, whole);
  await next.request(pair(1n, FIRST));
  await next.request(pair(3n, LAST));
  assert.equal(unfinished.bytes, 0);
  assert.equal(served.length, 1);
});

test("an answer is cut into blocks, values first, then the lens that were asked for", async () => {
  const { requester, served } = stage();
  await requester.request({
    functionId: FunctionId.KV_PULL,
    flags: FIRST | LAST | WANT_LENS,
    args: [2, 0, 0, 0],
    payload: payload([1n, 2n]),
  });
  const values = Float32Array.from({ length: BLOCK_FLOATS * 2 + 2 }, (_, i) => i);
  answerWhole(served[0] as WholeKvRequest, values, undefined);
  await requester.clock.run();
  const frames = requester.frames();
  const total = values.byteLength + 8;
  assert.deepEqual(
    frames.map(({ header }) => [header.flags, offsetBytesOf(header), header.payloadBytes, totalBytesOf(header)]),
    [
      [WHOLE, 0, BLOCK_BYTES, total],
      [WHOLE, BLOCK_BYTES, BLOCK_BYTES, total],
      [WHOLE, 2 * BLOCK_BYTES, 8, total],
      [WHOLE, 2 * BLOCK_BYTES + 8, 8, total],
    ],
  );
  assert.deepEqual(frames.at(-1)?.payload, new Uint8Array(Int32Array.of(BLOCK_FLOATS + 1, BLOCK_FLOATS + 1).buffer));
});

test("an answer of the wrong type, or with lens that do not fit, is refused and may be given again", async () => {
  const { requester, served } = stage();
  await requester.request({
    functionId: FunctionId.KV_PULL,
    flags: FIRST | LAST | WANT_LENS,
    args: [2, 0, 0, 0],
    payload: payload([1n, 2n]),
  });
  const request = served[0] as WholeKvRequest;
  assert.throws(() => answerWhole(request, undefined, undefined), throwsCode("BAD_ARGUMENT"));
  assert.throws(() => answerWhole(request, new Float64Array(2), undefined), throwsCode("BAD_ARGUMENT"));
  assert.throws(() => answerWhole(request, new Float32Array(3), undefined), throwsCode("VALUE_LENGTH"));
  assert.throws(() => answerWhole(request, new Float32Array(3), Int32Array.of(3)), throwsCode("VALUE_LENGTH"));
  assert.throws(() => answerWhole(request, new Float32Array(3), Int32Array.of(1, 1)), throwsCode("VALUE_LENGTH"));
  assert.throws(() => answerWhole(request, new Float32Array(3), Int32Array.of(4, -1)), throwsCode("VALUE_LENGTH"));
  assert.deepEqual(requester.answers(), []);
  answerWhole(request, new Float32Array(3), Int32Array.of(1, 2));
  await requester.clock.run();
  assert.deepEqual(requester.answers(), ["REPLY 1", "REPLY 1"]);
});
